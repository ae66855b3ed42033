package mcphttp_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// listMethods are the four lists, with the member that holds the items.
var listMethods = map[string]string{
	"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates",
}

// items are the raw items of a list.
func items(t *testing.T, cl *mcptest.Client, era wire.Era, name string) []string {
	t.Helper()
	array := wire.Get([]byte(cl.Post(era, name, "").Result()), listMethods[name])
	if array == nil {
		t.Fatalf("%s: no list", name)
	}
	var out []string
	for _, at := range wire.Elements(array) {
		out = append(out, string(at.In(array)))
	}
	return out
}

// publicItem is an item of a server as the aggregate shows it: the same bytes
// but for what leads through the crib.
func publicItem(server, name, item string) string {
	switch name {
	case "tools/list", "prompts/list":
		item = strings.Replace(item, `{"name":"`, `{"name":"`+server+`__`, 1)
		return strings.Replace(item, `"resourceUri":"ui://`, `"resourceUri":"ui://crib.`+server+`/`, 1)
	case "resources/templates/list":
		return strings.Replace(item, `"uriTemplate":"text:`, `"uriTemplate":"crib.`+server+`+text:`, 1)
	}
	for _, scheme := range []string{"text", "data"} {
		item = strings.Replace(item, `"uri":"`+scheme+`:`, `"uri":"crib.`+server+`+`+scheme+`:`, 1)
	}
	return strings.Replace(item, `"uri":"ui://`, `"uri":"ui://crib.`+server+`/`, 1)
}

// The lists of the aggregate are those of the servers, in order of their names
// and then in their own, byte for byte but for names and URIs.
func TestAggregateLists(t *testing.T) {
	legacy, modern := legacyPeer(t), modernPeer(t)
	paged := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{PageSize: 3}})
	c := newCrib(t, cribOptions{firstWait: mcptest.Patience, budget: mcptest.Patience},
		httpServer("b-modern", modern.URL), httpServer("a", legacy.URL), httpServer("c9", paged.URL))
	direct := mcptest.NewClient(t, mcptest.NewHTTP(t, mcptest.HTTPOptions{}).URL)
	direct.Initialize("")
	for _, era := range []wire.Era{wire.Legacy, wire.Modern} {
		cl := c.enter("")
		for name := range listMethods {
			own := items(t, direct, era, name)
			var want []string
			for _, server := range []string{"a", "b-modern", "c9"} {
				shown := own
				if server == "b-modern" && era == wire.Legacy {
					shown = withoutTasks(own)
				}
				for _, item := range shown {
					want = append(want, publicItem(server, name, item))
				}
			}
			for range 3 { // stable
				got := items(t, cl, era, name)
				if len(got) != len(want) {
					t.Fatalf("%s, %s: %d items, want %d", era, name, len(got), len(want))
				}
				for i := range got {
					if got[i] != want[i] {
						t.Errorf("%s, %s, item %d:\ngot  %s\nwant %s", era, name, i, got[i], want[i])
					}
				}
			}
		}
	}
	r := c.dial("").Post(wire.Modern, "tools/list", "")
	for key, want := range map[string]string{"resultType": `"complete"`, "cacheScope": `"private"`, "nextCursor": ""} {
		if got := string(wire.Get([]byte(r.Result()), key)); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if wire.Get([]byte(r.Result()), "ttlMs") == nil {
		t.Error("no ttlMs")
	}
	if r := c.dial("").Post(wire.Modern, "tools/list", `{"cursor":"x"}`); r.RPCError().Code != wire.CodeInvalidParams {
		t.Errorf("with a cursor: %v", r)
	}
}

