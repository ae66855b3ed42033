package mcphttp_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

const (
	legacyVersionMeta  = `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}}`
	unknownVersionMeta = `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2027-01-01"}}`
)

// Every modern request says in its headers what it says in its body, and both
// are held to it (2026-07-28, Streamable HTTP, Server Validation).
func TestModernHeaders(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{Strict: true})
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
	echo := callOf("fake__echo", "{}")
	encoded := "=?base64?" + base64.StdEncoding.EncodeToString([]byte("fake__echo")) + "?="
	for _, tc := range []struct {
		name, method, params string
		headers              []string
		status, code         int
	}{
		{"in order", "tools/call", echo, nil, 200, 0},
		{"a session id is ignored", "tools/call", echo, []string{"Mcp-Session-Id: none"}, 200, 0},
		{"a name that nothing asks for", "tools/list", "", []string{"Mcp-Name: x"}, 200, 0},
		{"the name in base64", "tools/call", echo, []string{"Mcp-Name: " + encoded}, 200, 0},
		{"a name that needs base64", "resources/read", `{"uri":"crib.fake+text://Zürich"}`, nil, 200, 0},

		{"no version", "tools/list", "", []string{"Mcp-Protocol-Version:"}, 400, wire.CodeHeaderMismatch},
		{"another version", "tools/list", "", []string{"Mcp-Protocol-Version: 2025-11-25"}, 400, wire.CodeHeaderMismatch},
		{"an unknown version beside a known one", "tools/list", "", []string{"Mcp-Protocol-Version: 2027-01-01"}, 400, wire.CodeHeaderMismatch},
		{"a legacy version in the body", "tools/list", legacyVersionMeta, nil, 400, wire.CodeHeaderMismatch},
		{"no method", "tools/list", "", []string{"Mcp-Method:"}, 400, wire.CodeHeaderMismatch},
		{"another method", "tools/list", "", []string{"Mcp-Method: tools/call"}, 400, wire.CodeHeaderMismatch},
		{"a method in other case", "tools/list", "", []string{"Mcp-Method: Tools/List"}, 400, wire.CodeHeaderMismatch},
		{"no name", "tools/call", echo, []string{"Mcp-Name:"}, 400, wire.CodeHeaderMismatch},
		{"another name", "tools/call", echo, []string{"Mcp-Name: fake__raw"}, 400, wire.CodeHeaderMismatch},
		{"another name in base64", "tools/call", echo, []string{"Mcp-Name: =?base64?eA==?="}, 400, wire.CodeHeaderMismatch},
		{"base64 that is none", "tools/call", echo, []string{"Mcp-Name: =?base64?*?="}, 400, wire.CodeHeaderMismatch},
		{"no name of a prompt", "prompts/get", `{"name":"fake__plain"}`, []string{"Mcp-Name:"}, 400, wire.CodeHeaderMismatch},
		{"no URI", "resources/read", `{"uri":"crib.fake+text://a"}`, []string{"Mcp-Name:"}, 400, wire.CodeHeaderMismatch},
		{"another URI", "resources/read", `{"uri":"crib.fake+text://a"}`, []string{"Mcp-Name: crib.fake+text://b"}, 400, wire.CodeHeaderMismatch},

		{"an unknown version", "tools/list", unknownVersionMeta, []string{"Mcp-Protocol-Version: 2027-01-01"}, 400, wire.CodeUnsupportedVersion},
		{"an unknown method", "none/such", "", nil, 404, wire.CodeMethodNotFound},
		{"a method of the other era", "resources/subscribe", `{"uri":"crib.fake+text://a"}`, nil, 404, wire.CodeMethodNotFound},
		{"ping", "ping", "", nil, 404, wire.CodeMethodNotFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := c.dial("").Post(wire.Modern, tc.method, tc.params, tc.headers...)
			if r.Status != tc.status || r.RPCError().Code != tc.code || string(wire.Get(r.Body, "id")) != "1" {
				t.Errorf("%v, want %d and code %d", r, tc.status, tc.code)
			}
		})
	}
	if n := peer.Executions("echo"); n != 3 {
		t.Errorf("%d calls reached the server", n)
	}
}

// The members that every modern request must carry (2026-07-28, Overview,
// _meta).
func TestModernMeta(t *testing.T) {
	c := newCrib(t, cribOptions{})
	meta := func(members string) string { return `,"params":{"_meta":{` + members + `}}` }
	const (
		version = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
		caps    = `"io.modelcontextprotocol/clientCapabilities":`
	)
	for _, tc := range []struct {
		name, params string
		status, code int
	}{
		{"in order", meta(version + `,` + caps + `{}`), 200, 0},
		{"no params", ``, 400, wire.CodeInvalidParams},
		{"no _meta", `,"params":{}`, 400, wire.CodeInvalidParams},
		{"_meta is no object", `,"params":{"_meta":[]}`, 400, wire.CodeInvalidParams},
		{"no version", meta(caps + `{}`), 400, wire.CodeInvalidParams},
		{"a version that is no string", meta(`"io.modelcontextprotocol/protocolVersion":20260728,` + caps + `{}`), 400, wire.CodeInvalidParams},
		{"no capabilities", meta(version), 400, wire.CodeInvalidParams},
		{"capabilities are null", meta(version + `,` + caps + `null`), 400, wire.CodeInvalidParams},
		{"capabilities are a list", meta(version + `,` + caps + `[]`), 400, wire.CodeInvalidParams},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := c.dial("").Raw(http.MethodPost, `{"jsonrpc":"2.0","id":"a","method":"server/discover"`+tc.params+`}`,
				"Content-Type: application/json", "Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: server/discover")
			if r.Status != tc.status || r.RPCError().Code != tc.code || string(wire.Get(r.Body, "id")) != `"a"` {
				t.Errorf("%v, want %d and code %d", r, tc.status, tc.code)
			}
		})
	}
}

