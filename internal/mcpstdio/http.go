package mcpstdio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// maxDrain is how many bytes of a body that does not matter are read, so that
// its connection can be used again.
const maxDrain = 64 << 10

// client speaks HTTP with the crib.
type client struct {
	url   *url.URL
	host  string
	root  string // file URI of the folder the client works in; "" says nothing
	rt    *http.Transport
	token func(context.Context) (string, error)
	start *starter

	mu     sync.Mutex // guards bearer; held while it is asked for
	bearer *string    // nil before it was asked for
}

func newClient(u *url.URL, host string, token func(context.Context) (string, error), s *starter) *client {
	return &client{url: u, host: host, token: token, start: s, rt: &http.Transport{
		// No proxy: the crib is on this machine, and its token is for it alone.
		DialContext:         (&net.Dialer{Timeout: dialTime, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: dialTime,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     90 * time.Second,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true, // bytes go through as they come

		ExpectContinueTimeout: continueTime,
	}}
}

func (c *client) close() { c.rt.CloseIdleConnections() }

// posting is one HTTP request.
type posting struct {
	method string // of HTTP
	header http.Header
	body   []byte
	again  bool   // sending it twice does nothing twice
	what   string // it is, for messages

	// unless is closed when it need not be sent any more; nil is never.
	unless <-chan struct{}
	// wrote is called when it is written, or its writing failed; nil is nobody.
	wrote func()
}

// do sends p and returns the response. Where no crib answers, it has one
// started first. p is sent a second time only if nothing of it was sent, if
// the crib refused its token before it looked at anything else, or if sending
// it twice harms nobody.
func (c *client) do(ctx context.Context, p posting) (*http.Response, error) {
	if err := c.start.wait(ctx); err != nil {
		return nil, err
	}
	resp, sent, err := c.authorized(ctx, p)
	if err == nil || ctx.Err() != nil || sent && !p.again || isOurs(err) {
		return resp, c.explain(p, sent, err)
	}
	// The connection may have been a dead one of the pool.
	c.rt.CloseIdleConnections()
	if err := c.start.run(ctx); err != nil {
		return nil, err
	}
	resp, sent, err = c.authorized(ctx, p)
	return resp, c.explain(p, sent, err)
}

// authorized sends p with the token, and once more with a newer one if the
// crib refuses it.
func (c *client) authorized(ctx context.Context, p posting) (*http.Response, bool, error) {
	token, err := c.bearerToken(ctx, nil)
	if err != nil {
		return nil, false, err
	}
	resp, sent, err := c.once(ctx, p, *token)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, sent, err
	}
	newer, err := c.bearerToken(ctx, token)
	if err != nil || *newer == *token {
		return resp, true, nil
	}
	drain(resp)
	return c.once(ctx, p, *newer)
}

// bearerToken returns the token, asked for again if it is the refused one.
func (c *client) bearerToken(ctx context.Context, refused *string) (*string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bearer != nil && c.bearer != refused {
		return c.bearer, nil
	}
	var token string
	if c.token != nil {
		var err error
		if token, err = c.token(ctx); err != nil {
			return nil, crib.Errorf(crib.Denied, "the crib's token cannot be read: %s", crib.SafeText(err))
		}
	}
	c.bearer = &token
	return c.bearer, nil
}

// onceBody is a body that net/http may send again only as long as not one byte
// of it was read: whatever the headers say, a request is written once.
type onceBody struct {
	r       *bytes.Reader
	started *atomic.Bool
}

func (b onceBody) Read(p []byte) (int, error) {
	b.started.Store(true)
	return b.r.Read(p)
}

func (b onceBody) Close() error { return nil }

var errWrittenOnce = errors.New("a request is written at most once")

// once sends p. sent reports whether any of its body may have been written.
func (c *client) once(ctx context.Context, p posting, token string) (*http.Response, bool, error) {
	select {
	case <-p.unless:
		return nil, false, cancelled(p.what)
	default:
	}
	if p.wrote != nil {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { p.wrote() }})
	}
	req, err := http.NewRequestWithContext(ctx, p.method, c.url.String(), nil)
	if err != nil {
		return nil, false, err
	}
	req.Host = c.host
	var started atomic.Bool
	if p.body != nil {
		req.ContentLength = int64(len(p.body))
		req.Body = onceBody{bytes.NewReader(p.body), &started}
		req.GetBody = func() (io.ReadCloser, error) {
			if started.Load() {
				return nil, errWrittenOnce
			}
			return onceBody{bytes.NewReader(p.body), &started}, nil
		}
	}
	req.Header = p.header.Clone()
	if p.body != nil && !p.again {
		// The crib says that it is there before it gets the body. So a
		// connection of the pool that a restart broke costs nothing: until then
		// nothing was sent that could be executed (RFC 9110, section 10.1.1).
		req.Header["Expect"] = []string{"100-continue"}
	}
	req.Header[wire.HeaderRelay] = []string{wire.RelayStdio}
	req.Header["User-Agent"] = []string{"toolcrib-connect"}
	if c.root != "" {
		req.Header[wire.HeaderRoot] = []string{c.root}
	}
	if token != "" {
		req.Header["Authorization"] = []string{"Bearer " + token}
	}
	resp, err := c.rt.RoundTrip(req)
	if err != nil {
		return nil, started.Load(), err
	}
	return resp, true, nil
}

