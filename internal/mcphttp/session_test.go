package mcphttp_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// dial makes a raw client of the aggregate, or of the own endpoint of the
// server that is named.
func (c *cribT) dial(server string) *mcptest.Client { return c.dialAs(c.token, server) }

// dialAs is dial for the principal of another token.
func (c *cribT) dialAs(token, server string) *mcptest.Client {
	url := c.url
	if server != "" {
		url += "/" + server
	}
	cl := mcptest.NewClient(c.t, url)
	cl.Header.Set("Authorization", "Bearer "+token)
	return cl
}

// enter is dial for a legacy client, with its session open.
func (c *cribT) enter(server string) *mcptest.Client {
	c.t.Helper()
	return c.opened(c.dial(server))
}

func (c *cribT) opened(cl *mcptest.Client) *mcptest.Client {
	c.t.Helper()
	if r := cl.Initialize(""); cl.Session == "" {
		c.t.Fatalf("initialize: %v", r)
	}
	return cl
}

// newToken makes another principal.
func (c *cribT) newToken(name string) string {
	c.t.Helper()
	token, err := c.auth.Create(name)
	if err != nil {
		c.t.Fatal(err)
	}
	return token
}

// shared gives a server's page a way to share its connections, and what it may
// ask of a client.
func shared(how servers.Share, may ...string) func(*servers.Definition) {
	return func(d *servers.Definition) { d.Dialogue = servers.Dialogue{Share: how, May: may} }
}

// legacyPeer starts an HTTP peer that speaks only the legacy era.
func legacyPeer(t *testing.T) *mcptest.HTTP {
	return mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: mcptest.EraLegacy}})
}

// modernPeer starts an HTTP peer that speaks only the modern era.
func modernPeer(t *testing.T) *mcptest.HTTP {
	return mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: mcptest.EraModern}})
}

// callOf is the params object of a tools/call. more are raw members of params.
func callOf(tool, arguments string, more ...string) string {
	return `{"name":"` + tool + `","arguments":` + arguments + strings.Join(append([]string{""}, more...), ",") + `}`
}

// gate holds calls of the tool slow until it is opened.
type gate struct {
	t    *testing.T
	path string
}

func newGate(t *testing.T) gate { return gate{t, filepath.Join(t.TempDir(), "open")} }

// args are the arguments of slow; more are raw members.
func (g gate) args(more ...string) string {
	return `{"release":` + string(wire.Quote(g.path)) + strings.Join(append([]string{""}, more...), ",") + `}`
}