func TestUnsupportedVersionSaysWhichAreServed(t *testing.T) {
	c := newCrib(t, cribOptions{})
	r := c.dial("").Post(wire.Modern, "server/discover", unknownVersionMeta, "Mcp-Protocol-Version: 2027-01-01")
	const want = `{"supported":["2024-11-05","2025-03-26","2025-06-18","2025-11-25","2026-07-28"],"requested":"2027-01-01"}`
	if e := r.RPCError(); e.Code != wire.CodeUnsupportedVersion || string(e.Data) != want {
		t.Errorf("%v, want the data %s", r, want)
	}
	if listed := string(wire.Get([]byte(c.dial("").Post(wire.Modern, "server/discover", "").Result()), "supportedVersions")); !strings.Contains(want, listed) || listed == "" {
		t.Errorf("discover lists %s", listed)
	}
}

// The modern era has neither GET nor DELETE, whether or not a session is
// named.
func TestModernHasOnlyPOST(t *testing.T) {
	c := newCrib(t, cribOptions{})
	session := c.enter("").Session
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		r := c.dial("").Raw(method, "", "Mcp-Protocol-Version: 2026-07-28", "Mcp-Session-Id: "+session, "Accept: text/event-stream")
		if r.Status != http.StatusMethodNotAllowed || r.Header.Get("Allow") != "POST" {
			t.Errorf("%s: %v, Allow: %q", method, r, r.Header.Get("Allow"))
		}
	}
	if c.gw.Sessions() != 1 {
		t.Error("DELETE ended the session")
	}
}

// headedCases are calls of the tool headed with what mirrors its arguments.
var headedCases = []struct {
	name, args string
	headers    []string
	ok         bool
}{
	{"in order", `{"region":"eu","count":3}`, []string{"Mcp-Param-Region: eu", "Mcp-Param-Count: 3"}, true},
	{"names in other case", `{"region":"eu"}`, []string{"mcp-param-region: eu"}, true},
	{"in base64", `{"region":"Zürich"}`, []string{"Mcp-Param-Region: =?base64?WsO8cmljaA==?="}, true},
	{"another spelling of the number", `{"count":3.0}`, []string{"Mcp-Param-Count: 3"}, true},
	{"a zero", `{"count":-0}`, []string{"Mcp-Param-Count: 0"}, true},
	{"nothing to mirror", `{"other":"x"}`, nil, true},
	{"null", `{"region":null}`, nil, true},

	{"absent", `{"region":"eu"}`, nil, false},
	{"one of two absent", `{"region":"eu","count":3}`, []string{"Mcp-Param-Region: eu"}, false},
	{"another value", `{"region":"eu"}`, []string{"Mcp-Param-Region: us"}, false},
	{"another case", `{"region":"eu"}`, []string{"Mcp-Param-Region: EU"}, false},
	{"another value in base64", `{"region":"eu"}`, []string{"Mcp-Param-Region: =?base64?dXM=?="}, false},
	{"base64 that is none", `{"region":"eu"}`, []string{"Mcp-Param-Region: =?base64?dXM?="}, false},
	{"another number", `{"count":9007199254740991}`, []string{"Mcp-Param-Count: 9007199254740990"}, false},
	{"there without an argument", `{}`, []string{"Mcp-Param-Region: eu"}, false},
	{"there for null", `{"region":null}`, []string{"Mcp-Param-Region: null"}, false},
}

// Arguments that a tool mirrors into headers are checked for every server that
// asks for it, however that is reached; one over HTTP gets them mirrored.
func TestMirroredArguments(t *testing.T) {
	modern := modernPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("modern", modern.URL), httpServer("old", legacyPeer(t).URL), stdioServer("near", mcptest.Peer()))
	for _, endpoint := range []string{"modern", "old", "near", ""} {
		for _, tc := range headedCases {
			t.Run(endpoint+"/"+tc.name, func(t *testing.T) {
				tool := "headed"
				if endpoint == "" {
					tool = "modern__headed"
				}
				before := modern.Executions("headed")
				r := c.dial(endpoint).Post(wire.Modern, "tools/call", callOf(tool, tc.args), tc.headers...)
				switch {
				case !tc.ok && (r.Status != http.StatusBadRequest || r.RPCError().Code != wire.CodeHeaderMismatch):
					t.Errorf("%v, want 400 and %d", r, wire.CodeHeaderMismatch)
				case !tc.ok && modern.Executions("headed") != before:
					t.Error("it was executed")
				case tc.ok && r.Text() != tc.args:
					t.Errorf("%v", r)
				case tc.ok && (endpoint == "" || endpoint == "modern"):
					checkMirrored(t, modern.Last("tools/call").Header, tc.headers)
				}
			})
		}
	}
}

