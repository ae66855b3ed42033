package mcptest

import (
	"bytes"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/toolcrib/toolcrib/internal/wire"
)

const oddArguments = `{"id":9007199254740993,"r":1.0,"e":1e2,"s":"<&> ` + "\u2028" + ` \u00e9"}`

func TestHTTPEchoKeepsBytesInBothEras(t *testing.T) {
	h := NewHTTP(t, HTTPOptions{Strict: true})
	c := NewClient(t, h.URL)
	c.Initialize(wire.Version20250618)
	for _, era := range []wire.Era{wire.Legacy, wire.Modern} {
		r := c.Post(era, "tools/call", `{"name":"echo","arguments":`+oddArguments+`}`)
		if r.Status != http.StatusOK || r.Text() != oddArguments || string(member(r.Result(), "structuredContent")) != oddArguments {
			t.Errorf("%s: %v", era, r)
		}
		if (member(r.Result(), "resultType") != nil) != (era == wire.Modern) {
			t.Errorf("%s: %v", era, r)
		}
	}
	if h.Executions("echo") != 2 || h.Requests("tools/call") != 2 || h.Sessions() != 1 {
		t.Errorf("%d executions, %d requests, %d sessions", h.Executions("echo"), h.Requests("tools/call"), h.Sessions())
	}
	if seen := h.Last("tools/call"); seen.Header.Get(wire.HeaderName) != "echo" || seen.Header.Get(wire.HeaderSession) != "" {
		t.Errorf("headers %v", seen.Header)
	}
}

func TestHTTPModernChecks(t *testing.T) {
	h := NewHTTP(t, HTTPOptions{Strict: true})
	c := NewClient(t, h.URL)
	const headed = `{"name":"headed","arguments":{"region":"Zürich","count":3}}`
	for _, tc := range []struct {
		name, method, params string
		headers              []string
		status, code         int
	}{
		{"in order", "tools/list", "", nil, 200, 0},
		{"discover", "server/discover", "", nil, 200, 0},
		{"no method header", "tools/list", "", []string{"Mcp-Method:"}, 400, wire.CodeHeaderMismatch},
		{"another name", "tools/call", `{"name":"echo"}`, []string{"Mcp-Name: raw"}, 400, wire.CodeHeaderMismatch},
		{"no version header", "tools/list", "", []string{"Mcp-Protocol-Version:"}, 400, wire.CodeHeaderMismatch},
		{"unknown version", "tools/list", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2020-01-01"}}`, []string{"Mcp-Protocol-Version: 2020-01-01"}, 400, wire.CodeUnsupportedVersion},
		{"param headers", "tools/call", headed, []string{"Mcp-Param-Region: =?base64?WsO8cmljaA==?=", "Mcp-Param-Count: 3"}, 200, 0},
		{"a param header is missing", "tools/call", headed, []string{"Mcp-Param-Count: 3"}, 400, wire.CodeHeaderMismatch},
		{"a param header too many", "tools/call", `{"name":"echo"}`, []string{"Mcp-Param-Count: 3"}, 400, wire.CodeHeaderMismatch},
		{"unknown method", "none/such", "", nil, 404, wire.CodeMethodNotFound},
		{"unknown tool", "tools/call", `{"name":"none"}`, nil, 400, wire.CodeInvalidParams},
		{"error of a tool", "tools/call", `{"name":"rpcerror"}`, nil, 200, -32099},
		{"initialize", "initialize", `{"protocolVersion":"x"}`, nil, 400, wire.CodeUnsupportedVersion},
		{"not JSON", "tools/list", "", []string{"Content-Type: text/plain"}, 415, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := c.Post(wire.Modern, tc.method, tc.params, tc.headers...)
			if r.Status != tc.status || r.RPCError().Code != tc.code {
				t.Errorf("%v, want %d and code %d", r, tc.status, tc.code)
			}
		})
	}
	if r := c.Raw(http.MethodPost, ` [{"jsonrpc":"2.0"}]`, "Content-Type: application/json"); r.Status != 400 || r.RPCError().Code != wire.CodeInvalidRequest {
		t.Errorf("batch: %v", r)
	}
}

