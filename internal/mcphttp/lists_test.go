package mcphttp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// oddSchemas are inputSchema members, as they are spelled, and whether clients
// take a list that holds a tool with them.
var oddSchemas = []struct {
	member string
	usable bool
}{
	{`"inputSchema":{"type":"object","properties":{"q":{"type":"string"}}}`, true},
	{`"inputSchema":{"type":"object","properties":{"x":true,"y":false}}`, true},
	{`"inputSchema":{"type":"object"}`, true},
	{`"inputSchema":{ "properties" : {} , "type" : "object" }`, true},
	{`"inputSchema":{"\u0074ype":"\u006fbject"}`, true},
	{`"inputSchema":{"type":"object","allOf":[{"required":["a"]}],"if":{"required":["a"]},"then":{"required":["b"]},"else":false}`, true},
	{`"inputSchema":{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"integer","maximum":9007199254740993}},"additionalProperties":false}`, true},
	{`"inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","definitions":{"a":{"$ref":"https://example.test/a.json"}}}`, true},
	{`"inputSchema":{"type":"object","properties":{"type":{"type":"nonsense"},"properties":[1.0,1e2]},"x-future":[]}`, true},
	{`"inputSchema":{"type":"object","properties":{"deep":` + strings.Repeat(`{"items":`, 200) + `{}` + strings.Repeat(`}`, 200) + `}}`, true},
	{`"inputSchema":true`, false},
	{`"inputSchema":false`, false},
	{`"inputSchema":null`, false},
	{`"inputSchema":"object"`, false},
	{`"inputSchema":7`, false},
	{`"inputSchema":[]`, false},
	{`"inputSchema":[{"type":"object"}]`, false},
	{`"inputSchema":{}`, false},
	{`"inputSchema":{"properties":{"q":{"type":"string"}}}`, false},
	{`"inputSchema":{"type":"string"}`, false},
	{`"inputSchema":{"type":"Object"}`, false},
	{`"inputSchema":{"type":["object","null"]}`, false},
	{`"inputSchema":{"Type":"object"}`, false},
	{`"inputSchema":{"anyOf":[{"type":"object"}]}`, false},
	{`"inputSchema":{"$ref":"#/$defs/a","$defs":{"a":{"type":"object"}}}`, false},
	{`"inputSchema":{"type":"object","properties":[]}`, false},
	{`"inputSchema":{"type":"object","properties":null}`, false},
	{`"inputSchema":{"type":"object","properties":true}`, false},
	{`"input_schema":{"type":"object"}`, false},
	{`"InputSchema":{"type":"object"}`, false},
}

// One tool whose schema no client would take costs itself, on the aggregate
// alone; every other one is there, with its bytes.
func TestOddSchemas(t *testing.T) {
	var all, usable []string
	for i, s := range oddSchemas {
		tool := fmt.Sprintf(`{"name":"t%d",%s,"x-future":{"a":[1]}}`, i, s.member)
		all = append(all, tool)
		if s.usable {
			usable = append(usable, strings.Replace(tool, `"name":"t`, `"name":"s__t`, 1))
		}
	}
	file := filepath.Join(t.TempDir(), "tools")
	raw := "[" + strings.Join(all, ",") + "]"
	if err := os.WriteFile(file, []byte(raw), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, upstreamEra := range []string{mcptest.EraLegacy, mcptest.EraModern} {
		p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: upstreamEra, Tools: raw, PageSize: 7}})
		for name, def := range map[string]servers.Definition{
			"http":  httpServer("s", p.URL),
			"stdio": stdioServer("s", mcptest.Peer("-era", upstreamEra, "-tools", file)),
		} {
			c := newCrib(t, cribOptions{}, def)
			for _, era := range bothEras {
				if got := items(t, c.client(era, "s"), era, "tools/list"); !slices.Equal(got, all) {
					t.Errorf("%s server over %s, %s client, own endpoint:\ngot  %s\nwant %s", upstreamEra, name, era, got, all)
				}
				if got := items(t, c.client(era, ""), era, "tools/list"); !slices.Equal(got, usable) {
					t.Errorf("%s server over %s, %s client, aggregate:\ngot  %s\nwant %s", upstreamEra, name, era, got, usable)
				}
			}
		}
	}
}

