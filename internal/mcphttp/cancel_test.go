package mcphttp_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// recorder is a server whose received messages can be looked at, however it is
// reached.
type recorder struct {
	def      servers.Definition
	received func() []string
	// left are the requests that the server saw end because their stream was
	// closed, by its ids; nil where there is no such thing.
	left func() []string
}

// recorders are servers of one era, over both transports.
func recorders(t *testing.T, era string, change ...func(*servers.Definition)) map[string]recorder {
	t.Helper()
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: era}})
	file := filepath.Join(t.TempDir(), "record")
	return map[string]recorder{
		"http": {
			def: httpServer("http", peer.URL, change...),
			received: func() []string {
				var out []string
				for _, s := range peer.Seen() {
					out = append(out, string(s.Body))
				}
				return out
			},
			left: peer.Cancelled,
		},
		"stdio": {
			def: stdioServer("stdio", mcptest.Peer("-era", era, "-record", file), change...),
			received: func() []string {
				raw, err := os.ReadFile(file)
				if err != nil && !os.IsNotExist(err) {
					t.Error(err)
				}
				return strings.Split(string(raw), "\n")
			},
		},
	}
}

// find returns the value at keys of the first message with this method and
// this text in it, "" if none came.
func (r recorder) find(name, containing string, keys ...string) string {
	for _, m := range r.received() {
		if method(m) == name && strings.Contains(m, containing) {
			return string(wire.GetPath([]byte(m), keys...))
		}
	}
	return ""
}

// idOf waits for a call of slow that carries the mark, and returns the
// server's id of it.
func (r recorder) idOf(t *testing.T, mark string) string {
	t.Helper()
	id := ""
	mcptest.Eventually(t, "call "+mark, func() bool {
		id = r.find("tools/call", `"mark":"`+mark+`"`, "id")
		return id != ""
	})
	return id
}

// cancelled are the ids of the requests that the server was told, or saw, to
// be cancelled.
func (r recorder) cancelled() []string {
	var out []string
	if r.left != nil {
		return r.left()
	}
	for _, m := range r.received() {
		if method(m) == "notifications/cancelled" {
			out = append(out, string(wire.GetPath([]byte(m), "params", "requestId")))
		}
	}
	return out
}

// wantCancelled waits until exactly the requests with these ids are cancelled.
func (r recorder) wantCancelled(t *testing.T, ids ...string) {
	t.Helper()
	want := strings.Join(ids, ",")
	mcptest.Eventually(t, "the cancellation of "+want, func() bool { return len(r.cancelled()) >= len(ids) })
	if got := strings.Join(r.cancelled(), ","); got != want {
		t.Errorf("cancelled were %s, want %s", got, want)
	}
}

func mark(name string) string { return `"mark":"` + name + `"` }

// A legacy client cancels by its own id, as it spells it; the server is told
// the id that it knows, at once and not behind the call.
func TestLegacyCancel(t *testing.T) {
	for name, server := range recorders(t, mcptest.EraLegacy) {
		t.Run(name, func(t *testing.T) {
			c := newCrib(t, cribOptions{}, server.def)
			cl := c.enter(name)
			number, text := newGate(t), newGate(t)
			answers := make(chan *mcptest.Reply, 2)
			go func() {
				answers <- replyTo(cl.OpenID(wire.Legacy, `101`, "tools/call", callOf("slow", number.args(mark("number")))))
			}()
			numberID := server.idOf(t, "number")
			go func() {
				answers <- replyTo(cl.OpenID(wire.Legacy, `"101"`, "tools/call", callOf("slow", text.args(mark("text")))))
			}()
			textID := server.idOf(t, "text")
			if numberID == textID || strings.Contains(numberID+textID, "101") {
				t.Errorf("the server knows the calls as %s and %s", numberID, textID)
			}

			cl.Post(wire.Legacy, "notifications/cancelled", `{"requestId":"101","reason":"enough"}`)
			server.wantCancelled(t, textID)
			if r := <-answers; string(wire.Get([]byte(r.Message()), "id")) != `"101"` || r.RPCError().Code == 0 {
				t.Errorf("the cancelled call: %v", r)
			}
			number.open()
			if r := <-answers; r.Text() != "released" || string(wire.Get([]byte(r.Message()), "id")) != `101` {
				t.Errorf("the other call: %v", r)
			}
		})
	}
}

