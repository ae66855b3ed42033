package mcphttp_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/secret"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// withHeader makes every request to the server carry a header.
func withHeader(name string) func(*servers.Definition) {
	return func(d *servers.Definition) {
		d.Headers = append(d.Headers, servers.NamedTemplate{Name: name, Value: secret.Literal("key-1")})
	}
}

func timeout(d time.Duration) func(*servers.Definition) {
	return func(def *servers.Definition) { def.Timeout = d }
}

// answerCalls answers each tools/call with f, and counts them.
func answerCalls(p *mcptest.HTTP, f func(w http.ResponseWriter, r *http.Request, id string)) *atomic.Int64 {
	var came atomic.Int64
	p.Script(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if method, _ := wire.GetText(body, "method"); method != "tools/call" {
			return false
		}
		came.Add(1)
		f(w, r, mcptest.RequestID(body))
		return true
	})
	return &came
}

// answerWith is an HTTP response, in whose body ID is the request's.
func answerWith(status int, kind, body string) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, _ *http.Request, id string) {
		if kind != "" {
			w.Header().Set("Content-Type", kind)
		}
		if status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "7")
		}
		if status/100 == 3 {
			w.Header().Set("Location", "/mcp")
		}
		w.WriteHeader(status)
		w.Write([]byte(strings.ReplaceAll(body, "ID", id)))
	}
}

// cutting closes the connection behind the bytes.
func cutting(t testing.TB, raw string) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, _ *http.Request, _ string) {
		conn := mcptest.Hijack(t, w)
		defer conn.Close()
		conn.Write([]byte(raw))
	}
}

// fault is a way in which a call goes wrong at its server.
type fault struct {
	name string
	arm  func(t *testing.T, p *mcptest.HTTP) *atomic.Int64 // returns what counts the calls that came, nil for the server's own count
	tool string                                            // "" is echo
	code crib.Code
	text string // in what the model reads
}

const notKnown = "it is not known whether"

func scripted(f func(t testing.TB) func(http.ResponseWriter, *http.Request, string)) func(*testing.T, *mcptest.HTTP) *atomic.Int64 {
	return func(t *testing.T, p *mcptest.HTTP) *atomic.Int64 { return answerCalls(p, f(t)) }
}

func answered(status int, kind, body string) func(*testing.T, *mcptest.HTTP) *atomic.Int64 {
	return scripted(func(testing.TB) func(http.ResponseWriter, *http.Request, string) {
		return answerWith(status, kind, body)
	})
}

func cut(raw string) func(*testing.T, *mcptest.HTTP) *atomic.Int64 {
	return scripted(func(t testing.TB) func(http.ResponseWriter, *http.Request, string) { return cutting(t, raw) })
}

func breaking(how mcptest.Break) func(*testing.T, *mcptest.HTTP) *atomic.Int64 {
	return func(_ *testing.T, p *mcptest.HTTP) *atomic.Int64 {
		p.BreakOn("echo", how)
		return nil
	}
}