// What is left out of the aggregate is not called there either, and what a
// server lists wrongly is left out alone.
func TestLeftOutAlone(t *testing.T) {
	const schema = `"inputSchema":{"type":"object"}`
	p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Tools: `[` + strings.Join([]string{
		`{"name":"env",` + schema + `}`,
		`{` + schema + `}`,
		`{"name":null,` + schema + `}`,
		`{"name":7,` + schema + `}`,
		`{"name":"",` + schema + `}`,
		`{"name":["x"],` + schema + `}`,
		`"echo"`, `null`, `[]`, `7`,
		`{"name":"raw","inputSchema":true}`,
		`{"name":"twice",` + schema + `}`,
		`{"name":"differs",` + schema + `}`,
		`{"name":"broken","description":"` + "\xc3(" + `",` + schema + `}`,
		`{"name":"badheader","inputSchema":{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"A"}}}}`,
		`{"name":"twice",` + schema + `}`,
		`{"name":"differs",` + schema + `,"annotations":{"readOnlyHint":true}}`,
		`{"name":"differs",` + schema + `}`,
		`{"name":"echo",` + schema + `}`,
	}, ",") + `]`}})
	c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
	for server, want := range map[string][]string{"s": {"env", "raw", "twice", "echo"}, "": {"s__env", "s__twice", "s__echo"}} {
		for _, era := range bothEras {
			cl := c.client(era, server)
			if got := toolNames(t, cl, era); !slices.Equal(got, want) {
				t.Errorf("%q, %s: got %q, want %q", server, era, got, want)
			}
			prefix := strings.TrimSuffix(want[0], "env")
			works(t, cl, era, prefix+"echo")
			for _, left := range []string{"differs", "broken", "badheader"} {
				if r := call(cl, era, prefix+left, "{}"); r.RPCError().Message != "Unknown tool: "+prefix+left {
					t.Errorf("%q, %s, %s: %s", server, era, left, r)
				}
			}
		}
	}
	if r := call(c.client(wire.Modern, ""), wire.Modern, "s__raw", "{}"); r.RPCError().Message != "Unknown tool: s__raw" {
		t.Errorf("a tool that is left out of the aggregate: %s", r)
	}
	srv, err := c.cat.Server("s")
	if err != nil {
		t.Fatal(err)
	}
	told := fmt.Sprint(srv.Problems())
	for _, why := range []string{"raw its inputSchema", "differs the server defines it twice", "no UTF-8", "badheader its x-mcp-header", "it has no name"} {
		if !strings.Contains(told, why) {
			t.Errorf("nobody is told %q: %s", why, told)
		}
	}
}

func toolNames(t *testing.T, cl *mcptest.Client, era wire.Era) []string {
	t.Helper()
	names := []string{}
	for _, item := range items(t, cl, era, "tools/list") {
		names = append(names, wire.Text(wire.Get([]byte(item), "name")))
	}
	return names
}

// The page's description comes before the tool's own, whose bytes stay, and
// where there is none it is put there. Nothing else moves.
func TestPageDescription(t *testing.T) {
	const page = "Ours: <b>&\"quoted\"\\ \u2028\nsecond line"
	const ours = `Ours: <b>&\"quoted\"\\ ` + "\u2028" + `\nsecond line`
	const rest = `"inputSchema":{"type":"object","properties":{"description":{"description":"inner"}}},"_meta":{"description":"m"},"x-future":{"a":[1.0]}}`
	cases := []struct{ tool, want string }{
		{`{"name":"a","description":"Theirs \u003c\/ <&>` + "\u2029" + `",` + rest, `{"name":"a","description":"` + ours + `\n\nTheirs \u003c\/ <&>` + "\u2029" + `",` + rest},
		{`{"description" : "first" , "name":"b",` + rest, `{"description" : "` + ours + `\n\nfirst" , "name":"b",` + rest},
		{`{"name":"c",` + rest, `{"name":"c","description":"` + ours + `",` + rest},
		{`{"name":"d","description":"",` + rest, `{"name":"d","description":"` + ours + `",` + rest},
		{`{"name":"e","description":null,` + rest, `{"name":"e","description":"` + ours + `",` + rest},
		{`{"name":"f","Description":"x",` + rest, `{"name":"f","description":"` + ours + `","Description":"x",` + rest},
		{`{` + strings.TrimSuffix(rest, "}") + `,"name":"g"}`, `{` + strings.TrimSuffix(rest, "}") + `,"name":"g","description":"` + ours + `"}`},
	}
	var tools, own, public []string
	for _, tc := range cases {
		tools, own = append(tools, tc.tool), append(own, tc.want)
		name, _ := wire.GetText([]byte(tc.tool), "name")
		public = append(public, strings.Replace(tc.want, `"name":"`+name+`"`, `"name":"s__`+name+`"`, 1))
	}
	for _, upstreamEra := range []string{mcptest.EraLegacy, mcptest.EraModern} {
		p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: upstreamEra, Tools: "[" + strings.Join(tools, ",") + "]"}})
		c := newCrib(t, cribOptions{}, httpServer("s", p.URL, func(d *servers.Definition) { d.Description = page }))
		for _, era := range bothEras {
			for server, want := range map[string][]string{"s": own, "": public} {
				got := items(t, c.client(era, server), era, "tools/list")
				if !slices.Equal(got, want) {
					t.Errorf("%s server, %s client, %q:\ngot  %s\nwant %s", upstreamEra, era, server, got, want)
				}
				for _, item := range got {
					if !json.Valid([]byte(item)) {
						t.Errorf("not JSON: %s", item)
					}
				}
			}
		}
	}
}