// promptly is how soon a server must know of a cancellation.
const promptly = 100 * time.Millisecond

// Cancellations do not queue. A machine that is busy may miss the time now and
// then, so one of a few tries must keep it.
func TestCancelIsPrompt(t *testing.T) {
	for name, server := range recorders(t, mcptest.EraLegacy) {
		t.Run(name, func(t *testing.T) {
			c := newCrib(t, cribOptions{}, server.def)
			cl := c.enter(name)
			var took time.Duration
			for try := range 5 {
				id, hold := fmt.Sprint(try), newGate(t)
				done := make(chan *mcptest.Reply, 1)
				go func() {
					done <- replyTo(cl.OpenID(wire.Legacy, id, "tools/call", callOf("slow", hold.args(mark(id)))))
				}()
				server.idOf(t, id)
				began := time.Now()
				cl.Post(wire.Legacy, "notifications/cancelled", `{"requestId":`+id+`}`)
				mcptest.Eventually(t, "the cancellation", func() bool { return len(server.cancelled()) == try+1 })
				took = time.Since(began)
				<-done
				if took <= promptly {
					return
				}
			}
			t.Errorf("the server was told after %s, more than %s each time", took, promptly)
		})
	}
}

// Two servers may well know two calls by the same id.
func TestCancelReachesTheRightServer(t *testing.T) {
	one, two := legacyPeer(t), legacyPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("one", one.URL), httpServer("two", two.URL))
	cl := c.enter("")
	hold := newGate(t)
	done := make(chan *mcptest.Reply, 2)
	for id, tool := range map[string]string{"1": "one__slow", "2": "two__slow"} {
		go func() {
			done <- replyTo(cl.OpenID(wire.Legacy, id, "tools/call", callOf(tool, hold.args())))
		}()
	}
	executions(t, one, "slow", 1)
	executions(t, two, "slow", 1)
	cl.Post(wire.Legacy, "notifications/cancelled", `{"requestId":2}`)
	<-done
	hold.open()
	if r := <-done; r.Text() != "released" || string(wire.Get([]byte(r.Message()), "id")) != "1" {
		t.Errorf("the call that was not cancelled: %v", r)
	}
	mcptest.Eventually(t, "the cancellation", func() bool { return len(two.Cancelled()) == 1 })
	if len(one.Cancelled()) != 0 {
		t.Errorf("the other server was told too: %v", one.Cancelled())
	}
}

// A cancellation of what is done, of what never was, and of another session's
// request does nothing.
func TestCancelOfNothing(t *testing.T) {
	for name, server := range recorders(t, mcptest.EraLegacy) {
		t.Run(name, func(t *testing.T) {
			c := newCrib(t, cribOptions{}, server.def)
			cl, other := c.enter(name), c.enter(name)
			hold := newGate(t)
			done := make(chan *mcptest.Reply, 1)
			go func() {
				done <- replyTo(cl.OpenID(wire.Legacy, "5", "tools/call", callOf("slow", hold.args(mark("held")))))
			}()
			server.idOf(t, "held")
			finished := replyTo(cl.OpenID(wire.Legacy, "4", "tools/call", callOf("echo", "{}")))
			if finished.Text() != "{}" {
				t.Fatalf("call: %v", finished)
			}
			for _, params := range []string{`{"requestId":4}`, `{"requestId":99}`, `{"requestId":"5"}`, `{"requestId":null}`, `{}`, ""} {
				if r := cl.Post(wire.Legacy, "notifications/cancelled", params); r.Status != 202 {
					t.Errorf("cancel %s: %v", params, r)
				}
			}
			other.Post(wire.Legacy, "notifications/cancelled", `{"requestId":5}`)
			hold.open()
			if r := <-done; r.Text() != "released" {
				t.Errorf("call: %v", r)
			}
			if got := server.cancelled(); len(got) != 0 {
				t.Errorf("the server was told of %v", got)
			}
		})
	}
}

