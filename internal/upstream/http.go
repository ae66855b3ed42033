package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// httpLeg is a leg over Streamable HTTP. A modern one is stateless; a legacy
// one has a session and a stream of its own for what belongs to no request.
type httpLeg struct {
	spec    *Spec
	opts    *Options
	url     *url.URL
	creds   http.Header
	rt      *http.Transport
	agent   []string                   // User-Agent
	blank   http.Request               // what every POST starts from
	careful bool                       // net/http could replay a body; see mayReplay
	hello   atomic.Pointer[wire.Hello] // replaced when a lost session is renewed

	open     inflight
	session  atomic.Pointer[string] // legacy; nil where the server gave none
	renewing chan struct{}          // one place, taken while a lost session is renewed
	retired  atomic.Bool
	farewell sync.Once // the session is ended once
	declare  Declaration

	life context.Context // ends with the leg
	end  context.CancelFunc
	work tasks // the stream and the answers being posted
}

// errIdle is the cause of a context that ended because nothing came in time.
var errIdle = errors.New("no answer in time")

func newHTTPLeg(spec *Spec, opts *Options, creds http.Header) (*httpLeg, error) {
	u, err := url.Parse(spec.URL)
	if err != nil || u.Host == "" {
		return nil, crib.Errorf(crib.Invalid, "server %s: its URL cannot be read", spec.Name)
	}
	l := &httpLeg{spec: spec, opts: opts, url: u, creds: creds, renewing: make(chan struct{}, 1),
		agent: []string{"toolcrib/" + opts.Version}, careful: mayReplay(u, creds), blank: http.Request{Method: http.MethodPost, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}}
	l.life, l.end = context.WithCancel(context.Background())
	// A pool of its own: no server can use up the connections of another.
	l.rt = &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: dialTimeout,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     90 * time.Second,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true, // bytes go through as they come
	}
	return l, nil
}

func (l *httpLeg) Hello() *wire.Hello     { return l.hello.Load() }
func (l *httpLeg) Open() int              { return l.open.open() }
func (l *httpLeg) Done() <-chan struct{}  { return l.life.Done() }
func (l *httpLeg) Quiet() <-chan struct{} { return l.open.whenQuiet() }
func (l *httpLeg) Retire()                { l.retired.Store(true) }
func (l *httpLeg) Retired() bool          { return l.retired.Load() }

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
	l.rt.CloseIdleConnections()
}

