package web

import (
	"net/http"
	"strings"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// Options say for whom the crib answers. The zero Options are for programs and
// pages of this machine alone.
type Options struct {
	// AllowedHosts is runtime.mcp.allowed_hosts: the values of Host that are
	// answered. An entry without a port matches every port, *.NAME every name
	// below NAME, and localhost all names by which a machine calls itself:
	// localhost, *.localhost, 127.0.0.1 and ::1. Those are what an empty list
	// means; ["*"] switches the check off.
	AllowedHosts []string

	// AllowedOrigins is runtime.cors.allowed_origins: the web pages that may
	// talk to the crib. Empty, and "*", mean http and https pages of the
	// loopback names on every port.
	AllowedOrigins []string
}

// maxEchoed is how many bytes of a refused header an answer repeats.
const maxEchoed = 120

// Guard returns the middleware that refuses a request by its Host and Origin
// headers and answers what browsers ask before they send one. It belongs in
// front of every route: a page whose name was rebound to the crib's address
// carries its own name in Host, and a page of another site its own in Origin.
//
// A request without Origin passes that check, since only browsers send one.
// Forwarded headers are not looked at. A refusal is status 403 with a
// JSON-RPC error of code CodeRefused and no id (2025-11-25, Transports,
// Security Warning). A browser's preflight is answered here and reaches no
// route.
func Guard(o Options) (Middleware, error) {
	hosts, err := newHostList(o.AllowedHosts)
	if err != nil {
		return nil, err
	}
	origins, err := newOriginList(o.AllowedOrigins)
	if err != nil {
		return nil, err
	}
	return func(next http.Handler) http.Handler {
		return &guard{hosts: hosts, origins: origins, next: next}
	}, nil
}

type guard struct {
	hosts   *hostList
	origins originList
	next    http.Handler
}

var byOrigin = []string{"Origin"}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := g.check(r); err != nil {
		WriteRPCError(w, Status(err), CodeRefused, crib.SafeText(err))
		return
	}
	h := w.Header()
	if h["Vary"] == nil {
		h["Vary"] = byOrigin
	} else {
		h.Add("Vary", "Origin")
	}
	if len(r.Header["Origin"]) > 0 {
		h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
		if isPreflight(r) {
			answerPreflight(w, r)
			return
		}
		h.Set("Access-Control-Expose-Headers", exposedHeaders)
	}
	g.next.ServeHTTP(w, r)
}

func (g *guard) check(r *http.Request) error {
	if r.Host == "" {
		return crib.Errorf(crib.Denied, "the request names no Host; send the name or address under which the crib is reached")
	}
	if !g.hosts.allows(r.Host) {
		return crib.Errorf(crib.Denied,
			"Host %q is not allowed; if the crib is to be reached under this name, add it to runtime.mcp.allowed_hosts in toolcrib.yaml", clip(r.Host))
	}
	switch sent := r.Header["Origin"]; {
	case len(sent) == 0:
		return nil
	case len(sent) > 1:
		return crib.Errorf(crib.Denied, "the request has more than one Origin header; send one, or none")
	case sent[0] == "null":
		return crib.Errorf(crib.Denied,
			`Origin "null" is never allowed: it may be any page; serve the page from a web server and add its origin to runtime.cors.allowed_origins in toolcrib.yaml`)
	case !g.origins.allows(sent[0]):
		return crib.Errorf(crib.Denied,
			`Origin %q is not allowed; if this page is to talk to the crib, add it to runtime.cors.allowed_origins in toolcrib.yaml ("*" there means pages of this machine only)`, clip(sent[0]))
	}
	return nil
}

func clip(s string) string {
	if len(s) <= maxEchoed {
		return s
	}
	return strings.ToValidUTF8(s[:maxEchoed], "") + "…"
}

const (
	// exposedHeaders are the response headers that a page may read.
	exposedHeaders = "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After"

	allowedMethods = "GET, POST, DELETE"

	// preflightAge is how long, in seconds, a browser may remember the answer
	// to a preflight.
	preflightAge = "600"
)

// isPreflight follows the Fetch standard, section 3.2.2, CORS-preflight
// request.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// answerPreflight allows what MCP needs. The names under Mcp-Param- are made
// by servers and no list holds them, and "*" does not cover Authorization, so
// the answer repeats those asked-for headers that may be sent.
func answerPreflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Add("Vary", "Access-Control-Request-Headers")
	h.Set("Access-Control-Allow-Methods", allowedMethods)
	var allowed []string
	for name := range strings.SplitSeq(r.Header.Get("Access-Control-Request-Headers"), ",") {
		if name = strings.ToLower(strings.TrimSpace(name)); mayBeSent(name) {
			allowed = append(allowed, name)
		}
	}
	if len(allowed) > 0 {
		h.Set("Access-Control-Allow-Headers", strings.Join(allowed, ", "))
	}
	h.Set("Access-Control-Max-Age", preflightAge)
	w.WriteHeader(http.StatusNoContent)
}

func mayBeSent(header string) bool {
	switch header {
	case "accept", "authorization", "content-type", "last-event-id":
		return true
	}
	return strings.HasPrefix(header, "mcp-")
}