func TestHTTPSessions(t *testing.T) {
	h := NewHTTP(t, HTTPOptions{Strict: true})
	c := NewClient(t, h.URL)
	if r := c.Post(wire.Legacy, "tools/list", ""); r.Status != http.StatusBadRequest {
		t.Errorf("without a session: %v", r)
	}
	if r := c.Initialize(""); r.Status != http.StatusOK || c.Session == "" || c.Version != wire.NewestLegacy {
		t.Fatalf("initialize: %v", r)
	}
	if r := c.Post(wire.Legacy, "tools/list", "", "Mcp-Protocol-Version: 2025-03-26"); r.Status != http.StatusBadRequest {
		t.Errorf("with another version: %v", r)
	}
	h.Forget()
	if r := c.Post(wire.Legacy, "tools/list", ""); r.Status != http.StatusNotFound {
		t.Errorf("with a forgotten session: %v", r)
	}
	c.Initialize("")
	if r := c.Delete(); r.Status != http.StatusNoContent || h.LiveSessions() != 0 || h.Sessions() != 2 {
		t.Errorf("delete: %v, %d sessions live", r, h.LiveSessions())
	}
}

func TestHTTPChannelOfASession(t *testing.T) {
	h := NewHTTP(t, HTTPOptions{EventIDs: true})
	c := NewClient(t, h.URL)
	c.Initialize("")
	c.Post(wire.Legacy, "resources/subscribe", `{"uri":"text://hello"}`)
	channel := c.Get()
	c.Post(wire.Legacy, "tools/call", `{"name":"touch","arguments":{"uri":"text://hello"}}`)
	e := channel.Next()
	if !strings.Contains(e.Data, "notifications/resources/updated") {
		t.Errorf("got %+v", e)
	}
	if second := c.Get(); second.Status != http.StatusConflict {
		t.Errorf("a second channel: %v", &second.Reply)
	}
	channel.Close()
	h.ListChanged("tools")
	resumed := c.Get("Last-Event-ID: " + e.ID)
	defer resumed.Close()
	if e := resumed.Next(); !strings.Contains(e.Data, "tools/list_changed") {
		t.Errorf("got %+v", e)
	}
}

func TestHTTPBrokenAnswerIsResumed(t *testing.T) {
	h := NewHTTP(t, HTTPOptions{EventIDs: true})
	c := NewClient(t, h.URL)
	c.Initialize("")
	for _, how := range []Break{BreakEnd, BreakCut, BreakEarly} {
		h.BreakOn("slow", how)
		release := filepath.Join(t.TempDir(), "go")
		if how == BreakEarly {
			release = ""
		}
		r := c.Post(wire.Legacy, "tools/call", `{"_meta":{"progressToken":1},"name":"slow","arguments":{"release":`+quote(releaseNow(t, release))+`}}`)
		if r.Message() != "" || len(r.Events) == 0 || r.Events[0].ID == "" || (r.Err != nil) != (how == BreakCut) {
			t.Fatalf("%d: %v", how, r)
		}
		rest := c.Get("Last-Event-ID: " + r.Events[len(r.Events)-1].ID)
		last := ""
		for e, ok := rest.Any(); ok; e, ok = rest.Any() {
			last = e.Data
		}
		rest.Close()
		if !strings.Contains(last, `"text":"released"`) {
			t.Errorf("%d: the last message is %s", how, last)
		}
	}
	if n := h.Executions("slow"); n != 3 {
		t.Errorf("%d executions", n)
	}
}