// A server that is slow to start keeps nobody waiting: its clients are greeted
// at once, it is started once, and they are told when its tools are there.
func TestSlowStart(t *testing.T) {
	const delay = 1200 * time.Millisecond
	for _, upstreamEra := range []string{mcptest.EraLegacy, mcptest.EraModern} {
		t.Run(upstreamEra, func(t *testing.T) {
			t.Parallel() // it waits more than it works
			def, starts := peerServer(t, "-era", upstreamEra, "-delay", delay.String())
			c := newCrib(t, cribOptions{
				firstWait: 50 * time.Millisecond, budget: 50 * time.Millisecond,
				upstream: upstream.Options{ProbeTimeout: 300 * time.Millisecond},
			}, def)
			began := time.Now()
			legacy, modern := c.client(wire.Legacy, ""), c.client(wire.Modern, "")
			if r := modern.Post(wire.Modern, "server/discover", "{}"); wire.Get([]byte(r.Result()), "capabilities") == nil {
				t.Errorf("discover: %s", r)
			}
			standing := legacy.Get()
			defer standing.Close()
			listening := modern.Open(wire.Modern, "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)
			defer listening.Close()
			if ack := listening.Next(); !strings.Contains(ack.Data, "acknowledged") {
				t.Errorf("listen: %s", ack.Data)
			}
			for _, era := range bothEras {
				r := map[wire.Era]*mcptest.Client{wire.Legacy: legacy, wire.Modern: modern}[era].Post(era, "tools/list", "{}")
				if got := string(wire.GetPath([]byte(r.Result()), "_meta", "io.toolcrib/unavailable")); got != `["s"]` {
					t.Errorf("%s list: %s", era, r)
				}
			}
			if took := time.Since(began); took >= delay {
				t.Errorf("the greeting took %s", took)
			}
			toldUntil(t, standing, legacy, wire.Legacy, "s__echo")
			toldUntil(t, listening, modern, wire.Modern, "s__echo")
			works(t, modern, wire.Modern, "s__echo")
			if starts() != 1 {
				t.Errorf("%d starts", starts())
			}
		})
	}
}

// toldUntil waits for the notification behind which the tool is in the list.
// One may come before, when the crib hears of the server at all.
func toldUntil(t *testing.T, s *mcptest.Stream, cl *mcptest.Client, era wire.Era, tool string) {
	t.Helper()
	for range 2 {
		for e := s.Next(); method(e.Data) != "notifications/tools/list_changed"; {
			e = s.Next() // of the other lists
		}
		if r := cl.Post(era, "tools/list", "{}"); strings.Contains(r.Result(), `"name":"`+tool+`"`) {
			return
		}
	}
	t.Errorf("the %s client was told in vain", era)
}

// A first call waits for a server that is starting, and does not start it
// again.
func TestFirstCallWaits(t *testing.T) {
	def, starts := peerServer(t, "-delay", "400ms")
	c := newCrib(t, cribOptions{firstWait: 10 * time.Millisecond, budget: 10 * time.Millisecond}, def)
	cl := c.client(wire.Modern, "")
	cl.Post(wire.Modern, "tools/list", "{}")
	works(t, cl, wire.Modern, "s__echo")
	if starts() != 1 {
		t.Errorf("%d starts", starts())
	}
}

// hang takes requests with this method ("" is any) and answers none.
func hang(p *mcptest.HTTP, method string) {
	p.Script(func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
		if got, _ := wire.GetText(body, "method"); method != "" && got != method {
			return false
		}
		<-r.Context().Done()
		return true
	})
}