func (g gate) open() {
	g.t.Helper()
	if err := os.WriteFile(g.path, nil, 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// executions waits until the tool has been executed n times.
func executions(t *testing.T, peer *mcptest.HTTP, tool string, n int) {
	t.Helper()
	mcptest.Eventually(t, fmt.Sprintf("execution %d of %s", n, tool), func() bool { return peer.Executions(tool) >= n })
}

func TestInitialize(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
	for _, server := range []string{"", "fake"} {
		for asked, want := range map[string]string{
			"2026-07-28": "2025-11-25", // spoken without initialize
			"2099-01-01": "2025-11-25",
			"nonsense":   "2025-11-25",
			"2025-11-25": "2025-11-25",
			"2025-06-18": "2025-06-18",
			"2025-03-26": "2025-03-26",
			"2024-11-05": "2024-11-05",
		} {
			t.Run(server+" "+asked, func(t *testing.T) {
				cl := c.dial(server)
				r := cl.Initialize(asked)
				if r.Status != http.StatusOK || r.Header.Get("Content-Type") != "application/json" || cl.Version != want {
					t.Fatalf("%v, want %s", r, want)
				}
				if len(cl.Session) < 22 || strings.ContainsFunc(cl.Session, func(c rune) bool { return c < '!' || c > '~' }) {
					t.Errorf("the session id is %q", cl.Session)
				}
				if info := string(wire.GetPath([]byte(r.Result()), "serverInfo", "name")); info == "" {
					t.Errorf("no serverInfo in %v", r)
				}
				if r := cl.Post(wire.Legacy, "ping", ""); r.Result() != "{}" {
					t.Errorf("ping: %v", r)
				}
			})
		}
	}
}

func TestInitializeWithoutWhatItNeeds(t *testing.T) {
	c := newCrib(t, cribOptions{})
	cl := c.dial("")
	if r := cl.Post(wire.Legacy, "initialize", `{"capabilities":{}}`); r.RPCError().Code != wire.CodeInvalidParams || r.Header.Get(wire.HeaderSession) != "" {
		t.Errorf("without a version: %v", r)
	}
	if r := c.dial("none").Initialize(""); r.RPCError().Code != wire.CodeInvalidParams || r.Header.Get(wire.HeaderSession) != "" {
		t.Errorf("of a server that is not there: %v", r)
	}
	if n := c.gw.Sessions(); n != 0 {
		t.Errorf("%d sessions are open", n)
	}
}

// A session is its principal's and its endpoint's: to everybody else it looks
// as if there were none.
func TestSessionIsBound(t *testing.T) {
	peer := legacyPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
	mine, fakes := c.enter(""), c.enter("fake")
	with := func(token, server, session string) *mcptest.Client {
		cl := c.dialAs(token, server)
		cl.Session = session
		return cl
	}
	other := c.newToken("other")
	for _, tc := range []struct {
		name   string
		client *mcptest.Client
		status int
	}{
		{"no id", with(c.token, "", ""), http.StatusBadRequest},
		{"an unknown id", with(c.token, "", "AAAAAAAAAAAAAAAAAAAAAAAAAA"), http.StatusNotFound},
		{"of another principal", with(other, "", mine.Session), http.StatusNotFound},
		{"of another endpoint", with(c.token, "fake", mine.Session), http.StatusNotFound},
		{"of the aggregate", with(c.token, "", fakes.Session), http.StatusNotFound},
		{"of an endpoint that is not there", with(c.token, "none", mine.Session), http.StatusNotFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := tc.client.Post(wire.Legacy, "ping", "")
			if r.Status != tc.status || r.RPCError().Code != wire.CodeInvalidRequest || string(wire.Get(r.Body, "id")) != "1" {
				t.Errorf("POST: %v, want %d", r, tc.status)
			}
			if r := tc.client.Post(wire.Legacy, "notifications/initialized", ""); r.Status != tc.status {
				t.Errorf("a notification: %v, want %d", r, tc.status)
			}
			if r := tc.client.Respond(`"crib-1"`, "{}"); r.Status != tc.status {
				t.Errorf("a response: %v, want %d", r, tc.status)
			}
			s := tc.client.Get()
			s.Close()
			if s.Status != tc.status {
				t.Errorf("GET: %v, want %d", &s.Reply, tc.status)
			}
			if r := tc.client.Delete(); r.Status != tc.status {
				t.Errorf("DELETE: %v, want %d", r, tc.status)
			}
		})
	}
	for _, cl := range []*mcptest.Client{mine, fakes} {
		if r := cl.Post(wire.Legacy, "ping", ""); r.Status != http.StatusOK {
			t.Errorf("the session did not survive: %v", r)
		}
	}
}

func TestSessionEndsByDelete(t *testing.T) {
	c := newCrib(t, cribOptions{})
	cl := c.enter("")
	standing := cl.Get()
	defer standing.Close()
	if r := cl.Delete(); r.Status != http.StatusNoContent || len(r.Body) != 0 {
		t.Fatalf("DELETE: %v", r)
	}
	for _, open := standing.Any(); open; _, open = standing.Any() {
	}
	if r := cl.Post(wire.Legacy, "ping", ""); r.Status != http.StatusNotFound {
		t.Errorf("POST: %v", r)
	}
	if r := cl.Delete(); r.Status != http.StatusNotFound {
		t.Errorf("DELETE again: %v", r)
	}
	stale := cl.Session
	r := cl.Post(wire.Legacy, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{}}`)
	if id := r.Header.Get(wire.HeaderSession); r.Status != http.StatusOK || id == "" || id == stale {
		t.Errorf("initialize with a stale id: %v, session %q", r, id)
	}
}

// cribGoroutines counts the goroutines that work for sessions.
func cribGoroutines() int {
	buf := make([]byte, 8<<20)
	n := 0
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, "toolcrib/internal/upstream") || strings.Contains(stack, "toolcrib/internal/gateway") ||
			strings.Contains(stack, "toolcrib/internal/mcphttp.(") {
			n++
		}
	}
	return n
}

// Clients do not say goodbye: what a session holds, the crib gives back when
// nobody uses it any more, also while a stream of it hangs open.
func TestIdleSessionsEnd(t *testing.T) {
	peer := legacyPeer(t)
	c := newCrib(t, cribOptions{idle: 700 * time.Millisecond}, httpServer("fake", peer.URL, shared(servers.ShareSession)))
	c.enter("fake").Delete() // the connection that found out the era stays
	mcptest.Eventually(t, "one connection", func() bool { return peer.LiveSessions() == 1 && c.gw.Sessions() == 0 })
	before, connections := cribGoroutines(), peer.Sessions()

	const clients = 20
	var standing []*mcptest.Stream
	for range clients {
		cl := c.enter("fake")
		if r := cl.Post(wire.Legacy, "tools/call", callOf("echo", "{}")); r.Text() != "{}" {
			t.Fatalf("call: %v", r)
		}
		standing = append(standing, cl.Get())
	}
	if n := peer.Sessions() - connections; n != clients {
		t.Errorf("%d connections to the server for %d sessions", n, clients)
	}
	mcptest.Eventually(t, "the end of all sessions", func() bool { return c.gw.Sessions() == 0 && peer.LiveSessions() == 1 })
	for _, s := range standing {
		for _, open := s.Any(); open; _, open = s.Any() {
		}
		s.Close()
	}
	mcptest.Eventually(t, "the end of their goroutines", func() bool { return cribGoroutines() <= before })
}

// A session in use does not end, however long its one call takes.
func TestBusySessionStays(t *testing.T) {
	t.Parallel()
	peer := legacyPeer(t)
	c := newCrib(t, cribOptions{idle: 800 * time.Millisecond}, httpServer("fake", peer.URL))
	cl := c.enter("fake")
	hold := newGate(t)
	done := make(chan *mcptest.Reply, 1)
	go func() { done <- cl.Post(wire.Legacy, "tools/call", callOf("slow", hold.args())) }()
	executions(t, peer, "slow", 1)
	idle := c.dialAs(c.newToken("other"), "")
	idle.Initialize("")
	mcptest.Eventually(t, "the end of the idle session", func() bool { return c.gw.Sessions() == 1 })
	hold.open()
	if r := <-done; r.Text() != "released" {
		t.Errorf("call: %v", r)
	}
	mcptest.Eventually(t, "the end of the session", func() bool { return c.gw.Sessions() == 0 })
}

func TestSameIDInFlight(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
	for _, era := range []wire.Era{wire.Legacy, wire.Modern} {
		t.Run(string(era), func(t *testing.T) {
			cl := c.enter("fake")
			hold := newGate(t)
			before := peer.Executions("slow")
			first := make(chan *mcptest.Reply, 1)
			go func() { first <- replyTo(cl.OpenID(era, "7", "tools/call", callOf("slow", hold.args()))) }()
			executions(t, peer, "slow", before+1)

			second := replyTo(cl.OpenID(era, "7", "tools/call", callOf("echo", `{"n":2}`)))
			if era == wire.Modern && second.Text() != `{"n":2}` {
				t.Errorf("the second one: %v", second)
			}
			if era == wire.Legacy && (second.Status != http.StatusBadRequest || second.RPCError().Code != wire.CodeInvalidRequest) {
				t.Errorf("the second one: %v", second)
			}
			if text := replyTo(cl.OpenID(era, `"7"`, "tools/call", callOf("echo", `{"n":3}`))); text.Text() != `{"n":3}` {
				t.Errorf("the same id as a string: %v", text)
			}
			hold.open()
			if r := <-first; r.Text() != "released" || string(wire.Get([]byte(r.Message()), "id")) != "7" {
				t.Errorf("the first one: %v", r)
			}
			if r := replyTo(cl.OpenID(era, "7", "tools/call", callOf("echo", `{"n":4}`))); r.Text() != `{"n":4}` {
				t.Errorf("the same id afterwards: %v", r)
			}
		})
	}
}

// replyTo reads a stream to its end.
func replyTo(s *mcptest.Stream) *mcptest.Reply {
	defer s.Close()
	if s.Events == nil && s.Header.Get("Content-Type") == "text/event-stream" {
		s.Events = []mcptest.Event{}
	}
	for e, ok := s.Any(); ok; e, ok = s.Any() {
		s.Events = append(s.Events, e)
	}
	return &s.Reply
}

// An id comes back as it was spelled.
func TestIDs(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
	cl := c.enter("")
	for _, era := range []wire.Era{wire.Legacy, wire.Modern} {
		for _, id := range []string{`0`, `"0"`, `-1`, `1`, `"1"`, `9007199254740993`, `"a<&>\u2028\/"`, `""`} {
			for _, rq := range []struct{ method, params string }{
				{"tools/call", callOf("fake__echo", "{}")}, {"tools/list", ""}, {"tools/call", callOf("none", "{}")}, {"resources/read", `{"uri":"crib.fake+text://hello"}`},
			} {
				r := replyTo(cl.OpenID(era, id, rq.method, rq.params))
				if r.Message() == "" || string(wire.Get([]byte(r.Message()), "id")) != id {
					t.Errorf("%s, id %s of %s: %v", era, id, rq.method, r)
				}
			}
		}
		for _, id := range []string{`null`, `1.0`, `1.5`, `1e3`, `{}`, `[1]`, `true`} {
			r := cl.OpenID(era, id, "tools/list", "")
			if r.Status != http.StatusBadRequest || r.RPCError().Code != wire.CodeInvalidRequest {
				t.Errorf("%s, id %s: %v", era, id, &r.Reply)
			}
		}
	}
}

// A hundred clients that all use the id 1 get their own answers.
func TestHundredClientsWithOneID(t *testing.T) {
	peer := legacyPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("far", peer.URL), stdioServer("near", mcptest.Peer()))
	var all sync.WaitGroup
	for n := range 100 {
		all.Go(func() {
			cl := c.dial("")
			era := []wire.Era{wire.Legacy, wire.Modern}[n%2]
			if era == wire.Legacy {
				cl.Initialize("")
			}
			tool := []string{"far__echo", "near__echo"}[n/2%2]
			args := fmt.Sprintf(`{"n":%d}`, n)
			if r := replyTo(cl.OpenID(era, "1", "tools/call", callOf(tool, args))); r.Text() != args {
				t.Errorf("client %d: %v", n, r)
			}
		})
	}
	all.Wait()
}

// Who has no token learns nothing, whatever is sent.
func TestNobodyGetsIn(t *testing.T) {
	c := newCrib(t, cribOptions{})
	for _, path := range []string{"", "/none"} {
		for _, method := range []string{"POST", "GET", "DELETE", "PUT", "PATCH", "OPTIONS", "HEAD"} {
			for _, header := range []string{"", "Bearer tcb_no", "Basic eDp5"} {
				cl := mcptest.NewClient(t, c.url+path)
				r := cl.Raw(method, `[`, "Authorization: "+header, "Content-Type: text/plain")
				if r.Status != http.StatusUnauthorized || !strings.HasPrefix(r.Header.Get("WWW-Authenticate"), "Bearer") {
					t.Errorf("%s %s with %q: %v", method, path, header, r)
				}
			}
		}
	}
	for _, rq := range [][2]string{{"GET", "/v1/tools"}, {"POST", "/v1/tools/none"}} {
		cl := mcptest.NewClient(t, strings.TrimSuffix(c.url, "/v1/mcp")+rq[1])
		if r := cl.Raw(rq[0], ""); r.Status != http.StatusUnauthorized {
			t.Errorf("%s %s: %v", rq[0], rq[1], r)
		}
	}
	for _, method := range []string{"PUT", "PATCH", "OPTIONS", "HEAD"} {
		if r := c.dial("").Raw(method, ""); r.Status != http.StatusMethodNotAllowed || r.Header.Get("Allow") != "GET, POST, DELETE" {
			t.Errorf("%s with a token: %v", method, r)
		}
	}
}

func TestContentType(t *testing.T) {
	c := newCrib(t, cribOptions{})
	cl := c.enter("")
	for kind, status := range map[string]int{
		"application/json":               http.StatusOK,
		"Application/JSON;charset=UTF-8": http.StatusOK,
		"text/plain":                     http.StatusUnsupportedMediaType,
		"application/jsonx":              http.StatusUnsupportedMediaType,
		"application/json, text/plain":   http.StatusUnsupportedMediaType,
		"":                               http.StatusUnsupportedMediaType,
	} {
		for _, era := range []wire.Era{wire.Legacy, wire.Modern} {
			if r := cl.Post(era, "tools/list", "", "Content-Type: "+kind); r.Status != status {
				t.Errorf("%s, %q: %v, want %d", era, kind, r, status)
			}
		}
	}
}

func TestNotificationsGetNoBody(t *testing.T) {
	c := newCrib(t, cribOptions{})
	cl := c.enter("")
	answers := map[string]*mcptest.Reply{
		"legacy":      cl.Post(wire.Legacy, "notifications/initialized", ""),
		"of nobody":   cl.Post(wire.Legacy, "notifications/vendor/thing", `{"a":1}`),
		"cancelled":   cl.Post(wire.Legacy, "notifications/cancelled", `{"requestId":1}`),
		"modern":      cl.Post(wire.Modern, "notifications/cancelled", `{"requestId":1}`),
		"a response":  cl.Respond("1", "{}"),
		"with params": cl.Post(wire.Legacy, "notifications/roots/list_changed", `{}`),
	}
	for name, r := range answers {
		if r.Status != http.StatusAccepted || len(r.Body) != 0 || r.Header.Get("Content-Length") != "0" || r.Header.Get("Content-Type") != "" {
			t.Errorf("%s: %v %v", name, r, r.Header)
		}
	}
}

// What is no message, or could be read as two, reaches no server.
func TestMalformedMessages(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
	cl := c.enter("fake")
	for body, code := range map[string]int{
		``:                                wire.CodeParse,
		`{"jsonrpc":"2.0","id":1`:         wire.CodeParse,
		`{"jsonrpc":"2.0","id":1}` + "{}": wire.CodeParse,
		` [{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}]`: wire.CodeInvalidRequest,
		`[]`: wire.CodeInvalidRequest,
		`42`: wire.CodeInvalidRequest,
		`{"jsonrpc":"1.0","id":1,"method":"tools/call","params":{"name":"echo"}}`:                                     wire.CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","METHOD":"tools/call","params":{"name":"echo"}}`:               wire.CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","Name":"raw"}}`:                        wire.CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{},"name":"raw"}}`:         wire.CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","param\u017f":{"name":"raw"},"params":{"name":"echo"}}`:        wire.CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["echo"]}`:                                            wire.CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":1,"a":2}}}`:           wire.CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":"` + "\xc3(" + `"}}}`: wire.CodeParse,
	} {
		for _, era := range []string{"Mcp-Protocol-Version: 2026-07-28", "Mcp-Session-Id: " + cl.Session} {
			r := cl.Raw(http.MethodPost, body, "Content-Type: application/json", era)
			if r.Status != http.StatusBadRequest || !slices.Contains([]int{wire.CodeParse, wire.CodeInvalidRequest}, r.RPCError().Code) {
				t.Errorf("%s\n%v", body, r)
			} else if r.RPCError().Code != code {
				t.Errorf("%s\n%v, want %d", body, r, code)
			}
		}
	}
	if n := peer.Requests("tools/call"); n != 0 {
		t.Errorf("%d calls reached the server", n)
	}
}