// releaseNow makes the file, if it has a name.
func releaseNow(t *testing.T, file string) string {
	t.Helper()
	if file != "" {
		if err := appendLine(file, ""); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

func TestHTTPAskingOnTheStreamOfACall(t *testing.T) {
	h := NewHTTP(t, HTTPOptions{})
	c := NewClient(t, h.URL)
	c.Initialize("")
	s := c.Open(wire.Legacy, "tools/call", `{"name":"elicit","arguments":{}}`)
	defer s.Close()
	ask, _, err := readMessage([]byte(s.Next().Data))
	if err != nil || ask.Method != "elicitation/create" {
		t.Fatalf("asked %s, %v", ask.raw, err)
	}
	if r := c.Respond(string(ask.ID), `{"action":"cancel"}`); r.Status != http.StatusAccepted {
		t.Errorf("the answer: %v", r)
	}
	if e := s.Next(); !strings.Contains(e.Data, `"structuredContent":{"k1":{"action":"cancel"}}`) {
		t.Errorf("got %s", e.Data)
	}
}

func TestHTTPListenAndLeaving(t *testing.T) {
	h := NewHTTP(t, HTTPOptions{Strict: true})
	c := NewClient(t, h.URL)
	s := c.Open(wire.Modern, "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)
	if e := s.Next(); !strings.Contains(e.Data, `"notifications":{"toolsListChanged":true,"resourceSubscriptions":[]}`) {
		t.Fatalf("got %s", e.Data)
	}
	h.ListChanged("prompts")
	h.ListChanged("tools")
	if e := s.Next(); !strings.Contains(e.Data, `"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}`) {
		t.Errorf("got %s", e.Data)
	}
	h.EndListens()
	if e := s.Next(); !strings.Contains(e.Data, `"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":1}}`) {
		t.Errorf("got %s", e.Data)
	}
	s.Close()

	slow := c.OpenID(wire.Modern, `"gone"`, "tools/call", `{"_meta":{"progressToken":1},"name":"slow","arguments":{"release":"/never/there"}}`)
	slow.Next()
	slow.Close()
	Eventually(t, "the cancellation", func() bool { return strings.Join(h.Cancelled(), ",") == `"gone"` })
}

func TestHTTPCutsAndScripts(t *testing.T) {
	h := NewHTTP(t, HTTPOptions{})
	c := NewClient(t, h.URL)
	if r := c.Post(wire.Modern, "tools/call", `{"name":"die"}`); r.Err == nil {
		t.Errorf("die: %v", r)
	}
	h.Script(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		conn := Hijack(t, w)
		defer conn.Close()
		_, err := io.WriteString(conn, "HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 100\r\n\r\n"+RequestID(body))
		return err == nil
	})
	if r := c.Post(wire.Modern, "tools/list", ""); r.Status != 429 || r.Header.Get("Retry-After") != "7" || r.Err == nil || string(r.Body) != "2" {
		t.Errorf("script: %v", r)
	}
}

func TestHTTPOldTransport(t *testing.T) {
	h := NewHTTP(t, HTTPOptions{OldSSE: true, Options: Options{Era: EraLegacy}})
	c := NewClient(t, h.URL)
	if r := c.Initialize(""); r.Status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %v", r)
	}
	s := c.Get()
	defer s.Close()
	e := s.Next()
	if e.Name != "endpoint" {
		t.Fatalf("got %+v", e)
	}
	c.URL = strings.TrimSuffix(h.URL, "/mcp") + e.Data
	if r := c.Post(wire.Legacy, "initialize", `{"protocolVersion":"2024-11-05"}`); r.Status != http.StatusAccepted {
		t.Errorf("initialize: %v", r)
	}
	if e := s.Next(); !strings.Contains(e.Data, `"protocolVersion":"2024-11-05"`) {
		t.Errorf("got %+v", e)
	}
}

func TestEventsSurviveEveryStyle(t *testing.T) {
	events := []Event{
		{ID: "7"},
		{Name: "message", Data: `{"jsonrpc":"2.0","id":1,"result":{"t":"é漢"}}`},
		{Name: "other", ID: "8", Retry: "10", Data: "a\nb"},
	}
	for _, style := range []SSEStyle{{}, {End: "\r\n"}, {End: "\r"}, {Mark: true, Comments: true}, {SplitData: true, End: "\r\n", Mark: true}} {
		var stream bytes.Buffer
		if style.Mark {
			stream.WriteString("\uFEFF")
		}
		for _, e := range events {
			stream.Write(style.Encode(e))
		}
		stream.WriteString("data: unfinished")
		var got []Event
		err := readEvents(iotest.OneByteReader(&stream), func(e Event) { got = append(got, e) }, func(string) {})
		if err != nil || len(got) != len(events) {
			t.Fatalf("%+v: %+v, %v", style, got, err)
		}
		for i, e := range events {
			data := strings.ReplaceAll(got[i].Data, "\n", "")
			if data != strings.ReplaceAll(e.Data, "\n", "") || got[i].ID != e.ID || got[i].Name != e.Name || got[i].Retry != e.Retry {
				t.Errorf("%+v: got %+v, want %+v", style, got[i], e)
			}
		}
	}
}

func TestStyledAnswers(t *testing.T) {
	for _, style := range []SSEStyle{{End: "\r", Trickle: true}, {Mark: true, SplitData: true, Comments: true}} {
		h := NewHTTP(t, HTTPOptions{AlwaysSSE: true, Style: style})
		r := NewClient(t, h.URL).Post(wire.Modern, "tools/call", `{"name":"echo","arguments":{"a":1.0}}`)
		if !isEventStream(r.Header) || r.Text() != `{"a":1.0}` {
			t.Errorf("%+v: %v", style, r)
		}
	}
}

func TestClientKeepsWhatItIsGiven(t *testing.T) {
	h := NewHTTP(t, HTTPOptions{})
	c := NewClient(t, h.URL)
	c.Meta = `"progressToken":1.0`
	r := c.Post(wire.Modern, "tools/call", `{"name":"raw", "arguments":{},"_meta":{ "traceparent" : "x" },"x":1e2}`)
	for _, part := range []string{`"name":"raw", "arguments":{}`, `"traceparent" : "x"`, `"progressToken":1.0`, `"x":1e2`, wire.MetaClientCapabilities} {
		if !strings.Contains(r.Text(), part) {
			t.Errorf("%s is not in %s", part, r.Text())
		}
	}
}
