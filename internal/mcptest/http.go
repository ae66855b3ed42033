package mcptest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// maxBody is how many bytes of a request a peer reads.
const maxBody = 64 << 20

// HTTPOptions say how an HTTP peer behaves. The zero options are a dual server
// in order, with sessions, at /mcp.
type HTTPOptions struct {
	Options

	Strict      bool     // check every header that the protocol asks for
	NoSession   bool     // legacy without sessions
	NoGET       bool     // GET is answered with 405
	AlwaysSSE   bool     // answers are event streams even where JSON would do
	EventIDs    bool     // legacy streams can be resumed
	Style       SSEStyle // of event streams
	OldSSE      bool     // the transport of 2024-11-05: GET for the stream, POST elsewhere
	OldSSEPath  string   // what the old transport names as its endpoint; "" is a right one
	OldSSEAgain string   // what it names in a second event; "" sends none
}

// Break is how an answer breaks off.
type Break int

// The ways in which an answer breaks off; see HTTP.BreakOn.
const (
	BreakEnd   Break = iota + 1 // the stream ends in order before the reply, which is there already
	BreakCut                    // the connection is cut before the reply, which is there already
	BreakEarly                  // the stream ends in order before any message, and the call runs on
)

// Seen is a request as it came.
type Seen struct {
	HTTPMethod string
	Path       string
	Header     http.Header
	Body       []byte
	RPCMethod  string // of the message, "" if there is none
}

// Script takes over a request if it returns true.
type Script func(w http.ResponseWriter, r *http.Request, body []byte) bool

// HTTP is an HTTP peer.
type HTTP struct {
	*Server
	// URL is the address of the MCP endpoint.
	URL string

	t    testing.TB
	opts HTTPOptions
	srv  *httptest.Server
	ctx  context.Context // ends with the peer
	stop context.CancelFunc
	work sync.WaitGroup // calls that run, maybe longer than their request

	mu       sync.Mutex // guards what follows
	script   Script
	breaks   map[string]Break // by tool, each for one call
	sessions map[string]*session
	opened   int // sessions so far
	streams  map[string]*stream
	seen     []Seen
}

// session is a legacy session.
type session struct {
	id      string
	conn    *conn
	channel *stream // what belongs to no request
}

// NewHTTP starts an HTTP peer that ends with the test.
func NewHTTP(t testing.TB, opts HTTPOptions) *HTTP {
	h := &HTTP{
		Server:   NewServer(opts.Options),
		t:        t,
		opts:     opts,
		breaks:   map[string]Break{},
		sessions: map[string]*session{},
		streams:  map[string]*stream{},
	}
	h.ctx, h.stop = context.WithCancel(context.Background())
	h.srv = httptest.NewServer(http.HandlerFunc(h.serveHTTP))
	h.URL = h.srv.URL + "/mcp"
	t.Cleanup(h.Close)
	return h
}

// Close ends the peer and cuts its connections. It may be called twice.
func (h *HTTP) Close() {
	h.stop()
	h.srv.CloseClientConnections()
	h.srv.Close()
	h.work.Wait()
}

// Script sets a function that sees each request first; nil takes it away.
func (h *HTTP) Script(script Script) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.script = script
}

// BreakOn breaks off the answer to the next call of the tool.
func (h *HTTP) BreakOn(tool string, how Break) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.breaks[tool] = how
}

// Forget loses every session, as a restart does. The connections stay.
func (h *HTTP) Forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, s := range h.sessions {
		h.dropLocked(id, s)
	}
	clear(h.streams)
}

func (h *HTTP) dropLocked(id string, s *session) {
	delete(h.sessions, id)
	s.channel.finish(nil)
	h.removeConn(s.conn)
}

// Sessions counts the legacy sessions that were opened.
func (h *HTTP) Sessions() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.opened
}

// LiveSessions counts the legacy sessions that are open.
func (h *HTTP) LiveSessions() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.sessions)
}

// Seen lists the requests that came, whatever became of them.
func (h *HTTP) Seen() []Seen {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen)
}

// Last returns the newest request with this JSON-RPC method, and fails the
// test if there is none.
func (h *HTTP) Last(method string) Seen {
	h.t.Helper()
	for _, s := range slices.Backward(h.Seen()) {
		if s.RPCMethod == method {
			return s
		}
	}
	h.t.Fatalf("no %s came", method)
	return Seen{}
}