// URIs lead through the crib wherever a client would follow them, and never in
// what a model reads.
func TestAggregateResults(t *testing.T) {
	const link = `{"content":[{"type":"resource_link","uri":"crib.fake+text://hello","name":"hello","x-l":"keep"},` +
		`{"type":"resource","resource":{"uri":"crib.fake+text://hello","text":"see text://hello","x-r":"keep"}},` +
		`{"type":"resource_link","uri":"https://example.test/doc","name":"doc"},{"type":"video","uri":"x://v"}]}`
	const greet = `"messages":[{"role":"user","content":{"type":"text","text":"{\"name\":\"text://hello\"}","x-c":"keep"},"x-m":"keep"},` +
		`{"role":"user","content":{"type":"resource_link","uri":"crib.fake+text://hello","name":"hello"}}],"x-top":"keep"}`
	read := func(uri, text string) string {
		return `"contents":[{"uri":"` + uri + `",` + text + `,"x-r":"keep"}],"x-top":"keep"`
	}
	for name, server := range map[string]string{"legacy": legacyPeer(t).URL, "modern": modernPeer(t).URL} {
		c := newCrib(t, cribOptions{}, httpServer("fake", server))
		cl := c.enter("")
		for _, tc := range []struct{ method, params, want string }{
			{"tools/call", callOf("fake__link", "{}"), link[1 : len(link)-1]},
			{"tools/call", callOf("fake__echo", `{"uri":"text://hello"}`), `"structuredContent":{"uri":"text://hello"}`},
			{"prompts/get", callOf("fake__greet", `{"name":"text://hello"}`), greet[:len(greet)-1]},
			{"resources/read", `{"uri":"crib.fake+text://hello"}`, read("crib.fake+text://hello", `"text":"text of text://hello"`)},
			{"resources/read", `{"uri":"crib.fake+text://unlisted?a=b+c#d"}`, read("crib.fake+text://unlisted?a=b+c#d", `"text":"text of text://unlisted?a=b+c#d"`)},
			{"resources/read", `{"uri":"crib.fake+data://blob"}`, read("crib.fake+data://blob", `"blob":"YmxvYg=="`)},
			{"resources/read", `{"uri":"ui://crib.fake/panel/main"}`, read("ui://crib.fake/panel/main", `"mimeType":"text/html;profile=mcp-app","text":"<p>panel</p>"`)},
			{"resources/read", `{"uri":"https://example.test/doc"}`, read("https://example.test/doc", `"text":"text of https://example.test/doc"`)},
			{"completion/complete", `{"ref":{"type":"ref/prompt","name":"fake__greet","title":"<&>"},"argument":{"name":"name","value":"a"}}`,
				`"completion":{"values":["alpha"],"total":1,"hasMore":false},"x-ref":{"type":"ref/prompt","name":"greet","title":"<&>"}`},
			{"completion/complete", `{"ref":{"type":"ref/resource","uri":"crib.fake+text://{name}"},"argument":{"name":"name","value":"b"}}`,
				`"completion":{"values":["beta"],"total":1,"hasMore":false},"x-ref":{"type":"ref/resource","uri":"text://{name}"}`},
		} {
			for _, era := range []wire.Era{wire.Legacy, wire.Modern} {
				if r := cl.Post(era, tc.method, tc.params); !strings.Contains(r.Result(), tc.want) {
					t.Errorf("%s client of a %s server, %s %s:\ngot  %v\nwant %s", era, name, tc.method, tc.params, r, tc.want)
				}
			}
		}
	}
}

