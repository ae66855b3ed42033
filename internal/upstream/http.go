package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/toolcrib/toolcrib/internal/alarm"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/upstream/gate"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// httpLeg is a leg over Streamable HTTP. A modern one is stateless; a legacy
// one has a session and a stream of its own for what belongs to no request.
type httpLeg struct {
	common
	way      *carrier
	session  atomic.Pointer[string] // legacy; nil where the server gave none
	renewing chan struct{}          // one place, taken while a lost session is renewed
	farewell sync.Once              // the session is ended once
	declare  Declaration
	silent   *alarm.Queue // requests that have had no sign of life yet

	life context.Context // ends with the leg
	end  context.CancelFunc
	work tasks // the stream and the answers being posted
}

// errIdle is the cause of a context that ended because nothing came in time.
var errIdle = errors.New("no answer in time")

func newHTTPLeg(spec *Spec, opts *Options, creds http.Header) (*httpLeg, error) {
	way, err := newCarrier(spec, opts, creds)
	if err != nil {
		return nil, err
	}
	l := &httpLeg{common: common{spec: spec, opts: opts}, way: way, renewing: make(chan struct{}, 1), silent: alarm.New(spec.timeout(&Outgoing{}))}
	l.life, l.end = context.WithCancel(context.Background())
	return l, nil
}

// Done is closed when the leg has ended.
func (l *httpLeg) OneStream() bool       { return false }
func (l *httpLeg) Done() <-chan struct{} { return l.life.Done() }

// Close ends everything that is open and then the session, where there is one:
// in the other order a request that is still on its way would meet a session
// that is gone, and open a new one.
func (l *httpLeg) Close() {
	l.fail(wasClosed)
	l.farewell.Do(func() {
		if id := l.session.Load(); id != nil {
			l.deleteSession()
		}
	})
	l.work.wait()
	l.way.rt.CloseIdleConnections()
}

func (l *httpLeg) deleteSession() {
	ctx, cancel := context.WithTimeout(context.Background(), cancelTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, l.way.url.String(), nil)
	if err != nil {
		return
	}
	req.Header = l.headers(nil)
	if resp, err := l.way.rt.RoundTrip(req); err == nil {
		drain(resp)
	}
}

func (l *httpLeg) fail(err error) {
	l.open.end(err)
	l.end()
}

// Do sends out and waits for its answer; see Leg.
func (l *httpLeg) Do(ctx context.Context, out *Outgoing, lis Listener) (*Reply, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out.direct = l.Hello().Era == wire.Modern
	c, err := l.open.add(out, lis, cancel)
	if err != nil {
		return nil, lost(l.spec.Name, out, false, err.Error())
	}
	defer l.open.remove(c)
	if !out.Forever {
		c.watch(l.silent, l.spec.timeout(out))
		defer c.unwatch()
	}
	body := out.body(c.id)
	reply, sent, err := l.attempt(ctx, c, body)
	if err != nil && ctx.Err() == nil && (out.Read || !sent) && isTransport(err) {
		// Sending a read again harms nobody, and what was never written was
		// never executed. The connection may have been a dead one of the pool.
		l.way.rt.CloseIdleConnections()
		reply, sent, err = l.attempt(ctx, c, body)
	}
	if err == nil {
		return reply, nil
	}
	return nil, l.explain(ctx, c, sent, err)
}

type transportError struct{ err error }

func (e transportError) Error() string { return e.err.Error() }
func (e transportError) Unwrap() error { return e.err }

func isTransport(err error) bool {
	var t transportError
	return errors.As(err, &t)
}

// explain turns the end of an attempt into an error for the caller and, where
// the server may still be working, tells it to stop.
func (l *httpLeg) explain(ctx context.Context, c *call, sent bool, err error) error {
	name, out := l.spec.Name, c.out
	if ctx.Err() != nil {
		cause := context.Cause(ctx)
		if sent && l.Hello().Era == wire.Legacy {
			l.tellCancelled(c)
		}
		switch {
		case errors.Is(cause, errIdle):
			return l.spec.late(out, sent)
		case isEndOfLeg(cause):
			return lost(name, out, sent, cause.Error())
		}
		return crib.Errorf(crib.Cancelled, "%s was cancelled", out.Method)
	}
	if !isTransport(err) {
		return err
	}
	if sent {
		return lost(name, out, true, "the connection broke before the answer came")
	}
	return unreached(name, l.opts.Redact(dialText(err)), err)
}