// faults are all answered without a second sending. Where the crib cannot know
// whether the call was executed, it says so; where it knows that it was not,
// it does not say unknown.
var faults = []fault{
	{"executed, then the connection is cut", func(*testing.T, *mcptest.HTTP) *atomic.Int64 { return nil }, "die", crib.Unknown, notKnown},
	{"cut before the head", cut(""), "", crib.Unknown, notKnown},
	{"cut within the head", cut("HTTP/1.1 200 OK\r\nContent-Ty"), "", crib.Unknown, notKnown},
	{"cut behind the head", cut("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n"), "", crib.Unknown, notKnown},
	{"cut within the body", cut("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{\"jsonrpc\":"), "", crib.Unknown, notKnown},
	{"no HTTP at all", cut("SSH-2.0-x\r\n"), "", crib.Unknown, notKnown},
	{"stream cut before the answer", breaking(mcptest.BreakCut), "", crib.Unknown, notKnown},
	{"stream ended before the answer", breaking(mcptest.BreakEnd), "", crib.Unknown, notKnown},
	{"stream ended before anything", breaking(mcptest.BreakEarly), "", crib.Unknown, notKnown},
	{"half an event", answered(200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{}}"), "", crib.Unknown, notKnown},
	{"500 without a body", answered(500, "", ""), "", crib.Unknown, notKnown},
	{"502", answered(502, "text/html", "<h1>Bad gateway</h1>"), "", crib.Unknown, notKnown},
	{"503", answered(503, "text/plain", "busy"), "", crib.Unknown, notKnown},
	{"504", answered(504, "", ""), "", crib.Unknown, notKnown},
	{"200 without a body", answered(200, "application/json", ""), "", crib.Unknown, notKnown},
	{"200 HTML", answered(200, "text/html", "<h1>Welcome</h1>"), "", crib.Unknown, notKnown},
	{"200 batch", answered(200, "application/json", `[{"jsonrpc":"2.0","id":ID,"result":{"content":[]}}]`), "", crib.Unknown, notKnown},
	{"200 answer to another request", answered(200, "application/json", `{"jsonrpc":"2.0","id":99ID,"result":{"content":[]}}`), "", crib.Unknown, notKnown},
	{"200 id as text", answered(200, "application/json", `{"jsonrpc":"2.0","id":"ID","result":{"content":[]}}`), "", crib.Unknown, notKnown},
	{"204", answered(204, "", ""), "", crib.Unknown, notKnown},
	{"301", answered(301, "", ""), "", crib.Unavailable, "redirect"},
	{"302", answered(302, "", ""), "", crib.Unavailable, "redirect"},
	{"303", answered(303, "", ""), "", crib.Unknown, "303"}, // it is what follows a POST that was done
	{"307", answered(307, "", ""), "", crib.Unavailable, "redirect"},
	{"308", answered(308, "", ""), "", crib.Unavailable, "redirect"},
	{"400 text", answered(400, "text/plain", "no"), "", crib.Unavailable, "HTTP 400"},
	{"429", answered(429, "text/plain", "slow down"), "", crib.Unavailable, "Retry-After: 7"},
	{"401", answered(401, "", ""), "", crib.Unauthorized, "credential"},
	{"403", answered(403, "application/json", `{"error":"insufficient_scope"}`), "", crib.Unauthorized, "credential"},
}

// A call is sent once, whatever becomes of it, on a fresh or on a used
// connection, and whatever headers the server's page adds: HTTP clients take
// some of them for leave to send again.
func TestCallIsSentOnce(t *testing.T) {
	for _, era := range []string{mcptest.EraModern, mcptest.EraLegacy} {
		for _, header := range []string{"", "Idempotency-Key", "X-Idempotency-Key"} {
			p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: era}})
			def := httpServer("s", p.URL)
			if header != "" {
				withHeader(header)(&def)
			}
			c := newCrib(t, cribOptions{}, def)
			cl := c.client(wire.Modern, "s")
			for _, f := range faults {
				t.Run(fmt.Sprintf("%s %s %s", era, header, f.name), func(t *testing.T) {
					p.Script(nil)
					works(t, cl, wire.Modern, "echo") // from here on the connection is a used one
					sentOnce(t, cl, p, f)
				})
			}
			p.Script(nil)
			works(t, cl, wire.Modern, "echo")
		}
	}
}

