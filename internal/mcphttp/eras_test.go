package mcphttp_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

var bothEras = []wire.Era{wire.Legacy, wire.Modern}

// client is a client of one server's endpoint, or of the aggregate if server
// is "". A legacy one has opened its session.
func (c *cribT) client(era wire.Era, server string) *mcptest.Client {
	c.t.Helper()
	return c.clientAs(c.t, era, server)
}

// clientAs is client for a subtest.
func (c *cribT) clientAs(t testing.TB, era wire.Era, server string) *mcptest.Client {
	t.Helper()
	url := c.url
	if server != "" {
		url += "/" + server
	}
	cl := mcptest.NewClient(t, url)
	cl.Header.Set("Authorization", "Bearer "+c.token)
	if era == wire.Legacy {
		if r := cl.Initialize(""); cl.Session == "" {
			t.Fatalf("no session: %s", r)
		}
	}
	return cl
}

func callParams(tool, arguments string) string {
	return `{"name":` + string(wire.Quote(tool)) + `,"arguments":` + arguments + `}`
}

func call(cl *mcptest.Client, era wire.Era, tool, arguments string) *mcptest.Reply {
	return cl.Post(era, "tools/call", callParams(tool, arguments))
}

// codeOf is what the crib says of a call that brought no result, "" if it
// brought one.
func codeOf(r *mcptest.Reply) crib.Code {
	return crib.Code(wire.Text(wire.GetPath([]byte(r.Result()), "_meta", "io.toolcrib/code")))
}

// works fails the test unless the server answers a call.
func works(t testing.TB, cl *mcptest.Client, era wire.Era, tool string) {
	t.Helper()
	if r := call(cl, era, tool, `{"n":1}`); r.Text() != `{"n":1}` {
		t.Fatalf("%s: %s", tool, r)
	}
}

// linesOf are the lines of a file that a peer writes, none while there is no
// file.
func linesOf(t testing.TB, path string) []string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
}

// behind is a server behind the crib, and what it received.
type behind struct {
	name string
	era  wire.Era // "" speaks both
	def  servers.Definition
	seen func() []mcptest.Seen
}

// received are the messages with a method, after the crib had found out what
// the server speaks.
func (b behind) received(method string) []mcptest.Seen {
	return slices.DeleteFunc(b.seen(), func(s mcptest.Seen) bool { return s.RPCMethod != method })
}

func behindHTTP(t testing.TB, name, era string) behind {
	p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: era}, Strict: true})
	return behind{name, eraNamed(era), httpServer(name, p.URL), p.Seen}
}

func behindStdio(t testing.TB, name, era string, flags ...string) behind {
	record := filepath.Join(t.TempDir(), "record")
	def := stdioServer(name, mcptest.Peer(append(flags, "-era", era, "-record", record)...))
	return behind{name, eraNamed(era), def, func() []mcptest.Seen {
		var out []mcptest.Seen
		for _, line := range linesOf(t, record) {
			method, _ := wire.GetText([]byte(line), "method")
			out = append(out, mcptest.Seen{Body: []byte(line), RPCMethod: method})
		}
		return out
	}}
}

func eraNamed(era string) wire.Era {
	switch era {
	case mcptest.EraLegacy:
		return wire.Legacy
	case mcptest.EraModern:
		return wire.Modern
	}
	return ""
}

// allBehind are servers of every sort, in one crib.
func allBehind(t testing.TB) (*cribT, []behind) {
	all := []behind{
		behindHTTP(t, "http-legacy", mcptest.EraLegacy),
		behindHTTP(t, "http-modern", mcptest.EraModern),
		behindHTTP(t, "http-both", mcptest.EraDual),
		behindStdio(t, "stdio-legacy", mcptest.EraLegacy),
		behindStdio(t, "stdio-modern", mcptest.EraModern),
	}
	var defs []servers.Definition
	for _, b := range all {
		defs = append(defs, b.def)
	}
	return newCrib(t, cribOptions{}, defs...), all
}

// forAll runs a test for each server, by clients of each era, on the server's
// own endpoint and on the aggregate.
func forAll(t *testing.T, run func(t *testing.T, cl *mcptest.Client, era wire.Era, b behind, tool func(string) string)) {
	c, all := allBehind(t)
	for _, b := range all {
		for _, era := range bothEras {
			for _, server := range []string{"", b.name} {
				where, tool := "own endpoint", func(name string) string { return name }
				if server == "" {
					where, tool = "aggregate", func(name string) string { return b.name + "__" + name }
				}
				t.Run(fmt.Sprintf("%s, %s client, %s", b.name, era, where), func(t *testing.T) {
					run(t, c.clientAs(t, era, server), era, b, tool)
				})
			}
		}
	}
}