// refusedError is a connection that came to nothing at once. Trying it cost
// nobody anything.
type refusedError struct{ err *crib.Error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// dialText is what of a transport error helps a person: without the URL,
// whose query may hold a key.
func dialText(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err.Error()
	}
	return "the connection failed"
}

// tellCancelled sends notifications/cancelled for c with our id for it.
func (l *httpLeg) tellCancelled(c *call) {
	if c.out.Method == "initialize" || l.life.Err() != nil {
		return
	}
	body := cancelledBody(c.id)
	l.work.start(func() {
		ctx, cancel := context.WithTimeout(l.life, cancelTimeout)
		defer cancel()
		l.Notify(ctx, body) //nolint:errcheck // the server is told as a courtesy
	})
}

func cancelledBody(id int64) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":"the client no longer waits"}}`, id)
}

// attempt sends body, once more after each answer that proves that it was not
// executed: a session that the server does not know, and a redirect of a read.
func (l *httpLeg) attempt(ctx context.Context, c *call, body []byte) (*Reply, bool, error) {
	target := l.way.url
	for second := false; ; second = true {
		session := l.session.Load()
		if c.out.Method == "initialize" {
			session = nil // it carries none
		}
		resp, sent, err := l.way.post(ctx, target, l.headers(c.out), body)
		if err != nil {
			return nil, sent, err
		}
		switch {
		case resp.StatusCode == http.StatusNotFound && session != nil && !second:
			lost, err := l.isSessionLoss(c, resp)
			if err != nil {
				return nil, true, err
			}
			if !lost {
				break
			}
			if err := l.renew(ctx, session); err != nil {
				return nil, false, err
			}
			continue
		case (resp.StatusCode == 307 || resp.StatusCode == 308) && c.out.Read && !second:
			if next, err := sameOrigin(l.way.url, resp.Header.Get("Location")); err == nil {
				drain(resp)
				target = next
				continue
			}
		}
		reply, err := l.answer(ctx, c, resp)
		return reply, true, err
	}
}

