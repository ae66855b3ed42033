package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/upstream/gate"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// streamed reads the event stream that answers c. A legacy server may give the
// answer on the stream that belongs to no request all the same: one that was
// opened just then looks to it like this one, taken up again.
func (l *httpLeg) streamed(ctx context.Context, c *call, resp *http.Response) (*Reply, error) {
	if c.reply == nil {
		return l.follow(ctx, c, resp)
	}
	var elsewhere atomic.Pointer[result]
	done := make(chan struct{})
	defer close(done)
	l.work.start(func() {
		select {
		case r := <-c.reply:
			if !isEndOfLeg(r.err) {
				elsewhere.Store(r)
				c.cancel(errAnswered)
			}
		case <-done:
		}
	})
	reply, err := l.follow(ctx, c, resp)
	if r := elsewhere.Load(); r != nil && err != nil {
		if r.err != nil {
			return nil, r.err
		}
		return &Reply{Message: r.m, Era: wire.Legacy, Status: http.StatusOK}, nil
	}
	return reply, err
}

var errAnswered = errors.New("the answer came on another stream")

// follow reads a stream to the answer. A legacy one that gave event ids and broke
// off is taken up again (2025-11-25, Transports, Resumability): that sends
// nothing a second time.
func (l *httpLeg) follow(ctx context.Context, c *call, resp *http.Response) (*Reply, error) {
	pos := position{delay: defaultRetryDelay}
	for failures := 0; ; {
		before := pos.id
		reply, err := l.readStream(c, resp.Body, &pos)
		resp.Body.Close()
		if reply != nil || err != nil {
			return reply, err
		}
		if pos.id != before {
			failures = 0
		}
		if l.Hello().Era != wire.Legacy || pos.id == "" {
			return nil, transportError{io.ErrUnexpectedEOF}
		}
		for {
			if failures++; failures > ResumeAttempts {
				return nil, transportError{io.ErrUnexpectedEOF}
			}
			if err := sleep(ctx, pos.delay); err != nil {
				return nil, transportError{err}
			}
			if resp, err = l.get(ctx, pos.id); err == nil {
				break
			}
			if errors.Is(err, errNoStream) {
				return nil, transportError{io.ErrUnexpectedEOF}
			}
		}
		resp.Body = &touching{resp.Body, c}
	}
}

// position is how far a stream was read.
type position struct {
	id    string
	delay time.Duration
}

// readStream reads events until the answer to c, which may be nil for the
// stream that belongs to no request. It returns nothing at the end of the
// stream.
func (l *httpLeg) readStream(c *call, body io.Reader, pos *position) (*Reply, error) {
	held := gate.Reader{From: body}
	if c != nil {
		held.Ticket = c.out.Ticket
	}
	events := wire.NewEventReader(&held, MaxMessage)
	for ; ; held.Drop() {
		ev, err := events.Next()
		if over := (*wire.EventTooLargeError)(nil); errors.As(err, &over) {
			err := crib.Errorf(crib.TooLarge, "server %s sent an event of more than %d bytes", l.spec.Name, MaxMessage)
			if c != nil {
				return nil, tooMuch(c.out, err)
			}
			if meant := l.open.get(wire.IDFromPrefix(over.Event.Data)); meant != nil {
				meant.finish(result{err: tooMuch(meant.out, err)})
			}
			continue
		}
		if over, ok := errors.AsType[*crib.Error](err); ok { // c is there: only what is counted is over
			return nil, tooMuch(c.out, over)
		}
		if err != nil {
			return nil, nil
		}
		if ev.HasID {
			pos.id = ev.ID
		}
		if ev.Retry > 0 {
			pos.delay = min(ev.Retry, MaxBackoff)
		}
		if len(ev.Data) == 0 || ev.Name != "" && ev.Name != "message" {
			continue
		}
		m, err := wire.ScanServer(ev.Data)
		if err != nil {
			l.opts.Log.Warn("a server sent an event that is no JSON-RPC message", "server", l.spec.Name, "err", err)
			continue
		}
		if m.Kind != wire.ResponseKind {
			l.incoming(m, c)
			continue
		}
		if c != nil && l.mine(c, m) {
			return &Reply{Message: legible(l.spec, l.opts, c.out, m), Era: l.Hello().Era, Status: http.StatusOK}, nil
		}
		l.answered(m)
	}
}

// incoming hands on a request or notification of the server.
func (l *httpLeg) incoming(m wire.Message, proven *call) {
	if !l.hear(l, m, proven, l.respond) {
		l.opts.Log.Warn("a server sent a message that is no UTF-8", "server", l.spec.Name, "method", m.Method)
	}
}

// errNoStream says that the server offers no stream at all.
var errNoStream = errors.New("the server offers no stream")

// get opens a stream by GET, from behind the event id if that is not empty.
func (l *httpLeg) get(ctx context.Context, id string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.way.url.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header = l.headers(nil)
	req.Header["Accept"] = []string{"text/event-stream"}
	delete(req.Header, "Content-Type")
	if id != "" {
		req.Header[wire.HeaderLastEventID] = []string{id}
	}
	resp, err := l.way.rt.RoundTrip(req)
	if err != nil {
		return nil, transportError{err}
	}
	if resp.StatusCode == http.StatusOK && mediaType(resp) == "text/event-stream" {
		return resp, nil
	}
	drain(resp)
	if resp.StatusCode >= 500 {
		return nil, transportError{errors.New(resp.Status)}
	}
	return nil, errNoStream
}

// listen keeps the stream open that belongs to no request, until the session
// changes or the leg ends. A server may not offer one.
func (l *httpLeg) listen(session *string) {
	pos := position{delay: defaultRetryDelay}
	wait := pos.delay
	for l.life.Err() == nil && l.session.Load() == session {
		resp, err := l.get(l.life, pos.id)
		if errors.Is(err, errNoStream) {
			if l.opts.Events != nil {
				l.opts.Events.Silent(l.spec.Name, l)
			}
			return
		}
		if err == nil {
			began := time.Now()
			l.readStream(nil, resp.Body, &pos) //nolint:errcheck // it has no answer to wait for
			resp.Body.Close()
			if time.Since(began) > MaxBackoff {
				wait = pos.delay
			}
		}
		if sleep(l.life, wait) != nil {
			return
		}
		wait = min(2*wait, MaxBackoff)
	}
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
