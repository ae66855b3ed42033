package mcpstdio

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// session is what the crib opened for an initialize.
type session struct {
	id      string // "" where it gave none
	version string
}

// conversation is what the client opened with initialize. Sessions of the crib
// come and go below it: the crib may restart, the client need not know.
type conversation struct {
	hello  wire.Message  // the client's initialize
	opened chan struct{} // closed when it was answered
	ctx    context.Context
	end    context.CancelFunc
	listen sync.Once // starts the stream that belongs to no request

	renewing sync.Mutex // held while a lost session is renewed

	mu      sync.Mutex // guards all below
	session *session   // nil while there is none
	ready   bool       // the client sent notifications/initialized
	// standing are the requests of the client whose effect is part of a
	// session, so that a new one gets it too: by what they set.
	standing map[string]wire.Message
}

// converse begins a new conversation, and ends the one before.
func (r *relay) converse(q *request) *conversation {
	c := &conversation{hello: q.m, opened: make(chan struct{}), standing: make(map[string]wire.Message)}
	c.ctx, c.end = context.WithCancel(r.life)
	if old := r.talk; old != nil {
		old.end()
		r.work.Go(func() {
			await(r.life, old.opened)
			r.deleteSession(old.current())
		})
	}
	r.talk = c
	return c
}

func (c *conversation) current() *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

func (c *conversation) set(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = s
}

// note remembers a request that was answered well, if a new session needs it.
func (c *conversation) note(m wire.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m.Method {
	case "logging/setLevel":
		c.standing["level"] = m
	case "resources/subscribe":
		c.standing["uri "+string(m.Params.URI.In(m.Body))] = m
	case "resources/unsubscribe":
		delete(c.standing, "uri "+string(m.Params.URI.In(m.Body)))
	}
}

// toRepeat is what a new session is told.
func (c *conversation) toRepeat() (ready bool, standing []wire.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.standing {
		standing = append(standing, m)
	}
	return c.ready, standing
}

// legacyPosting puts a message of the session s on HTTP (2025-11-25,
// Transports, Session Management and Protocol Version Header).
func legacyPosting(m wire.Message, s *session) posting {
	p := basicPosting(m)
	s.address(p.header)
	return p
}

func (s *session) address(h http.Header) {
	if s == nil {
		return
	}
	h[wire.HeaderProtocolVersion] = []string{s.version}
	if s.id != "" {
		h[wire.HeaderSession] = []string{s.id}
	}
}

// initialize opens the conversation c.
func (r *relay) initialize(q *request, c *conversation) error {
	defer close(c.opened)
	s, body, err := r.openSession(q)
	if err != nil {
		return err
	}
	c.set(s)
	r.answer(q, body)
	return nil
}

// openSession sends the client's initialize. There is no session if the answer
// is an error.
func (r *relay) openSession(q *request) (*session, []byte, error) {
	p := basicPosting(q.m)
	p.wrote = q.wrote
	resp, err := r.crib.do(r.life, p)
	if err != nil {
		return nil, nil, err
	}
	body, err := r.read(q, p, resp, nil)
	if err != nil {
		return nil, nil, err
	}
	version, ok := wire.GetText(wire.Get(body, "result"), "protocolVersion")
	if !ok {
		return nil, body, nil
	}
	return &session{id: resp.Header.Get(wire.HeaderSession), version: version}, body, nil
}

// legacy carries a request of the conversation c, which is nil before
// initialize, behind the notifications that came before it. What the client
// cancels runs on in its POST; only the crib can end it.
func (r *relay) legacy(q *request, c *conversation, before <-chan struct{}) error {
	await(r.life, before)
	var s *session
	if c != nil {
		await(r.life, c.opened)
		s = c.current()
	}
	resp, p, err := r.postLegacy(q, s)
	if err != nil {
		return err
	}
	if s.lost(resp) {
		// The crib looks for the session first: nothing was executed.
		drain(resp)
		if s, err = r.renew(c, s); err != nil {
			return err
		}
		if resp, p, err = r.postLegacy(q, s); err != nil {
			return err
		}
	}
	body, err := r.read(q, p, resp, s)
	if err != nil {
		return err
	}
	if c != nil && wire.Get(body, "result") != nil {
		c.note(q.m)
	}
	r.answer(q, body)
	return nil
}

func (r *relay) postLegacy(q *request, s *session) (*http.Response, posting, error) {
	p := legacyPosting(q.m, s)
	p.unless, p.wrote = q.ctx.Done(), q.wrote
	resp, err := r.crib.do(r.life, p)
	return resp, p, err
}

// lost reports whether resp says that the crib does not know the session, and
// not that it does not know a method. The body stays readable.
func (s *session) lost(resp *http.Response) bool {
	if s == nil || s.id == "" || resp.StatusCode != http.StatusNotFound {
		return false
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer))
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(b))
	m, scanErr := wire.ScanServer(b)
	if err != nil || scanErr != nil || !m.Error.OK() {
		return true
	}
	return wire.ReadError(m.Error.In(b)).Code != wire.CodeMethodNotFound
}