// Servers that are dead, hang, refuse the crib or are still starting cost their
// own tools. The list of the others comes within the time that the crib allows
// for waiting, and says who is missing.
func TestListDoesNotWait(t *testing.T) {
	const most = 300 * time.Millisecond // the default budget is 250 ms
	healthy := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	silent, mute := mcptest.NewHTTP(t, mcptest.HTTPOptions{}), mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	hang(silent, "")
	hang(mute, "tools/list")
	locked := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	locked.Script(func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	gone := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	gone.Close()
	c := newCrib(t, cribOptions{upstream: upstream.Options{StopGrace: 50 * time.Millisecond}},
		httpServer("gone", gone.URL), httpServer("healthy", healthy.URL), httpServer("locked", locked.URL),
		httpServer("mute", mute.URL), httpServer("silent", silent.URL),
		stdioServer("crashed", mcptest.Peer("-no-such-flag")), stdioServer("missing", []string{"no-such-command"}),
		stdioServer("starting", mcptest.Peer("-delay", "1m")))
	const missing = `["crashed","gone","locked","missing","mute","silent","starting"]`
	for _, era := range bothEras {
		cl := c.client(era, "")
		best := time.Hour // of three: the machine may be busy
		for range 3 {
			began := time.Now()
			r := cl.Post(era, "tools/list", "{}")
			best = min(best, time.Since(began))
			if !strings.Contains(r.Result(), `"name":"healthy__echo"`) {
				t.Errorf("%s: %s", era, r)
			}
			if got := string(wire.GetPath([]byte(r.Result()), "_meta", "io.toolcrib/unavailable")); got != missing {
				t.Errorf("%s: missing are %s", era, got)
			}
		}
		if best > most {
			t.Errorf("%s: the list took %s", era, best)
		}
		works(t, cl, era, "healthy__echo")
	}
	r := call(c.client(wire.Modern, ""), wire.Modern, "locked__echo", "{}")
	if codeOf(r) != crib.Unauthorized || r.Status != http.StatusOK || !strings.Contains(r.Text(), "server locked") {
		t.Errorf("a server that refuses the crib: %s", r)
	}
}

// The last lists outlive the crib. While their server cannot be asked they are
// shown, said to be stale, and are fresh again when it is back.
func TestListsSurvive(t *testing.T) {
	for _, upstreamEra := range []string{mcptest.EraLegacy, mcptest.EraModern} {
		t.Run(upstreamEra, func(t *testing.T) {
			t.Parallel() // it waits out the pause between two attempts
			dir := t.TempDir()
			p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: upstreamEra, PageSize: 4}})
			def := httpServer("s", p.URL)
			before := map[string][]string{}
			t.Run("known", func(t *testing.T) {
				c := newCrib(t, cribOptions{dir: dir, budget: mcptest.Patience}, def)
				cl := c.client(wire.Modern, "")
				for name := range listMethods {
					before[name] = items(t, cl, wire.Modern, name)
				}
			})
			p.Script(func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
				w.WriteHeader(http.StatusBadGateway)
				return true
			})
			t.Run("down, then back", func(t *testing.T) {
				c := newCrib(t, cribOptions{dir: dir}, def)
				for _, era := range bothEras {
					cl := c.client(era, "")
					for name := range listMethods {
						r := cl.Post(era, name, "{}")
						if got := string(wire.GetPath([]byte(r.Result()), "_meta", "io.toolcrib/stale")); got != `["s"]` {
							t.Errorf("%s, %s: not said to be stale: %s", era, name, r)
						}
						want := before[name]
						if era == wire.Legacy && upstreamEra == mcptest.EraModern {
							want = withoutTasks(want)
						}
						if got := items(t, cl, era, name); !slices.Equal(got, want) {
							t.Errorf("%s, %s:\ngot  %s\nwant %s", era, name, got, want)
						}
					}
				}
				cl := c.client(wire.Modern, "")
				if r := call(cl, wire.Modern, "s__echo", "{}"); codeOf(r) != crib.Unavailable {
					t.Errorf("a call while it is down: %s", r)
				}
				if own := c.client(wire.Legacy, "s"); !slices.Contains(toolNames(t, own, wire.Legacy), "echo") {
					t.Error("its own endpoint has forgotten the list")
				}
				p.Script(nil)
				mcptest.Eventually(t, "a fresh list", func() bool {
					r := cl.Post(wire.Modern, "tools/list", "{}")
					return wire.GetPath([]byte(r.Result()), "_meta", "io.toolcrib/stale") == nil && strings.Contains(r.Result(), "s__echo")
				})
				works(t, cl, wire.Modern, "s__echo")
			})
		})
	}
}

// What is known of a server is not shown for another one of its name.
func TestListsOfAnotherServer(t *testing.T) {
	dir := t.TempDir()
	old := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	t.Run("known", func(t *testing.T) {
		c := newCrib(t, cribOptions{dir: dir}, httpServer("s", old.URL))
		works(t, c.client(wire.Modern, ""), wire.Modern, "s__echo")
	})
	gone := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	gone.Close()
	c := newCrib(t, cribOptions{dir: dir}, httpServer("s", gone.URL))
	r := c.client(wire.Modern, "").Post(wire.Modern, "tools/list", "{}")
	if got := string(wire.GetPath([]byte(r.Result()), "_meta", "io.toolcrib/unavailable")); got != `["s"]` || strings.Contains(r.Result(), "s__echo") {
		t.Errorf("got %s", r)
	}
}

// withoutTasks are raw tools as the aggregate shows those of a modern server to
// legacy clients, which could not make a task of them.
func withoutTasks(tools []string) []string {
	out := make([]string, len(tools))
	for i, tool := range tools {
		out[i] = strings.Replace(tool, `"execution":{"taskSupport":"optional"},`, "", 1)
	}
	return out
}
