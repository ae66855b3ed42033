package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// draining is a crib that was told to stop while a call was open.
type draining struct {
	t       *testing.T
	world   *world
	app     *App
	peer    *mcptest.HTTP
	client  *mcptest.Client
	era     wire.Era
	held    *mcptest.Stream // of the call that keeps the crib from ending
	release string          // the file that ends it
	stopped chan error
}

// drain makes a crib with one open call, which before may add to, and tells it
// to stop.
func drain(t *testing.T, era wire.Era, limit time.Duration, before func(*draining)) *draining {
	w := newWorld(t)
	w.drain = limit
	d := &draining{t: t, world: w, era: era, release: filepath.Join(t.TempDir(), "release"), stopped: make(chan error, 1)}
	d.peer = mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	w.write("mcp/s.md", fmt.Sprintf("---\nmcp:\n  transport: { http: %q }\n  share: session\n  may: [elicitation]\n---\n", d.peer.URL))
	a, stop := w.start()
	d.app, d.client = a, w.client(a)
	if era == wire.Legacy {
		d.client.Initialize("")
	}
	d.held = d.slow("held")
	if before != nil {
		before(d)
	}
	go func() { d.stopped <- stop() }()
	mcptest.Eventually(t, "the crib is stopping", a.gw.Stopping)
	return d
}

// slow calls a tool that ends when the release is there, and returns when the
// server has it.
func (d *draining) slow(id string) *mcptest.Stream {
	d.t.Helper()
	before := d.peer.Executions("slow")
	s := d.client.OpenID(d.era, string(wire.Quote(id)), "tools/call",
		`{"name":"s__slow","arguments":{"ticks":1,"release":`+string(wire.Quote(d.release))+`},"_meta":{"progressToken":`+string(wire.Quote(id))+`}}`)
	d.t.Cleanup(s.Close)
	if ev := s.Next(); !strings.Contains(ev.Data, "notifications/progress") || d.peer.Executions("slow") != before+1 {
		d.t.Fatalf("the call is not open: %+v", ev)
	}
	return s
}

// finish lets the held call end, which must be answered, and the crib with it.
func (d *draining) finish() {
	d.t.Helper()
	if err := os.WriteFile(d.release, nil, 0o600); err != nil {
		d.t.Fatal(err)
	}
	if ev := d.held.Next(); !strings.Contains(ev.Data, "released") {
		d.t.Errorf("the open call ended with %+v", ev)
	}
	if err := <-d.stopped; err != nil {
		d.t.Error(err)
	}
	if c, err := net.Dial("tcp", d.app.Addr()); err == nil {
		c.Close()
		d.t.Error("somebody listens behind the end")
	}
}

func eachEra(t *testing.T, test func(*testing.T, wire.Era)) {
	for _, era := range []wire.Era{wire.Modern, wire.Legacy} {
		t.Run(string(era), func(t *testing.T) { test(t, era) })
	}
}

// A call that is open when the crib is told to stop is answered, and for as
// long the crib says that it is stopping and takes nothing new.
func TestStopLetsACallFinish(t *testing.T) {
	eachEra(t, func(t *testing.T, era wire.Era) {
		d := drain(t, era, 0, nil)
		for path, want := range map[string]string{"/readyz": "503 stopping\n", "/healthz": "200 ok\n"} {
			if status, body := get(t, "http://"+d.app.Addr()+path); fmt.Sprint(status, " ", body) != want {
				t.Errorf("%s: %d %q", path, status, body)
			}
		}
		if st, err := Dial(d.world.data).Status(t.Context()); err != nil || !st.Draining {
			t.Errorf("status: %+v %v", st, err)
		}
		if _, err := Dial(d.world.data).Connect(t.Context(), "s"); crib.CodeOf(err) != crib.Unavailable || !strings.Contains(err.Error(), "stopping") {
			t.Errorf("connecting a server: %v", err)
		}
		d.finish()
	})
}