// renew opens a session in the place of lost, once for all who noticed.
func (r *relay) renew(c *conversation, lost *session) (*session, error) {
	c.renewing.Lock()
	defer c.renewing.Unlock()
	if s := c.current(); s != lost {
		return s, nil
	}
	r.log.Info("the crib no longer knows the session; opening another")
	q := newRequest(r.life, wire.Legacy, c.hello)
	q.cancel() // the client has its answer
	s, body, err := r.openSession(q)
	if err != nil {
		return nil, err
	}
	if s == nil {
		e := wire.ReadError(wire.Get(body, "error"))
		return nil, crib.Errorf(crib.Unavailable, "the crib was restarted and refuses the session: %s", e.Message)
	}
	ready, standing := c.toRepeat()
	if ready {
		standing = append([]wire.Message{initialized}, standing...)
	}
	for _, m := range standing {
		if err := r.notify(r.life, legacyPosting(m, s)); err != nil {
			r.log.Warn("the new session was not told everything", "method", m.Method, "err", err)
		}
	}
	c.set(s)
	return s, nil
}

var initialized = func() wire.Message {
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	if err != nil {
		panic(err)
	}
	return m
}()

// told delivers a notification of the client. What a lost session is told does
// not matter any more.
func (r *relay) told(ctx context.Context, c *conversation, m wire.Message) error {
	err := r.notify(ctx, legacyPosting(m, c.current()))
	if m.Method == initialized.Method {
		c.mu.Lock()
		c.ready = true
		c.mu.Unlock()
		c.listen.Do(func() { r.work.Go(func() { r.listen(c) }) })
	}
	return err
}

// openStream opens a stream of s, behind the event lastID if that is not
// empty. It returns nothing when that may work later, and an error when it
// will not.
func (r *relay) openStream(ctx context.Context, s *session, lastID string) (*http.Response, error) {
	resp, err := r.get(ctx, s, lastID)
	if err != nil {
		return nil, nil
	}
	if isStream(resp) {
		return resp, nil
	}
	drain(resp)
	if resp.StatusCode >= http.StatusInternalServerError {
		return nil, nil
	}
	return nil, crib.Errorf(crib.Unavailable, "the crib has no such stream (HTTP %d)", resp.StatusCode)
}

// get asks for a stream. It starts no crib: nobody asked for anything.
func (r *relay) get(ctx context.Context, s *session, lastID string) (*http.Response, error) {
	p := posting{method: http.MethodGet, what: "GET", header: http.Header{"Accept": {"text/event-stream"}}}
	s.address(p.header)
	if lastID != "" {
		p.header[wire.HeaderLastEventID] = []string{lastID}
	}
	resp, _, err := r.crib.authorized(ctx, p)
	return resp, err
}

// listen keeps the stream open that belongs to no request, until the
// conversation ends or the crib says that it has none.
func (r *relay) listen(c *conversation) {
	var of *session
	var at position
	wait := r.opts.Retry
	for c.ctx.Err() == nil {
		s := c.current()
		if s == nil {
			return
		}
		if s != of {
			of, at = s, position{pause: r.opts.Retry}
		}
		resp, err := r.get(c.ctx, s, at.id)
		switch {
		case err != nil:
		case isStream(resp):
			began := time.Now()
			r.hear(c, resp.Body, &at)
			resp.Body.Close()
			if time.Since(began) > wait {
				wait = at.pause
			}
		case s.lost(resp):
			drain(resp)
			if _, err := r.renew(c, s); err != nil {
				r.log.Warn("the session was not renewed", "err", err)
			}
		default:
			drain(resp)
			if !r.comesBack(resp.StatusCode, &at) {
				return
			}
		}
		if sleep(c.ctx, wait) != nil {
			return
		}
		wait = min(2*wait, maxRetry)
	}
}

// comesBack reports whether a stream that was refused may be there later.
func (r *relay) comesBack(status int, at *position) bool {
	if status == http.StatusBadRequest && at.id != "" {
		at.id = "" // what was missed is no longer kept
		return true
	}
	return status >= http.StatusInternalServerError || status == http.StatusUnauthorized ||
		status == http.StatusConflict || status == http.StatusTooManyRequests
}

// hear relays what belongs to no request.
func (r *relay) hear(c *conversation, body io.Reader, at *position) {
	ignore := func([]byte) error { return nil }
	r.events(body, at, func(m wire.Message) bool { //nolint:errcheck // ignore returns none
		if m.Kind == wire.ResponseKind {
			r.log.Warn("a response came that nobody waits for")
			return true
		}
		r.out.send(c.ctx, m.Body)
		return true
	}, ignore)
}

// deleteSession tells the crib that a session is over.
func (r *relay) deleteSession(s *session) {
	if s == nil || s.id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), deleteTime)
	defer cancel()
	p := posting{method: http.MethodDelete, what: "DELETE", header: make(http.Header)}
	s.address(p.header)
	resp, _, err := r.crib.authorized(ctx, p)
	if err != nil {
		r.log.Info("the crib was not told that the session is over", "err", err)
		return
	}
	drain(resp)
}