func sentOnce(t *testing.T, cl *mcptest.Client, p *mcptest.HTTP, f fault) {
	t.Helper()
	tool := f.tool
	if tool == "" {
		tool = "echo"
	}
	executed := func() int { return p.Executions(tool) }
	if came := f.arm(t, p); came != nil {
		executed = func() int { return int(came.Load()) }
	}
	before, executedBefore := arrived(p), executed()
	r := call(cl, wire.Modern, tool, `{"n":1}`)
	if codeOf(r) != f.code || !strings.Contains(r.Text(), f.text) || r.Status != http.StatusOK {
		t.Errorf("got %s, want the code %s and %q", r, f.code, f.text)
	}
	if strings.Contains(r.Text(), notKnown) != (f.code == crib.Unknown) {
		t.Errorf("the code %s does not fit the text %q", codeOf(r), r.Text())
	}
	mcptest.Eventually(t, "the execution", func() bool { return executed() > executedBefore }) // it may outlive its answer
	if n := arrived(p) - before; n != 1 {
		t.Errorf("the call came %d times", n)
	}
	if n := executed() - executedBefore; n != 1 {
		t.Errorf("the call was taken %d times", n)
	}
}

// arrived counts the calls that came, whatever became of them.
func arrived(p *mcptest.HTTP) int {
	n := 0
	for _, s := range p.Seen() {
		if s.RPCMethod == "tools/call" {
			n++
		}
	}
	return n
}

// A call whose time is up is not sent again, and its server is told.
func TestCallTimesOutOnce(t *testing.T) {
	for _, era := range []string{mcptest.EraModern, mcptest.EraLegacy} {
		t.Run(era, func(t *testing.T) {
			p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: era}})
			c := newCrib(t, cribOptions{}, httpServer("s", p.URL, timeout(300*time.Millisecond)))
			cl := c.client(wire.Modern, "s")
			r := call(cl, wire.Modern, "slow", `{"release":"/never/there"}`)
			if codeOf(r) != crib.Timeout || !strings.Contains(r.Text(), notKnown) {
				t.Errorf("got %s", r)
			}
			mcptest.Eventually(t, "the cancellation", func() bool { return len(p.Cancelled()) == 1 })
			if p.Executions("slow") != 1 || arrived(p) != 1 {
				t.Errorf("%d executions, %d arrivals", p.Executions("slow"), arrived(p))
			}
		})
	}
}

// What was never written is unavailable: nobody need wonder whether it ran.
func TestNotSentIsUnavailable(t *testing.T) {
	t.Run("connection refused", func(t *testing.T) {
		p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Capabilities: `{"tools":{}}`}})
		p.Script(func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
			w.Header().Set("Connection", "close") // a call on a kept one might get as far as to be written
			return false
		})
		c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
		cl := c.client(wire.Modern, "s")
		works(t, cl, wire.Modern, "echo")
		p.Close()
		r := call(cl, wire.Modern, "echo", `{}`)
		if codeOf(r) != crib.Unavailable || !strings.Contains(r.Text(), "cannot be reached") {
			t.Errorf("got %s", r)
		}
		if p.Executions("echo") != 1 {
			t.Errorf("%d executions", p.Executions("echo"))
		}
	})
	t.Run("never there", func(t *testing.T) {
		p := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
		p.Close()
		c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
		if r := call(c.client(wire.Modern, "s"), wire.Modern, "echo", `{}`); codeOf(r) != crib.Unavailable {
			t.Errorf("got %s", r)
		}
	})
	t.Run("its list does not come", func(t *testing.T) {
		p := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
		p.Script(func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
			if method, _ := wire.GetText(body, "method"); method != "tools/list" {
				return false
			}
			<-r.Context().Done()
			return true
		})
		c := newCrib(t, cribOptions{}, httpServer("s", p.URL, timeout(200*time.Millisecond)))
		if r := call(c.client(wire.Modern, "s"), wire.Modern, "echo", `{}`); codeOf(r) != crib.Unavailable || arrived(p) != 0 {
			t.Errorf("got %s after %d calls", r, arrived(p))
		}
	})
	t.Run("no such command", func(t *testing.T) {
		c := newCrib(t, cribOptions{}, stdioServer("s", []string{"no-such-command"}))
		if r := call(c.client(wire.Modern, "s"), wire.Modern, "echo", `{}`); codeOf(r) != crib.Unavailable || !strings.Contains(r.Text(), "no-such-command") {
			t.Errorf("got %s", r)
		}
	})
}

