package mcpstdio

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

const awkward = `{"id":9007199254740993,"r":1.0,"e":1e2,"s":"<&>\u2028","x":{}}`

func echoed(id string) string {
	return `"id":` + id + `,"result":`
}

func TestBothErasOnOnePipe(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{Strict: true})
	h := connect(t, peer.URL)
	h.send(`{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{%s}}`, modernMeta)
	h.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	lines := h.receive() + h.receive()
	for _, part := range []string{`"supportedVersions"`, `"protocolVersion":"2025-11-25"`} {
		if !strings.Contains(lines, part) {
			t.Errorf("%s lacks %s", lines, part)
		}
	}
	h.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	h.call(wire.Modern, "1", "echo", awkward)
	h.call(wire.Legacy, `"1"`, "echo", awkward)
	got := h.answers(2)
	for _, id := range []string{"1", `"1"`} {
		if !strings.Contains(got[id], `"structuredContent":`+awkward) {
			t.Errorf("id %s: %q does not carry %s", id, got[id], awkward)
		}
	}
	if !strings.Contains(got["1"], `"resultType":"complete"`) || strings.Contains(got[`"1"`], "resultType") {
		t.Errorf("the eras were mixed: %v", got)
	}
}

func TestAnIdIsFreeWithItsAnswer(t *testing.T) {
	h := connect(t, mcptest.NewHTTP(t, mcptest.HTTPOptions{}).URL)
	h.initialize(wire.Version20250618)
	for range 50 {
		h.call(wire.Modern, "1", "echo", "{}")
		h.expectParts(echoed("1"))
		h.call(wire.Legacy, "1", "echo", "{}")
		h.expectParts(echoed("1"))
	}
}

func TestAnIdThatIsOpenIsRefused(t *testing.T) {
	h := connect(t, mcptest.NewHTTP(t, mcptest.HTTPOptions{}).URL)
	release := filepath.Join(t.TempDir(), "release")
	h.call(wire.Modern, "1", "slow", fmt.Sprintf(`{"release":%q}`, release))
	h.call(wire.Modern, "1", "echo", "{}")
	h.expectParts(`"id":1`, `"code":-32600`, "already open")
	touchFile(t, release)
	h.expectParts(`"id":1`, "released")
}

