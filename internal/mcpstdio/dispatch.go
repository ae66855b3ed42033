package mcpstdio

import (
	"bytes"
	"context"
	"errors"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// take sends one line of the client on its way. It does not wait for the crib.
func (r *relay) take(l line) {
	if l.over {
		r.refuse(requestID(l.text), wire.CodeInvalidRequest, crib.Errorf(crib.TooLarge, "a message may have at most %d bytes", r.opts.MaxLine))
		return
	}
	m, err := wire.Scan(l.text)
	if err != nil {
		r.log.Info("message refused", "err", err)
		if errors.Is(err, wire.ErrParse) {
			r.refuse(nil, wire.CodeParse, crib.Errorf(crib.Invalid, "%s", err))
			return
		}
		r.refuse(requestID(l.text), wire.CodeInvalidRequest, crib.Errorf(crib.Invalid, "%s", err))
		return
	}
	switch m.Kind {
	case wire.RequestKind:
		r.request(m)
	case wire.NotificationKind:
		r.notification(m)
	default:
		r.response(m)
	}
}

// refuse answers a message that is not relayed.
func (r *relay) refuse(id []byte, code int, err *crib.Error) {
	r.deliver(func(ctx context.Context) error {
		r.out.send(ctx, wire.ErrorBody(id, code, err.Msg, errorData(err)))
		return nil
	})
}

// requestID finds the id of a request that is no valid message, nil if there
// is none. A response gets none: its id is the crib's, not the client's.
func requestID(text []byte) []byte {
	id := wire.IDFromPrefix(text)
	if !wire.ValidID(id) || !bytes.Contains(text, []byte(`"method"`)) {
		return nil
	}
	return id
}

func (r *relay) request(m wire.Message) {
	q := newRequest(r.life, m.Era(), m)
	if err := r.open.add(q); err != nil {
		q.cancel()
		r.refuse([]byte(q.id), wire.CodeInvalidRequest, asError(err))
		return
	}
	carry := func() error { return r.modern(q) }
	switch {
	case m.Method == "initialize":
		c := r.converse(q)
		carry = func() error { return r.initialize(q, c) }
	case q.era == wire.Legacy:
		c, before := r.talk, r.delivered
		carry = func() error { return r.legacy(q, c, before) }
	}
	r.calls.Go(func() {
		defer q.cancel()
		defer r.open.remove(q)
		defer q.wrote()
		if err := carry(); err != nil && q.ctx.Err() == nil {
			r.log.Warn("a request was not carried", "method", m.Method, "err", err)
			r.answer(q, failure(q, err))
		}
	})
}

// answer writes the answer to q. The id is free before the client can see it.
func (r *relay) answer(q *request, body []byte) {
	r.open.remove(q)
	r.out.send(q.ctx, body)
}

// failure is the answer to a request that could not be carried.
func failure(q *request, err error) []byte {
	return wire.ErrorBody([]byte(q.id), wire.CodeInternal, crib.SafeText(err), errorData(err))
}

// errorData says which of the crib's codes an error has, in the form that the
// crib itself uses.
func errorData(err error) []byte {
	return append(wire.AppendString([]byte(`{"`+wire.MetaCode+`":`), string(crib.CodeOf(err))), '}')
}

func asError(err error) *crib.Error {
	return crib.Errorf(crib.CodeOf(err), "%s", crib.SafeText(err))
}

func (r *relay) notification(m wire.Message) {
	if m.Method == "notifications/cancelled" {
		r.cancelled(m)
		return
	}
	if m.Era() == wire.Modern {
		r.deliver(func(ctx context.Context) error { return r.notify(ctx, modernPosting(m)) })
		return
	}
	r.tell(m, nil)
}

// cancelled ends a request. A modern one ends with its POST; the crib of a
// legacy client must be told (2026-07-28, Streamable HTTP, Cancellation).
func (r *relay) cancelled(m wire.Message) {
	id := string(m.Params.RequestID.In(m.Body))
	if q := r.open.get(wire.Modern, id); q != nil {
		q.cancel()
		r.open.remove(q)
		return
	}
	q := r.open.get(wire.Legacy, id)
	if q == nil {
		return // it is answered already, or never was
	}
	q.cancel()
	r.open.remove(q)
	r.tell(m, q)
}

// tell delivers a notification of a legacy client: behind the notifications
// that came before it, before the requests that come after it, and behind the
// request after, if there is one.
func (r *relay) tell(m wire.Message, after *request) {
	c, before := r.talk, r.delivered
	if c == nil {
		r.log.Info("a notification came before initialize", "method", m.Method)
		return
	}
	done := make(chan struct{})
	r.delivered = done
	r.deliver(func(ctx context.Context) error {
		defer close(done)
		await(ctx, before)
		if after != nil {
			await(ctx, after.written)
		}
		await(ctx, c.opened)
		return r.told(ctx, c, m)
	})
}

// response carries the client's answer to a question of the crib.
func (r *relay) response(m wire.Message) {
	c := r.talk
	if c == nil {
		r.log.Info("a response came, but nothing was asked")
		return
	}
	r.deliver(func(ctx context.Context) error {
		await(ctx, c.opened)
		return r.notify(ctx, legacyPosting(m, c.current()))
	})
}

// deliver runs post in the background: neither a slow crib nor a client that
// does not read may keep the run from its end. The client has to wait when too
// many messages are on their way.
func (r *relay) deliver(post func(ctx context.Context) error) {
	select {
	case r.posting <- struct{}{}:
	case <-r.stop:
		return
	}
	r.calls.Go(func() {
		defer func() { <-r.posting }()
		if err := post(r.life); err != nil && r.life.Err() == nil {
			r.log.Warn("a message was not delivered", "err", err)
		}
	})
}

// await waits until done is closed or the run ends, which whoever waits for
// learns from the next thing that it does.
func await(ctx context.Context, done <-chan struct{}) {
	select {
	case <-done:
	case <-ctx.Done():
	}
}