// Whatever the eras of both sides are, lists, calls, errors and cancellations
// pass, and the server hears only what belongs to its own era.
func TestErasCross(t *testing.T) {
	tools := wire.Get([]byte(mcptest.NewClient(t, mcptest.NewHTTP(t, mcptest.HTTPOptions{}).URL).
		Post(wire.Modern, "tools/list", "{}").Result()), "tools")
	forAll(t, func(t *testing.T, cl *mcptest.Client, era wire.Era, b behind, tool func(string) string) {
		cl.Meta = `"com.x/req":{"big":9007199254740993}`
		before := len(b.seen())
		listed := cl.Post(era, "tools/list", "{}")
		got := wire.Get([]byte(listed.Result()), "tools")
		if cl.URL[len(cl.URL)-1] != 'p' && string(got) != string(tools) { // not …/mcp
			t.Errorf("list:\ngot  %s\nwant %s", got, tools)
		}
		if !strings.Contains(string(got), `{"name":"`+tool("echo")+`","title":"Echo"`) {
			t.Errorf("list has no %s: %s", tool("echo"), got)
		}
		works(t, cl, era, tool("echo"))
		if r := call(cl, era, tool("fail"), `{"n":1.0}`); r.Text() != `failed: {"n":1.0}` || wire.Text(wire.Get([]byte(r.Result()), "x-e")) != "keep" {
			t.Errorf("fail: %s", r)
		}
		r := call(cl, era, tool("rpcerror"), `{"n":1e2}`)
		want := `{"code":-32099,"message":"custom <&>","data":{"big":9007199254740993,"f":1.0,"arguments":{"n":1e2}}}`
		if got := wire.Get([]byte(r.Message()), "error"); string(got) != want {
			t.Errorf("rpcerror: %s", r)
		}
		cancelPasses(t, cl, era, b, tool("slow"))
		for _, s := range b.seen()[before:] {
			onlyItsOwnEra(t, b, era, s)
		}
	})
}

// cancelPasses cancels a call as the client's era does, and waits until the
// server heard of it under its own id.
func cancelPasses(t *testing.T, cl *mcptest.Client, era wire.Era, b behind, tool string) {
	t.Helper()
	upstreamEra := b.era
	if upstreamEra == "" {
		upstreamEra = era
	}
	before := len(b.received("tools/call"))
	told := len(b.received("notifications/cancelled"))
	s := cl.OpenID(era, `"mine"`, "tools/call", `{"name":"`+tool+`","arguments":{"release":"/never/there"},"_meta":{"progressToken":"p<1>"}}`)
	defer s.Close()
	if e := s.Next(); !strings.Contains(e.Data, `"progressToken":"p<1>"`) {
		t.Errorf("progress: %s", e.Data)
	}
	calls := b.received("tools/call")
	if len(calls) != before+1 {
		t.Fatalf("%d calls came, want 1", len(calls)-before)
	}
	id := mcptest.RequestID(calls[before].Body)
	if era == wire.Modern {
		s.Close()
	} else if r := cl.Post(era, "notifications/cancelled", `{"requestId":"mine","reason":"test"}`); r.Status != http.StatusAccepted {
		t.Errorf("cancel: %s", r)
	}
	if upstreamEra == wire.Modern && b.def.Transport.URL != "" {
		return // over modern HTTP the server sees its stream closed; see TestCancelClosesTheStream
	}
	mcptest.Eventually(t, "notifications/cancelled", func() bool { return len(b.received("notifications/cancelled")) > told })
	got := b.received("notifications/cancelled")[told]
	if about := wire.GetPath(got.Body, "params", "requestId"); string(about) != id {
		t.Errorf("the server was told of %s, the call was %s", about, id)
	}
}