// What is nobody's, and what is somebody's under another name, is not found.
func TestAggregateFindsNothing(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
	cl := c.enter("")
	for _, tc := range []struct {
		method, params string
		legacy         int // code for a legacy client
	}{
		{"tools/call", callOf("echo", "{}"), wire.CodeInvalidParams},
		{"tools/call", callOf("fake__none", "{}"), wire.CodeInvalidParams},
		{"tools/call", callOf("Fake__echo", "{}"), wire.CodeInvalidParams},
		{"tools/call", callOf("fake--echo", "{}"), wire.CodeInvalidParams},
		{"tools/call", callOf("none__echo", "{}"), wire.CodeInvalidParams},
		{"tools/call", callOf("mcp.fake.echo", "{}"), wire.CodeInvalidParams},
		{"prompts/get", callOf("greet", "{}"), wire.CodeInvalidParams},
		{"prompts/get", callOf("none__greet", "{}"), wire.CodeInvalidParams},
		{"resources/read", `{"uri":"text://hello"}`, wire.CodeResourceNotFound},
		{"resources/read", `{"uri":"crib.none+text://hello"}`, wire.CodeResourceNotFound},
		{"resources/read", `{"uri":"crib.fake+none://hello"}`, wire.CodeResourceNotFound},
		{"resources/read", `{"uri":"ui://panel/main"}`, wire.CodeResourceNotFound},
		{"resources/read", `{"uri":"https://elsewhere.test/"}`, wire.CodeResourceNotFound},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"name","value":""}}`, wire.CodeInvalidParams},
		{"completion/complete", `{"ref":{"type":"ref/none","name":"fake__greet"},"argument":{"name":"name","value":""}}`, wire.CodeInvalidParams},
	} {
		for era, code := range map[wire.Era]int{wire.Legacy: tc.legacy, wire.Modern: wire.CodeInvalidParams} {
			r := cl.Post(era, tc.method, tc.params)
			if r.RPCError().Code != code {
				t.Errorf("%s, %s %s: %v, want %d", era, tc.method, tc.params, r, code)
			}
		}
	}
	if r := cl.Post(wire.Legacy, "tools/call", `{"arguments":{}}`); r.RPCError().Code != wire.CodeInvalidParams {
		t.Errorf("a call without a name: %v", r)
	}
	if n := peer.Executions("echo"); n != 0 {
		t.Errorf("%d calls reached the server", n)
	}
}

// An https URI says not whose it is; the one server that lists it is asked.
func TestHTTPSResourcesFindTheirOwner(t *testing.T) {
	bare := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Capabilities: `{"tools":{}}`}})
	owner, later := mcptest.NewHTTP(t, mcptest.HTTPOptions{}), mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	c := newCrib(t, cribOptions{firstWait: mcptest.Patience, budget: mcptest.Patience},
		httpServer("a", bare.URL), httpServer("b", owner.URL), httpServer("c", later.URL))
	cl := c.enter("")
	for _, era := range []wire.Era{wire.Legacy, wire.Modern} {
		if r := cl.Post(era, "resources/read", `{"uri":"https://example.test/doc"}`); !strings.Contains(r.Result(), "text of https://example.test/doc") {
			t.Errorf("%s: %v", era, r)
		}
	}
	if bare.Requests("resources/read") != 0 || owner.Requests("resources/read") != 2 || later.Requests("resources/read") != 0 {
		t.Errorf("asked were %d, %d, %d times", bare.Requests("resources/read"), owner.Requests("resources/read"), later.Requests("resources/read"))
	}
}

// What the aggregate can do does not depend on which servers are there.
func TestAggregateCapabilitiesAreConstant(t *testing.T) {
	const want = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"completions":{},"logging":{}`
	tasks := map[wire.Era]string{ // in the words of each era
		wire.Legacy: `,"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}}`,
		wire.Modern: `,"extensions":{"io.modelcontextprotocol/tasks":{}}}`,
	}
	bare := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Capabilities: `{"tools":{},"tasks":{}}`}})
	for name, c := range map[string]*cribT{
		"no server":             newCrib(t, cribOptions{}),
		"a dead server":         newCrib(t, cribOptions{}, httpServer("dead", "http://127.0.0.1:1/")),
		"a server without much": newCrib(t, cribOptions{}, httpServer("bare", bare.URL)),
	} {
		cl := c.dial("")
		for range 2 {
			for era, r := range map[wire.Era]*mcptest.Reply{wire.Legacy: cl.Initialize(""), wire.Modern: cl.Post(wire.Modern, "server/discover", "")} {
				if got := string(wire.Get([]byte(r.Result()), "capabilities")); got != want+tasks[era] {
					t.Errorf("%s, %s: %v", name, era, r)
				}
			}
			cl.Post(wire.Modern, "tools/list", "")
		}
	}
}