func (l *httpLeg) deleteSession() {
	ctx, cancel := context.WithTimeout(context.Background(), cancelTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, l.url.String(), nil)
	if err != nil {
		return
	}
	l.setHeaders(req, nil)
	if resp, err := l.rt.RoundTrip(req); err == nil {
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
	c, err := l.open.add(out, lis, cancel)
	if err != nil {
		return nil, lost(l.spec.Name, out, false, err.Error())
	}
	defer l.open.remove(c)
	if !out.Forever {
		defer watch(c, l.spec.timeout(out), cancel).Stop()
	}
	body := out.body(c.id)
	reply, sent, err := l.attempt(ctx, c, body)
	if err != nil && ctx.Err() == nil && (out.Read || !sent) && isTransport(err) {
		// Sending a read again harms nobody, and what was never written was
		// never executed. The connection may have been a dead one of the pool.
		l.rt.CloseIdleConnections()
		reply, sent, err = l.attempt(ctx, c, body)
	}
	if err == nil {
		return reply, nil
	}
	return nil, l.explain(ctx, c, sent, err)
}

// watch cancels a request that has been silent for idle, or goes on for longer
// than any may. Who stops the timer ends the watch.
func watch(c *call, idle time.Duration, cancel context.CancelCauseFunc) *time.Timer {
	began := time.Now()
	var mu sync.Mutex // guards timer until it is set
	mu.Lock()
	defer mu.Unlock()
	var timer *time.Timer
	timer = time.AfterFunc(idle, func() {
		mu.Lock()
		defer mu.Unlock()
		quiet := time.Since(time.Unix(0, c.seen.Load()))
		if quiet >= idle || time.Since(began) >= MaxCallTime {
			cancel(errIdle)
			return
		}
		timer.Reset(idle - quiet)
	})
	return timer
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
	unreached := unavailable(name, "cannot be reached: %s", l.opts.Redact(dialText(err)))
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" && !op.Timeout() {
		return &refusedError{unreached}
	}
	return unreached
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
	target := l.url
	for second := false; ; second = true {
		session := l.session.Load()
		if c.out.Method == "initialize" {
			session = nil // it carries none
		}
		resp, sent, err := l.post(ctx, target, body, c.out)
		if err != nil {
			return nil, sent, err
		}
		switch {
		case resp.StatusCode == http.StatusNotFound && session != nil && !second:
			if !l.isSessionLoss(c, resp) {
				break
			}
			drain(resp)
			if err := l.renew(ctx, session); err != nil {
				return nil, false, err
			}
			continue
		case (resp.StatusCode == 307 || resp.StatusCode == 308) && c.out.Read && !second:
			next, err := l.url.Parse(resp.Header.Get("Location"))
			if err == nil && next.Scheme == l.url.Scheme && next.Host == l.url.Host {
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
// what does not answer the request proves that it was not executed. The body
// of a loss is dropped, that of an answer stays readable.
func (l *httpLeg) isSessionLoss(c *call, resp *http.Response) bool {
	b, err := readAll(resp.Body, resp.ContentLength)
	if err != nil {
		return true
	}
	resp.Body = io.NopCloser(bytes.NewReader(b))
	m, err := wire.ScanServer(b)
	if err != nil || m.Kind != wire.ResponseKind || !m.ID.OK() || !l.mine(c, m) {
		return true
	}
	if !m.Error.OK() {
		return false
	}
	e := wire.ReadError(m.Error.In(b))
	return e.Code >= -32099 && e.Code <= -32000 && e.Code != wire.CodeResourceNotFound && strings.Contains(strings.ToLower(e.Message), "session")
}

// posted is one request on its way: a body that is written at most once.
type posted struct {
	body  []byte
	begun atomic.Bool // something may have been written
	trace httptrace.ClientTrace
}

// again returns the body. net/http asks for it a second time only when not one
// byte of the request was written.
func (p *posted) again() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(p.body)), nil // a kind that is written together with the headers
}

// onceMore is again where net/http could have written something: whatever the
// headers say, a request is written once.
func (p *posted) onceMore() (io.ReadCloser, error) {
	if p.begun.Load() {
		return nil, errors.New("a request is written at most once")
	}
	return carefulBody{bytes.NewReader(p.body), &p.begun}, nil
}

// carefulBody notes that it was read.
type carefulBody struct {
	r     *bytes.Reader
	begun *atomic.Bool
}

func (b carefulBody) Read(p []byte) (int, error) {
	b.begun.Store(true)
	return b.r.Read(p)
}

func (b carefulBody) Close() error { return nil }

// post sends body and returns the response head. sent reports whether any of
// it may have been written.
func (l *httpLeg) post(ctx context.Context, target *url.URL, body []byte, out *Outgoing) (resp *http.Response, sent bool, err error) {
	p := &posted{body: body}
	again := p.again
	if l.careful {
		again = p.onceMore
	} else {
		p.trace.GotConn = func(httptrace.GotConnInfo) { p.begun.Store(true) }
		ctx = httptrace.WithClientTrace(ctx, &p.trace)
	}
	req := l.blank.WithContext(ctx)
	req.URL, req.Host = target, target.Host
	req.Header = make(http.Header, usualHeaders+len(l.creds))
	req.ContentLength, req.GetBody = int64(len(body)), again
	req.Body, _ = again() // nothing was begun
	l.setHeaders(req, out)
	if resp, err = l.rt.RoundTrip(req); err != nil {
		return nil, p.begun.Load() && !isDial(err), transportError{err}
	}
	return resp, true, nil
}

// mayReplay reports whether net/http could write a body a second time by
// itself: it takes some headers for a promise that this is harmless, and
// HTTP/2 has rules of its own.
func mayReplay(u *url.URL, h http.Header) bool {
	return u.Scheme != "http" || h["Idempotency-Key"] != nil || h["X-Idempotency-Key"] != nil
}

// isDial reports whether an error proves that there was no connection to
// write to.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// Headers that every request carries, of which there are usualHeaders.
const usualHeaders = 6

var (
	sendsJSON = []string{"application/json"}
	takesBoth = []string{"application/json, text/event-stream"}
)

// setHeaders sets what every request carries. Credentials come last: nothing
// that a client sent can take their place.
func (l *httpLeg) setHeaders(req *http.Request, out *Outgoing) {
	h := req.Header
	if out != nil {
		for k, v := range out.Header {
			h[k] = v
		}
	}
	h["Content-Type"], h["Accept"], h["User-Agent"] = sendsJSON, takesBoth, l.agent
	switch {
	case l.Hello().Era == wire.Modern:
		h[wire.HeaderProtocolVersion] = []string{l.Hello().Version}
		if out != nil && out.Method != "" {
			h[wire.HeaderMethod] = []string{out.Method}
			if out.HasName {
				h[wire.HeaderName] = []string{wire.EncodeHeader(out.Name)}
			}
			for k, v := range out.Params {
				h[k] = v
			}
		}
	case out == nil || out.Method != "initialize":
		h[wire.HeaderProtocolVersion] = []string{l.Hello().Version}
		if id := l.session.Load(); id != nil {
			h[wire.HeaderSession] = []string{*id}
		}
	}
	for k, v := range l.creds {
		h[k] = v
	}
}

// answer reads a response to the request c.
func (l *httpLeg) answer(ctx context.Context, c *call, resp *http.Response) (*Reply, error) {
	resp.Body = &touching{resp.Body, c}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		l.Retire() // the next connection resolves its secrets anew
		drain(resp)
		return nil, crib.Errorf(crib.Unauthorized, "server %s refuses the credential that the crib holds for it (HTTP %d); an owner must renew it", l.spec.Name, resp.StatusCode)
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
	b, err := readAll(&holding{from: resp.Body, ticket: c.out.Ticket}, resp.ContentLength)
	if err != nil {
		if errors.Is(err, errTooLarge) {
			return nil, crib.Errorf(crib.TooLarge, "server %s answered more than %d bytes", l.spec.Name, MaxMessage)
		}
		if over, ok := errors.AsType[*crib.Error](err); ok {
			return nil, over
		}
		return nil, transportError{err}
	}
	m, err := wire.ScanServer(b)
	if err == nil && m.Kind == wire.ResponseKind && l.mine(c, m) {
		if resp.StatusCode/100 == 4 && l.isStranger(m) {
			l.Retire()
		}
		return &Reply{Message: m, Era: l.Hello().Era, Status: resp.StatusCode, RetryAfter: resp.Header.Get("Retry-After")}, nil
	}
	return nil, l.strange(c, resp, kind)
}

// isStranger reports whether an error that came with a 4xx looks like that of
// another server than the one that this leg was made to: it did not read the
// request, or a modern server's address refuses in the codes of older ones.
func (l *httpLeg) isStranger(m wire.Message) bool {
	if !m.Error.OK() || !m.ID.OK() {
		return true
	}
	code := wire.ReadError(m.Error.In(m.Body)).Code
	return l.Hello().Era == wire.Modern && (code == wire.CodeInvalidRequest || code <= -32000 && code >= -32019)
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

// strange is the error for a response that is no JSON-RPC answer. The body is
// not shown: it may repeat a credential.
func (l *httpLeg) strange(c *call, resp *http.Response, kind string) error {
	name := l.spec.Name
	switch code := resp.StatusCode; {
	case code >= 300 && code < 400 && code != http.StatusSeeOther:
		return unavailable(name, "answered with a redirect (HTTP %d), which is not followed; put the final URL on its page", code)
	case code == http.StatusTooManyRequests:
		if after := resp.Header.Get("Retry-After"); after != "" {
			return unavailable(name, "asks to wait (HTTP 429, Retry-After: %s)", after)
		}
		return unavailable(name, "asks to wait (HTTP 429)")
	case code >= 400 && code < 500 && code != http.StatusRequestTimeout && code != statusClosed:
		l.Retire() // likewise
		return &statusError{code, unavailable(name, "answered HTTP %d without a JSON-RPC message", code)}
	}
	return lost(name, c.out, true, fmt.Sprintf("it answered HTTP %d (%s) without a JSON-RPC message", resp.StatusCode, kind))
}

// statusError is an HTTP status that came without a JSON-RPC message.
type statusError struct {
	status int
	err    *crib.Error
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
	resp, _, err := l.post(ctx, l.url, body, out)
	if err != nil {
		return unavailable(l.spec.Name, "cannot be reached: %s", l.opts.Redact(dialText(err)))
	}
	drain(resp)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return unavailable(l.spec.Name, "answered a notification with HTTP %d", resp.StatusCode)
	}
	return nil
}

// respond posts the answer to a request of the server.
func (l *httpLeg) respond(body []byte) {
	l.work.start(func() {
		ctx, cancel := context.WithTimeout(l.life, l.spec.timeout(&Outgoing{}))
		defer cancel()
		if err := l.Notify(ctx, wire.OneLine(body)); err != nil {
			l.opts.Log.Warn("an answer to a server's request was not delivered", "server", l.spec.Name, "err", err)
		}
	})
}

var errTooLarge = fmt.Errorf("more than %d bytes", MaxMessage)

// maxTrusted is how much room, in bytes, is made at once for a body on the
// word of its Content-Length.
const maxTrusted = 1 << 20

// readAll reads a body to its end. length is what its headers say, -1 for
// nothing.
func readAll(r io.Reader, length int64) ([]byte, error) {
	if length > MaxMessage {
		return nil, errTooLarge
	}
	var buf bytes.Buffer
	if length > 0 { // net/http holds the body to it
		buf.Grow(int(min(length, maxTrusted)) + bytes.MinRead) // room for the read that finds the end
	} else {
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
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

// drain reads what is left of a body that does not matter, so that its
// connection can be used again.
func drain(resp *http.Response) {
	io.Copy(io.Discard, io.LimitReader(resp.Body, maxDrain)) //nolint:errcheck // nothing depends on it
	resp.Body.Close()
}