// isSessionLoss tells a lost session from an answer that came with 404. Only
// what was read whole and does not answer the request proves that it was not
// executed. The body of an answer stays readable.
func (l *httpLeg) isSessionLoss(c *call, resp *http.Response) (bool, error) {
	defer resp.Body.Close()
	held := gate.Reader{From: &touching{resp.Body, c}, Ticket: c.out.Ticket}
	b, err := readAll(&held, resp.ContentLength)
	held.Drop()
	if err != nil {
		return false, l.unread(c.out, err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(b))
	m, err := wire.ScanServer(b)
	if err != nil || m.Kind != wire.ResponseKind || !m.ID.OK() || !l.mine(c, m) {
		return true, nil
	}
	return m.Error.OK() && namesSession(m), nil
}

// unread is the error for an answer to out whose body could not be read whole
// because of err.
func (l *common) unread(out *Outgoing, err error) error {
	over, ok := errors.AsType[*crib.Error](err)
	switch {
	case errors.Is(err, errTooLarge):
		return tooMuch(out, crib.Errorf(crib.TooLarge, "server %s answered more than %d bytes", l.spec.Name, MaxMessage))
	case ok:
		return tooMuch(out, over)
	}
	return transportError{err}
}

// Headers that every request carries, of which there are usualHeaders.
const usualHeaders = 6

var (
	sendsJSON = []string{"application/json"}
	takesBoth = []string{"application/json, text/event-stream"}

	speaksModern = []string{wire.NewestModern}
	callsTool    = []string{"tools/call"}
)

// headers are what a request carries; out is nil where it is no message.
// Credentials come last: nothing that a client sent can take their place.
func (l *httpLeg) headers(out *Outgoing) http.Header {
	h := make(http.Header, usualHeaders+len(l.way.creds))
	if out != nil {
		maps.Copy(h, out.Header)
	}
	h["Content-Type"], h["Accept"], h["User-Agent"] = sendsJSON, takesBoth, l.way.agent
	switch {
	case l.Hello().Era == wire.Modern:
		h[wire.HeaderProtocolVersion] = speaksModern
		if out != nil && out.Method != "" {
			h[wire.HeaderMethod] = methodHeader(out.Method)
			if out.HasName {
				h[wire.HeaderName] = []string{wire.EncodeHeader(out.Name)}
			}
			maps.Copy(h, out.Params)
		}
	case out == nil || out.Method != "initialize":
		h[wire.HeaderProtocolVersion] = []string{l.Hello().Version}
		if id := l.session.Load(); id != nil {
			h[wire.HeaderSession] = []string{*id}
		}
	}
	maps.Copy(h, l.way.creds)
	return h
}

func methodHeader(method string) []string {
	if method == callsTool[0] {
		return callsTool
	}
	return []string{method}
}

// answer reads a response to the request c.
func (l *httpLeg) answer(ctx context.Context, c *call, resp *http.Response) (*Reply, error) {
	resp.Body = &touching{resp.Body, c}
	defer resp.Body.Close()
	if err := l.refusal(resp); err != nil {
		return nil, err
	}
	if c.out.Method == "initialize" {
		l.keepSession(resp)
	}
	kind := mediaType(resp)
	if resp.StatusCode == http.StatusOK && kind == "text/event-stream" {
		return l.streamed(ctx, c, resp)
	}
	if resp.StatusCode == http.StatusAccepted && l.Hello().Era == wire.Legacy {
		drain(resp) // the answer comes on the stream
		return l.awaited(ctx, c)
	}
	b, err := readAll(&gate.Reader{From: resp.Body, Ticket: c.out.Ticket}, resp.ContentLength)
	if err != nil {
		return nil, l.unread(c.out, err)
	}
	m, err := wire.ScanServer(b)
	if err == nil && m.Kind == wire.ResponseKind && l.mine(c, m) {
		if l.isStranger(resp.StatusCode, m) {
			l.Retire()
		}
		return &Reply{Message: legible(l.spec, l.opts, c.out, m), Era: l.Hello().Era, Status: resp.StatusCode, RetryAfter: resp.Header.Get("Retry-After")}, nil
	}
	return nil, l.strange(c.out, resp)
}

// isStranger reports whether an answer looks like that of another server than
// the one that this leg was made to: it did not read the request, knows nothing
// of the session but does not say so with 404, or refuses at a modern server's
// address in the codes of older ones. Only a 404 proves that the request was not
// executed: it is not sent again, but the next one goes over a new leg.
func (l *httpLeg) isStranger(status int, m wire.Message) bool {
	switch {
	case m.Error.OK() && !m.ID.OK():
		return true
	case status/100 != 4:
		return false
	case !m.Error.OK():
		return true
	case l.Hello().Era == wire.Legacy:
		return l.session.Load() != nil && namesSession(m)
	}
	code := wire.ReadError(m.Error.In(m.Body)).Code
	return code == wire.CodeInvalidRequest || code <= -32000 && code >= -32019
}

// namesSession reports whether an error is about a session, in the words and
// codes that servers use: the protocol names none.
func namesSession(m wire.Message) bool {
	e := wire.ReadError(m.Error.In(m.Body))
	return e.Code >= -32099 && e.Code <= -32000 && e.Code != wire.CodeResourceNotFound && strings.Contains(strings.ToLower(e.Message), "session")
}

// mine reports whether the response m is the answer to c. An error may come
// without an id.
func (l *httpLeg) mine(c *call, m wire.Message) bool {
	if !m.ID.OK() {
		return m.Error.OK()
	}
	var buf [20]byte
	return string(m.ID.In(m.Body)) == string(wire.AppendInt(buf[:0], c.id))
}

// statusClosed is what some proxies answer when a connection ended behind them.
const statusClosed = 499

// refusal is the error for a response that refuses the crib's credential.
func (l *common) refusal(resp *http.Response) error {
	if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
		return nil
	}
	l.Retire() // the next connection resolves its secrets anew
	drain(resp)
	return crib.Errorf(crib.Unauthorized, "server %s refuses the credential that the crib holds for it (HTTP %d); an owner must renew it", l.spec.Name, resp.StatusCode)
}

// strange is the error for a response to out that is no JSON-RPC answer. The
// body is not shown: it may repeat a credential.
func (l *common) strange(out *Outgoing, resp *http.Response) error {
	name := l.spec.Name
	switch code := resp.StatusCode; {
	case code >= 300 && code < 400 && code != http.StatusSeeOther:
		return &statusError{code, unavailable(name, "answered with a redirect (HTTP %d), which is not followed; put the final URL on its page", code)}
	case code == http.StatusTooManyRequests:
		after := ""
		if v := resp.Header.Get("Retry-After"); v != "" {
			after = ", Retry-After: " + v
		}
		return &statusError{code, unavailable(name, "asks to wait (HTTP 429%s)", after)}
	case code >= 400 && code < 500 && code != http.StatusRequestTimeout && code != statusClosed:
		l.Retire() // likewise
		return &statusError{code, unavailable(name, "answered HTTP %d without a JSON-RPC message", code)}
	}
	return lost(name, out, true, fmt.Sprintf("it answered HTTP %d (%s) without a JSON-RPC message", resp.StatusCode, mediaType(resp)))
}

