package mcphttp_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Clients choose their tokens without knowing of each other. On a connection
// that they share each gets its own progress, under its own token as it
// spelled that.
func TestProgressFindsItsClient(t *testing.T) {
	for _, era := range []string{mcptest.EraLegacy, mcptest.EraModern} {
		t.Run(era, func(t *testing.T) {
			c := newCrib(t, cribOptions{}, stdioServer("near", mcptest.Peer("-era", era)))
			clients := []struct {
				token string
				ticks int
			}{{`1`, 3}, {`1`, 5}, {`"1"`, 7}, {`9007199254740993`, 4}, {`"a<&>\u2028"`, 6}}
			other := c.newToken("other")
			hold := newGate(t)
			var all sync.WaitGroup
			var started sync.WaitGroup
			for i, client := range clients {
				started.Add(1)
				all.Go(func() {
					cl := c.dialAs([]string{c.token, other}[i%2], "near")
					clientEra := wire.Era(era)
					if clientEra == wire.Legacy {
						c.opened(cl)
					}
					s := cl.Open(clientEra, "tools/call", callOf("slow", hold.args(fmt.Sprintf(`"ticks":%d`, client.ticks)), token(client.token)))
					defer s.Close()
					for n := range client.ticks {
						want := fmt.Sprintf(`"params":{"progressToken":%s,"progress":%d,"total":%d.0,`, client.token, n+1, client.ticks)
						if e := s.Next(); !strings.Contains(e.Data, want) {
							t.Errorf("client %d got %s, want %s", i, e.Data, want)
						}
					}
					started.Done()
					if e := s.Next(); !strings.Contains(e.Data, `"text":"released"`) {
						t.Errorf("client %d got %s", i, e.Data)
					}
				})
			}
			started.Wait()
			hold.open()
			all.Wait()
		})
	}
}

// notifyCall calls the tool that sends the notification.
func notifyCall(name, params string, more ...string) string {
	return callOf("notify", `{"method":"`+name+`","params":`+params+`}`, more...)
}

// A request without a token gets no progress, and progress of nothing that is
// open goes nowhere.
func TestProgressThatNobodyAskedFor(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	c := newCrib(t, cribOptions{}, httpServer("far", peer.URL), stdioServer("near", mcptest.Peer("-era", "legacy")))
	for _, server := range []string{"far", "near"} {
		cl := c.enter(server)
		for _, era := range []wire.Era{wire.Legacy, wire.Modern} {
			for _, params := range []string{
				`{"progressToken":1,"progress":1}`, `{"progressToken":2,"progress":1}`, `{"progressToken":3,"progress":1}`,
				`{"progressToken":"none","progress":1}`, `{"progress":1}`,
			} {
				if r := cl.Post(era, "tools/call", notifyCall("notifications/progress", params)); r.Text() != "notified" || len(r.Others()) != 0 {
					t.Errorf("%s client of %s, %s: %v", era, server, params, r)
				}
			}
		}
	}
}

// A modern client says with each request whether it wants log messages, and
// from which level on; a server that sends more is kept from it.
func TestModernLogLevel(t *testing.T) {
	modern := modernPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("modern", modern.URL), httpServer("legacy", legacyPeer(t).URL))
	for _, server := range []string{"modern", "legacy"} {
		cl := c.dial(server)
		for _, tc := range []struct {
			asked, sent string
			want        bool
		}{
			{"", "emergency", false},
			{"error", "warning", false},
			{"error", "error", true},
			{"error", "alert", true},
			{"debug", "debug", true},
		} {
			params := notifyCall("notifications/message", `{"level":"`+tc.sent+`","data":{"big":9007199254740993},"x-l":"keep"}`)
			if tc.asked != "" {
				params = notifyCall("notifications/message", `{"level":"`+tc.sent+`","data":{"big":9007199254740993},"x-l":"keep"}`,
					`"_meta":{"`+wire.MetaLogLevel+`":"`+tc.asked+`"}`)
			}
			r := cl.Post(wire.Modern, "tools/call", params)
			if r.Text() != "notified" || (len(r.Others()) == 1) != tc.want {
				t.Errorf("%s: asked for %q, sent was %s: %v", server, tc.asked, tc.sent, r)
			}
			for _, m := range r.Others() {
				if !strings.Contains(m, `"data":{"big":9007199254740993},"x-l":"keep"`) {
					t.Errorf("got %s", m)
				}
			}
		}
	}
	if seen := string(modern.Last("tools/call").Body); !strings.Contains(seen, `"`+wire.MetaLogLevel+`":"debug"`) {
		t.Errorf("the server was asked by %s", seen)
	}
}

func setLevel(t *testing.T, cl *mcptest.Client, level string) {
	t.Helper()
	if r := cl.Post(wire.Legacy, "logging/setLevel", `{"level":"`+level+`"}`); r.Result() != "{}" {
		t.Errorf("setLevel %s: %v", level, r)
	}
}

