package mcpstdio

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// modernPosting puts a message on HTTP (2026-07-28, Streamable HTTP, Standard
// Request Headers).
func modernPosting(m wire.Message) posting {
	version, ok := m.Meta.ProtocolVersion.Text(m.Body)
	if !ok {
		version = wire.NewestModern // it is no string, which the crib will say
	}
	p := basicPosting(m)
	p.header[wire.HeaderProtocolVersion] = []string{wire.EncodeHeader(version)}
	p.header[wire.HeaderMethod] = []string{wire.EncodeHeader(m.Method)}
	if name, ok := wire.MirrorName(&m); ok {
		p.header[wire.HeaderName] = []string{wire.EncodeHeader(name)}
	}
	return p
}

func basicPosting(m wire.Message) posting {
	what := m.Method
	if what == "" {
		what = "a response"
	}
	return posting{method: http.MethodPost, body: m.Body, what: what, again: wire.Repeatable(m.Method), header: http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"application/json, text/event-stream"},
	}}
}

// modern carries a stateless request. Its POST ends when the client cancels it.
func (r *relay) modern(q *request) error {
	p := modernPosting(q.m)
	resp, err := r.crib.do(q.ctx, p)
	if err != nil {
		return err
	}
	body, err := r.read(q, p, resp, nil)
	if err != nil {
		return err
	}
	r.answer(q, body)
	return nil
}

// read reads the response to q: what precedes the answer goes to the client at
// once, the answer is returned. A stream of the session s that gave event ids
// and broke off is taken up again, which sends nothing a second time
// (2025-11-25, Transports, Resumability).
func (r *relay) read(q *request, p posting, resp *http.Response, s *session) ([]byte, error) {
	if !isStream(resp) {
		return r.readJSON(q, p, resp)
	}
	at := position{pause: r.opts.Retry}
	for attempts := 0; ; attempts++ {
		if resp != nil {
			before := at.id
			body, err := r.readStream(q, resp.Body, &at)
			resp.Body.Close()
			if body != nil || err != nil {
				return body, err
			}
			if at.id != before {
				attempts = 0
			}
		}
		if s == nil || at.id == "" || attempts == ResumeAttempts || sleep(r.life, at.pause) != nil {
			return nil, lost(p.what, p.again)
		}
		var err error
		if resp, err = r.openStream(r.life, s, at.id); err != nil {
			return nil, lost(p.what, p.again)
		}
	}
}

var errTooLarge = crib.Errorf(crib.TooLarge, "the answer has more than %d bytes", MaxAnswer)

// readJSON reads a response that is no stream.
func (r *relay) readJSON(q *request, p posting, resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	if err != nil {
		return nil, lost(p.what, p.again)
	}
	if len(b) > MaxAnswer {
		return nil, errTooLarge
	}
	m, err := wire.ScanServer(b)
	switch {
	case err != nil || m.Kind != wire.ResponseKind:
		return nil, r.crib.strange(p, resp.StatusCode)
	case !m.ID.OK():
		// Refused before the body was read: the id is not known there.
		e := wire.ReadError(m.Error.In(b))
		return wire.ErrorBody([]byte(q.id), e.Code, e.Message, e.Data), nil
	case string(m.ID.In(b)) != q.id:
		return nil, r.crib.strange(p, resp.StatusCode)
	}
	return b, nil
}

// position is how far a stream was read, and how long to wait before it is
// opened again.
type position struct {
	id    string
	pause time.Duration
}

// readStream reads events until the answer to q, which it returns. At the end
// of the stream it returns nothing.
func (r *relay) readStream(q *request, body io.Reader, at *position) ([]byte, error) {
	var answer []byte
	err := r.events(body, at, func(m wire.Message) bool {
		if m.Kind != wire.ResponseKind {
			r.out.send(q.ctx, m.Body)
			return true
		}
		if string(m.ID.In(m.Body)) == q.id {
			answer = m.Body
			return false
		}
		return true
	}, func(prefix []byte) error {
		if string(wire.IDFromPrefix(prefix)) == q.id {
			return errTooLarge
		}
		return nil
	})
	return answer, err
}

// events hands over the messages of a stream until take returns false or the
// stream ends. tooLarge is told how an event starts that is over the limit; its
// error is returned, and there is no other.
func (r *relay) events(body io.Reader, at *position, take func(wire.Message) bool, tooLarge func(prefix []byte) error) error {
	stream := wire.NewEventReader(body, MaxAnswer)
	for {
		ev, err := stream.Next()
		var over *wire.EventTooLargeError
		if errors.As(err, &over) {
			r.log.Warn("an event was dropped", "err", err)
			if err := tooLarge(over.Event.Data); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return nil
		}
		if ev.HasID {
			at.id = ev.ID
		}
		if ev.Retry > 0 {
			at.pause = min(ev.Retry, maxRetry)
		}
		if len(ev.Data) == 0 || ev.Name != "" && ev.Name != "message" {
			continue
		}
		m, err := wire.ScanServer(ev.Data)
		if err != nil {
			r.log.Warn("an event was dropped that is no message", "err", err)
			continue
		}
		if !take(m) {
			return nil
		}
	}
}

// notify posts a message that has no answer. Any 2xx is success.
func (r *relay) notify(ctx context.Context, p posting) error {
	ctx, cancel := context.WithTimeout(ctx, noticeTime)
	defer cancel()
	resp, err := r.crib.do(ctx, p)
	if err != nil {
		return err
	}
	drain(resp)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return r.crib.strange(p, resp.StatusCode)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