func checkMirrored(t *testing.T, got http.Header, want []string) {
	t.Helper()
	for _, line := range want {
		name, value, _ := strings.Cut(line, ": ")
		if got.Get(name) != value {
			t.Errorf("the server got %s: %q, want %q", name, got.Get(name), value)
		}
	}
	mirrored := 0
	for name := range got {
		if strings.HasPrefix(name, wire.HeaderParamPrefix) {
			mirrored++
		}
	}
	if mirrored != len(want) {
		t.Errorf("%d arguments were mirrored, want %d", mirrored, len(want))
	}
}

// A client on stdio mirrors nothing; the relay that puts its requests on HTTP
// says so. Everything else is checked, and the server gets the headers.
func TestRelayedFromStdio(t *testing.T) {
	strict := mcptest.NewHTTP(t, mcptest.HTTPOptions{Strict: true, Options: mcptest.Options{Era: mcptest.EraModern}})
	c := newCrib(t, cribOptions{}, httpServer("strict", strict.URL))
	cl := c.dial("")
	call := callOf("strict__headed", `{"region":"Zürich","count":3}`)
	if r := cl.Post(wire.Modern, "tools/call", call, "Toolcrib-Relay: stdio"); r.Text() != `{"region":"Zürich","count":3}` {
		t.Errorf("relayed: %v", r)
	}
	got := strict.Last("tools/call").Header
	if got.Get("Mcp-Param-Region") != "=?base64?WsO8cmljaA==?=" || got.Get("Mcp-Param-Count") != "3" || got.Get("Toolcrib-Relay") != "" {
		t.Errorf("the server got %v", got)
	}
	for _, header := range []string{"Mcp-Name:", "Mcp-Name: strict__echo", "Mcp-Method:", "Mcp-Protocol-Version:"} {
		if r := cl.Post(wire.Modern, "tools/call", call, "Toolcrib-Relay: stdio", header); r.RPCError().Code != wire.CodeHeaderMismatch {
			t.Errorf("relayed with %q: %v", header, r)
		}
	}
	if r := cl.Post(wire.Modern, "tools/call", call, "Toolcrib-Relay: other"); r.RPCError().Code != wire.CodeHeaderMismatch {
		t.Errorf("relayed by something else: %v", r)
	}
}

// A legacy client knows no such headers; the server gets them all the same.
func TestLegacyClientOfAStrictServer(t *testing.T) {
	strict := mcptest.NewHTTP(t, mcptest.HTTPOptions{Strict: true, Options: mcptest.Options{Era: mcptest.EraModern}})
	c := newCrib(t, cribOptions{}, httpServer("strict", strict.URL))
	cl := c.enter("")
	const args = `{"region":" eu","count":-9007199254740991,"other":"x"}`
	if r := cl.Post(wire.Legacy, "tools/call", callOf("strict__headed", args)); r.Text() != args {
		t.Errorf("call: %v", r)
	}
	if r := cl.Post(wire.Legacy, "resources/read", `{"uri":"crib.strict+text://Zürich"}`); r.RPCError().Code != 0 || r.Result() == "" {
		t.Errorf("read: %v", r)
	}
	if r := cl.Post(wire.Legacy, "prompts/get", `{"name":"strict__plain"}`); r.Result() == "" {
		t.Errorf("prompt: %v", r)
	}
	// What cannot be mirrored is refused here, not sent half.
	if r := cl.Post(wire.Legacy, "tools/call", callOf("strict__headed", `{"count":9007199254740993}`)); !strings.Contains(r.Result(), `"isError":true`) {
		t.Errorf("a number that no header can carry: %v", r)
	}
	if n := strict.Executions("headed"); n != 1 {
		t.Errorf("%d executions", n)
	}
}

// A header of the client that stands for another server's argument goes no
// further than the endpoint that it was meant for.
func TestStrayParamHeadersStay(t *testing.T) {
	strict := mcptest.NewHTTP(t, mcptest.HTTPOptions{Strict: true, Options: mcptest.Options{Era: mcptest.EraModern}})
	c := newCrib(t, cribOptions{}, httpServer("strict", strict.URL))
	r := c.dial("").Post(wire.Modern, "tools/call", callOf("strict__echo", "{}"), "Mcp-Param-Stray: x", "Traceparent: 00-aa-bb-01", "X-Other: x", "Cookie: a=b")
	if r.Text() != "{}" {
		t.Fatalf("call: %v", r)
	}
	got := strict.Last("tools/call").Header
	for _, name := range []string{"Mcp-Param-Stray", "X-Other", "Cookie", "Authorization"} {
		if got.Get(name) != "" {
			t.Errorf("the server got %s: %s", name, got.Get(name))
		}
	}
	if got.Get("Traceparent") != "00-aa-bb-01" {
		t.Error("the trace ends here")
	}
}