// The instructions of the aggregate are ours and those of the servers, each
// under its name, and no more than a client will put before its model.
func TestAggregateInstructions(t *testing.T) {
	const limit = 4 << 10
	with := func(text string) string {
		return mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Instructions: text}}).URL
	}
	c := newCrib(t, cribOptions{firstWait: mcptest.Patience, budget: mcptest.Patience},
		httpServer("brief", with("Use <b> & be brief.")), httpServer("mute", with("")),
		httpServer("talker", with(strings.Repeat("é", limit))), httpServer("unheard", with("Nobody reads this.")))
	instructions := func(era wire.Era) string {
		cl := c.dial("")
		r := cl.Post(wire.Modern, "server/discover", "")
		if era == wire.Legacy {
			r = cl.Initialize("")
		}
		text, _ := wire.GetText([]byte(r.Result()), "instructions")
		return text
	}
	for _, era := range []wire.Era{wire.Legacy, wire.Modern} {
		cl := c.enter("")
		cl.Post(era, "tools/list", "") // connects
		text := instructions(era)
		if !strings.Contains(text, "\n\nbrief:\nUse <b> & be brief.\n\ntalker:\néé") || strings.Contains(text, "mute") {
			t.Errorf("%s: %.300s", era, text)
		}
		if len(text) > limit || len(text) < limit-8 || !strings.HasSuffix(text, "é…") {
			t.Errorf("%s: %d bytes, ending in %q", era, len(text), text[max(0, len(text)-8):])
		}
		if before := instructions(era); before != text {
			t.Errorf("%s: they change", era)
		}
	}
}

// A server that cannot be asked costs its own part of a list, and the list
// says so.
func TestDeadServerCostsItsOwnTools(t *testing.T) {
	peer := legacyPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("alive", peer.URL), httpServer("dead", "http://127.0.0.1:1/"))
	cl := c.enter("")
	for _, era := range []wire.Era{wire.Legacy, wire.Modern} {
		r := cl.Post(era, "tools/list", "")
		if !strings.Contains(r.Result(), `"name":"alive__echo"`) || string(wire.GetPath([]byte(r.Result()), "_meta", "io.toolcrib/unavailable")) != `["dead"]` {
			t.Errorf("%s: %v", era, r)
		}
		call := cl.Post(era, "tools/call", callOf("dead__echo", "{}"))
		if !isError(call.Message()) || !strings.Contains(call.Text(), "server dead") {
			t.Errorf("%s, call: %v", era, call)
		}
	}
	peer.Close()
	mcptest.Eventually(t, "a stale list", func() bool {
		r := cl.Post(wire.Modern, "tools/list", "")
		return strings.Contains(r.Result(), `"name":"alive__echo"`)
	})
}

// Names that would not do for a model get another form, by which the tool is
// called all the same; a name that only looks like another server's does not
// lead there.
func TestAggregateNames(t *testing.T) {
	long := strings.Repeat("x", 60)
	var tools []string
	names := []string{"a", "b__c", "get-user", "get_user", "Get_user", "dots.and/slashes", long, "ü"}
	for _, name := range names {
		tools = append(tools, `{"name":"`+name+`","inputSchema":{"type":"object"}}`)
	}
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Tools: "[" + strings.Join(tools, ",") + "]"}})
	peer.Script(echoNames)
	c := newCrib(t, cribOptions{firstWait: mcptest.Patience, budget: mcptest.Patience}, httpServer("s", peer.URL), httpServer("s-b", peer.URL))
	cl := c.dial("")
	seen := map[string]bool{}
	for i, item := range items(t, cl, wire.Modern, "tools/list") {
		public, _ := wire.GetText([]byte(item), "name")
		if seen[public] || len(public) > 48 || strings.ContainsFunc(public, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", r)
		}) {
			t.Errorf("the public name %q", public)
		}
		seen[public] = true
		want := names[i%len(names)]
		if r := cl.Post(wire.Modern, "tools/call", callOf(public, "{}")); r.Text() != want {
			t.Errorf("%s called %q, want %q", public, r.Text(), want)
		}
	}
	if len(seen) != 2*len(names) {
		t.Errorf("%d names", len(seen))
	}
}

// echoNames answers each call with the name of its tool.
func echoNames(w http.ResponseWriter, _ *http.Request, body []byte) bool {
	if method(string(body)) != "tools/call" {
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[{"type":"text","text":%s}]}}`,
		mcptest.RequestID(body), wire.GetPath(body, "params", "name"))
	return true
}
