package mcpstdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// tokens returns one token after the other, the last for ever.
func tokens(list ...string) func(context.Context) (string, error) {
	var n atomic.Int64
	return func(context.Context) (string, error) {
		return list[min(int(n.Add(1)), len(list))-1], nil
	}
}

// requiring lets in who has the token.
func requiring(token string) mcptest.Script {
	return func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if r.Header.Get("Authorization") == "Bearer "+token {
			return false
		}
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"this token is not known; get one with toolcrib client add"}}`) //nolint:errcheck // a test
		return true
	}
}

func TestATokenIsReadAgainWhenItIsRefused(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	peer.Script(requiring("new"))
	h := connect(t, peer.URL, func(o *Options) { o.Token = tokens("old", "new") })
	h.call(wire.Modern, "1", "echo", "{}")
	h.expectParts(echoed("1"))
	h.initialize(wire.Version20251125)
	if n := peer.Executions("echo"); n != 1 {
		t.Errorf("executed %d times", n)
	}
}

func TestATokenThatStaysRefused(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	peer.Script(requiring("right"))
	h := connect(t, peer.URL, func(o *Options) { o.Token = tokens("wrong") })
	for _, era := range []wire.Era{wire.Modern, wire.Legacy} {
		h.call(era, "1", "echo", "{}")
		h.expect(`{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"this token is not known; get one with toolcrib client add"}}`)
	}
	if n := len(peer.Seen()); n != 2 {
		t.Errorf("%d requests for two calls with the same token", n)
	}
}

func TestATokenThatCannotBeRead(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	h := connect(t, peer.URL, func(o *Options) {
		o.Token = func(context.Context) (string, error) {
			return "", crib.Errorf(crib.Invalid, "tokens/local is readable by others")
		}
	})
	h.call(wire.Modern, "1", "echo", "{}")
	h.expectParts(`"id":1,"error"`, "tokens/local is readable by others", `"io.toolcrib/code":"denied"`)
	if n := len(peer.Seen()); n > 0 {
		t.Error("a request went out without the token")
	}
}

// A crib is started when none answers, by one start for all requests.
func TestEnsure(t *testing.T) {
	behind := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { forward(t, w, r, behind.URL) })
	l := listenOn(t)
	addr := l.Addr().String()
	l.Close()

	var starts atomic.Int64
	var stop func()
	h := connect(t, "http://"+addr+"/mcp", func(o *Options) {
		o.Ensure = func(context.Context) error {
			starts.Add(1)
			l, err := net.Listen("tcp", addr)
			if err == nil {
				stop = serve(t, l, handler)
			}
			return err
		}
	})
	const many = 10
	for i := range many {
		h.call(wire.Modern, fmt.Sprint(i), "echo", "{}")
	}
	h.answers(many)
	if n := starts.Load(); n != 1 {
		t.Fatalf("started %d times", n)
	}
	stop()
	h.call(wire.Modern, "99", "echo", "{}")
	h.expectParts(echoed("99"))
	if n := starts.Load(); n != 2 {
		t.Errorf("started %d times in all", n)
	}
	if n := behind.Executions("echo"); n != many+1 {
		t.Errorf("%d executions of %d calls", n, many+1)
	}
}

// forward is a small reverse proxy for answers that are no streams.
func forward(t *testing.T, w http.ResponseWriter, r *http.Request, to string) {
	req, err := http.NewRequestWithContext(r.Context(), r.Method, to, r.Body)
	if err != nil {
		t.Error(err)
		return
	}
	req.Header = r.Header.Clone()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	for k, v := range resp.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(resp.StatusCode)
	io.Copy(w, resp.Body) //nolint:errcheck // the client may leave
}

func TestACribThatCannotBeStarted(t *testing.T) {
	l := listenOn(t)
	addr := l.Addr().String()
	l.Close()
	cases := []struct {
		name   string
		ensure func(context.Context) error
		want   string
	}{
		{"nobody starts one", nil, "no crib answers at " + addr + ", so nothing was executed; start it with: toolcrib serve"},
		{"it started elsewhere", func(context.Context) error { return nil }, "no crib answers at " + addr},
		{"it fails", func(context.Context) error { return crib.Errorf(crib.Invalid, "toolcrib.yaml:3: no such key") }, "the crib cannot be started: toolcrib.yaml:3: no such key"},
		{"it fails for reasons of its own", func(context.Context) error { return errors.New("/home/me/secret") }, "the crib cannot be started: the crib met an internal fault"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := connect(t, "http://"+addr+"/mcp", func(o *Options) { o.Ensure = c.ensure })
			for i := range 3 { // it goes on trying, and lives on
				h.call(wire.Modern, fmt.Sprint(i), "echo", "{}")
				h.expectParts(fmt.Sprintf(`"id":%d,"error"`, i), c.want, `"io.toolcrib/code":"unavailable"`)
			}
			h.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
			h.expectParts(`"id":"i","error"`, c.want)
		})
	}
}

// A call is written once, whatever becomes of it; what does nothing twice is
// written again.
func TestAtMostOnce(t *testing.T) {
	cases := []struct {
		method, params string
		posts          int
		want           string
	}{
		{"tools/call", `"name":"echo",`, 1, "it is not known whether it was executed"},
		{"vendor/pay", ``, 1, "it is not known whether it was executed"},
		{"tools/list", ``, 2, "send it again"},
	}
	for _, c := range cases {
		for _, fault := range []struct {
			name string
			do   mcptest.Script
		}{
			{"cut before the head", func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
				mcptest.Hijack(t, w).Close()
				return true
			}},
			{"cut in the body", func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
				w.Header().Set("Content-Length", "100")
				w.WriteHeader(http.StatusOK)
				io.WriteString(w, `{"jsonrpc"`) //nolint:errcheck // a test
				return true
			}},
			{"stream without answer", func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
				mcptest.SSEStyle{}.StartSSE(w)
				return true
			}},
		} {
			t.Run(c.method+"/"+fault.name, func(t *testing.T) {
				peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
				h := connect(t, peer.URL)
				h.call(wire.Modern, "0", "echo", "{}") // a connection to use again
				h.expectParts(echoed("0"))
				var posts atomic.Int64
				peer.Script(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
					posts.Add(1)
					return fault.do(w, r, body)
				})
				h.send(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s%s}}`, c.method, c.params, modernMeta)
				h.expectParts(`"id":1,"error"`, c.want)
				want := int64(1)
				if fault.name == "cut before the head" {
					want = int64(c.posts)
				}
				if n := posts.Load(); n != want {
					t.Errorf("written %d times, want %d", n, want)
				}
			})
		}
	}
}