// statusError is an HTTP status that came without a JSON-RPC message.
type statusError struct {
	status int
	err    *crib.Error
}

// Answered reports whether err is an answer of the server, if not one of MCP:
// it had the request in its hands, and proves nothing of what it did with it.
func Answered(err error) bool {
	_, ok := errors.AsType[*statusError](err)
	return ok
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// awaited waits for an answer that another stream of the leg delivers.
func (l *httpLeg) awaited(ctx context.Context, c *call) (*Reply, error) {
	select {
	case r := <-c.reply:
		if isEndOfLeg(r.err) {
			return nil, lost(l.spec.Name, c.out, true, r.err.Error())
		}
		if r.err != nil {
			return nil, r.err
		}
		return &Reply{Message: r.m, Era: l.Hello().Era, Status: http.StatusOK}, nil
	case <-ctx.Done():
		return nil, transportError{ctx.Err()}
	}
}

// Notify posts a notification or a response. Any 2xx is success.
func (l *httpLeg) Notify(ctx context.Context, body []byte) error {
	out := &Outgoing{Read: true}
	if l.Hello().Era == wire.Modern {
		if m, err := wire.ScanServer(body); err == nil {
			out.Method = m.Method
		}
	}
	return l.tell(ctx, l.way, l.way.url, l.headers(out), body)
}

// tell posts what has no answer. Any 2xx is success.
func (l *common) tell(ctx context.Context, way *carrier, target *url.URL, h http.Header, body []byte) error {
	resp, _, err := way.post(ctx, target, h, body)
	if err != nil {
		return unavailable(l.spec.Name, "cannot be reached: %s", l.opts.Redact(dialText(err)))
	}
	drain(resp)
	if resp.StatusCode/100 != 2 {
		return unavailable(l.spec.Name, "answered a notification with HTTP %d", resp.StatusCode)
	}
	return nil
}

// respond posts the answer to a request of the server.
func (l *httpLeg) respond(body []byte) {
	l.work.start(func() { l.give(l.life, l, body) })
}

// give brings to the server what nobody waits for.
func (l *common) give(life context.Context, leg Leg, body []byte) {
	ctx, cancel := context.WithTimeout(life, l.spec.timeout(&Outgoing{}))
	defer cancel()
	if err := leg.Notify(ctx, wire.OneLine(body)); err != nil && life.Err() == nil {
		l.opts.Log.Warn("a message to a server was not delivered", "server", l.spec.Name, "err", err)
	}
}

var errTooLarge = fmt.Errorf("more than %d bytes", MaxMessage)

// maxTrusted is how much room, in bytes, is made at once for a body on the
// word of its Content-Length. How far a server is trusted has nothing to do with
// how far web trusts a client, and what both may import, the vocabulary, knows
// of no bodies: each has its number.
const maxTrusted = 1 << 20

// readAll reads a body to its end. length is what its headers say, -1 for
// nothing.
func readAll(r io.Reader, length int64) ([]byte, error) {
	if length > MaxMessage {
		return nil, errTooLarge
	}
	if length > 0 && length <= maxTrusted {
		whole := make([]byte, length) // net/http holds the body to it
		_, err := io.ReadFull(r, whole)
		return whole, err
	}
	var buf bytes.Buffer
	if length < 0 {
		r = io.LimitReader(r, MaxMessage+1)
	}
	_, err := buf.ReadFrom(r)
	if err == nil && buf.Len() > MaxMessage {
		return nil, errTooLarge
	}
	return buf.Bytes(), err
}

// touching notes each read as a sign of life of the request.
type touching struct {
	io.ReadCloser
	c *call
}

func (t *touching) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if n > 0 {
		t.c.touch()
	}
	return n, err
}

func mediaType(resp *http.Response) string {
	if v := resp.Header["Content-Type"]; len(v) == 1 && v[0] == sendsJSON[0] {
		return v[0]
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // a parameter that cannot be read takes nothing from the type
	return kind
}

// drain reads what is left of a body that does not matter, so that its
// connection can be used again.
func drain(resp *http.Response) {
	io.Copy(io.Discard, io.LimitReader(resp.Body, maxDrain)) //nolint:errcheck // nothing depends on it
	resp.Body.Close()
}