func touchFile(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLinesThatAreNoMessages(t *testing.T) {
	const limit = 2_000
	long := strings.Repeat("x", limit)
	cases := []struct{ name, line, want string }{
		{"text", `Starting up`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`},
		{"half a message", `{"jsonrpc":"2.0","id":1,`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		{"a number", `42`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		{"no version", `{"id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,`},
		{"a name twice", `{"jsonrpc":"2.0","method":"ping","params":{"a":1,"a":2},"id":"x"}`, `{"jsonrpc":"2.0","id":"x","error":{"code":-32600,`},
		{"a name in other case", `{"jsonrpc":"2.0","id":2,"method":"tools/list","METHOD":"tools/call"}`, `{"jsonrpc":"2.0","id":2,"error":{"code":-32600,`},
		{"a fraction as id", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		{"null as id", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		{"a response with both", `{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		{"too long", `{"jsonrpc":"2.0","id":3,"method":"ping","params":{"x":"` + long + `"}}`, `{"jsonrpc":"2.0","id":3,"error":{"code":-32600,"message":"a message may have at most 2000 bytes"`},
		{"a response too long", `{"jsonrpc":"2.0","id":4,"result":{"x":"` + long + `"}}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
	}
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	h := connect(t, peer.URL, func(o *Options) { o.MaxLine = limit })
	h.send("\uFEFF\r")
	h.send("\r")
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h.send("%s", c.line)
			if got := h.receive(); !strings.HasPrefix(got, c.want) {
				t.Errorf("got %s, want %s…", got, c.want)
			}
		})
	}
	if n := len(peer.Seen()); n > 0 {
		t.Errorf("%d of them went to the crib", n)
	}
	h.call(wire.Modern, "1", "echo", `{"x":"`+strings.Repeat("y", limit-500)+`"}`)
	h.expectParts(echoed("1"))
	h.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{%s}}`+"\r", modernMeta)
	h.expectParts(echoed("2"))
}

// A mark at the start and a missing line end at the end do no harm.
func TestFirstAndLastLine(t *testing.T) {
	h := connect(t, mcptest.NewHTTP(t, mcptest.HTTPOptions{}).URL)
	message := `{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":{%s}}`
	h.send("\uFEFF"+message, 1, modernMeta)
	h.expectParts(echoed("1"))
	if _, err := fmt.Fprintf(h.in, message, 2, modernMeta); err != nil {
		t.Fatal(err)
	}
	h.in.Close()
	h.expectParts(echoed("2"))
	if err := h.wait(); err != nil {
		t.Error(err)
	}
}

func TestHeaders(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{Strict: true})
	h := connect(t, peer.URL, func(o *Options) { o.Token = tokens("tcb_one") })
	h.send(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"text://grüß dich",%s}}`, modernMeta)
	h.expectParts(echoed("1"))
	h.initialize(wire.Version20250618)
	h.call(wire.Legacy, "2", "echo", "{}")
	h.expectParts(echoed("2"))

	modern, hello, legacy := peer.Last("resources/read").Header, peer.Last("initialize").Header, peer.Last("tools/call").Header
	for _, c := range []struct {
		what   string
		header http.Header
		name   string
		want   string
	}{
		{"modern", modern, wire.HeaderProtocolVersion, wire.Version20260728},
		{"modern", modern, wire.HeaderMethod, "resources/read"},
		{"modern", modern, wire.HeaderName, wire.EncodeHeader("text://grüß dich")},
		{"modern", modern, wire.HeaderSession, ""},
		{"modern", modern, wire.HeaderRelay, "stdio"},
		{"modern", modern, "Authorization", "Bearer tcb_one"},
		{"modern", modern, "Accept", "application/json, text/event-stream"},
		{"modern", modern, "Origin", ""},
		{"initialize", hello, wire.HeaderSession, ""},
		{"initialize", hello, wire.HeaderProtocolVersion, ""},
		{"legacy", legacy, wire.HeaderProtocolVersion, wire.Version20250618},
		{"legacy", legacy, wire.HeaderMethod, ""},
		{"legacy", legacy, wire.HeaderRelay, "stdio"},
		{"legacy", legacy, "Authorization", "Bearer tcb_one"},
	} {
		if got := c.header.Get(c.name); got != c.want {
			t.Errorf("%s: %s is %q, want %q", c.what, c.name, got, c.want)
		}
	}
	if legacy.Get(wire.HeaderSession) == "" {
		t.Error("a legacy call came without its session")
	}
}

// What a modern client does not say rightly is for the crib to refuse.
func TestMetaThatIsNotInOrder(t *testing.T) {
	h := connect(t, mcptest.NewHTTP(t, mcptest.HTTPOptions{}).URL)
	for i, version := range []string{`"2031-01-01"`, `"a\nb"`, `7`, `null`} {
		h.send(`{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":%s,"io.modelcontextprotocol/clientCapabilities":{}}}}`, i, version)
		h.expectParts(fmt.Sprintf(`"id":%d,"error"`, i))
	}
}

func TestCancelModern(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	h := connect(t, peer.URL)
	release := filepath.Join(t.TempDir(), "release")
	args := fmt.Sprintf(`{"release":%q}`, release)
	h.call(wire.Modern, "7", "slow", args)
	h.call(wire.Modern, `"7"`, "slow", args)
	peer.WaitFor("tools/call", 2)
	h.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"7"}}`)
	h.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`)
	eventually(t, "the crib sees that the client left", func() bool { return len(peer.Cancelled()) > 0 })
	if got := peer.Cancelled(); !slices.Equal(got, []string{`"7"`}) {
		t.Fatalf("cancelled %v", got)
	}
	touchFile(t, release)
	h.expectParts(echoed("7"))
	h.in.Close()
	if err := h.wait(); err != nil {
		t.Error(err)
	}
	if rest := h.drained(); len(rest) > 0 {
		t.Errorf("written after the cancellation: %q", rest)
	}
	if n := peer.Requests("notifications/cancelled"); n > 0 {
		t.Error("a modern crib was sent a cancellation")
	}
}

func TestCancelLegacy(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	h := connect(t, peer.URL)
	h.initialize(wire.Version20251125)
	release := filepath.Join(t.TempDir(), "release")
	h.call(wire.Legacy, "7", "slow", fmt.Sprintf(`{"release":%q}`, release))
	h.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	eventually(t, "the crib is told", func() bool { return len(peer.Cancelled()) > 0 })
	if got := peer.Cancelled(); !slices.Equal(got, []string{"7"}) {
		t.Fatalf("cancelled %v", got)
	}
	touchFile(t, release)
	h.call(wire.Legacy, "8", "echo", "{}")
	h.expectParts(echoed("8"))
	h.in.Close()
	h.wait() //nolint:errcheck // another test
	if rest := h.drained(); len(rest) > 0 {
		t.Errorf("written after the cancellation: %q", rest)
	}
}

// A crib may answer what was cancelled, and say more before; the client hears
// none of it.
func TestNothingIsWrittenForWhatWasCancelled(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	h := connect(t, peer.URL)
	h.initialize(wire.Version20251125)
	began, told := make(chan struct{}), make(chan struct{})
	peer.Script(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
		if strings.Contains(string(body), "notifications/cancelled") {
			close(told)
			return false
		}
		if !strings.Contains(string(body), "tools/call") {
			return false
		}
		mcptest.SSEStyle{}.StartSSE(w)
		close(began)
		<-told
		mcptest.SSEStyle{}.WriteSSE(w, mcptest.Event{Data: `{"jsonrpc":"2.0","method":"notifications/message"}`},
			mcptest.Event{Data: `{"jsonrpc":"2.0","id":7,"result":{}}`})
		return true
	})
	h.call(wire.Legacy, "7", "echo", "{}")
	<-began
	h.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	h.in.Close()
	if err := h.wait(); err != nil {
		t.Error(err)
	}
	if rest := h.drained(); len(rest) > 0 {
		t.Errorf("%q was written", rest)
	}
}

