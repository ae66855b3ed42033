// Package mcphttp is the door for MCP clients over HTTP: Streamable HTTP in
// both eras at one address, and the plain list and call of tools beside it.
package mcphttp

import (
	"bytes"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolcrib/toolcrib/internal/alarm"
	"github.com/toolcrib/toolcrib/internal/auth"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/gateway"
	"github.com/toolcrib/toolcrib/internal/web"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Options build the door. Gateway and Auth are required.
type Options struct {
	Gateway   *gateway.Gateway
	Auth      *auth.Registry
	Log       *slog.Logger
	KeepAlive time.Duration // 0 is KeepAlive
}

// Door is the handler of /v1/mcp, /v1/mcp/{server}, /v1/tools and
// /v1/tools/{name}.
type Door struct {
	endpoint  http.Handler // of MCP
	mux       *http.ServeMux
	gw        *gateway.Gateway
	auth      *auth.Registry
	log       *slog.Logger
	keepAlive time.Duration
	quiet     *alarm.Queue   // requests whose clients have heard nothing yet
	open      sync.WaitGroup // requests, some of which go on without their clients
	requests  atomic.Int64   // open, streams included
	bodies    atomic.Int64   // bytes of their bodies
}

// New makes a Door. Host and Origin are checked before it.
func New(o Options) (*Door, error) {
	if o.Gateway == nil || o.Auth == nil {
		return nil, errors.New("mcphttp: Gateway and Auth are required")
	}
	d := &Door{mux: http.NewServeMux(), gw: o.Gateway, auth: o.Auth, log: o.Log, keepAlive: o.KeepAlive}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if d.keepAlive == 0 {
		d.keepAlive = KeepAlive
	}
	d.quiet = alarm.New(d.keepAlive)
	d.endpoint = d.identified(d.mcp)
	d.mux.Handle("GET /v1/tools", d.identified(d.listTools))
	d.mux.Handle("POST /v1/tools/{name}", d.identified(d.callTool))
	return d, nil
}

func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The address of every call is known without asking the mux.
	if _, ok := endpoint(r.URL.Path); ok {
		d.endpoint.ServeHTTP(w, r)
		return
	}
	d.mux.ServeHTTP(w, r)
}

// endpoint reports whether path is an endpoint of MCP, and of which server;
// that of all has the name "".
func endpoint(path string) (server string, ok bool) {
	rest, ok := strings.CutPrefix(path, "/v1/mcp")
	if !ok || rest == "" {
		return "", ok
	}
	server, ok = strings.CutPrefix(rest, "/")
	if !ok || server == "" || strings.Contains(server, "/") {
		return "", false
	}
	return server, true
}

func serverOf(r *http.Request) string {
	server, _ := endpoint(r.URL.Path)
	return server
}

// Wait returns when all requests have ended, also those that went on without
// their clients. The gateway is closed before.
func (d *Door) Wait() { d.open.Wait() }

// identified lets in who can say who it is. That is decided before anything
// else of a request is looked at, on every method alike.
func (d *Door) identified(next func(http.ResponseWriter, *http.Request, crib.Principal)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := d.auth.Identify(r)
		if err != nil {
			auth.Challenge(w, err)
			return
		}
		defer d.requests.Add(-1)
		if d.requests.Add(1) > MaxRequests {
			full(w)
			return
		}
		next(w, r, p)
	})
}

// Limits of what clients have open at the door, all together. A request over
// one is answered with 503 and Retry-After, before anything of it is read.
const (
	MaxRequests = 4096      // requests and streams
	MaxBodies   = 256 << 20 // bytes of the bodies of open requests; while one of unknown length comes in it counts as the greatest
)

// full refuses what would be over a limit of the door.
func full(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	web.WriteRPCError(w, http.StatusServiceUnavailable, wire.CodeInternal, "the crib has as much open as it takes; nothing was done, try again in a moment")
}

// stopping refuses what begins while the crib ends and is no message; messages
// the gateway refuses.
func stopping(w http.ResponseWriter) {
	w.Header().Set("Retry-After", gateway.StoppingRetry)
	web.WriteRPCError(w, http.StatusServiceUnavailable, wire.CodeInternal, gateway.StoppingText)
}

// body reads the body of a request, or answers why it does not. What is held
// is to be given back with letGo when the request has ended; until the length
// of a body is known it counts as the greatest.
func (d *Door) body(w http.ResponseWriter, r *http.Request, refuse func(error)) (body []byte, ok bool) {
	size := r.ContentLength
	switch {
	case size < 0:
		size = web.MaxBody
	case size > web.MaxBody:
		size = 0 // it is refused unread
	}
	if d.bodies.Add(size) > MaxBodies {
		d.bodies.Add(-size)
		full(w)
		return nil, false
	}
	var buf bytes.Buffer
	err := web.ReadBody(w, r, &buf)
	if err != nil {
		d.bodies.Add(-size)
		refuse(err)
		return nil, false
	}
	d.bodies.Add(int64(buf.Len()) - size)
	return buf.Bytes(), true
}