func isOurs(err error) bool {
	var e *crib.Error
	return errors.As(err, &e)
}

// explain makes an error of net/http one that helps a person.
func (c *client) explain(p posting, sent bool, err error) error {
	switch {
	case err == nil || isOurs(err):
		return err
	case errors.Is(err, context.Canceled):
		return cancelled(p.what)
	case errors.Is(err, context.DeadlineExceeded):
		return crib.Errorf(crib.Timeout, "the crib at %s did not take %s in time", c.url.Host, p.what)
	case sent:
		return lost(p.what, p.again)
	}
	return crib.Errorf(crib.Unavailable, "no crib answers at %s, so nothing was executed; start it with: toolcrib serve", c.url.Host)
}

func cancelled(what string) *crib.Error { return crib.Errorf(crib.Cancelled, "%s was cancelled", what) }

// lost is the error about a request that was sent and whose answer will not
// come.
func lost(what string, again bool) *crib.Error {
	if again {
		return crib.Errorf(crib.Unavailable, "the connection to the crib broke before it answered %s; send it again", what)
	}
	return crib.Errorf(crib.Unknown,
		"the connection to the crib broke before it answered %s; it is not known whether it was executed, so look before you send it again", what)
}

// strange is the error for a response that no crib gives. Its body is not
// shown: nobody knows whose it is.
func (c *client) strange(p posting, status int) error {
	if status >= http.StatusInternalServerError && !p.again {
		return crib.Errorf(crib.Unknown, "%s answered HTTP %d to %s; it is not known whether it was executed", c.url.Host, status, p.what)
	}
	return crib.Errorf(crib.Unavailable, "%s answered HTTP %d to %s, as a crib does not; see with toolcrib status which address is the crib's", c.url.Host, status, p.what)
}

func mediaType(resp *http.Response) string {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

func isStream(resp *http.Response) bool {
	return resp.StatusCode == http.StatusOK && mediaType(resp) == "text/event-stream"
}

func drain(resp *http.Response) {
	io.Copy(io.Discard, io.LimitReader(resp.Body, maxDrain)) //nolint:errcheck // nothing depends on it
	resp.Body.Close()
}

// starter has a crib started, by one caller for all.
type starter struct {
	ensure func(context.Context) error
	life   context.Context
	work   *sync.WaitGroup

	mu     sync.Mutex // guards flight
	flight *flight    // nil while nothing is being started
}

type flight struct {
	done chan struct{}
	err  error // to be read when done is closed
}

// begin starts a crib, unless that is being done.
func (s *starter) begin() *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flight != nil {
		return s.flight
	}
	f := &flight{done: make(chan struct{})}
	if s.ensure == nil {
		close(f.done)
		return f
	}
	s.flight = f
	s.work.Go(func() {
		err := s.ensure(s.life)
		if err != nil {
			f.err = crib.Errorf(crib.Unavailable, "the crib cannot be started: %s", crib.SafeText(err))
		}
		s.mu.Lock()
		s.flight = nil
		s.mu.Unlock()
		close(f.done)
	})
	return f
}

// run has a crib started and waits for it.
func (s *starter) run(ctx context.Context) error { return s.begin().wait(ctx) }

// wait waits for a start that is under way.
func (s *starter) wait(ctx context.Context) error {
	s.mu.Lock()
	f := s.flight
	s.mu.Unlock()
	if f == nil {
		return nil
	}
	return f.wait(ctx)
}

func (f *flight) wait(ctx context.Context) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return crib.Errorf(crib.Cancelled, "the crib was not started in time")
	}
}