// onlyItsOwnEra checks one message that a server got.
func onlyItsOwnEra(t *testing.T, b behind, client wire.Era, s mcptest.Seen) {
	t.Helper()
	meta := wire.GetPath(s.Body, "params", "_meta")
	reserved := func(key string) bool { return wire.Get(meta, key) != nil }
	era := b.era
	switch {
	case s.RPCMethod == "" || s.RPCMethod == "server/discover" || s.RPCMethod == "initialize":
		return // GET and DELETE, and how the crib finds out what it speaks
	case era == "" && s.RPCMethod == "tools/call":
		era = client // what speaks both is spoken to as the client speaks
	case era == "" && s.Header.Get(wire.HeaderMethod) == "":
		era = wire.Legacy // the crib's own, as the leg is that it goes over
	case era == "":
		era = wire.Modern
	}
	if s.RPCMethod == "tools/call" && string(wire.Get(meta, "com.x/req")) != `{"big":9007199254740993}` {
		t.Errorf("the client's own _meta is lost: %s", s.Body)
	}
	isRequest := wire.Get(s.Body, "id") != nil
	if era == wire.Legacy {
		for _, key := range []string{wire.MetaProtocolVersion, wire.MetaClientInfo, wire.MetaClientCapabilities, wire.MetaLogLevel} {
			if reserved(key) {
				t.Errorf("a legacy server got %s: %s", key, s.Body)
			}
		}
		for name := range s.Header {
			if name == wire.HeaderMethod || name == wire.HeaderName || strings.HasPrefix(name, wire.HeaderParamPrefix) {
				t.Errorf("a legacy server got the header %s", name)
			}
		}
		if s.Header != nil && (s.Header.Get(wire.HeaderSession) == "" || s.Header.Get(wire.HeaderProtocolVersion) != wire.NewestLegacy) {
			t.Errorf("%s without session or version: %v", s.RPCMethod, s.Header)
		}
		return
	}
	if s.Header != nil && (s.Header.Get(wire.HeaderSession) != "" || s.Header.Get(wire.HeaderMethod) != s.RPCMethod) {
		t.Errorf("%s: headers %v", s.RPCMethod, s.Header)
	}
	if isRequest && !(reserved(wire.MetaProtocolVersion) && reserved(wire.MetaClientInfo) && reserved(wire.MetaClientCapabilities)) {
		t.Errorf("a modern server misses members of _meta: %s", s.Body)
	}
}

// Over modern HTTP a call is cancelled by closing its stream, whichever way the
// client cancelled it.
func TestCancelClosesTheStream(t *testing.T) {
	for _, era := range bothEras {
		t.Run(string(era), func(t *testing.T) {
			p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: mcptest.EraModern}})
			c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
			cl := c.client(era, "s")
			s := cl.OpenID(era, "7", "tools/call", `{"name":"slow","arguments":{"release":"/never/there"},"_meta":{"progressToken":1}}`)
			defer s.Close()
			s.Next()
			id := mcptest.RequestID(p.Last("tools/call").Body)
			if era == wire.Modern {
				s.Close()
			} else {
				cl.Post(era, "notifications/cancelled", `{"requestId":"7"}`) // another id than 7
				cl.Post(era, "notifications/cancelled", `{"requestId":7}`)
			}
			mcptest.Eventually(t, "the cancellation", func() bool { return slices.Equal(p.Cancelled(), []string{id}) })
		})
	}
}