// A modern client cancels by leaving, before the answer has begun as well as
// in its midst.
func TestModernClientLeaves(t *testing.T) {
	for name, server := range recorders(t, mcptest.EraModern) {
		t.Run(name, func(t *testing.T) {
			c := newCrib(t, cribOptions{}, server.def)
			cl := c.dial(name)
			s := cl.Open(wire.Modern, "tools/call", callOf("slow", newGate(t).args(mark("streaming")), token("1")))
			s.Next()
			first := server.idOf(t, "streaming")
			s.Close()
			server.wantCancelled(t, first)

			conn := rawModern(t, cl, "slow", newGate(t).args(mark("silent")))
			second := server.idOf(t, "silent")
			conn.Close()
			server.wantCancelled(t, first, second)
		})
	}
}

// A legacy client's disconnect is no cancellation: the call runs on, once, and
// its answer waits.
func TestLegacyClientLeaves(t *testing.T) {
	for name, server := range recorders(t, mcptest.EraLegacy) {
		t.Run(name, func(t *testing.T) {
			c := newCrib(t, cribOptions{}, server.def)
			cl := c.enter(name)
			hold := newGate(t)
			s, _, tick := ticking(t, cl, hold, "mine")
			s.Close()
			hold.open()
			wantTail(t, rest(cl.Get("Last-Event-ID: "+tick.ID)), "mine", 2)
			if got := server.cancelled(); len(got) != 0 {
				t.Errorf("the server was told of the cancellation of %v", got)
			}
			calls := 0
			for _, m := range server.received() {
				if method(m) == "tools/call" {
					calls++
				}
			}
			if calls != 1 {
				t.Errorf("the call was sent %d times", calls)
			}
		})
	}
}

// Whoever stops waiting says so: a call that took too long does not go on
// unseen.
func TestTimeoutCancels(t *testing.T) {
	t.Parallel()
	brief := func(d *servers.Definition) { d.Timeout = 700 * time.Millisecond }
	for _, era := range []string{mcptest.EraLegacy, mcptest.EraModern} {
		for _, name := range []string{"http", "stdio"} {
			for _, client := range []wire.Era{wire.Legacy, wire.Modern} {
				t.Run(fmt.Sprintf("%s client of %s over %s", client, era, name), func(t *testing.T) {
					t.Parallel()
					server := recorders(t, era, brief)[name]
					c := newCrib(t, cribOptions{}, server.def)
					r := c.enter(name).Post(client, "tools/call", callOf("slow", newGate(t).args(mark("late"))))
					var result struct {
						IsError bool              `json:"isError"`
						Meta    map[string]string `json:"_meta"`
					}
					if err := json.Unmarshal([]byte(r.Result()), &result); err != nil || !result.IsError || result.Meta["io.toolcrib/code"] != "timeout" {
						t.Errorf("%v", r)
					}
					if !strings.Contains(r.Text(), "not known whether") {
						t.Errorf("the text is %q", r.Text())
					}
					id := server.idOf(t, "late")
					mcptest.Eventually(t, "the cancellation", func() bool { return slices.Contains(server.cancelled(), id) })
				})
			}
		}
	}
}

// Progress shows that work is done, and gives a call more time.
func TestProgressGivesTime(t *testing.T) {
	t.Parallel()
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL, func(d *servers.Definition) { d.Timeout = 1500 * time.Millisecond }))
	pour := make(chan struct{})
	peer.Script(paced(pour, 8))
	done := make(chan *mcptest.Reply, 1)
	go func() { done <- c.dial("fake").Post(wire.Modern, "tools/call", callOf("big", "{}", token("1"))) }()
	beat := time.NewTicker(300 * time.Millisecond) // 2.4 s in all, more than the limit
	defer beat.Stop()
	for range 8 {
		<-beat.C
		pour <- struct{}{}
	}
	if r := <-done; r.Text() != "done" || len(r.Others()) != 8 {
		t.Errorf("%v", r)
	}
}
