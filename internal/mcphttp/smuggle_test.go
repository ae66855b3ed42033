package mcphttp_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// shape is a body that two readers could read differently. {META} is the
// reserved _meta of its era, with its comma behind; {TOOL} the public name of
// a tool, {OTHER} that of one that the caller is not given.
type shape struct {
	name, body string
	code       int
}

var shapes = []shape{
	{"method in another case", `{"jsonrpc":"2.0","id":1,"method":"tools/list","METHOD":"tools/call","params":{{META}"name":"{TOOL}","arguments":{}}}`, -32600},
	{"method twice", `{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call","params":{{META}"name":"{TOOL}","arguments":{}}}`, -32600},
	{"method twice, once by an escape", `{"jsonrpc":"2.0","id":1,"method":"tools/list","m\u0065thod":"tools/call","params":{{META}"name":"{TOOL}","arguments":{}}}`, -32600},
	{"params with a long s", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{META}"name":"{TOOL}","arguments":{}},"paramſ":{"name":"{OTHER}"}}`, -32600},
	{"params with a long s by an escape", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{META}"name":"{TOOL}"},"param\u017f":{"name":"{OTHER}"}}`, -32600},
	{"params twice", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{META}"name":"{OTHER}"},"params":{{META}"name":"{TOOL}"}}`, -32600},
	{"id twice", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{META}"name":"{TOOL}"},"id":2}`, -32600},
	{"Id beside id", `{"jsonrpc":"2.0","id":1,"Id":2,"method":"tools/call","params":{{META}"name":"{TOOL}"}}`, -32600},
	{"jsonrpc twice", `{"jsonrpc":"1.0","id":1,"method":"tools/call","params":{{META}"name":"{TOOL}"},"jsonrpc":"2.0"}`, -32600},
	{"Name beside name", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{META}"name":"{TOOL}","Name":"{OTHER}","arguments":{}}}`, -32600},
	{"name twice", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{META}"name":"{OTHER}","name":"{TOOL}","arguments":{}}}`, -32600},
	{"name twice, once by an escape", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{META}"name":"{TOOL}","\u006eame":"{OTHER}"}}`, -32600},
	{"ARGUMENTS beside arguments", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{META}"name":"{TOOL}","arguments":{},"ARGUMENTS":{"n":1}}}`, -32600},
	{"argument twice", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{META}"name":"{TOOL}","arguments":{"path":"/a","path":"/etc"}}}`, -32600},
	{"argument twice, deep", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{META}"name":"{TOOL}","arguments":{"a":[{"b":1,"b":2}]}}}`, -32600},
	{"_meta twice", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{META}"name":"{TOOL}","_meta":{"progressToken":1}, "_meta":{}}}`, -32600},
	{"_META beside _meta", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{META}"_META":{"progressToken":1},"name":"{TOOL}"}}`, -32600},
	{"progressToken twice", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":1,"progressToken":2},"name":"{TOOL}"}}`, -32600},
	{"protocolVersion in two cases", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/PROTOCOLVERSION":"2025-11-25","io.modelcontextprotocol/clientCapabilities":{}},"name":"{TOOL}"}}`, -32600},
	{"a second message behind it", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{META}"name":"{TOOL}"}}`, -32700},
	{"a brace behind it", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{META}"name":"{TOOL}"}}}`, -32700},
	{"a comment", `{"jsonrpc":"2.0",/*"method":"tools/list",*/"id":1,"method":"tools/call","params":{{META}"name":"{TOOL}"}}`, -32700},
	{"a comma too many", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{META}"name":"{TOOL}",}}`, -32700},
	{"names without quotes", `{jsonrpc:"2.0",id:1,method:"tools/call",params:{name:"{TOOL}"}}`, -32700},
	{"NaN", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{META}"name":"{TOOL}","arguments":{"n":NaN}}}`, -32700},
	{"a byte order mark", "\uFEFF" + `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{META}"name":"{TOOL}"}}`, -32700},
	{"no UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{META}\"name\":\"{TOOL}\",\"arguments\":{\"a\":\"\xc3(\"}}}", -32700},
	{"half a surrogate pair", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{META}"name":"{TOOL}","arguments":{"a":"\ud83d"}}}`, -32700},
	{"NUL", "{\"jsonrpc\":\"2.0\",\"id\":1,\x00\"method\":\"tools/call\",\"params\":{{META}\"name\":\"{TOOL}\"}}", -32700},
	{"method and result", `{"jsonrpc":"2.0","id":1,"method":"tools/call","result":{},"params":{{META}"name":"{TOOL}"}}`, -32600},
	{"params as an array", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["{TOOL}",{}]}`, -32600},
	{"no jsonrpc", `{"id":1,"method":"tools/call","params":{{META}"name":"{TOOL}"}}`, -32600},
	{"id null", `{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{{META}"name":"{TOOL}"}}`, -32600},
	{"id object", `{"jsonrpc":"2.0","id":{"a":1},"method":"tools/call","params":{{META}"name":"{TOOL}"}}`, -32600},
	{"id with a fraction", `{"jsonrpc":"2.0","id":1.0,"method":"tools/call","params":{{META}"name":"{TOOL}"}}`, -32600},
	{"id with an exponent", `{"jsonrpc":"2.0","id":1e0,"method":"tools/call","params":{{META}"name":"{TOOL}"}}`, -32600},
	{"method as an array", `{"jsonrpc":"2.0","id":1,"method":["tools/call"],"params":{{META}"name":"{TOOL}"}}`, -32600},
	{"batch of one", ` ` + "\n\t" + `[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{META}"name":"{TOOL}"}}]`, -32600},
	{"batch of two", `[{"jsonrpc":"2.0","id":1,"method":"tools/list"},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{META}"name":"{TOOL}"}}]`, -32600},
	{"batch of notifications", `[{"jsonrpc":"2.0","method":"notifications/initialized"}]`, -32600},
	{"empty batch", `[]`, -32600},
	{"batch in a batch", `[[]]`, -32600},
	{"unfinished batch", `[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{META}"name":"{TOOL}"}}`, -32600},
	{"text", `"tools/call"`, -32600},
	{"number", `1`, -32600},
	{"nothing", ``, -32700},
	{"white space", " \n ", -32700},
	{"half a message", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{META}"name":"{TOOL}"`, -32700},
}

// smuggling has a server of each kind; what they received is in seen.
func smuggling(t *testing.T) (c *cribT, seen func() int) {
	p := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	record := filepath.Join(t.TempDir(), "record")
	only := func(d *servers.Definition) { d.Tools = []string{"echo"} }
	c = newCrib(t, cribOptions{},
		httpServer("web", p.URL, only),
		stdioServer("pipe", mcptest.Peer("-record", record), only))
	for _, era := range bothEras { // from here on nothing need be asked
		cl := c.client(era, "")
		works(t, cl, era, "web__echo")
		works(t, cl, era, "pipe__echo")
		cl.Post(era, "tools/list", "{}")
	}
	return c, func() int { return len(p.Seen()) + len(linesOf(t, record)) }
}

// What could be read in two ways is refused with 400 before it is looked at any
// further, at every address and in both eras, and no server hears of it.
func TestSmuggling(t *testing.T) {
	c, seen := smuggling(t)
	quiesce(t, seen)
	for _, server := range []string{"", "web", "pipe"} {
		for _, era := range bothEras {
			cl := c.client(era, server)
			tool := "echo"
			if server == "" {
				tool = "web__echo"
			}
			for _, s := range shapes {
				t.Run(fmt.Sprintf("%s %s %s", server, era, s.name), func(t *testing.T) {
					before := seen()
					r := postShape(cl, era, s.body, tool)
					if r.Status != http.StatusBadRequest || r.RPCError().Code != s.code {
						t.Errorf("got %s, want HTTP 400 and %d", r, s.code)
					}
					if id := wire.Get(r.Body, "id"); string(id) != "null" {
						t.Errorf("the id of a message that was not read is null, not %q", id)
					}
					if n := seen() - before; n != 0 {
						t.Errorf("the servers got %d messages", n)
					}
				})
			}
			works(t, cl, era, tool)
		}
	}
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},`

func postShape(cl *mcptest.Client, era wire.Era, body, tool string) *mcptest.Reply {
	headers := []string{"Content-Type: application/json", "Accept: application/json, text/event-stream"}
	meta := `"_meta":{},`
	if era == wire.Modern {
		meta = modernMeta
		headers = append(headers, wire.HeaderProtocolVersion+": "+wire.NewestModern, wire.HeaderMethod+": tools/call", wire.HeaderName+": "+tool)
	} else {
		headers = append(headers, wire.HeaderProtocolVersion+": "+cl.Version, wire.HeaderSession+": "+cl.Session)
	}
	body = strings.NewReplacer("{META}", meta, "{TOOL}", tool, "{OTHER}", "web__raw").Replace(body)
	return cl.Raw(http.MethodPost, body, headers...)
}

// quiesce waits until the crib has asked the servers everything that it asks
// by itself.
func quiesce(t *testing.T, seen func() int) {
	t.Helper()
	last, same := -1, 0
	mcptest.Eventually(t, "silence", func() bool {
		now := seen()
		if now == last {
			same++
		} else {
			last, same = now, 0
		}
		return same >= 50 // looks, a few milliseconds apart
	})
}

// Headers that say something else than the body are refused in the same way: a
// proxy that decides on them must not be led astray (2026-07-28, Streamable
// HTTP, Server Validation).
func TestHeaderSmuggling(t *testing.T) {
	c, seen := smuggling(t)
	quiesce(t, seen)
	for _, server := range []string{"", "web"} {
		cl := c.client(wire.Modern, server)
		tool := "echo"
		if server == "" {
			tool = "web__echo"
		}
		for name, headers := range map[string][]string{
			"another method":       {wire.HeaderMethod + ": tools/list"},
			"method in caps":       {wire.HeaderMethod + ": TOOLS/CALL"},
			"no method":            {wire.HeaderMethod + ":"},
			"another name":         {wire.HeaderName + ": " + tool + "2"},
			"name in caps":         {wire.HeaderName + ": " + strings.ToUpper(tool)},
			"no name":              {wire.HeaderName + ":"},
			"name in bad base64":   {wire.HeaderName + ": =?base64?!?="},
			"another name, base64": {wire.HeaderName + ": " + "=?base64?" + "cmF3" + "?="},
			"another version":      {wire.HeaderProtocolVersion + ": 2025-11-25"},
			"unknown version":      {wire.HeaderProtocolVersion + ": 2099-01-01"},
		} {
			before := seen()
			r := cl.Post(wire.Modern, "tools/call", callParams(tool, "{}"), headers...)
			if code := r.RPCError().Code; r.Status != http.StatusBadRequest || code != wire.CodeHeaderMismatch {
				t.Errorf("%q, %s: %s", server, name, r)
			}
			if n := seen() - before; n != 0 {
				t.Errorf("%q, %s: the servers got %d messages", server, name, n)
			}
		}
	}
}

// The body of POST /v1/tools/{name} is arguments and nothing else: it cannot
// break out of its place.
func TestToolDoorSmuggling(t *testing.T) {
	c, seen := smuggling(t)
	quiesce(t, seen)
	for _, body := range []string{
		`{},"name":"web__raw"`,
		`{},"task":{"ttl":1}`,
		`{},"x":{}`,
		`{"n":1},"_meta":{}`,
		`{}},"x":{"a":1`,
		`{}},"id":2,"x":{"y":1`,
		`{}},"method":"tools/list","x":{"y":1`,
		`{}}{`,
		`{}}` + "\n" + `{"a":{"b":1`,
		`{} {}`,
		`{`,
		`{"a":1`,
		`{"a":1}}`,
		`{"a":1,"a":2}`,
		`{"a":{"b":1,"b":2}}`,
		`{a:1}`,
		`{"a":NaN}`,
		"{\"a\":\"\xc3(\"}",
		`{"a":"\ud83d"}`,
		"\uFEFF{}",
		`[]`,
		`[{"name":"web__echo"}]`,
		` [[]]`,
		`null`,
		`1`,
		`"{}"`,
	} {
		cl := c.client(wire.Modern, "")
		cl.URL = strings.TrimSuffix(cl.URL, "/mcp") + "/tools/web__echo"
		before := seen()
		r := cl.Raw(http.MethodPost, body, "Content-Type: application/json")
		codes := []int{wire.CodeParse, wire.CodeInvalidRequest, wire.CodeInvalidParams}
		if code := wire.ReadError(wire.Get(r.Body, "error")).Code; r.Status != http.StatusBadRequest || !slices.Contains(codes, code) {
			t.Errorf("%q: %s", body, r)
		}
		if n := seen() - before; n != 0 {
			t.Errorf("%q: the servers got %d messages", body, n)
		}
	}
	cl := c.client(wire.Modern, "")
	cl.URL = strings.TrimSuffix(cl.URL, "/mcp") + "/tools/web__echo"
	for body, want := range map[string]string{"": "{}", " \n": "{}", ` {"n":1.0} `: `{"n":1.0}`} {
		r := cl.Raw(http.MethodPost, body, "Content-Type: application/json")
		if got := wire.Get(r.Body, "structuredContent"); r.Status != http.StatusOK || string(got) != want {
			t.Errorf("%q: %s", body, r)
		}
	}
}

// What a server sends as an array is no answer, and nothing of it reaches the
// client.
func TestBatchFromServer(t *testing.T) {
	p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: mcptest.EraModern}})
	c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
	cl := c.client(wire.Modern, "s")
	works(t, cl, wire.Modern, "echo")
	for _, body := range []string{
		`[{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"smuggled"}]}}]`,
		`[]`,
		` [[]]`,
		`{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"smuggled"}]},"result":{"content":[]}}`,
		`{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"smuggled"}]}}{}`,
		`{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"smuggled"}]},"error":{"code":1,"message":"smuggled"}}`,
	} {
		for _, kind := range []string{"application/json", "text/event-stream"} {
			answer := body
			if kind == "text/event-stream" {
				answer = "data: " + body + "\n\n"
			}
			answerCalls(p, answerWith(200, kind, answer))
			if r := call(cl, wire.Modern, "echo", `{}`); strings.Contains(r.String(), "smuggled") || codeOf(r) == "" {
				t.Errorf("%s %s: %s", kind, body, r)
			}
		}
	}
}