// The version of a leg is its own: a legacy client gets what it asks for if the
// crib serves it, else the newest legacy one, never a modern one.
func TestVersionNegotiation(t *testing.T) {
	c, _ := allBehind(t)
	for _, server := range []string{"", "http-legacy", "stdio-modern"} {
		for asked, want := range map[string]string{
			"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
			"2026-07-28": "2025-11-25", "2099-01-01": "2025-11-25", "": "2025-11-25", "1": "2025-11-25",
		} {
			cl := c.client(wire.Modern, server)
			r := cl.Raw(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+asked+
				`","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, "Content-Type: application/json", "Accept: application/json, text/event-stream")
			if got, _ := wire.GetText([]byte(r.Result()), "protocolVersion"); got != want || r.Header.Get(wire.HeaderSession) == "" {
				t.Errorf("%q, asked for %q: got %q, want %q: %s", server, asked, got, want, r)
			}
		}
	}
	cl := c.client(wire.Modern, "")
	r := cl.Post(wire.Modern, "tools/list", `{"_meta":{"`+wire.MetaProtocolVersion+`":"2099-01-01"}}`, wire.HeaderProtocolVersion+": 2099-01-01")
	e := r.RPCError()
	want := `{"supported":["2024-11-05","2025-03-26","2025-06-18","2025-11-25","2026-07-28"],"requested":"2099-01-01"}`
	if r.Status != http.StatusBadRequest || e.Code != wire.CodeUnsupportedVersion || string(e.Data) != want {
		t.Errorf("an unknown modern version: %s", r)
	}
}

// numbers are arguments that a reader of floating numbers gives back changed,
// and characters that writers like to escape.
var numbers = []string{
	`{"id":9007199254740993,"ratio":1.0}`,
	`{"a":[1e2,1E+2,-0,-0.0,0.10,123456789012345678901234567890,1e400,5e-324]}`,
	`{ "b" : "<>&\u003c\/ ` + "\u2028\u2029" + `\u2028 é 漢 😀" ,	"" : null }`,
	`{"z":1,"a":{"z":{"deep":[[],{},[{"n":18446744073709551616}]]},"a":true}}`,
	`{}`,
}

// What a client sends as arguments is what the server gets, and what it gives
// back is what the client gets, to the byte, on every way.
func TestNumbers(t *testing.T) {
	forAll(t, func(t *testing.T, cl *mcptest.Client, era wire.Era, b behind, tool func(string) string) {
		for _, args := range numbers {
			r := call(cl, era, tool("echo"), args)
			sent := b.received("tools/call")
			if got := wire.GetPath(sent[len(sent)-1].Body, "params", "arguments"); string(got) != args {
				t.Errorf("the server got\n%s, sent was\n%s", got, args)
			}
			if got := wire.Get([]byte(r.Result()), "structuredContent"); string(got) != args || r.Text() != args {
				t.Errorf("the client got\n%s\nfor %s", r, args)
			}
			r = call(cl, era, tool("rpcerror"), args)
			if got := wire.Get(r.RPCError().Data, "arguments"); string(got) != args {
				t.Errorf("in error data the client got\n%s\nfor %s", r, args)
			}
		}
		// Over a pipe a message is one line: breaks between tokens become spaces.
		if r := call(cl, era, tool("echo"), "{\"n\":\r\n1.0\n}"); r.Text() != `{"n":  1.0 }` {
			t.Errorf("with line breaks: %s", r)
		}
	})
}

// legacyProbes are answers to server/discover that come from servers that
// speak the legacy era.
var legacyProbes = []struct {
	name, kind, body string
	status           int
}{
	{"404 text", "text/plain", "Invalid session ID", 404},
	{"404 HTML", "text/html", "<h1>Not found</h1>", 404},
	{"404 method not found", "application/json", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"no"}}`, 404},
	{"400 empty", "", "", 400},
	{"400 no session", "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}`, 400},
	{"400 invalid request", "application/json", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32600,"message":"no"}}`, 400},
	{"400 JSON of another kind", "application/json", `{"error":"bad request"}`, 400},
	{"405", "text/plain", "method not allowed", 405},
	{"406", "", "", 406},
	{"415", "", "", 415},
	{"422", "application/json", `{"detail":[]}`, 422},
	{"200 invalid params", "application/json", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"Invalid request parameters"}}`, 200},
	{"200 method not found", "application/json", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"no"}}`, 200},
	{"200 internal error", "application/json", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32603,"message":"no"}}`, 200},
	{"200 event", "text/event-stream", "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":ID,\"error\":{\"code\":-32602,\"message\":\"no\"}}\n\n", 200},
	{"unsupported version, legacy ones offered", "application/json",
		`{"jsonrpc":"2.0","id":ID,"error":{"code":-32022,"message":"no","data":{"supported":["2025-06-18"],"requested":"2026-07-28"}}}`, 400},
	{"discovers legacy versions", "application/json",
		`{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","supportedVersions":["2025-11-25"],"capabilities":{}}}`, 200},
}

// answerDiscover answers server/discover with these bytes, in which ID is the
// request's.
func answerDiscover(p *mcptest.HTTP, status int, kind, body string) {
	p.Script(func(w http.ResponseWriter, _ *http.Request, got []byte) bool {
		if method, _ := wire.GetText(got, "method"); method != "server/discover" {
			return false
		}
		if kind != "" {
			w.Header().Set("Content-Type", kind)
		}
		w.WriteHeader(status)
		w.Write([]byte(strings.ReplaceAll(body, "ID", mcptest.RequestID(got))))
		return true
	})
}