// A cancellation comes to the crib behind what it cancels, however long the
// crib takes to read that.
func TestACancellationDoesNotOvertakeItsRequest(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{NoGET: true})
	var posts atomic.Int64
	reached, release := make(chan struct{}), make(chan struct{})
	l := listenOn(t)
	serve(t, l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && posts.Add(1) == 3 { // behind initialize and notifications/initialized
			close(reached)
			<-release
		}
		forward(t, w, r, peer.URL)
	}))
	h := connect(t, "http://"+l.Addr().String())
	h.initialize(wire.Version20251125)
	h.call(wire.Legacy, "7", "slow", fmt.Sprintf(`{"release":%q}`, filepath.Join(t.TempDir(), "never")))
	<-reached
	h.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	for i := range 5 {
		h.call(wire.Modern, fmt.Sprint(i), "echo", "{}")
		h.expectParts(echoed(fmt.Sprint(i)))
	}
	if n := peer.Requests("notifications/cancelled"); n > 0 {
		t.Error("the cancellation came first")
	}
	close(release)
	eventually(t, "the crib is told", func() bool { return len(peer.Cancelled()) > 0 })
}

// What is cancelled before it could be sent is not sent.
func TestCancelledWhileTheCribIsStarted(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{NoGET: true})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { forward(t, w, r, peer.URL) })
	l := listenOn(t)
	addr := l.Addr().String()
	stop := serve(t, l, handler)
	starting, release := make(chan struct{}, 9), make(chan struct{})
	close(release)
	h := connect(t, "http://"+addr, func(o *Options) {
		o.Ensure = func(context.Context) error {
			starting <- struct{}{}
			<-release
			if l, err := net.Listen("tcp", addr); err == nil {
				serve(t, l, handler)
			}
			return nil
		}
	})
	h.initialize(wire.Version20251125)
	peer.WaitFor("notifications/initialized", 1)
	<-starting
	release = make(chan struct{})
	stop()
	h.call(wire.Legacy, "7", "echo", "{}")
	<-starting
	h.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	h.send("behind it")
	h.expectParts(`"code":-32700`)
	close(release)
	h.call(wire.Legacy, "8", "echo", "{}")
	h.expectParts(echoed("8"))
	if n := peer.Executions("echo"); n != 1 {
		t.Errorf("%d calls were executed, want the second alone", n)
	}
}