// A crib that went away while a connection was kept has executed nothing of
// what it did not ask for: such a call goes out on another connection.
func TestACallThatWasNotTakenIsSentAgain(t *testing.T) {
	var posts, taken atomic.Int64
	l := listenOn(t)
	serve(t, l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if posts.Add(1) == 1 {
			mcptest.Hijack(t, w).Close() // the body was not asked for
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		taken.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.Write(wire.ResultBody([]byte(mcptest.RequestID(body)), []byte("{}"))) //nolint:errcheck // a test
	}))
	h := connect(t, "http://"+l.Addr().String())
	h.call(wire.Modern, "1", "echo", "{}")
	h.expect(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	if posts.Load() != 2 || taken.Load() != 1 {
		t.Errorf("%d requests, %d of them taken", posts.Load(), taken.Load())
	}
}

func TestALegacyStreamIsTakenUpAgain(t *testing.T) {
	for _, how := range []mcptest.Break{mcptest.BreakEnd, mcptest.BreakCut, mcptest.BreakEarly} {
		peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{EventIDs: true})
		h := connect(t, peer.URL)
		h.initialize(wire.Version20251125)
		peer.BreakOn("slow", how)
		h.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{"ticks":2},"_meta":{"progressToken":1}}}`)
		h.expectParts("notifications/progress", `"progress":1`)
		h.expectParts("notifications/progress", `"progress":2`)
		h.expectParts(echoed("1"), "released")
		if n := peer.Executions("slow"); n != 1 {
			t.Errorf("break %d: executed %d times", how, n)
		}
	}
}

func TestALegacyStreamThatCannotBeTakenUp(t *testing.T) {
	for _, ids := range []bool{false, true} {
		peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{EventIDs: ids})
		h := connect(t, peer.URL)
		h.initialize(wire.Version20251125)
		peer.BreakOn("echo", mcptest.BreakCut)
		if ids {
			peer.Script(func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				if r.Header.Get(wire.HeaderLastEventID) == "" {
					return false
				}
				w.WriteHeader(http.StatusBadRequest)
				return true
			})
		}
		h.call(wire.Legacy, "1", "echo", "{}")
		h.expectParts(`"id":1,"error"`, `"io.toolcrib/code":"unknown"`)
		if n := peer.Executions("echo"); n != 1 {
			t.Errorf("executed %d times", n)
		}
	}
}

// A crib that restarted knows no session: one new one is opened for all, it is
// told what the old one was, and nothing is lost or done twice.
func TestALostSession(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{Strict: true})
	h := connect(t, peer.URL)
	h.initialize(wire.Version20250618)
	h.send(`{"jsonrpc":"2.0","id":"l","method":"logging/setLevel","params":{"level":"error"}}`)
	h.expectParts(echoed(`"l"`))
	h.send(`{"jsonrpc":"2.0","id":"s","method":"resources/subscribe","params":{"uri":"text://hello"}}`)
	h.expectParts(echoed(`"s"`))
	h.send(`{"jsonrpc":"2.0","id":"s2","method":"resources/subscribe","params":{"uri":"text://other"}}`)
	h.expectParts(echoed(`"s2"`))
	h.send(`{"jsonrpc":"2.0","id":"u","method":"resources/unsubscribe","params":{"uri":"text://other"}}`)
	h.expectParts(echoed(`"u"`))

	peer.Forget()
	const many = 10
	for i := range many {
		h.call(wire.Legacy, fmt.Sprint(i), "echo", "{}")
	}
	for id, line := range h.answers(many) {
		if !strings.Contains(line, echoed(id)) {
			t.Errorf("got %s", line)
		}
	}
	if n := peer.Sessions(); n != 2 {
		t.Errorf("%d sessions were opened, want 2", n)
	}
	if n := peer.Executions("echo"); n != many {
		t.Errorf("executed %d times, want %d", n, many)
	}
	for method, want := range map[string]int{"initialize": 2, "notifications/initialized": 2, "logging/setLevel": 2, "resources/subscribe": 3} {
		if n := peer.Requests(method); n != want {
			t.Errorf("%s came %d times, want %d", method, n, want)
		}
	}
	eventually(t, "the new session has its stream", func() bool {
		peer.ListChanged("tools")
		select {
		case l := <-h.lines:
			return strings.Contains(l, "list_changed")
		default:
			return false
		}
	})
	h.in.Close()
	h.wait() //nolint:errcheck // another test
	for _, l := range h.drained() {
		if !strings.Contains(l, "list_changed") {
			t.Errorf("the client sees the renewal: %s", l)
		}
	}
}

// A session that is lost while nothing is asked is renewed too: the client is
// to be told of changes.
func TestALostSessionIsNoticedByItsStream(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	h := connect(t, peer.URL)
	h.initialize(wire.Version20251125)
	peer.WaitFor("notifications/initialized", 1)
	peer.Forget()
	peer.WaitFor("notifications/initialized", 2)
	eventually(t, "a message comes in the new session", func() bool {
		peer.ListChanged("tools")
		select {
		case l := <-h.lines:
			return strings.Contains(l, "list_changed")
		default:
			return false
		}
	})
}

func TestASessionThatStaysLost(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{NoGET: true})
	h := connect(t, peer.URL)
	h.initialize(wire.Version20251125)
	peer.Script(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if !strings.Contains(string(body), "tools/call") {
			return false
		}
		w.WriteHeader(http.StatusNotFound)
		return true
	})
	h.call(wire.Legacy, "1", "echo", "{}")
	h.expectParts(`"id":1,"error"`, "HTTP 404")
	if n := peer.Sessions(); n != 2 {
		t.Errorf("%d sessions were opened", n)
	}

	// An unknown method is no lost session.
	peer.Script(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if !strings.Contains(string(body), "vendor/x") {
			return false
		}
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, mcptest.RequestID(body))
		return true
	})
	h.send(`{"jsonrpc":"2.0","id":2,"method":"vendor/x"}`)
	h.expect(`{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"no such method"}}`)
	if n := peer.Sessions(); n != 2 {
		t.Errorf("%d sessions were opened", n)
	}
}

func TestASecondInitializeEndsTheFirstSession(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	h := connect(t, peer.URL)
	h.initialize(wire.Version20250618)
	h.initialize(wire.Version20251125)
	h.call(wire.Legacy, "1", "echo", "{}")
	h.expectParts(echoed("1"))
	eventually(t, "one session is left", func() bool { return peer.LiveSessions() == 1 })
	if got := peer.Last("tools/call").Header.Get(wire.HeaderProtocolVersion); got != wire.Version20251125 {
		t.Errorf("the version is %s", got)
	}
}

func TestAnswersThatNoCribGives(t *testing.T) {
	write := func(status int, kind, body string) mcptest.Script {
		return func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			io.WriteString(w, body) //nolint:errcheck // a test
			return true
		}
	}
	cases := []struct {
		name   string
		script mcptest.Script
		want   []string
	}{
		{"a page", write(200, "text/html", "<p>router</p>"), []string{"HTTP 200", "toolcrib status"}},
		{"nothing", write(202, "", ""), []string{"HTTP 202"}},
		{"a redirect", write(302, "text/html", ""), []string{"HTTP 302"}},
		{"a broken proxy", write(502, "text/html", ""), []string{"HTTP 502", `"io.toolcrib/code":"unknown"`}},
		{"an answer for another", write(200, "application/json", `{"jsonrpc":"2.0","id":2,"result":{}}`), []string{"HTTP 200"}},
		{"an error without id", write(403, "application/json", `{"jsonrpc":"2.0","error":{"code":-32600,"message":"host not allowed","data":[1.0]}}`), []string{`"code":-32600,"message":"host not allowed","data":[1.0]`}},
		{"an error with its id and a status", write(429, "application/json; charset=utf-8", `{"jsonrpc":"2.0","id":1,`+"\r\n"+`"error":{"code":-1,"message":"slow down"}}`+"\n"), []string{`{"jsonrpc":"2.0","id":1,  "error":{"code":-1,"message":"slow down"}}`}},
	}
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	h := connect(t, peer.URL)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			peer.Script(c.script)
			h.call(wire.Modern, "1", "echo", "{}")
			got := h.expectParts(append(c.want, `"id":1`, `"error"`)...)
			if strings.Contains(got, "router") {
				t.Errorf("what another program said is shown: %s", got)
			}
		})
	}
	peer.Script(nil)
	h.call(wire.Modern, "1", "echo", "{}")
	h.expectParts(echoed("1"))
}

// Streams may be spelled in any way, and hold things that are no messages.
func TestEventStreams(t *testing.T) {
	for _, style := range []mcptest.SSEStyle{{}, {End: "\r\n", Comments: true, Mark: true}, {End: "\r", SplitData: true}} {
		peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
		peer.Script(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
			style.StartSSE(w)
			style.WriteSSE(w,
				mcptest.Event{Data: "no message"},
				mcptest.Event{Name: "other", Data: `{"jsonrpc":"2.0","method":"x"}`},
				mcptest.Event{Data: `{"jsonrpc":"2.0","id":2,"result":{}}`},
				mcptest.Event{Data: `{"jsonrpc":"2.0","method":"notifications/message","params":{"n":1.0}}`},
				mcptest.Event{Data: `{"jsonrpc":"2.0","id":` + mcptest.RequestID(body) + `,"result":{}}`},
				mcptest.Event{Data: `{"jsonrpc":"2.0","method":"too-late"}`},
			)
			return true
		})
		h := connect(t, peer.URL)
		h.call(wire.Modern, "1", "echo", "{}")
		h.expectParts(`"method":"notifications/message","params":{"n":1.0}`)
		h.expectParts(echoed("1"))
		h.in.Close()
		h.wait() //nolint:errcheck // another test
		if rest := h.drained(); len(rest) > 0 {
			t.Errorf("%q was written too", rest)
		}
	}
}

func TestTheEndLetsOpenRequestsFinish(t *testing.T) {
	for _, byContext := range []bool{false, true} {
		peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
		h := connect(t, peer.URL)
		h.initialize(wire.Version20251125)
		release := filepath.Join(t.TempDir(), "release")
		args := fmt.Sprintf(`{"release":%q}`, release)
		h.call(wire.Modern, "1", "slow", args)
		h.call(wire.Legacy, "2", "slow", args)
		peer.WaitFor("tools/call", 2)
		if byContext {
			h.stop()
		} else {
			h.in.Close()
		}
		touchFile(t, release)
		h.answers(2)
		if err := h.wait(); err != nil {
			t.Error(err)
		}
		if n := peer.LiveSessions(); n != 0 {
			t.Errorf("by context %t: %d sessions are left open", byContext, n)
		}
	}
}

func TestTheEndDoesNotWaitForEver(t *testing.T) {
	for name, end := range map[string]func(*harness){
		"input ends": func(h *harness) { h.in.Close() },
		"a signal":   func(h *harness) { h.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
			h := connect(t, peer.URL, func(o *Options) { o.Grace = 10 * time.Millisecond })
			h.initialize(wire.Version20251125)
			args := fmt.Sprintf(`{"release":%q}`, filepath.Join(t.TempDir(), "never"))
			h.call(wire.Modern, "1", "slow", args)
			h.call(wire.Legacy, "2", "slow", args)
			peer.WaitFor("tools/call", 2)
			end(h)
			if err := h.wait(); err != nil {
				t.Error(err)
			}
			eventually(t, "the modern call is cancelled", func() bool { return len(peer.Cancelled()) > 0 })
			if n := peer.LiveSessions(); n != 0 {
				t.Errorf("%d sessions are left open", n)
			}
		})
	}
}

func TestAClientThatReadsNoMore(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	outR, outW := io.Pipe()
	outR.Close()
	h := connect(t, peer.URL, func(o *Options) { o.Out = outW })
	h.call(wire.Modern, "1", "echo", "{}")
	if err := h.wait(); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Run returned %v", err)
	}
}

// A client that does not read holds up its own messages, but not the end.
func TestAClientThatDoesNotRead(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	outR, outW := io.Pipe()
	h := connect(t, peer.URL, func(o *Options) { o.Out, o.Grace = outW, time.Millisecond })
	h.call(wire.Modern, "1", "echo", "{}")
	h.send("no message")
	h.call(wire.Modern, "2", "echo", "{}")
	peer.WaitFor("tools/call", 2)
	h.stop()
	if err := h.wait(); err != nil {
		t.Error(err)
	}
	outR.Close()
}

func TestAnswersThatAreTooLarge(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	h := connect(t, peer.URL)
	large := strings.Repeat("x", MaxAnswer)
	for _, stream := range []bool{false, true} {
		peer.Script(func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
			kind, before := "application/json", ""
			if stream {
				kind, before = "text/event-stream", "data: "
			}
			w.Header().Set("Content-Type", kind)
			io.WriteString(w, before+`{"jsonrpc":"2.0","id":1,"result":"`) //nolint:errcheck // the relay leaves
			io.WriteString(w, large)                                       //nolint:errcheck // the relay leaves
			io.WriteString(w, "\"}\n\n")                                   //nolint:errcheck // the relay leaves
			return true
		})
		h.call(wire.Modern, "1", "echo", "{}")
		h.expectParts(`"id":1,"error"`, `"io.toolcrib/code":"too_large"`)
	}
	peer.Script(nil)
	h.call(wire.Modern, "1", "echo", "{}")
	h.expectParts(echoed("1"))
}

func TestOpenRequestsAreLimited(t *testing.T) {
	var o openRequests
	o.init()
	add := func(era wire.Era, id string) error {
		return o.add(&request{id: id, era: era})
	}
	for i := range MaxOpen - 1 {
		if err := add(wire.Modern, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := add(wire.Legacy, "0"); err != nil {
		t.Errorf("an id of the other era: %v", err)
	}
	if err := add(wire.Modern, "one more"); crib.CodeOf(err) != crib.Busy {
		t.Errorf("over the limit: %v", err)
	}
	o.remove(o.get(wire.Legacy, "0"))
	if err := add(wire.Modern, "one more"); err != nil {
		t.Errorf("after one ended: %v", err)
	}
}

func TestOptionsThatAreMissing(t *testing.T) {
	for _, o := range []Options{
		{URL: "http://127.0.0.1:1/v1/mcp"},
		{URL: "8090", In: strings.NewReader(""), Out: io.Discard},
	} {
		if err := Run(t.Context(), o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
