package mcphttp_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// plain is a client of /v1/tools, below the path given.
func (c *cribT) plain(path string) *mcptest.Client {
	cl := mcptest.NewClient(c.t, strings.TrimSuffix(c.url, "/v1/mcp")+"/v1/tools"+path)
	cl.Header.Set("Authorization", "Bearer "+c.token)
	return cl
}

// The list of tools for clients without MCP: name, description and schema of
// each, the schema as the server wrote it.
func TestPlainList(t *testing.T) {
	const schema = `{"$schema":"x", "properties":{"n":{"maximum":9007199254740993,"const":1.0}},"type":"object","x-vendor":{"k":1e2}}`
	tools := `[{"name":"zeta","description":"Says <b> & \"x\"` + "\u2028" + `.","inputSchema":` + schema + `},` +
		`{"name":"alpha","title":"A","inputSchema":{"type":"object"}},{"name":"odd","inputSchema":true},{"name":"hidden","inputSchema":{"type":"object"}}]`
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Tools: tools}})
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL, func(d *servers.Definition) {
		d.Gates = []servers.Gate{{Pattern: "hidden", Effect: crib.Deny}}
	}))
	r := c.plain("").Raw(http.MethodGet, "")
	want := `[{"name":"fake__zeta","description":"Says <b> & \"x\"` + "\u2028" + `.","parameters":` + schema + `},` +
		`{"name":"fake__alpha","description":"","parameters":{"type":"object"}}]`
	if r.Status != http.StatusOK || r.Header.Get("Content-Type") != "application/json" || string(r.Body) != want {
		t.Errorf("got  %v\nwant %s", r, want)
	}
	if r := newCrib(t, cribOptions{}).plain("").Raw(http.MethodGet, ""); string(r.Body) != "[]" {
		t.Errorf("without servers: %v", r)
	}
}

// A call without MCP is the same call: arguments in, result out, as bytes.
func TestPlainCall(t *testing.T) {
	modern := modernPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("new", modern.URL), httpServer("old", legacyPeer(t).URL), stdioServer("near", mcptest.Peer()))
	const args = `{"n":9007199254740993,"r":1.0,"e":1e2,"s":"<&>` + "\u2028" + `\u2028"}`
	for _, server := range []string{"new", "old", "near"} {
		r := c.plain("/"+server+"__echo").Raw(http.MethodPost, " "+args+"\n")
		if r.Status != http.StatusOK || r.Header.Get("Content-Type") != "application/json" || string(wire.Get(r.Body, "structuredContent")) != args {
			t.Errorf("%s: %v", server, r)
		}
		if r := c.plain("/"+server+"__echo").Raw(http.MethodPost, ""); string(wire.Get(r.Body, "structuredContent")) != "{}" {
			t.Errorf("%s without arguments: %v", server, r)
		}
		r = c.plain("/"+server+"__fail").Raw(http.MethodPost, args)
		if r.Status != http.StatusOK || string(wire.Get(r.Body, "isError")) != "true" {
			t.Errorf("%s, a tool that fails: %v", server, r)
		}
		r = c.plain("/"+server+"__rpcerror").Raw(http.MethodPost, `{"a":1.0}`)
		if e := wire.ReadError(wire.Get(r.Body, "error")); r.Status != http.StatusBadGateway || e.Code != -32099 || string(e.Data) != `{"big":9007199254740993,"f":1.0,"arguments":{"a":1.0}}` {
			t.Errorf("%s, an error: %v", server, r)
		}
	}
	if r := c.plain("/new__headed").Raw(http.MethodPost, `{"region":"Zürich"}`); string(wire.Get(r.Body, "structuredContent")) != `{"region":"Zürich"}` {
		t.Errorf("with a mirrored argument: %v", r)
	}
	if got := modern.Last("tools/call").Header.Get("Mcp-Param-Region"); got != "=?base64?WsO8cmljaA==?=" {
		t.Errorf("it was mirrored as %q", got)
	}
	// Nobody can be asked: the call ends, it does not hang.
	if r := c.plain("/new__elicit").Raw(http.MethodPost, "{}"); r.Err != nil || !strings.Contains(string(r.Body), "elicitation") {
		t.Errorf("a tool that asks: %v", r)
	}
}

func TestPlainCallRefused(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL, func(d *servers.Definition) {
		d.Gates = []servers.Gate{{Pattern: "env", Effect: crib.Deny}, {Pattern: "raw", Effect: crib.Ask}}
	}))
	for _, tc := range []struct {
		name, path, body string
		status           int
	}{
		{"an unknown tool", "/fake__none", `{}`, http.StatusNotFound},
		{"an unknown server", "/none__echo", `{}`, http.StatusNotFound},
		{"a name of the server's own", "/echo", `{}`, http.StatusNotFound},
		{"a tool that is denied", "/fake__env", `{}`, http.StatusNotFound},
		{"a name with quotes", `/fake__echo%22,%22x`, `{}`, http.StatusNotFound},
		{"a list", "/fake__echo", `[]`, http.StatusBadRequest},
		{"text", "/fake__echo", `"x"`, http.StatusBadRequest},
		{"null", "/fake__echo", `null`, http.StatusBadRequest},
		{"half an object", "/fake__echo", `{"a":`, http.StatusBadRequest},
		{"no JSON", "/fake__echo", `a=b`, http.StatusBadRequest},
		{"a name twice", "/fake__echo", `{"a":1,"a":2}`, http.StatusBadRequest},
		{"bytes that are no text", "/fake__echo", "{\"a\":\"\xc3(\"}", http.StatusBadRequest},
		{"the name again", "/fake__echo", `{},"name":"fake__raw"`, http.StatusBadRequest},
		{"another id", "/fake__echo", `{}},"id":2,"x":{"y":1`, http.StatusBadRequest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := c.plain(tc.path).Raw(http.MethodPost, tc.body)
			if r.Status != tc.status || r.Header.Get("Content-Type") != "application/json" || wire.GetPath(r.Body, "error", "message") == nil {
				t.Errorf("%v, want %d", r, tc.status)
			}
		})
	}
	if n := peer.Requests("tools/call"); n != 0 {
		t.Errorf("%d calls reached the server", n)
	}
	if r := c.plain("/fake__raw").Raw(http.MethodPost, "{}"); r.Status != http.StatusOK || string(wire.Get(r.Body, "isError")) != "true" || peer.Executions("raw") != 0 {
		t.Errorf("a tool that needs a person: %v", r)
	}
}

// The body of a plain call is the arguments and nothing else.
func TestPlainCallTakesOneObject(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
	for _, body := range []string{`{},"task":{"ttl":5}`, `{},"requestState":"x","inputResponses":{}`, `{}},"x":{"y":1`, `{} {}`, `{}}`} {
		if r := c.plain("/fake__echo").Raw(http.MethodPost, body); r.Status != http.StatusBadRequest {
			t.Errorf("%s: %v", body, r)
		}
	}
	if n := peer.Requests("tools/call"); n != 0 {
		t.Errorf("%d calls reached the server", n)
	}
}