func (d *Door) letGo(body []byte) { d.bodies.Add(-int64(len(body))) }

func (d *Door) mcp(w http.ResponseWriter, r *http.Request, p crib.Principal) {
	switch r.Method {
	case http.MethodPost:
		d.post(w, r, p)
	case http.MethodGet:
		d.get(w, r, p)
	case http.MethodDelete:
		d.delete(w, r, p)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		web.WriteRPCError(w, http.StatusMethodNotAllowed, wire.CodeInvalidRequest, "this address takes GET, POST and DELETE")
	}
}

// post takes one message.
func (d *Door) post(w http.ResponseWriter, r *http.Request, p crib.Principal) {
	if !isJSON(r.Header) {
		web.WriteRPCError(w, http.StatusUnsupportedMediaType, wire.CodeInvalidRequest, "send Content-Type: application/json")
		return
	}
	body, ok := d.body(w, r, func(err error) {
		web.WriteRPCError(w, web.Status(err), wire.CodeInvalidRequest, crib.SafeText(err))
	})
	if !ok {
		return
	}
	defer d.letGo(body)
	m, err := wire.Scan(body)
	if err != nil {
		d.log.Info("message refused", "principal", p.String(), "err", err)
		code := wire.CodeInvalidRequest
		if errors.Is(err, wire.ErrParse) {
			code = wire.CodeParse
		}
		// The id is null, not left out: it could not be read (JSON-RPC 2.0, 5).
		writeAnswer(w, gateway.Answer{Status: http.StatusBadRequest, Body: wire.ErrorBody(nil, code, err.Error(), nil)})
		return
	}
	req := &gateway.Request{
		Principal: p, Server: serverOf(r), Era: eraOf(r.Header, m), Message: m, Header: r.Header,
		Unmirrored: r.Header[wire.HeaderRelay] != nil && r.Header.Get(wire.HeaderRelay) == wire.RelayStdio,
	}
	if req.Era == wire.Modern {
		d.modern(w, r, req)
		return
	}
	d.legacy(w, r, req)
}

func isJSON(h http.Header) bool {
	if v := h["Content-Type"]; len(v) == 1 && v[0] == asJSON[0] { // as nearly everybody spells it
		return true
	}
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && kind == asJSON[0]
}

// eraOf tells the era of a message, by what it says of itself and by its
// headers.
func eraOf(h http.Header, m wire.Message) wire.Era {
	if v := h.Get(wire.HeaderProtocolVersion); v != "" && wire.EraOf(v) != wire.Legacy && m.Method != "initialize" {
		return wire.Modern
	}
	return m.Era()
}

