package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/upstream/gate"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// sseLeg is a leg over HTTP+SSE (2024-11-05, Transports, HTTP with SSE): one
// event stream brings everything that the server says, and names the address
// to which messages are posted. It is deprecated, and many servers speak
// nothing else. Like a child's pipe the stream is one: when it ends, so does
// the leg.
type sseLeg struct {
	common
	way      *carrier
	endpoint *url.URL // set before the leg is used

	life context.Context // ends with the leg
	end  context.CancelFunc
	work tasks // the stream and what is being posted
}

// Done is closed when the leg has ended.
func (l *sseLeg) OneStream() bool       { return true }
func (l *sseLeg) Done() <-chan struct{} { return l.life.Done() }

// Close ends everything that is open, and the stream with it.
func (l *sseLeg) Close() {
	l.fail(wasClosed)
	l.work.wait()
	l.way.rt.CloseIdleConnections()
}

func (l *sseLeg) fail(err error) {
	l.open.end(err)
	l.end()
}

// errNoEndpoint says that a stream is not one of this transport.
var errNoEndpoint = errors.New("the stream names no address for messages")

// connectSSE opens the stream and the session on it. The error wraps
// errNoStream where the server has none, and errNoEndpoint where it has one of
// another kind.
func connectSSE(ctx context.Context, spec *Spec, opts *Options, creds http.Header, declare Declaration) (Leg, error) {
	way, err := newCarrier(spec, opts, creds)
	if err != nil {
		return nil, err
	}
	l := &sseLeg{common: common{spec: spec, opts: opts}, way: way}
	l.hello.Store(&wire.Hello{Era: wire.Legacy})
	l.life, l.end = context.WithCancel(context.Background())
	if err := l.start(ctx, declare); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *sseLeg) start(ctx context.Context, declare Declaration) error {
	defer context.AfterFunc(ctx, l.end)()
	impatient := time.AfterFunc(l.opts.ProbeTimeout, l.end) // until the endpoint is known
	defer impatient.Stop()
	stream, err := l.listen()
	switch {
	case ctx.Err() != nil:
		return unavailable(l.spec.Name, "did not answer in time")
	case err == nil && !impatient.Stop(), err != nil && l.life.Err() != nil:
		return fmt.Errorf("%w: %w", errNoEndpoint, unavailable(l.spec.Name, "did not say within %s where to send messages", l.opts.ProbeTimeout))
	case err != nil:
		return err
	}
	l.work.start(func() { l.read(stream) })
	reply, err := l.Do(ctx, declare.initialize(l.opts.Version), Nobody{})
	if err != nil {
		return err
	}
	hello, err := l.welcomed(reply.Message)
	if err != nil {
		return err
	}
	l.hello.Store(hello)
	return l.Notify(ctx, []byte(initialized))
}

// sseStream is the stream behind the event that names the endpoint.
type sseStream struct {
	*wire.EventReader
	body io.Closer
}

// listen opens the stream and reads it up to the address for messages.
func (l *sseLeg) listen() (*sseStream, error) {
	name := l.spec.Name
	req, err := http.NewRequestWithContext(l.life, http.MethodGet, l.way.url.String(), nil)
	if err != nil {
		return nil, crib.Errorf(crib.Invalid, "server %s: its URL cannot be read", name)
	}
	req.Header = http.Header{"Accept": {"text/event-stream"}, "User-Agent": l.way.agent}
	maps.Copy(req.Header, l.way.creds)
	resp, err := l.way.rt.RoundTrip(req)
	if err != nil {
		return nil, unreached(name, l.opts.Redact(dialText(err)), err)
	}
	if err := l.refusal(resp); err != nil {
		return nil, err
	}
	switch code := resp.StatusCode; {
	case code == http.StatusOK && mediaType(resp) == "text/event-stream":
	case code == http.StatusOK || saysLegacy(code) || code/100 == 3:
		drain(resp)
		return nil, fmt.Errorf("%w: it answered with HTTP %d", errNoStream, code)
	default: // it may have one at another time
		drain(resp)
		return nil, l.strange(&Outgoing{Read: true}, resp)
	}
	s := &sseStream{wire.NewEventReader(resp.Body, MaxMessage), resp.Body}
	if l.endpoint, err = s.endpoint(l.way.url); err != nil {
		s.body.Close() //nolint:errcheck // it was read only
		if errors.Is(err, errNoEndpoint) {
			return nil, fmt.Errorf("%w: %w", err, unavailable(name, "did not say where to send messages"))
		}
		return nil, unavailable(name, "%s", err)
	}
	return s, nil
}

// endpoint reads up to the event that names the address for messages. What
// comes before it can be meant for nobody.
func (s *sseStream) endpoint(base *url.URL) (*url.URL, error) {
	for {
		ev, err := s.Next()
		if err != nil {
			return nil, errNoEndpoint
		}
		if ev.Name != "endpoint" {
			continue
		}
		u, err := sameOrigin(base, string(ev.Data))
		if err != nil {
			return nil, fmt.Errorf("names %w for messages, which is refused", err)
		}
		return u, nil
	}
}

// read takes what the server says, until the stream ends, and the leg with it.
// A second endpoint changes nothing: messages go where the first one said.
func (l *sseLeg) read(s *sseStream) {
	defer s.body.Close() //nolint:errcheck // it was read only
	for {
		ev, err := s.Next()
		if over := (*wire.EventTooLargeError)(nil); errors.As(err, &over) {
			l.tooLarge(over.Event.Data)
			continue
		}
		if err != nil {
			l.fail(endOfLeg("its stream ended"))
			return
		}
		if len(ev.Data) == 0 || ev.Name != "" && ev.Name != "message" {
			continue
		}
		m, err := wire.ScanServer(ev.Data)
		switch {
		case err != nil:
			l.opts.Log.Warn("a server sent an event that is no JSON-RPC message", "server", l.spec.Name, "err", err)
		case m.Kind == wire.ResponseKind:
			l.answered(m)
		case !l.hear(l, m, nil, l.respond):
			l.opts.Log.Warn("a server sent a message that is no UTF-8", "server", l.spec.Name, "method", m.Method)
		}
	}
}