// A legacy client sets its level once; two that share a server each get what
// they asked for.
func TestLegacyLogLevel(t *testing.T) {
	peer := legacyPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
	for _, server := range []string{"fake", ""} {
		tool := func(call string) string {
			if server == "" {
				return strings.Replace(call, `"name":"`, `"name":"fake__`, 1)
			}
			return call
		}
		quiet, loud, unset := c.enter(server), c.enter(server), c.enter(server)
		setLevel(t, loud, "debug")
		setLevel(t, quiet, "error")
		for _, tc := range []struct {
			name   string
			client *mcptest.Client
			sent   string
			want   int
		}{
			{"quiet", quiet, "debug", 0}, {"quiet", quiet, "warning", 0}, {"quiet", quiet, "error", 1},
			{"loud", loud, "debug", 1}, {"loud", loud, "error", 1},
			{"unset", unset, "error", 1},
		} {
			if r := tc.client.Post(wire.Legacy, "tools/call", tool(notifyCall("notifications/message", `{"level":"`+tc.sent+`","data":1}`))); len(r.Others()) != tc.want || r.Text() != "notified" {
				t.Errorf("%s at %q, sent was %s: %v", tc.name, server, tc.sent, r)
			}
		}
		if r := quiet.Post(wire.Legacy, "logging/setLevel", `{"level":"loud"}`); r.RPCError().Code != wire.CodeInvalidParams {
			t.Errorf("a level that is none: %v", r)
		}
	}
}

// On a connection that several calls share, a log message says not whose it
// is. It goes to the only call there is, or to nobody.
func TestLogMessagesNeedAnOwner(t *testing.T) {
	c := newCrib(t, cribOptions{}, stdioServer("near", mcptest.Peer("-era", "legacy")))
	one, two := c.enter("near"), c.enter("near")
	message := notifyCall("notifications/message", `{"level":"error","data":1}`)
	if r := one.Post(wire.Legacy, "tools/call", message); len(r.Others()) != 1 {
		t.Errorf("the only call: %v", r)
	}
	hold := newGate(t)
	s := two.Open(wire.Legacy, "tools/call", callOf("slow", hold.args(`"ticks":1`), token("1")))
	s.Next()
	if r := one.Post(wire.Legacy, "tools/call", message); len(r.Others()) != 0 || r.Text() != "notified" {
		t.Errorf("beside another call: %v", r)
	}
	hold.open()
	if left := rest(s); len(left) != 1 {
		t.Errorf("the other call got %q", left)
	}
	if r := one.Post(wire.Legacy, "tools/call", message); len(r.Others()) != 1 {
		t.Errorf("the only call again: %v", r)
	}

	// Over HTTP the stream of the call proves it.
	peer := legacyPeer(t)
	far := newCrib(t, cribOptions{}, httpServer("far", peer.URL))
	busy := newGate(t)
	waiting := far.enter("far").Open(wire.Legacy, "tools/call", callOf("slow", busy.args(`"ticks":1`), token("1")))
	waiting.Next()
	if r := far.enter("far").Post(wire.Legacy, "tools/call", message); len(r.Others()) != 1 {
		t.Errorf("over HTTP beside another call: %v", r)
	}
	busy.open()
	if left := rest(waiting); len(left) != 1 {
		t.Errorf("the other call got %q", left)
	}
}

// The server that several clients share logs for the one who wants most.
func TestSharedServerLogsForTheMostCurious(t *testing.T) {
	peer := legacyPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
	loud, quiet := c.enter("fake"), c.enter("fake")
	setLevel(t, loud, "debug")
	setLevel(t, quiet, "error")
	if r := loud.Post(wire.Legacy, "tools/call", logCall("debug")); len(r.Others()) != 1 {
		t.Errorf("the client that asked for debug: %v", r)
	}
	if r := quiet.Post(wire.Legacy, "tools/call", logCall("debug")); len(r.Others()) != 0 {
		t.Errorf("the client that asked for errors: %v", r)
	}
}

// A level that a client set before its server was needed reaches the server.
func TestLogLevelBeforeTheServerIsThere(t *testing.T) {
	peer := legacyPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL, shared("session")))
	cl := c.enter("")
	setLevel(t, cl, "warning")
	if r := cl.Post(wire.Legacy, "tools/call", callOf("fake__echo", "{}")); r.Text() != "{}" {
		t.Fatalf("call: %v", r)
	}
	peer.WaitFor("logging/setLevel", 1)
	if seen := string(peer.Last("logging/setLevel").Body); !strings.Contains(seen, `"level":"warning"`) {
		t.Errorf("the server was told %s", seen)
	}
}

// logCall calls the tool that logs at the level, if the server thinks that
// anybody wants it.
func logCall(level string) string { return callOf("log", `{"level":"`+level+`","data":1}`) }
