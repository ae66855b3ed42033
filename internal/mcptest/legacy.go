package mcptest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// codeNoSession is what servers in the wild answer about sessions; the
// protocol names no code.
const codeNoSession = -32000

// postLegacy serves a message in its session.
func (h *HTTP) postLegacy(w http.ResponseWriter, r *http.Request, x *exchange) {
	if x.msg.Method == "initialize" {
		s := h.newSession()
		x.conn = s.conn
		h.reply(w, r, x, s)
		return
	}
	s := h.sessionOf(w, r, x.msg.ID)
	if s == nil {
		return
	}
	x.conn = s.conn
	h.reply(w, r, x, nil)
}

func (h *HTTP) newSession() *session {
	s := &session{channel: h.newStream()}
	s.conn = newConn(s.channel.add)
	if h.opts.NoSession {
		return s
	}
	s.id = fmt.Sprintf("session-%d", h.next())
	h.addConn(s.conn)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opened++
	h.sessions[s.id] = s
	return s
}

// sessionOf finds the session of a request. It answers the request and returns
// nil if there is none.
func (h *HTTP) sessionOf(w http.ResponseWriter, r *http.Request, id json.RawMessage) *session {
	if h.opts.NoSession {
		s := h.newSession()
		s.conn.initialize(wire.NewestLegacy, nil)
		return s
	}
	name := r.Header.Get(wire.HeaderSession)
	if name == "" {
		respond(w, http.StatusBadRequest, refuse(codeNoSession, "Bad Request: no valid session id").body(id, ""))
		return nil
	}
	h.mu.Lock()
	s := h.sessions[name]
	h.mu.Unlock()
	if s == nil {
		respond(w, http.StatusNotFound, refuse(codeNoSession, "session not found").body(id, ""))
		return nil
	}
	if problem := h.checkVersion(r.Header, s); problem != "" {
		respond(w, http.StatusBadRequest, refuse(codeNoSession, "%s", problem).body(id, ""))
		return nil
	}
	return s
}

// checkVersion compares the version header with what was negotiated
// (2025-11-25, Streamable HTTP, Protocol Version Header).
func (h *HTTP) checkVersion(header http.Header, s *session) string {
	s.conn.mu.Lock()
	negotiated := s.conn.version
	s.conn.mu.Unlock()
	got := header.Get(wire.HeaderProtocolVersion)
	if got == "" && h.opts.Strict && negotiated >= wire.Version20250618 {
		return "no MCP-Protocol-Version header"
	}
	if got != "" && got != negotiated {
		return fmt.Sprintf("MCP-Protocol-Version is %s, negotiated was %s", got, negotiated)
	}
	return ""
}

// get serves the channel of a session, or resumes a stream.
func (h *HTTP) get(w http.ResponseWriter, r *http.Request) {
	if !strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	s := h.sessionOf(w, r, nil)
	if s == nil {
		return
	}
	out := &writer{w: w, style: h.opts.Style, ids: h.opts.EventIDs}
	if last := r.Header.Get(wire.HeaderLastEventID); last != "" {
		h.resume(w, r, out, last)
		return
	}
	from, ok := s.channel.begin()
	if !ok {
		w.WriteHeader(http.StatusConflict)
		return
	}
	defer s.channel.end()
	out.start(s.channel)
	out.copy(r.Context(), s.channel, from)
}

func (h *HTTP) resume(w http.ResponseWriter, r *http.Request, out *writer, last string) {
	id, n, ok := parseEventID(last)
	h.mu.Lock()
	st := h.streams[id]
	h.mu.Unlock()
	if !ok || st == nil || !h.opts.EventIDs {
		respond(w, http.StatusBadRequest, refuse(codeNoSession, "no such event id").body(nil, ""))
		return
	}
	out.style.StartSSE(w)
	out.copy(r.Context(), st, n+1)
}