// Nothing that begins while the crib stops reaches a server, on connections
// that were there before and on new ones.
func TestStoppingTakesNothingNew(t *testing.T) {
	eachEra(t, func(t *testing.T, era wire.Era) {
		d := drain(t, era, 0, nil)
		fresh := d.world.client(d.app)
		fresh.Session, fresh.Version = d.client.Session, d.client.Version
		methods := map[string]string{
			"tools/call": `{"name":"s__echo","arguments":{}}`, "tools/list": "", "prompts/get": `{"name":"s__greet"}`, "resources/read": `{"uri":"crib.s+text://hello"}`,
		}
		if era == wire.Legacy {
			methods["initialize"] = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`
		} else {
			methods["server/discover"], methods["subscriptions/listen"] = "", `{"notifications":{"toolsListChanged":true}}`
		}
		for method, params := range methods {
			for name, c := range map[string]*mcptest.Client{"old": d.client, "new": fresh} {
				if r := c.Post(era, method, params); !turnedAway(r) {
					t.Errorf("%s on the %s connection: %v", method, name, r)
				}
			}
		}
		plain := d.world.client(d.app)
		plain.URL = "http://" + d.app.Addr() + "/v1/tools"
		if r := plain.Raw(http.MethodGet, ""); !turnedAway(r) {
			t.Errorf("GET /v1/tools: %v", r)
		}
		plain.URL += "/s__echo"
		if r := plain.Raw(http.MethodPost, "{}"); !turnedAway(r) {
			t.Errorf("POST /v1/tools/s__echo: %v", r)
		}
		for method, want := range map[string]int{"tools/call": 1, "prompts/get": 0, "resources/read": 0} {
			if n := d.peer.Requests(method); n != want {
				t.Errorf("the server got %s %d times", method, n)
			}
		}
		d.finish()
	})
}

// turnedAway reports whether an answer says that the crib is stopping, that
// nothing was done, and when to come back.
func turnedAway(r *mcptest.Reply) bool {
	return r.Status == http.StatusServiceUnavailable && r.Header.Get("Retry-After") != "" &&
		strings.Contains(r.RPCError().Message, "stopping") && strings.Contains(r.RPCError().Message, "nothing was sent")
}

// A call can be cancelled while the crib stops: its server learns of it.
func TestStoppingPassesACancellation(t *testing.T) {
	eachEra(t, func(t *testing.T, era wire.Era) {
		var other *mcptest.Stream
		d := drain(t, era, 0, func(d *draining) { other = d.slow("other") })
		if era == wire.Modern {
			other.Close()
		} else if r := d.client.Post(era, "notifications/cancelled", `{"requestId":"other"}`); r.Status != http.StatusAccepted {
			t.Errorf("the cancellation: %v", r)
		}
		mcptest.Eventually(t, "the server knows", func() bool { return len(d.peer.Cancelled()) == 1 })
		d.finish()
	})
}

const yes = `{"action":"accept","content":{"name":"x"}}`

// A question that a call asked before the crib was told to stop, or while it
// stops, is answered, and the call goes on to its end.
func TestStoppingPassesAnswers(t *testing.T) {
	t.Run("modern", func(t *testing.T) {
		ask := func(d *draining, more string) *mcptest.Reply {
			return d.client.Post(wire.Modern, "tools/call", `{"name":"s__elicit","arguments":{"rounds":2}`+more+`}`)
		}
		next := func(r *mcptest.Reply) string {
			return `,"inputResponses":{"k1":` + yes + `},"requestState":` + string(wire.Get([]byte(r.Result()), "requestState"))
		}
		var first *mcptest.Reply
		d := drain(t, wire.Modern, 0, func(d *draining) { first = ask(d, "") })
		second := ask(d, next(first))
		if r := ask(d, next(second)); !strings.Contains(r.Result(), `"structuredContent":{"k1":`+yes) {
			t.Errorf("got %v, behind %v", r, second)
		}
		if r := ask(d, `,"inputResponses":{},"requestState":"forged"`); r.RPCError().Code != wire.CodeInvalidParams {
			t.Errorf("a state that the crib did not give: %v", r)
		}
		if n := d.peer.Executions("elicit"); n != 1 {
			t.Errorf("%d executions", n)
		}
		d.finish()
	})
	t.Run("legacy", func(t *testing.T) {
		var call *mcptest.Stream
		d := drain(t, wire.Legacy, 0, func(d *draining) {
			call = d.client.Open(wire.Legacy, "tools/call", `{"name":"s__elicit","arguments":{"rounds":2}}`)
			t.Cleanup(call.Close)
		})
		var last string
		for range 2 {
			question := call.Next().Data
			for !strings.Contains(question, "elicitation/create") { // an event without data stands before
				question = call.Next().Data
			}
			if r := d.client.Respond(string(wire.Get([]byte(question), "id")), yes); r.Status != http.StatusAccepted {
				t.Errorf("the answer was not taken: %v", r)
			}
		}
		if last = call.Next().Data; !strings.Contains(last, `"structuredContent":{"k1":`+yes) {
			t.Errorf("the call was answered with %s", last)
		}
		d.finish()
	})
}

// The stream of a call that broke is taken up again while the crib stops. The
// one that belongs to no request comes back when the crib does.
func TestStoppingGoesOnWithStreams(t *testing.T) {
	d := drain(t, wire.Legacy, 0, nil)
	standing := d.client.Get()
	defer standing.Close()
	if standing.Status != http.StatusServiceUnavailable || standing.Header.Get("Retry-After") == "" {
		t.Errorf("the standing stream: HTTP %d", standing.Status)
	}
	d.held.Close()
	d.held = d.client.Get("Last-Event-ID: 1-0")
	defer d.held.Close()
	d.finish()
}

// What does not end in time, or when a second signal comes, is cut.
func TestStopCuts(t *testing.T) {
	for _, tc := range []struct {
		name  string
		limit time.Duration
		hurry bool
	}{{"the limit", 50 * time.Millisecond, false}, {"hurry", time.Hour, true}} {
		t.Run(tc.name, func(t *testing.T) {
			eachEra(t, func(t *testing.T, era wire.Era) {
				d := drain(t, era, tc.limit, nil)
				if tc.hurry {
					d.app.Hurry()
				}
				select {
				case err := <-d.stopped:
					if err != nil {
						t.Error(err)
					}
				case <-time.After(mcptest.Patience):
					t.Fatal("it goes on for ever")
				}
				// A call of the older protocol ends with its session.
				mcptest.Eventually(t, "the server knows that nobody waits", func() bool {
					return len(d.peer.Cancelled()) == 1 || era == wire.Legacy && d.peer.LiveSessions() == 0
				})
			})
		})
	}
}

// Only a socket that is not there, or that nobody listens at, says that no
// crib runs.
func TestNobodyListens(t *testing.T) {
	short, err := os.MkdirTemp("", "tc") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(short) })
	folder := func(name string) string {
		dir := filepath.Join(short, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	left := folder("left")
	l, err := net.Listen("unix", socketPath(left))
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	for name, dir := range map[string]string{"absent": folder("absent"), "no folder": filepath.Join(short, "none"), "left behind": left} {
		if _, err := Dial(dir).Status(t.Context()); !errors.Is(err, ErrNotRunning) {
			t.Errorf("%s: %v", name, err)
		}
	}

	cut := folder("cut")
	l, err = net.Listen("unix", socketPath(cut))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	if _, err := Dial(cut).Reload(t.Context()); err == nil || errors.Is(err, ErrNotRunning) || crib.CodeOf(err) != crib.Unavailable {
		t.Errorf("one that ends before it answers: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Dial(cut).Status(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
