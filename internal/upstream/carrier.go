package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/upstream/gate"
)

// carrier brings requests to an HTTP server, each at most once.
type carrier struct {
	url     *url.URL
	creds   http.Header // of each request
	agent   []string    // User-Agent
	rt      *http.Transport
	blank   http.Request // what every POST starts from
	careful bool         // net/http could replay a body; see mayReplay
}

func newCarrier(spec *Spec, opts *Options, creds http.Header) (*carrier, error) {
	u, err := url.Parse(spec.URL)
	if err != nil || u.Host == "" {
		return nil, crib.Errorf(crib.Invalid, "server %s: its URL cannot be read", spec.Name)
	}
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u})
	if err != nil {
		return nil, crib.Errorf(crib.Invalid, "server %s: the proxy named in the environment cannot be used: %s", spec.Name, opts.Redact(err.Error()))
	}
	return &carrier{
		url: u, creds: creds, agent: []string{"toolcrib/" + opts.Version}, careful: mayReplay(u, creds),
		blank: http.Request{Method: http.MethodPost, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1},
		// A pool of its own: no server can use up the connections of another.
		rt: &http.Transport{
			Proxy:               through(proxy),
			DialContext:         (&net.Dialer{Timeout: DialTimeout, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout: DialTimeout,
			MaxIdleConnsPerHost: gate.MaxOpen,
			IdleConnTimeout:     90 * time.Second,
			ForceAttemptHTTP2:   true,
			DisableCompression:  true, // bytes go through as they come
		},
	}, nil
}

// through sends every request by way of a proxy, if there is one. The carrier
// speaks to one origin, so that it is looked up once.
func through(proxy *url.URL) func(*http.Request) (*url.URL, error) {
	if proxy == nil {
		return nil
	}
	return http.ProxyURL(proxy)
}

// posted is one request on its way: a body that is written at most once.
type posted struct {
	body  []byte
	from  bytes.Reader // what is sent first
	begun atomic.Bool  // something may have been written
	trace httptrace.ClientTrace
}

// again returns the body. net/http asks for it a second time only when not one
// byte of the request was written.
func (p *posted) again() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(p.body)), nil
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

// mayReplay reports whether net/http could write a body a second time by
// itself: it takes some headers for a promise that this is harmless, and
// HTTP/2 has rules of its own.
func mayReplay(u *url.URL, h http.Header) bool {
	return u.Scheme != "http" || h["Idempotency-Key"] != nil || h["X-Idempotency-Key"] != nil
}

// maxEndpoint is the greatest length in bytes of an address that a server
// names. It goes into the head of each request.
const maxEndpoint = 4 << 10

// isDial reports whether an error proves that there was no connection to
// write to.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// post sends body and returns the response head. sent reports whether any of
// it may have been written.
func (c *carrier) post(ctx context.Context, target *url.URL, h http.Header, body []byte) (resp *http.Response, sent bool, err error) {
	p := &posted{body: body}
	p.from.Reset(body)
	if !c.careful {
		p.trace.GotConn = func(httptrace.GotConnInfo) { p.begun.Store(true) }
		ctx = httptrace.WithClientTrace(ctx, &p.trace)
	}
	req := c.blank.WithContext(ctx)
	req.URL, req.Host, req.Header, req.ContentLength = target, target.Host, h, int64(len(body))
	if c.careful {
		req.Body, req.GetBody = carefulBody{&p.from, &p.begun}, p.onceMore
	} else {
		req.Body, req.GetBody = io.NopCloser(&p.from), p.again // a kind that is written together with the headers
	}
	if resp, err = c.rt.RoundTrip(req); err != nil {
		return nil, p.begun.Load() && !isDial(err), transportError{err}
	}
	return resp, true, nil
}

// unreached is the error of a request that was not written, where why says
// what err means.
func unreached(server, why string, err error) error {
	e := unavailable(server, "cannot be reached: %s", why)
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" && !op.Timeout() {
		return &refusedError{e}
	}
	return e
}

var (
	errElsewhere  = errors.New("an address of another origin")
	errNotAddress = errors.New("what is no address")
	errHoldsName  = errors.New("an address with a user name in it")
)

// sameOrigin resolves an address that a server names, which must be of its own
// origin: the crib's credentials go there.
func sameOrigin(base *url.URL, named string) (*url.URL, error) {
	u, err := base.Parse(strings.TrimSpace(named))
	switch {
	case err != nil || u.Opaque != "" || len(named) > maxEndpoint:
		return nil, errNotAddress
	case u.Scheme != base.Scheme || hostPort(u) != hostPort(base):
		return nil, errElsewhere
	case u.User != nil:
		return nil, errHoldsName
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
	return strings.ToLower(u.Hostname()) + " " + port
}