func TestProbeFindsLegacyHTTP(t *testing.T) {
	for _, tc := range legacyProbes {
		t.Run(tc.name, func(t *testing.T) {
			p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: mcptest.EraLegacy}})
			answerDiscover(p, tc.status, tc.kind, tc.body)
			c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
			works(t, c.client(wire.Modern, "s"), wire.Modern, "echo")
			if p.Requests("initialize") != 1 || len(discovers(p)) != 1 {
				t.Errorf("%d initialize and %d server/discover came, want 1 and 1", p.Requests("initialize"), len(discovers(p)))
			}
		})
	}
}

func discovers(p *mcptest.HTTP) []mcptest.Seen {
	return slices.DeleteFunc(p.Seen(), func(s mcptest.Seen) bool { return s.RPCMethod != "server/discover" })
}

// What a proxy, a limiter or a login in front of a server answers says nothing
// of its era: it is unavailable, nothing is remembered, and the next attempt
// asks again.
func TestProbeLearnsNothing(t *testing.T) {
	const rpc = `{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"no"}}`
	for _, tc := range []struct {
		status     int
		kind, body string
		code       crib.Code
	}{
		{401, "application/json", rpc, crib.Unauthorized},
		{403, "text/plain", "no", crib.Unauthorized},
		{407, "text/plain", "no", crib.Unavailable},
		{407, "application/json", rpc, crib.Unavailable},
		{408, "text/plain", "no", crib.Unavailable},
		{408, "application/json", rpc, crib.Unavailable},
		{429, "text/plain", "no", crib.Unavailable},
		{429, "application/json", rpc, crib.Unavailable},
		{500, "text/plain", "no", crib.Unavailable},
		{502, "text/html", "<h1>Bad gateway</h1>", crib.Unavailable},
		{503, "application/json", rpc, crib.Unavailable},
		{302, "text/html", "<a href=/login>", crib.Unavailable},
		{302, "application/json", rpc, crib.Unavailable},
		{200, "text/html", "<h1>Please sign in</h1>", crib.Unavailable},
		{400, "application/json", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32021,"message":"no"}}`, crib.Unavailable},
		{400, "application/json", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32022,"message":"no","data":{"supported":["2099-01-01"]}}}`, crib.Unavailable},
	} {
		t.Run(strconv.Itoa(tc.status)+" "+tc.kind, func(t *testing.T) {
			t.Parallel() // each waits out the pause between two attempts
			p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: mcptest.EraModern}})
			answerDiscover(p, tc.status, tc.kind, tc.body)
			c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
			cl := c.client(wire.Modern, "s")
			if r := call(cl, wire.Modern, "echo", `{}`); codeOf(r) != tc.code {
				t.Errorf("got %s, want the code %s", r, tc.code)
			}
			if st := serverState(t, c, "s"); len(st.Eras) != 0 || st.Phase != upstream.Failed {
				t.Errorf("remembered: %+v", st)
			}
			p.Script(nil)
			mcptest.Eventually(t, "another attempt", func() bool { return call(cl, wire.Modern, "echo", `{"n":1}`).Text() == `{"n":1}` })
			if p.Requests("initialize") != 0 || p.Requests("server/discover") != 1 {
				t.Errorf("the second attempt sent %d initialize and %d server/discover", p.Requests("initialize"), p.Requests("server/discover"))
			}
		})
	}
}

func serverState(t testing.TB, c *cribT, name string) upstream.State {
	t.Helper()
	s, err := c.cat.Server(name)
	if err != nil {
		t.Fatal(err)
	}
	return s.Up().State()
}

// A server that takes the probe and says nothing costs its caller the probe's
// time, not the whole limit of a call.
func TestProbeOfSilentHTTPIsBounded(t *testing.T) {
	p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: mcptest.EraLegacy}})
	p.Script(func(_ http.ResponseWriter, r *http.Request, got []byte) bool {
		if method, _ := wire.GetText(got, "method"); method != "server/discover" {
			return false
		}
		<-r.Context().Done()
		return true
	})
	c := newCrib(t, cribOptions{upstream: upstream.Options{ProbeTimeout: 200 * time.Millisecond}}, httpServer("s", p.URL))
	began := time.Now()
	r := call(c.client(wire.Modern, "s"), wire.Modern, "echo", `{}`)
	if took := time.Since(began); codeOf(r) != crib.Unavailable || took > 5*time.Second {
		t.Errorf("after %s: %s", took, r)
	}
	if st := serverState(t, c, "s"); len(st.Eras) != 0 {
		t.Errorf("remembered: %v", st.Eras)
	}
}