// A session that the server has forgotten is renewed once, for all who meet its
// loss, and their calls, which were refused unexecuted, are sent again.
func TestLostSessionIsRenewedOnce(t *testing.T) {
	const parallel = 10
	for _, tc := range []struct {
		name string
		lost func(w http.ResponseWriter, id string) // how the server says that it knows no such session; nil: with 404 and a JSON-RPC error
	}{
		{"404 JSON-RPC", nil},
		{"404 HTML", func(w http.ResponseWriter, _ string) { answerWith(404, "text/html", "<h1>Gone</h1>")(w, nil, "") }},
		{"404 empty", func(w http.ResponseWriter, _ string) { answerWith(404, "", "")(w, nil, "") }},
		{"404 null id", func(w http.ResponseWriter, _ string) {
			answerWith(404, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`)(w, nil, "")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: mcptest.EraLegacy}})
			c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
			cl := c.client(wire.Modern, "s")
			works(t, cl, wire.Modern, "echo")
			old := p.Last("tools/call").Header.Get(wire.HeaderSession)
			lists := p.Requests("tools/list")
			p.Forget()
			if tc.lost != nil {
				p.Script(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
					if r.Header.Get(wire.HeaderSession) != old {
						return false
					}
					tc.lost(w, mcptest.RequestID(body))
					return true
				})
			}
			var all sync.WaitGroup
			for range parallel {
				all.Go(func() {
					if r := call(cl, wire.Modern, "echo", `{"n":1.0}`); r.Text() != `{"n":1.0}` {
						t.Errorf("got %s", r)
					}
				})
			}
			all.Wait()
			if p.Requests("initialize") != 2 || p.Sessions() != 2 || p.Executions("echo") != 1+parallel {
				t.Errorf("%d initialize, %d sessions, %d executions", p.Requests("initialize"), p.Sessions(), p.Executions("echo"))
			}
			mcptest.Eventually(t, "another tools/list", func() bool { return p.Requests("tools/list") > lists })
		})
	}
}

// A server that knows none of its sessions is at fault; it is not asked for
// one after the other.
func TestSecondLostSessionIsAFault(t *testing.T) {
	p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: mcptest.EraLegacy}})
	c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
	cl := c.client(wire.Modern, "s")
	works(t, cl, wire.Modern, "echo")
	came := answerCalls(p, answerWith(404, "text/plain", "no session"))
	r := call(cl, wire.Modern, "echo", `{}`)
	if codeOf(r) != crib.Unavailable || came.Load() != 2 || p.Requests("initialize") != 2 {
		t.Errorf("%d calls and %d initialize came; got %s", came.Load(), p.Requests("initialize"), r)
	}
}

// A 404 that is the server's own answer to a method says nothing of the
// session, nor does a 400.
func TestKnownSessionIsKept(t *testing.T) {
	for _, status := range []int{404, 400} {
		p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: mcptest.EraLegacy}})
		c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
		cl := c.client(wire.Legacy, "s")
		works(t, cl, wire.Legacy, "echo")
		came := answerCalls(p, answerWith(status, "application/json", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"no such method"}}`))
		r := call(cl, wire.Legacy, "echo", `{}`)
		if r.RPCError().Code != wire.CodeMethodNotFound || came.Load() != 1 || p.Requests("initialize") != 1 {
			t.Errorf("HTTP %d: %d calls and %d initialize came; got %s", status, came.Load(), p.Requests("initialize"), r)
		}
		if r.Status == http.StatusNotFound {
			t.Error("a legacy client would take 404 for the loss of its own session")
		}
	}
}

// A modern server that refuses because of headers or version did not execute:
// what the crib knows is made new, and the call is sent once more, not twice.
func TestRefusedUnexecutedIsSentAgain(t *testing.T) {
	t.Run("another schema", func(t *testing.T) {
		// It does not tell of changes: only the call can learn of the schema.
		p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: mcptest.EraModern, Capabilities: `{"tools":{}}`,
			Tools: `[{"name":"headed","inputSchema":{"type":"object"}}]`}, Strict: true})
		c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
		cl := c.client(wire.Modern, "")
		if got := cl.Post(wire.Modern, "tools/list", "{}").Result(); !strings.Contains(got, "s__headed") {
			t.Fatalf("list: %s", got)
		}
		p.SetTools(`[{"name":"headed","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}]`)
		r := call(cl, wire.Modern, "s__headed", `{"region":"us <é>"}`)
		if r.Text() != `{"region":"us <é>"}` || arrived(p) != 2 || p.Executions("headed") != 1 {
			t.Errorf("%d arrivals, %d executions: %s", arrived(p), p.Executions("headed"), r)
		}
	})
	for _, code := range []int{wire.CodeHeaderMismatch, wire.CodeUnsupportedVersion} {
		t.Run(fmt.Sprint("always ", code), func(t *testing.T) {
			p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: mcptest.EraModern}})
			c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
			cl := c.client(wire.Modern, "s")
			works(t, cl, wire.Modern, "echo")
			came := answerCalls(p, answerWith(400, "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":ID,"error":{"code":%d,"message":"no"}}`, code)))
			if r := call(cl, wire.Modern, "echo", `{}`); r.RPCError().Code != code || came.Load() != 2 {
				t.Errorf("%d calls came: %s", came.Load(), r)
			}
		})
	}
}

// Over stdio a call is written once; when its server ends or is switched off in
// the middle of it, nobody knows.
func TestStdioCallIsSentOnce(t *testing.T) {
	for _, era := range []string{mcptest.EraModern, mcptest.EraLegacy} {
		for _, tc := range []struct {
			tool, args string
			disturb    func(c *cribT)
			code       crib.Code
		}{
			{"die", `{}`, nil, crib.Unknown},
			{"partial", `{}`, nil, crib.Unknown},
			{"slow", `{"release":"/never/there"}`, nil, crib.Timeout},
			{"slow", `{"release":"/never/there"}`, func(c *cribT) { c.cat.Apply(nil) }, crib.Unknown},
		} {
			t.Run(fmt.Sprintf("%s %s %s", era, tc.tool, tc.code), func(t *testing.T) {
				ledger := filepath.Join(t.TempDir(), "ledger")
				def := stdioServer("s", mcptest.Peer("-era", era, "-ledger", ledger))
				if tc.code == crib.Timeout {
					timeout(300 * time.Millisecond)(&def)
				}
				c := newCrib(t, cribOptions{}, def)
				cl := c.client(wire.Modern, "s")
				works(t, cl, wire.Modern, "echo")
				var done sync.WaitGroup
				if tc.disturb != nil {
					done.Go(func() {
						mcptest.Eventually(t, "the call", func() bool { return len(linesOf(t, ledger)) == 2 })
						tc.disturb(c)
					})
				}
				r := call(cl, wire.Modern, tc.tool, tc.args)
				done.Wait()
				if codeOf(r) != tc.code || !strings.Contains(r.Text(), notKnown) {
					t.Errorf("got %s, want the code %s", r, tc.code)
				}
				if tc.disturb == nil {
					works(t, cl, wire.Modern, "echo") // of a new process, if the old one is gone
				}
				n := 0
				for _, line := range linesOf(t, ledger) {
					if strings.HasPrefix(line, tc.tool+"\t") {
						n++
					}
				}
				if n != 1 {
					t.Errorf("%d executions", n)
				}
			})
		}
	}
}

// Switching a server off in the middle of a call over HTTP leaves the same
// doubt.
func TestClosedInTheMiddleIsUnknown(t *testing.T) {
	for _, era := range []string{mcptest.EraModern, mcptest.EraLegacy} {
		for _, sse := range []bool{false, true} {
			t.Run(fmt.Sprint(era, " stream ", sse), func(t *testing.T) {
				p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: era}, AlwaysSSE: sse})
				c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
				cl := c.client(wire.Modern, "s")
				var done sync.WaitGroup
				done.Go(func() {
					mcptest.Eventually(t, "the call", func() bool { return p.Executions("slow") == 1 })
					c.cat.Apply(nil)
				})
				r := call(cl, wire.Modern, "slow", `{"release":"/never/there"}`)
				done.Wait()
				if codeOf(r) != crib.Unknown || !strings.Contains(r.Text(), notKnown) || arrived(p) != 1 {
					t.Errorf("%d calls came: %s", arrived(p), r)
				}
			})
		}
	}
}

// A read is another matter: it may be sent twice, and is followed to another
// place of the same origin, but not further.
func TestReadsMayBeSentAgain(t *testing.T) {
	p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: mcptest.EraModern}})
	c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
	cl := c.client(wire.Modern, "s")
	works(t, cl, wire.Modern, "echo")
	var came atomic.Int64
	first := func(f func(http.ResponseWriter)) mcptest.Script {
		came.Store(0)
		return func(w http.ResponseWriter, r *http.Request, body []byte) bool {
			if method, _ := wire.GetText(body, "method"); method != "resources/read" || came.Add(1) > 1 {
				return false
			}
			f(w)
			return true
		}
	}
	read := func() *mcptest.Reply { return cl.Post(wire.Modern, "resources/read", `{"uri":"text://hello"}`) }
	for _, tc := range []struct {
		name string
		f    func(http.ResponseWriter)
		ok   bool
	}{
		{"cut", func(w http.ResponseWriter) { cutting(t, "")(w, nil, "") }, true},
		{"same origin", func(w http.ResponseWriter) { answerWith(307, "", "")(w, nil, "") }, true},
		{"other origin", func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://127.0.0.1:1/mcp")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, false},
		{"303 is no leave to send it again", func(w http.ResponseWriter) { answerWith(303, "", "")(w, nil, "") }, false},
	} {
		p.Script(first(tc.f))
		want := int64(1)
		if tc.ok {
			want = 2
		}
		if r := read(); strings.Contains(r.Result(), "text of text://hello") != tc.ok || came.Load() != want {
			t.Errorf("%s: %d requests came: %s", tc.name, came.Load(), r)
		}
	}
}

// A 404 that breaks off can have been the answer to the call: it is no proof
// that the session is lost, and nothing is sent again.
func TestAHalfReadLossIsNoProof(t *testing.T) {
	p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: mcptest.EraLegacy}})
	c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
	cl := c.client(wire.Modern, "s")
	works(t, cl, wire.Modern, "echo")
	came := answerCalls(p, cutting(t, "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{\"jsonrpc\":\"2.0\","))
	r := call(cl, wire.Modern, "echo", `{}`)
	if codeOf(r) != crib.Unknown || !strings.Contains(r.Text(), notKnown) || came.Load() != 1 || p.Requests("initialize") != 1 {
		t.Errorf("%d calls and %d initialize came; got %s", came.Load(), p.Requests("initialize"), r)
	}
}

// What a server refuses can be about one client's request: it shuts the server
// for nobody.
func TestRefusalsShutNoServer(t *testing.T) {
	const refusals = 10 // more than a server may break off
	for _, status := range []int{http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusPermanentRedirect} {
		p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: mcptest.EraModern}})
		c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
		cl := c.client(wire.Modern, "s")
		works(t, cl, wire.Modern, "echo")
		came := answerCalls(p, answerWith(status, "text/plain", "no"))
		for range refusals {
			call(cl, wire.Modern, "echo", `{}`)
		}
		if came.Load() != refusals {
			t.Errorf("HTTP %d: %d of %d calls came", status, came.Load(), refusals)
		}
	}
}
