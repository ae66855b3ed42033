package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// sseLeg is a leg over HTTP+SSE (2024-11-05, Transports, HTTP with SSE): one
// event stream brings everything that the server says, and names the address
// to which messages are posted. It is deprecated, and many servers speak
// nothing else. Like a child's pipe the stream is one: when it ends, so does
// the leg.
type sseLeg struct {
	spec     *Spec
	opts     *Options
	way      *carrier
	hello    atomic.Pointer[wire.Hello]
	open     inflight
	endpoint *url.URL // set before the leg is used
	retired  atomic.Bool

	life context.Context // ends with the leg
	end  context.CancelFunc
	work tasks // the stream and the answers being posted
}

func (l *sseLeg) Hello() *wire.Hello     { return l.hello.Load() }
func (l *sseLeg) Open() int              { return l.open.open() }
func (l *sseLeg) Done() <-chan struct{}  { return l.life.Done() }
func (l *sseLeg) Quiet() <-chan struct{} { return l.open.whenQuiet() }
func (l *sseLeg) Retire()                { l.retired.Store(true) }
func (l *sseLeg) Retired() bool          { return l.retired.Load() }

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

// connectSSE opens the stream and the session on it.
func connectSSE(ctx context.Context, spec *Spec, opts *Options, creds http.Header, declare Declaration) (Leg, error) {
	way, err := newCarrier(spec, opts, creds)
	if err != nil {
		return nil, err
	}
	l := &sseLeg{spec: spec, opts: opts, way: way}
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
	events, err := l.listen()
	if err != nil {
		return err
	}
	if !impatient.Stop() {
		return unavailable(l.spec.Name, "did not say within %s where to send messages", l.opts.ProbeTimeout)
	}
	l.work.start(func() { l.read(events) })
	reply, err := l.Do(ctx, declare.initialize(l.opts.Version), Nobody{})
	if err != nil {
		return err
	}
	m := reply.Message
	if m.Error.OK() {
		e := wire.ReadError(m.Error.In(m.Body))
		return unavailable(l.spec.Name, "refuses initialize: %s (%d)", l.opts.Redact(e.Message), e.Code)
	}
	hello, err := legacyHello(l.spec.Name, m.Result.In(m.Body))
	if err != nil {
		return err
	}
	l.hello.Store(hello)
	return l.Notify(ctx, []byte(initialized))
}

// sseStream is the stream behind its first event.
type sseStream struct {
	events *wire.EventReader
	body   io.Closer
}

// listen opens the stream and reads its first event, the address for messages.
func (l *sseLeg) listen() (*sseStream, error) {
	name := l.spec.Name
	req, err := http.NewRequestWithContext(l.life, http.MethodGet, l.way.url.String(), nil)
	if err != nil {
		return nil, crib.Errorf(crib.Invalid, "server %s: its URL cannot be read", name)
	}
	req.Header = l.headers()
	req.Header["Accept"] = []string{"text/event-stream"}
	delete(req.Header, "Content-Type")
	resp, err := l.way.rt.RoundTrip(req)
	if err != nil {
		if l.life.Err() != nil {
			return nil, unavailable(name, "did not say within %s where to send messages", l.opts.ProbeTimeout)
		}
		return nil, unavailable(name, "cannot be reached: %s", l.opts.Redact(dialText(err)))
	}
	if err := l.refusal(resp); err != nil {
		drain(resp)
		return nil, err
	}
	if resp.StatusCode != http.StatusOK || mediaType(resp) != "text/event-stream" {
		drain(resp)
		return nil, &statusError{resp.StatusCode, unavailable(name, "answered a request for its stream with HTTP %d", resp.StatusCode)}
	}
	s := &sseStream{wire.NewEventReader(resp.Body, MaxMessage), resp.Body}
	for {
		ev, err := s.events.Next()
		if err != nil {
			s.body.Close() //nolint:errcheck // it was read only
			return nil, unavailable(name, "did not say where to send messages")
		}
		if ev.Name != "endpoint" {
			continue // nothing can be meant for anybody yet
		}
		if l.endpoint, err = sameOrigin(l.way.url, string(ev.Data)); err != nil {
			s.body.Close() //nolint:errcheck // likewise
			return nil, unavailable(name, "names %s for messages, which is refused", err)
		}
		return s, nil
	}
}

var (
	errElsewhere  = errors.New("an address of another origin")
	errNotAddress = errors.New("what is no address")
)