// WaitFor waits until n messages with this method have come.
func (h *HTTP) WaitFor(method string, n int) {
	h.t.Helper()
	Eventually(h.t, fmt.Sprintf("message %d of %s", n, method), func() bool { return h.Requests(method) >= n })
}

// Eventually polls until ok returns true, and fails the test if it never does.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	poll := time.NewTicker(releasePoll)
	defer poll.Stop()
	deadline := time.After(Patience)
	for !ok() {
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("%s did not happen", what)
		}
	}
}

// CutConnections cuts every connection that is open.
func (h *HTTP) CutConnections() { h.srv.CloseClientConnections() }

func (h *HTTP) serveHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return // the client left
	}
	// A request ends with the peer, or Close would wait for it for ever.
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	r = r.WithContext(ctx)
	script := h.note(r, body)
	if script != nil && script(w, r, body) {
		return
	}
	if h.opts.OldSSE {
		h.serveOldSSE(w, r, body)
		return
	}
	switch {
	case r.URL.Path != "/mcp":
		http.NotFound(w, r)
	case r.Method == http.MethodPost:
		h.post(w, r, body)
	case r.Method == http.MethodGet && !h.opts.NoGET && h.opts.Era != EraModern:
		h.get(w, r)
	case r.Method == http.MethodDelete && h.opts.Era != EraModern:
		h.delete(w, r)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (h *HTTP) note(r *http.Request, body []byte) Script {
	m, _, err := readMessage(body)
	if err != nil {
		m.Method = ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = append(h.seen, Seen{r.Method, r.URL.Path, r.Header.Clone(), body, m.Method})
	return h.script
}

// post reads the message of a POST and serves it in its era.
func (h *HTTP) post(w http.ResponseWriter, r *http.Request, body []byte) {
	if mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || mediaType != "application/json" {
		w.WriteHeader(http.StatusUnsupportedMediaType)
		return
	}
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		respond(w, http.StatusBadRequest, refuse(wire.CodeInvalidRequest, "batches are refused").body(nil, ""))
		return
	}
	m, par, err := readMessage(body)
	if err != nil || !m.isRequest() && !m.isResponse() && m.Method == "" {
		respond(w, http.StatusBadRequest, refuse(wire.CodeParse, "no JSON-RPC message").body(nil, ""))
		return
	}
	x := &exchange{ctx: r.Context(), msg: m, par: par, era: h.eraOf(m, par, newConn(nil))}
	if h.opts.Era != EraLegacy && r.Header.Get(wire.HeaderProtocolVersion) == h.modernVersion() {
		x.era = wire.Modern
	}
	if x.era == wire.Modern {
		h.postModern(w, r, x)
		return
	}
	h.postLegacy(w, r, x)
}

func (h *HTTP) postModern(w http.ResponseWriter, r *http.Request, x *exchange) {
	if h.opts.Strict {
		if problem := checkHeaders(r.Header, x); problem != "" {
			respond(w, http.StatusBadRequest, refuse(wire.CodeHeaderMismatch, "%s", problem).body(x.msg.ID, ""))
			return
		}
	}
	x.conn = newConn(func([]byte) {})
	h.addConn(x.conn)
	defer h.removeConn(x.conn)
	h.reply(w, r, x, nil)
}

// reply serves the message and sends what comes of it.
func (h *HTTP) reply(w http.ResponseWriter, r *http.Request, x *exchange, s *session) {
	if !x.msg.isRequest() {
		h.serve(x)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	call := h.begin(x)
	defer call.leave()
	if h.opts.SilentDiscover && x.msg.Method == "server/discover" {
		<-r.Context().Done()
		return
	}
	how := h.breakFor(x)
	out := &writer{w: w, style: h.opts.Style, ids: h.opts.EventIDs && x.era == wire.Legacy,
		noFinal: how == BreakEnd || how == BreakCut, early: how == BreakEarly}
	if how == 0 && !h.opts.AlwaysSSE && x.msg.Method != "subscriptions/listen" && call.first(r.Context()) {
		call.json(w, s)
		return
	}
	if call.wasCut() {
		panic(http.ErrAbortHandler)
	}
	setSession(w, s)
	out.start(call.stream)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(call.cut, cancel)()
	out.copy(ctx, call.stream, 0)
	if how == BreakCut || call.wasCut() {
		panic(http.ErrAbortHandler)
	}
}

func (h *HTTP) breakFor(x *exchange) Break {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x.msg.Method != "tools/call" {
		return 0
	}
	how := h.breaks[x.par.Name]
	delete(h.breaks, x.par.Name)
	return how
}

// call is a request that is being served.
type call struct {
	x      *exchange
	stream *stream
	cut    context.Context // ends when the connection is to be cut
	cutNow context.CancelFunc
	cancel context.CancelFunc // of the request
	server *Server
}

// begin serves the request of x in its own goroutine. A legacy request runs on
// when its client leaves; a modern one is cancelled by that (2026-07-28,
// Streamable HTTP, Cancellation).
func (h *HTTP) begin(x *exchange) *call {
	c := &call{x: x, stream: h.newStream(), server: h.Server}
	c.cut, c.cutNow = context.WithCancel(context.Background())
	parent := h.ctx
	if x.era == wire.Modern {
		parent = x.ctx
	}
	x.ctx, c.cancel = context.WithCancel(parent)
	x.send = c.stream.add
	x.carrier = c
	h.work.Go(func() {
		defer c.cancel()
		c.stream.finish(h.serve(x).body(x.msg.ID, x.era))
	})
	return c
}

func (h *HTTP) newStream() *stream {
	s := newStream(fmt.Sprintf("s%d", h.next()))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.streams[s.id] = s
	return s
}

// raw implements carrier.
func (c *call) raw([]byte, int) bool { return false }

// die implements carrier.
func (c *call) die() { c.cutNow() }

func (c *call) wasCut() bool { return c.cut.Err() != nil }

// first waits for the first message and reports whether it is the answer.
func (c *call) first(ctx context.Context) bool {
	for {
		lines, final, closed, changed := c.stream.state(0)
		if len(lines) > 0 || closed {
			return final && len(lines) == 1
		}
		select {
		case <-changed:
		case <-c.cut.Done():
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// leave ends what the end of the HTTP request ends.
func (c *call) leave() {
	_, answered, _, _ := c.stream.state(0)
	if !answered && c.x.era == wire.Modern && c.x.msg.Method != "subscriptions/listen" {
		c.server.noteCancelled(string(c.x.msg.ID))
	}
	if c.x.era == wire.Modern || c.wasCut() {
		c.cancel()
	}
	c.cutNow() // frees the context
}

// json sends the answer as one JSON body.
func (c *call) json(w http.ResponseWriter, s *session) {
	lines, _, _, _ := c.stream.state(0)
	setSession(w, s)
	respond(w, statusOf(lines[0], c.x.era), lines[0])
}

func setSession(w http.ResponseWriter, s *session) {
	if s != nil && s.id != "" {
		w.Header().Set(wire.HeaderSession, s.id)
	}
}

// statusOf is the HTTP status of an answer (2026-07-28, Streamable HTTP,
// Sending Messages).
func statusOf(body []byte, era wire.Era) int {
	m, _, err := readMessage(body)
	if err != nil || len(m.Error) == 0 || era != wire.Modern {
		return http.StatusOK
	}
	switch wire.ReadError(m.Error).Code {
	case wire.CodeMethodNotFound:
		return http.StatusNotFound
	case wire.CodeInvalidParams, wire.CodeInvalidRequest, wire.CodeHeaderMismatch, wire.CodeMissingCapability, wire.CodeUnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

func respond(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(body) // an error means that the client left
}

// Hijack takes the connection of a request away from the server, for a Script
// that writes raw bytes. The Script must close it.
func Hijack(t testing.TB, w http.ResponseWriter) net.Conn {
	t.Helper()
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Errorf("hijack: %v", err)
		panic(http.ErrAbortHandler)
	}
	return conn
}

// RequestID returns the raw id of the message in body, for a Script that
// answers it.
func RequestID(body []byte) string {
	m, _, err := readMessage(body)
	if err != nil {
		return "null"
	}
	return or(m.ID, "null")
}