func TestSubscriptionAndProgress(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	h := connect(t, peer.URL)
	h.send(`{"jsonrpc":"2.0","id":"listen:0","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},%s}}`, modernMeta)
	h.expectParts("notifications/subscriptions/acknowledged")
	peer.ListChanged("tools")
	h.expectParts("notifications/tools/list_changed", `"io.modelcontextprotocol/subscriptionId":"listen:0"`)
	h.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{"ticks":2},%s,"progressToken":"p"}}}`, strings.TrimSuffix(modernMeta, "}"))
	for i := range 2 {
		h.expect(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":%d,"total":2.0,"message":"tick","x-p":"keep"}}`, i+1))
	}
	h.expectParts(echoed("1"))

	// The client's end is the end of what has no end of its own.
	h.in.Close()
	began := time.Now()
	if err := h.wait(); err != nil || time.Since(began) > Grace/2 {
		t.Errorf("Run returned %v after %s", err, time.Since(began))
	}
}

func TestWhatTheCribBeginsInALegacySession(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	h := connect(t, peer.URL)
	h.initialize(wire.Version20251125)
	eventually(t, "the stream is open", func() bool {
		return slices.ContainsFunc(peer.Seen(), func(s mcptest.Seen) bool { return s.HTTPMethod == http.MethodGet })
	})
	peer.ListChanged("tools")
	h.expectParts("notifications/tools/list_changed")

	h.call(wire.Legacy, "1", "elicit", "{}")
	question := h.expectParts(`"method":"elicitation/create"`)
	h.send(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"a":1.0}}}`, wire.Get([]byte(question), "id"))
	h.expectParts(echoed("1"), "1.0")

	// The stream is opened again when it breaks.
	peer.CutConnections()
	eventually(t, "a message comes on the new stream", func() bool {
		peer.ListChanged("prompts")
		select {
		case l := <-h.lines:
			return strings.Contains(l, "notifications/prompts/list_changed")
		default:
			return false
		}
	})
}

func TestMessagesBeforeInitialize(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	h := connect(t, peer.URL)
	h.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	h.send(`{"jsonrpc":"2.0","id":"q","result":{}}`)
	h.call(wire.Legacy, "1", "echo", "{}")
	h.expectParts(`"id":1,"error"`)
	if n := len(peer.Seen()); n != 1 {
		t.Errorf("%d messages went to the crib, want the request alone", n)
	}
}

// A client need not wait for the answer to initialize: what follows it comes
// to the crib behind it, and behind the notifications between.
func TestPipelinedInitialize(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{Strict: true})
	h := connect(t, peer.URL)
	h.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	h.expectParts(echoed("0"))
	h.expectParts(echoed("1"))
	var order []string
	for _, s := range peer.Seen() {
		if s.HTTPMethod == http.MethodPost {
			order = append(order, s.RPCMethod)
		}
	}
	if want := []string{"initialize", "notifications/initialized", "tools/list"}; !slices.Equal(order, want) {
		t.Errorf("the crib saw %v, want %v", order, want)
	}
}