func (h *HTTP) delete(w http.ResponseWriter, r *http.Request) {
	s := h.sessionOf(w, r, nil)
	if s == nil {
		return
	}
	h.mu.Lock()
	h.dropLocked(s.id, s)
	h.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

// serveOldSSE is the HTTP+SSE transport of 2024-11-05: a GET opens the stream,
// whose first event names where to POST, and everything comes on the stream.
func (h *HTTP) serveOldSSE(w http.ResponseWriter, r *http.Request, body []byte) {
	name := r.URL.Query().Get("session")
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/mcp":
		s := h.newSession()
		path := h.opts.OldSSEPath
		if path == "" {
			path = "/messages?session=" + s.id
		}
		h.opts.Style.StartSSE(w)
		h.opts.Style.WriteSSE(w, Event{Name: "endpoint", Data: path})
		if h.opts.OldSSEAgain != "" {
			h.opts.Style.WriteSSE(w, Event{Name: "endpoint", Data: h.opts.OldSSEAgain})
		}
		(&writer{w: w, style: h.opts.Style}).copy(r.Context(), s.channel, 0)
	case r.Method == http.MethodPost && r.URL.Path == "/messages":
		h.mu.Lock()
		s := h.sessions[name]
		h.mu.Unlock()
		m, par, err := readMessage(body)
		if s == nil || err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		h.postOldSSE(&exchange{ctx: h.ctx, conn: s.conn, msg: m, par: par, era: wire.Legacy, send: s.channel.add})
		w.WriteHeader(http.StatusAccepted)
	case r.URL.Path == "/mcp":
		w.WriteHeader(http.StatusMethodNotAllowed)
	default:
		http.NotFound(w, r)
	}
}

func (h *HTTP) postOldSSE(x *exchange) {
	c := &call{x: x, stream: newStream(""), server: h.Server}
	c.cut, c.cutNow = h.ctx, func() {}
	x.carrier = c
	h.work.Go(func() {
		if body := h.serve(x).body(x.msg.ID, x.era); body != nil {
			x.send(body)
		}
	})
}

// checkHeaders compares the headers of a modern request with its body
// (2026-07-28, Streamable HTTP, Request Headers).
func checkHeaders(header http.Header, x *exchange) string {
	accept := header.Get("Accept")
	if !strings.Contains(accept, "application/json") || !strings.Contains(accept, "text/event-stream") {
		return "Accept does not name both application/json and text/event-stream"
	}
	want := map[string]string{wire.HeaderProtocolVersion: x.par.version(), wire.HeaderMethod: x.msg.Method}
	switch x.msg.Method {
	case "tools/call", "prompts/get":
		want[wire.HeaderName] = x.par.Name
	case "resources/read":
		want[wire.HeaderName] = x.par.URI
	}
	if x.par.Name == "headed" && x.msg.Method == "tools/call" {
		for param, value := range headedParams(x.par.Arguments) {
			want[wire.HeaderParamPrefix+param] = value
		}
	}
	for name, value := range want {
		if problem := checkHeader(header, name, value); problem != "" {
			return problem
		}
	}
	for name := range header {
		if _, ok := want[name]; !ok && strings.HasPrefix(name, wire.HeaderParamPrefix) {
			return "unexpected header " + name
		}
	}
	return ""
}

func checkHeader(header http.Header, name, want string) string {
	values := header.Values(name)
	if len(values) != 1 {
		return fmt.Sprintf("%d headers %s", len(values), name)
	}
	got, err := wire.DecodeHeader(values[0])
	if err != nil || got != want {
		return fmt.Sprintf("header %s is %q, the body says %q", name, values[0], want)
	}
	return ""
}

// headedParams are the arguments of the tool headed that have a header.
func headedParams(arguments json.RawMessage) map[string]string {
	var args struct {
		Region *string      `json:"region"`
		Count  *json.Number `json:"count"`
	}
	out := map[string]string{}
	if json.Unmarshal(arguments, &args) != nil {
		return out
	}
	if args.Region != nil {
		out["Region"] = *args.Region
	}
	if args.Count != nil {
		out["Count"] = args.Count.String()
	}
	return out
}