func (l *sseLeg) headers() http.Header {
	h := make(http.Header, usualHeaders+len(l.way.creds))
	h["Content-Type"], h["Accept"], h["User-Agent"] = sendsJSON, takesBoth, l.way.agent
	maps.Copy(h, l.way.creds)
	return h
}

// Do sends out and waits for its answer; see Leg.
func (l *sseLeg) Do(ctx context.Context, out *Outgoing, lis Listener) (*Reply, error) {
	c, err := l.open.add(out, lis, nil)
	if err != nil {
		return nil, lost(l.spec.Name, out, false, err.Error())
	}
	defer l.open.remove(c)
	if ctx.Err() != nil {
		return nil, crib.Errorf(crib.Cancelled, "%s was cancelled", out.Method)
	}
	d := l.deliver(c)
	r, why := c.wait(ctx, l.spec.timeout(out))
	switch {
	case why == timedOut:
		return nil, l.spec.late(out, l.abandon(c, d))
	case why == cancelled:
		l.abandon(c, d)
		return nil, crib.Errorf(crib.Cancelled, "%s was cancelled", out.Method)
	case isEndOfLeg(r.err):
		return nil, lost(l.spec.Name, out, d.stop(), r.err.Error())
	}
	d.leave()
	if r.err != nil {
		return nil, r.err
	}
	return &Reply{Message: r.m, Era: wire.Legacy}, nil
}

// abandon gives c up, tells the server so, and reports whether it may have got
// the request at all.
func (l *sseLeg) abandon(c *call, d *delivery) (sent bool) {
	sent = d.stop()
	if sent && c.out.Method != "initialize" {
		l.respond(cancelledBody(c.id))
	}
	return sent
}

// delivery is a request on its way to the server. The answer to it comes on the
// stream, and can be there before the server says that it took the request.
type delivery struct {
	ctx    context.Context
	cancel context.CancelFunc
	over   chan struct{} // closed at its end
	sent   bool          // something may have been written; known at its end
}

// stop ends the delivery and reports whether something may have been written.
func (d *delivery) stop() (sent bool) {
	d.cancel()
	<-d.over
	return d.sent
}

// leave lets the delivery of a request that was answered come to its end, so
// that its connection can be used again.
func (d *delivery) leave() {
	select {
	case <-d.over:
	default:
		time.AfterFunc(cancelTimeout, d.cancel)
	}
}

// deliver posts the request c, which ends with an error where that fails.
func (l *sseLeg) deliver(c *call) *delivery {
	d := &delivery{over: make(chan struct{})}
	d.ctx, d.cancel = context.WithCancel(l.life)
	begun := l.work.start(func() {
		defer close(d.over)
		defer d.cancel()
		var resp *http.Response
		var err error
		resp, d.sent, err = l.post(d.ctx, c)
		if err == nil {
			err = l.taken(c, resp)
		}
		switch {
		case d.ctx.Err() != nil: // nobody waits for it any more
		case crib.CodeOf(err) == crib.Unknown:
			// The server may have it all the same, and its answer comes
			// another way.
			if sleep(d.ctx, l.opts.ProbeTimeout) == nil {
				c.finish(result{err: err})
			}
		case err != nil:
			c.finish(result{err: err})
		}
	})
	if !begun {
		close(d.over) // the leg ended, and c with it
	}
	return d
}

// post posts the request c: once, and a second time only where that harms
// nobody. The connection may have been a dead one of the pool.
func (l *sseLeg) post(ctx context.Context, c *call) (resp *http.Response, sent bool, err error) {
	body := c.out.body(c.id)
	resp, sent, err = l.way.post(ctx, l.endpoint, l.headers(), body)
	if err != nil && ctx.Err() == nil && (c.out.Read || !sent) {
		l.way.rt.CloseIdleConnections()
		resp, sent, err = l.way.post(ctx, l.endpoint, l.headers(), body)
	}
	switch {
	case err == nil:
		return resp, true, nil
	case sent:
		return nil, true, lost(l.spec.Name, c.out, true, "the connection broke before the message was taken")
	}
	return nil, false, unreached(l.spec.Name, l.opts.Redact(dialText(err)), err)
}

// taken reads what the server says to the request c, which matters only if it
// is a refusal. But some servers answer here.
func (l *sseLeg) taken(c *call, resp *http.Response) error {
	defer resp.Body.Close()
	if err := l.refusal(resp); err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		drain(resp)
		return l.strange(c.out, resp)
	}
	if mediaType(resp) != "application/json" {
		drain(resp)
		return nil
	}
	held := gate.Reader{From: resp.Body, Ticket: c.out.Ticket}
	b, err := readAll(&held, resp.ContentLength)
	held.Drop()
	if err != nil {
		return nil // the stream tells
	}
	if m, err := wire.ScanServer(b); err == nil && m.Kind == wire.ResponseKind {
		l.answered(m)
	}
	return nil
}

// Notify posts a notification or a response. Any 2xx is success.
func (l *sseLeg) Notify(ctx context.Context, body []byte) error {
	return l.tell(ctx, l.way, l.endpoint, l.headers(), body)
}

// respond posts what nobody waits for.
func (l *sseLeg) respond(body []byte) {
	l.work.start(func() { l.give(l.life, l, body) })
}