// sameOrigin resolves the address that an endpoint event names, which must be
// of the server's own origin: the crib's credentials go there.
func sameOrigin(base *url.URL, named string) (*url.URL, error) {
	u, err := base.Parse(named)
	switch {
	case err != nil || u.Opaque != "":
		return nil, errNotAddress
	case u.Scheme != base.Scheme || hostPort(u) != hostPort(base) || u.User != nil && u.User.String() != base.User.String():
		return nil, errElsewhere
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// hostPort is the host and port that u is reached at.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Hostname() + " " + port
}

// read takes what the server says, until the stream ends, and the leg with it.
func (l *sseLeg) read(s *sseStream) {
	defer s.body.Close() //nolint:errcheck // it was read only
	for {
		ev, err := s.events.Next()
		if over := (*wire.EventTooLargeError)(nil); errors.As(err, &over) {
			l.oversize(over.Event.Data)
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
		if err != nil {
			l.opts.Log.Warn("a server sent an event that is no JSON-RPC message", "server", l.spec.Name, "err", err)
			continue
		}
		l.incoming(m)
	}
}

func (l *sseLeg) oversize(prefix []byte) {
	err := crib.Errorf(crib.TooLarge, "server %s sent an event of more than %d bytes", l.spec.Name, MaxMessage)
	if c := l.open.get(wire.IDFromPrefix(prefix)); c != nil {
		c.finish(result{err: err})
	}
}

func (l *sseLeg) incoming(m wire.Message) {
	switch {
	case m.Kind == wire.ResponseKind:
		l.answered(m)
	case m.Kind == wire.RequestKind && m.Method == "ping":
		l.respond(Decline(m))
	case l.open.route(m, nil, l.respond):
	case m.Kind == wire.RequestKind:
		l.respond(Decline(m))
	case l.opts.Events != nil:
		l.opts.Events.Notification(l.spec.Name, l, m)
	}
}

func (l *sseLeg) answered(m wire.Message) {
	c := l.open.get(m.ID.In(m.Body))
	if c == nil {
		return // nobody waits for it any more
	}
	if over := c.out.Ticket.Hold(len(m.Body)); over != nil {
		c.finish(result{err: over})
	}
	c.finish(result{m: m})
}

func (l *sseLeg) headers() http.Header {
	h := make(http.Header, usualHeaders+len(l.way.creds))
	h["Content-Type"], h["Accept"], h["User-Agent"] = sendsJSON, takesBoth, l.way.agent
	for k, v := range l.way.creds {
		h[k] = v
	}
	return h
}

// refusal is the error of a response that refuses the crib's credential.
func (l *sseLeg) refusal(resp *http.Response) error {
	if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
		return nil
	}
	l.Retire() // the next connection resolves its secrets anew
	return refused(l.spec.Name, resp.StatusCode)
}

// Do sends out and waits for its answer; see Leg.
func (l *sseLeg) Do(ctx context.Context, out *Outgoing, lis Listener) (*Reply, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c, err := l.open.add(out, lis, cancel)
	if err != nil {
		return nil, lost(l.spec.Name, out, false, err.Error())
	}
	defer l.open.remove(c)
	if !out.Forever {
		defer watch(c, l.spec.timeout(out), cancel).Stop()
	}
	sent, err := l.post(ctx, c)
	if err == nil {
		select {
		case r := <-c.reply:
			if r.err == nil {
				return &Reply{Message: r.m, Era: wire.Legacy}, nil
			}
			if !isEndOfLeg(r.err) {
				return nil, r.err
			}
			return nil, lost(l.spec.Name, out, true, r.err.Error())
		case <-ctx.Done():
			sent = true
		}
	}
	return nil, l.explain(ctx, c, sent, err)
}

// post brings c to the server, once. What comes back matters only if it is a
// refusal: the answer comes on the stream.
func (l *sseLeg) post(ctx context.Context, c *call) (sent bool, err error) {
	resp, sent, err := l.way.post(ctx, l.endpoint, l.headers(), c.out.body(c.id))
	if err != nil {
		return sent, err
	}
	defer drain(resp)
	if err := l.refusal(resp); err != nil {
		return false, err
	}
	switch code := resp.StatusCode; {
	case code/100 == 2:
		return true, nil
	case code == http.StatusNotFound || code == http.StatusGone:
		why := endOfLeg("it does not know its session any more")
		l.fail(why)
		return false, unavailable(l.spec.Name, "cannot be asked: %s", why)
	case code/100 == 4 && code != http.StatusRequestTimeout && code != statusClosed:
		return false, &statusError{code, unavailable(l.spec.Name, "answered HTTP %d without taking the message", code)}
	}
	return true, lost(l.spec.Name, c.out, true, "it answered HTTP "+http.StatusText(resp.StatusCode))
}

// explain is the error of a request that brought no answer, and tells the
// server where it may still be working.
func (l *sseLeg) explain(ctx context.Context, c *call, sent bool, err error) error {
	cause := context.Cause(ctx)
	if cause == nil {
		if !isTransport(err) {
			return err
		}
		if sent {
			return lost(l.spec.Name, c.out, true, "the connection broke before the message was taken")
		}
		return unreached(l.spec.Name, l.opts.Redact(dialText(err)), err)
	}
	if sent {
		l.tellCancelled(c)
	}
	switch {
	case errors.Is(cause, errIdle):
		return l.spec.late(c.out, sent)
	case isEndOfLeg(cause):
		return lost(l.spec.Name, c.out, sent, cause.Error())
	}
	return crib.Errorf(crib.Cancelled, "%s was cancelled", c.out.Method)
}

func (l *sseLeg) tellCancelled(c *call) {
	if c.out.Method == "initialize" || l.life.Err() != nil {
		return
	}
	l.respond(cancelledBody(c.id))
}

// Notify posts a notification or a response. Any 2xx is success.
func (l *sseLeg) Notify(ctx context.Context, body []byte) error {
	resp, _, err := l.way.post(ctx, l.endpoint, l.headers(), body)
	if err != nil {
		return unavailable(l.spec.Name, "cannot be reached: %s", l.opts.Redact(dialText(err)))
	}
	drain(resp)
	if resp.StatusCode/100 != 2 {
		return unavailable(l.spec.Name, "answered a notification with HTTP %d", resp.StatusCode)
	}
	return nil
}

// respond posts what nobody waits for.
func (l *sseLeg) respond(body []byte) {
	l.work.start(func() {
		ctx, cancel := context.WithTimeout(l.life, l.spec.timeout(&Outgoing{}))
		defer cancel()
		if err := l.Notify(ctx, wire.OneLine(body)); err != nil && l.life.Err() == nil {
			l.opts.Log.Warn("an answer to a server's request was not delivered", "server", l.spec.Name, "err", err)
		}
	})
}
