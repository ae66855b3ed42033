package mcphttp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

func oldSSE(t testing.TB, o mcptest.HTTPOptions) *mcptest.HTTP {
	o.OldSSE, o.Era = true, mcptest.EraLegacy
	return mcptest.NewHTTP(t, o)
}

// A server that speaks only HTTP+SSE is reached, from clients of both eras,
// however its stream is written; and one that speaks Streamable HTTP is never
// asked for that.
func TestOldSSE(t *testing.T) {
	for name, style := range map[string]mcptest.SSEStyle{
		"plain": {}, "CRLF": {End: "\r\n"}, "CR": {End: "\r"}, "BOM": {Mark: true}, "comments": {Comments: true}, "bytes": {Trickle: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := oldSSE(t, mcptest.HTTPOptions{Style: style})
			c := newCrib(t, cribOptions{}, httpServer("old", p.URL))
			for _, era := range []wire.Era{wire.Legacy, wire.Modern} {
				cl := c.client(era, "old")
				works(t, cl, era, "echo")
				if r := call(cl, era, "rpcerror", "{}"); r.RPCError().Code == 0 {
					t.Errorf("%s: an error came as %s", era, r)
				}
			}
			if n := p.Requests("initialize"); n != 1 {
				t.Errorf("%d initialize came", n)
			}
		})
	}
	p := mcptest.NewHTTP(t, mcptest.HTTPOptions{NoGET: true, Options: mcptest.Options{Era: mcptest.EraLegacy}})
	c := newCrib(t, cribOptions{}, httpServer("new", p.URL))
	works(t, c.client(wire.Legacy, "new"), wire.Legacy, "echo")
	for _, s := range p.Seen() {
		if s.HTTPMethod == http.MethodGet && s.Header.Get(wire.HeaderProtocolVersion) == "" {
			t.Error("a Streamable HTTP server was asked for the stream of the older transport")
		}
	}
}

// The address for messages is the server's own, or nothing is sent there: the
// crib's credentials would go with it.
func TestOldSSEEndpointIsOfTheSameOrigin(t *testing.T) {
	var hits atomic.Int64
	canary := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer canary.Close()
	other := strings.TrimPrefix(canary.URL, "http://")
	for _, path := range []string{
		canary.URL + "/messages", "//" + other + "/messages", "https://" + other + "/messages", "ftp://" + other + "/", "file:///etc/passwd",
		"http://user@127.0.0.1/messages", "mailto:a@b", "http://[::1", "http://127.0.0.1:1/messages", "http://localhost/messages",
	} {
		p := oldSSE(t, mcptest.HTTPOptions{OldSSEPath: path})
		c := newCrib(t, cribOptions{}, httpServer("old", p.URL))
		r := call(c.client(wire.Modern, "old"), wire.Modern, "echo", "{}")
		if codeOf(r) != crib.Unavailable || !strings.Contains(r.Text(), "refused") {
			t.Errorf("%s: %s", path, r)
		}
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
	p := oldSSE(t, mcptest.HTTPOptions{})
	c := newCrib(t, cribOptions{}, httpServer("old", p.URL))
	works(t, c.client(wire.Modern, "old"), wire.Modern, "echo")
}

// A stream that never says where to send messages is given up in time.
func TestOldSSEWithoutAnEndpoint(t *testing.T) {
	p := oldSSE(t, mcptest.HTTPOptions{})
	p.Script(func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if r.Method != http.MethodGet {
			return false
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.Write([]byte(": nothing yet\n\nevent: message\ndata: {}\n\n")) //nolint:errcheck // the crib gives up
		http.NewResponseController(w).Flush()                            //nolint:errcheck // likewise
		<-r.Context().Done()
		return true
	})
	c := newCrib(t, cribOptions{upstream: upstream.Options{ProbeTimeout: 200 * time.Millisecond}}, httpServer("old", p.URL))
	r := call(c.client(wire.Modern, "old"), wire.Modern, "echo", "{}")
	if codeOf(r) != crib.Unavailable || !strings.Contains(r.Text(), "where to send messages") {
		t.Errorf("answered with %s", r)
	}
}

// A call whose stream breaks is unknown and not sent again; one that was
// refused was not executed; and the next one finds a new stream.
func TestOldSSEFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		answer   func(w http.ResponseWriter)
		code     crib.Code
		executed bool
	}{
		"the session is gone": {func(w http.ResponseWriter) { w.WriteHeader(404) }, crib.Unavailable, false},
		"refused":             {func(w http.ResponseWriter) { w.WriteHeader(400) }, crib.Unavailable, false},
		"no credential":       {func(w http.ResponseWriter) { w.WriteHeader(401) }, crib.Unauthorized, false},
		"a fault":             {func(w http.ResponseWriter) { w.WriteHeader(502) }, crib.Unknown, false},
		"cut":                 {func(w http.ResponseWriter) { mcptest.Hijack(t, w).Close() }, crib.Unknown, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := oldSSE(t, mcptest.HTTPOptions{})
			c := newCrib(t, cribOptions{upstream: upstream.Options{ProbeTimeout: time.Second}}, httpServer("old", p.URL))
			cl := c.client(wire.Modern, "old")
			works(t, cl, wire.Modern, "echo")
			before := p.Executions("echo")
			var came atomic.Int64
			p.Script(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
				if method, _ := wire.GetText(body, "method"); method != "tools/call" || came.Load() > 0 {
					return false
				}
				came.Add(1)
				tc.answer(w)
				return true
			})
			if r := call(cl, wire.Modern, "echo", "{}"); codeOf(r) != tc.code {
				t.Errorf("answered with %s", r)
			}
			if n := p.Executions("echo"); n != before || came.Load() != 1 {
				t.Errorf("executed %d times, sent %d times", n-before, came.Load())
			}
			works(t, cl, wire.Modern, "echo")
		})
	}
	t.Run("the server ends the stream", func(t *testing.T) {
		p := oldSSE(t, mcptest.HTTPOptions{})
		c := newCrib(t, cribOptions{}, httpServer("old", p.URL))
		cl := c.client(wire.Modern, "old")
		works(t, cl, wire.Modern, "echo")
		done := make(chan *mcptest.Reply, 1)
		go func() { done <- call(cl, wire.Modern, "slow", `{"release":"/nowhere"}`) }()
		mcptest.Eventually(t, "the call is there", func() bool { return p.Requests("tools/call") >= 2 })
		p.CutConnections()
		if r := <-done; codeOf(r) != crib.Unknown {
			t.Errorf("answered with %s", r)
		}
		works(t, cl, wire.Modern, "echo")
	})
}

// A client that leaves has its call cancelled over the older transport too.
func TestOldSSECancel(t *testing.T) {
	p := oldSSE(t, mcptest.HTTPOptions{})
	c := newCrib(t, cribOptions{}, httpServer("old", p.URL))
	cl := c.client(wire.Modern, "old")
	works(t, cl, wire.Modern, "echo")
	s := cl.Open(wire.Modern, "tools/call", callParams("slow", `{"release":"/nowhere"}`))
	mcptest.Eventually(t, "the call is there", func() bool { return p.Requests("tools/call") >= 2 })
	s.Close()
	mcptest.Eventually(t, "the server was told", func() bool { return len(p.Cancelled()) == 1 })
}
