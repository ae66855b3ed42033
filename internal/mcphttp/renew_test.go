package mcphttp_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Only a 404 proves that a call was not executed. A server that tells of a
// lost session in another way gets no call twice, but the next one finds a new
// session: nobody has to restart the crib.
func TestALossThatProvesNothing(t *testing.T) {
	for _, tc := range []struct {
		name string
		lost func(http.ResponseWriter, *http.Request, string)
	}{
		{"400 text", answerWith(400, "text/plain", "Bad Request: no valid session ID provided")},
		{"400 empty", answerWith(400, "", "")},
		{"400 with the request's id", answerWith(400, "application/json", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`)},
		{"400 with no id", answerWith(400, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}`)},
		{"400 with an id of its own", answerWith(400, "application/json", `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request: No valid session ID provided"}}`)},
		{"410", answerWith(410, "text/plain", "gone")},
		{"200 with an error and no id", answerWith(200, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`)},
	} {
		for _, era := range bothEras {
			t.Run(tc.name+", "+string(era)+" client", func(t *testing.T) {
				p := legacyPeer(t)
				c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
				cl := c.client(era, "s")
				works(t, cl, era, "echo")
				old := p.Last("tools/call").Header.Get(wire.HeaderSession)
				p.Forget()
				p.Script(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
					if r.Header.Get(wire.HeaderSession) != old || r.Method != http.MethodPost {
						return false
					}
					tc.lost(w, r, mcptest.RequestID(body))
					return true
				})
				arrivedBefore := arrived(p)
				// A question of the crib's own may have met the loss before: then the
				// call finds the new session.
				r := call(cl, era, "echo", `{"n":2}`)
				if n := arrived(p) - arrivedBefore; n != 1 {
					t.Errorf("the call came %d times: %s", n, r)
				}
				works(t, cl, era, "echo")
				if n := p.Requests("initialize"); n != 2 {
					t.Errorf("%d initialize came", n)
				}
			})
		}
	}
}

// What a tool says of some session of its own is not about the server's: the
// state that it keeps would be lost with that.
func TestAToolsOwnSessionIsKept(t *testing.T) {
	p := legacyPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
	cl := c.client(wire.Legacy, "s")
	works(t, cl, wire.Legacy, "echo")
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"browser session not found"}}`,
		`{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"Session not found"}],"isError":true}}`,
	} {
		answerCalls(p, answerWith(200, "application/json", body))
		if r := call(cl, wire.Legacy, "echo", `{}`); r.RPCError().Code != -32000 && r.Text() != "Session not found" {
			t.Errorf("got %s", r)
		}
	}
	p.Script(nil)
	works(t, cl, wire.Legacy, "echo")
	if n := p.Requests("initialize"); n != 1 {
		t.Errorf("%d initialize came", n)
	}
}

// A session that is lost while calls of several sorts are on their way is
// renewed once for all of them. Each is executed once, and what the server
// defines otherwise since then is told to the clients.
func TestEverythingSurvivesALostSession(t *testing.T) {
	const each = 4
	p := legacyPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
	old, modern := c.client(wire.Legacy, "s"), c.client(wire.Modern, "s")
	works(t, old, wire.Legacy, "echo")
	standing := old.Get()
	defer standing.Close()

	p.SetTools(`[{"name":"echo","description":"It learned something.","inputSchema":{"type":"object"}},{"name":"added","inputSchema":{"type":"object"}}]`)
	p.Forget()
	var all sync.WaitGroup
	for range each {
		for era, cl := range map[wire.Era]*mcptest.Client{wire.Legacy: old, wire.Modern: modern} {
			all.Go(func() {
				if r := call(cl, era, "echo", `{"n":1.0}`); r.Text() != `{"n":1.0}` {
					t.Errorf("a call: %s", r)
				}
			})
			all.Go(func() {
				if r := cl.Post(era, "resources/read", `{"uri":"text://hello"}`); r.Result() == "" {
					t.Errorf("a resource: %s", r)
				}
			})
			all.Go(func() {
				if r := cl.Post(era, "prompts/get", `{"name":"plain"}`); r.Result() == "" {
					t.Errorf("a prompt: %s", r)
				}
			})
		}
	}
	all.Wait()
	if p.Requests("initialize") != 2 || p.Sessions() != 2 || p.Executions("echo") != 1+2*each {
		t.Errorf("%d initialize, %d sessions, %d executions", p.Requests("initialize"), p.Sessions(), p.Executions("echo"))
	}
	if e := standing.Next(); method(e.Data) != "notifications/tools/list_changed" {
		t.Errorf("the client is told %+v", e)
	}
	mcptest.Eventually(t, "the new list", func() bool {
		names := toolNames(t, modern, wire.Modern)
		return len(names) == 2 && names[1] == "added"
	})
}

// Toward clients: a session that the crib does not know is gone, whatever is
// asked in it, and asking to begin anew works with any id.
func TestInitializeWithAStaleSession(t *testing.T) {
	p := legacyPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
	cl := c.enter("s")
	lost := cl.Session
	if r := cl.Delete(); r.Status/100 != 2 {
		t.Fatalf("DELETE: %v", r)
	}
	cl.Session = lost
	for _, method := range []string{"tools/list", "tools/call", "ping", "no/such/method"} {
		if r := cl.Post(wire.Legacy, method, ""); r.Status != http.StatusNotFound || r.RPCError().Code == 0 {
			t.Errorf("%s: %v", method, r)
		}
	}
	others := c.dialAs(c.newToken("other"), "s")
	others.Initialize("")
	for _, stale := range []string{lost, "no-such-session", others.Session} {
		cl.Session = ""
		r := cl.Initialize("", wire.HeaderSession+": "+stale)
		if r.Status != http.StatusOK || cl.Session == "" || cl.Session == stale {
			t.Fatalf("initialize with the id %q: %v, session %q", stale, r, cl.Session)
		}
		works(t, cl, wire.Legacy, "echo")
	}
	works(t, others, wire.Legacy, "echo") // nobody's session was taken over
	nobody := mcptest.NewClient(t, c.url+"/s")
	nobody.Session = others.Session
	if r := nobody.Post(wire.Legacy, "ping", ""); r.Status != http.StatusUnauthorized {
		t.Errorf("without a token: %v", r)
	}
}