// modern serves a stateless message (2026-07-28, Streamable HTTP, Sending
// Messages and Server Validation).
func (d *Door) modern(w http.ResponseWriter, r *http.Request, req *gateway.Request) {
	m := req.Message
	switch m.Kind {
	case wire.ResponseKind:
		web.WriteRPCError(w, http.StatusBadRequest, wire.CodeInvalidRequest, "a client of this protocol version sends no responses")
		return
	case wire.NotificationKind:
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if refused := checkModern(r.Header, m); refused != nil {
		writeAnswer(w, *refused)
		return
	}
	(&exchange{door: d, req: req, w: w, r: r, open: newModernStream}).run()
}

// checkModern checks what every modern request must carry (2026-07-28,
// Overview, _meta; Streamable HTTP, Server Validation).
func checkModern(h http.Header, m wire.Message) *gateway.Answer {
	id := m.ID.In(m.Body)
	refuse := func(code int, text string, data []byte) *gateway.Answer {
		return &gateway.Answer{Body: wire.ErrorBody(id, code, text, data), Status: http.StatusBadRequest}
	}
	version, ok := m.Meta.ProtocolVersion.Text(m.Body)
	if !ok && wire.EraOf(h.Get(wire.HeaderProtocolVersion)) == wire.Modern {
		return refuse(wire.CodeInvalidParams, "_meta must hold "+wire.MetaProtocolVersion+", a string", nil)
	}
	if !ok {
		version = h.Get(wire.HeaderProtocolVersion)
	}
	if ok {
		if err := wire.CheckHeaders(h, &m); err != nil {
			return refuse(wire.CodeHeaderMismatch, err.Error(), nil)
		}
	}
	if wire.EraOf(version) != wire.Modern {
		data := append([]byte(`{"supported":`), supported...)
		data = append(data, `,"requested":`...)
		return refuse(wire.CodeUnsupportedVersion, "Unsupported protocol version", append(wire.AppendString(data, version), '}'))
	}
	if caps := m.Meta.ClientCapabilities.In(m.Body); len(caps) == 0 || caps[0] != '{' {
		return refuse(wire.CodeInvalidParams, "_meta must hold "+wire.MetaClientCapabilities+", an object", nil)
	}
	return nil
}

var supported = []byte(`["` + strings.Join(wire.SupportedVersions, `","`) + `"]`)

// legacy serves a message of a session, or opens one (2025-11-25, Transports).
func (d *Door) legacy(w http.ResponseWriter, r *http.Request, req *gateway.Request) {
	if req.Message.Method == "initialize" && req.Message.Kind == wire.RequestKind {
		d.initialize(w, r, req)
		return
	}
	s := d.session(w, r, req)
	if s == nil {
		return
	}
	req.Session = s
	switch req.Message.Kind {
	case wire.ResponseKind:
		s.Respond(req.Message)
		w.WriteHeader(http.StatusAccepted)
	case wire.NotificationKind:
		d.gw.Notification(req)
		w.WriteHeader(http.StatusAccepted)
	default:
		// Only the newest legacy revision tells clients to expect an event without
		// data; older ones take it for a message.
		(&exchange{door: d, req: req, w: w, r: r, open: s.Outlet().(*hub).open, prime: s.Version >= wire.Version20251125}).run()
	}
}

func (d *Door) initialize(w http.ResponseWriter, r *http.Request, req *gateway.Request) {
	s, answer := d.gw.Initialize(r.Context(), req, newHub())
	if s != nil {
		w.Header()[wire.HeaderSession] = []string{s.ID}
	}
	writeAnswer(w, answer)
}

// session finds the session of a request, or answers why there is none.
func (d *Door) session(w http.ResponseWriter, r *http.Request, req *gateway.Request) *gateway.Session {
	var id []byte
	if req.Message.Kind == wire.RequestKind {
		id = req.Message.ID.In(req.Message.Body)
	}
	key := r.Header.Get(wire.HeaderSession)
	if key == "" {
		writeAnswer(w, gateway.Answer{Status: http.StatusBadRequest, Body: wire.ErrorBody(id, wire.CodeInvalidRequest,
			"send initialize first and then its Mcp-Session-Id, or name a protocol version from "+wire.NewestModern+" on", nil)})
		return nil
	}
	s, err := d.gw.Session(req.Principal, req.Server, key)
	if err != nil {
		writeAnswer(w, gateway.Answer{Status: http.StatusNotFound, Body: wire.ErrorBody(id, wire.CodeInvalidRequest, crib.SafeText(err), nil)})
		return nil
	}
	return s
}

// get carries the stream of a session that belongs to no request, or takes up
// another one behind the event that the client read last.
func (d *Door) get(w http.ResponseWriter, r *http.Request, p crib.Principal) {
	if wire.EraOf(r.Header.Get(wire.HeaderProtocolVersion)) == wire.Modern {
		w.Header().Set("Allow", "POST")
		web.WriteRPCError(w, http.StatusMethodNotAllowed, wire.CodeInvalidRequest, "this protocol version has no GET; send subscriptions/listen")
		return
	}
	if accept := strings.ToLower(r.Header.Get("Accept")); accept != "" && !strings.Contains(accept, "text/event-stream") && !strings.Contains(accept, "text/*") && !strings.Contains(accept, "*/*") {
		web.WriteRPCError(w, http.StatusNotAcceptable, wire.CodeInvalidRequest, "send Accept: text/event-stream")
		return
	}
	s := d.session(w, r, &gateway.Request{Principal: p, Server: serverOf(r)})
	if s == nil {
		return
	}
	h := s.Outlet().(*hub)
	at, from, ok := h.standing, onward, true
	if last := r.Header.Get(wire.HeaderLastEventID); last != "" {
		var name string
		if name, from, ok = parseEventID(last); ok {
			at, from = h.find(name), from+1
		}
	}
	if at == h.standing && d.gw.Stopping() { // those of requests go on to their ends
		stopping(w)
		return
	}
	var taken chan struct{}
	if ok = ok && at != nil; ok {
		taken, ok = at.attach(from)
	}
	if !ok {
		web.WriteRPCError(w, http.StatusBadRequest, wire.CodeInvalidRequest, "the stream of this Last-Event-ID can no longer be taken up")
		return
	}
	commit(w)
	at.carry(w, taken, r.Context().Done(), d.keepAlive, s.Version >= wire.Version20251125)
}

// delete ends a session.
func (d *Door) delete(w http.ResponseWriter, r *http.Request, p crib.Principal) {
	if wire.EraOf(r.Header.Get(wire.HeaderProtocolVersion)) == wire.Modern {
		w.Header().Set("Allow", "POST")
		web.WriteRPCError(w, http.StatusMethodNotAllowed, wire.CodeInvalidRequest, "this protocol version has no sessions")
		return
	}
	s := d.session(w, r, &gateway.Request{Principal: p, Server: serverOf(r)})
	if s == nil {
		return
	}
	d.gw.EndSession(s)
	w.WriteHeader(http.StatusNoContent)
}
