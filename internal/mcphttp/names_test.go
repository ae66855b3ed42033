package mcphttp_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/catalog"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// hostileNames are names of tools that collapse into each other, or into those
// of another server, where names are made by replacing characters or by
// cutting them off.
var hostileNames = []string{
	"get-user", "get_user", "get.user", "get user", "get/user", "get:user", "getUser", "getuser", "GETUSER", "GET.USER", "Get.User",
	"b__c", "b--c", "__c", "_", "__", "-", "--", ".", "..", "../x", "a", "A", "ä", "a\u0308", "ａ", "а", // the last is Cyrillic
	strings.Repeat("x", 80), strings.Repeat("x", 79) + "y", strings.Repeat("x", 81), strings.Repeat("ü", 60), strings.Repeat("ü", 59) + "u",
	"files.read.v2", "s__echo", "s-b__a", "mcp.s.a", "tools/call", "日本語", "😀", "\u202eevil", "a\u200bb", "new\nline", "tab\t", "nul\u0000", `quote"`, `back\slash`,
	"<script>alert(1)</script>", "constructor", "__proto__", "=?base64?eA==?=", " lead", "trail ", "%2e%2e", "a,b", "${HOME}",
}

func toolsNamed(names []string) string {
	tools := make([]string, len(names))
	for i, name := range names {
		tools[i] = `{"name":` + string(wire.Quote(name)) + `,"title":` + string(wire.Quote(name)) + `,"inputSchema":{"type":"object"}}`
	}
	return "[" + strings.Join(tools, ",") + "]"
}

// publicNames maps server and own name, which the tools have as their title, to
// the public name.
func publicNames(t *testing.T, c *cribT) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, item := range items(t, c.clientAs(t, wire.Modern, ""), wire.Modern, "tools/list") {
		public := wire.Text(wire.Get([]byte(item), "name"))
		server, _, _ := strings.Cut(strings.ReplaceAll(public, "--", "__"), "__")
		out[server+"\x00"+wire.Text(wire.Get([]byte(item), "title"))] = public
	}
	return out
}

// A public name means one tool of one server, whatever else there is, in
// whatever order it is listed, and also after a restart.
func TestPublicNamesStay(t *testing.T) {
	dir := t.TempDir()
	var defs []servers.Definition
	var peers []*mcptest.HTTP
	for _, server := range []string{"s", "s-b", "s-b-a"} {
		p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Tools: toolsNamed(hostileNames)}})
		p.Script(echoNames)
		peers, defs = append(peers, p), append(defs, httpServer(server, p.URL))
	}
	var first map[string]string
	t.Run("first", func(t *testing.T) {
		c := newCrib(t, cribOptions{dir: dir, budget: mcptest.Patience}, defs...)
		first = publicNames(t, c)
		if public := slices.Collect(maps.Values(first)); len(first) != len(defs)*len(hostileNames) || len(slices.Compact(slices.Sorted(slices.Values(public)))) != len(first) {
			t.Errorf("%d names for %d tools", len(first), len(defs)*len(hostileNames))
		}
		wantTargets(t, c, first, peers, defs)

		// Another order, with tools before and between, and some gone.
		reordered := slices.Clone(hostileNames[5:])
		slices.Reverse(reordered)
		for i, p := range peers {
			p.SetTools(toolsNamed(append([]string{"new.one", "get_user2", "get.user.2"}, reordered...)))
			before := p.Requests("tools/list")
			p.ListChanged("tools")
			mcptest.Eventually(t, "a new list of "+defs[i].Name, func() bool { return p.Requests("tools/list") > before })
		}
		mcptest.Eventually(t, "the new lists", func() bool {
			return len(publicNames(t, c)) == len(defs)*(len(reordered)+3)
		})
		wantSame(t, first, publicNames(t, c), len(defs)*len(reordered))
		gone := first["s\x00"+hostileNames[0]]
		if r := call(c.clientAs(t, wire.Modern, ""), wire.Modern, gone, "{}"); r.RPCError().Message != "Unknown tool: "+gone {
			t.Errorf("a tool that is gone: %s", r)
		}
	})
	for _, p := range peers {
		p.SetTools(toolsNamed(hostileNames))
	}
	t.Run("after a restart, in another order of servers", func(t *testing.T) {
		slices.Reverse(defs)
		slices.Reverse(peers)
		c := newCrib(t, cribOptions{dir: dir, budget: mcptest.Patience}, defs...)
		mcptest.Eventually(t, "the lists", func() bool { return len(publicNames(t, c)) == len(first) })
		wantSame(t, first, publicNames(t, c), len(first))
		wantTargets(t, c, first, peers, defs)
	})
}

// wantSame checks that tools which are in both have the names that they had.
func wantSame(t *testing.T, before, now map[string]string, common int) {
	t.Helper()
	n := 0
	for tool, public := range now {
		if old, ok := before[tool]; ok {
			n++
			if old != public {
				t.Errorf("%q was %s and is %s", tool, old, public)
			}
		}
	}
	if n != common {
		t.Errorf("%d tools are in both, want %d", n, common)
	}
}

// wantTargets calls every tool by its public name.
func wantTargets(t *testing.T, c *cribT, names map[string]string, peers []*mcptest.HTTP, defs []servers.Definition) {
	t.Helper()
	for _, era := range bothEras {
		cl := c.clientAs(t, era, "")
		for i, def := range defs {
			for _, own := range hostileNames {
				public := names[def.Name+"\x00"+own]
				before := arrived(peers[i])
				if r := call(cl, era, public, "{}"); r.Text() != own || arrived(peers[i]) != before+1 {
					t.Errorf("%s: %s of %s called %q", era, public, def.Name, r.Text())
				}
			}
		}
	}
}

// All names work unshortened on the server's own endpoint, over both carriers.
func TestOwnNames(t *testing.T) {
	p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Tools: toolsNamed(hostileNames)}})
	p.Script(echoNames)
	c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
	for _, era := range bothEras {
		cl := c.client(era, "s")
		if got := toolNames(t, cl, era); !slices.Equal(got, hostileNames) {
			t.Errorf("%s: listed are %q", era, got)
		}
		for _, own := range hostileNames {
			if r := call(cl, era, own, "{}"); r.Text() != own {
				t.Errorf("%s: %q: %s", era, own, r)
			}
		}
	}
}

// policyTools are the tools of the servers in the tests of policy.
var policyTools = []string{"read_a", "read_b", "write_a", "write_b", "search", "search_internal", "Read_a", "a.b.c", "delete"}

// policyPatterns are what random policies are made of.
var policyPatterns = []string{"*", "read_*", "*_a", "write_a", "search*", "search_internal", "Read*", "a.*.c", "*e*", "nothing", "delete", "READ_A"}

func randomPolicy(rnd *rand.Rand, def servers.Definition) servers.Definition {
	pick := func() string { return policyPatterns[rnd.IntN(len(policyPatterns))] }
	def.Tools, def.Gates = nil, nil
	for range rnd.IntN(4) {
		not := ""
		if rnd.IntN(3) == 0 {
			not = "!"
		}
		def.Tools = append(def.Tools, not+pick())
	}
	effects := []crib.Effect{crib.Allow, crib.Deny, crib.Ask, "unheard of"}
	for range rnd.IntN(4) {
		def.Gates = append(def.Gates, servers.Gate{Pattern: pick(), Effect: effects[rnd.IntN(len(effects))]})
	}
	return def
}

// toolDoor is one of the ways to list and to call tools.
type toolDoor struct {
	name string
	of   func(tool string) string             // how a tool is called here
	list func() []string                      // the tools, by their names here
	call func(name string) string             // the text that a call brings, "" if it is refused
	raw  func(name string) (r *mcptest.Reply) // the whole answer
}

func toolDoors(t *testing.T, c *cribT) []toolDoor {
	own := func(tool string) string { return tool }
	public := func(tool string) string { return catalog.PublicName(crib.Address{Server: "s", Tool: tool}) }
	text := func(r *mcptest.Reply) string {
		if codeOf(r) != "" {
			return ""
		}
		return r.Text()
	}
	var out []toolDoor
	for _, era := range bothEras {
		for server, of := range map[string]func(string) string{"s": own, "": public} {
			cl := c.client(era, server)
			raw := func(name string) *mcptest.Reply { return call(cl, era, name, "{}") }
			out = append(out, toolDoor{
				name: fmt.Sprintf("%s client of %q", era, server), of: of, raw: raw,
				list: func() []string { return toolNames(t, cl, era) },
				call: func(name string) string { return text(raw(name)) },
			})
		}
	}
	at := strings.TrimSuffix(c.url, "/mcp") + "/tools"
	cl := c.client(wire.Modern, "")
	plain := func(httpMethod, path string) *mcptest.Reply {
		cl.URL = at + path
		return cl.Raw(httpMethod, "", "Content-Type: application/json")
	}
	raw := func(name string) *mcptest.Reply { return plain(http.MethodPost, "/"+url.PathEscape(name)) }
	return append(out, toolDoor{
		name: "/v1/tools", of: public, raw: raw,
		list: func() []string {
			body := plain(http.MethodGet, "").Body
			names := []string{}
			for _, at := range wire.Elements(body) {
				names = append(names, wire.Text(wire.Get(at.In(body), "name")))
			}
			return names
		},
		call: func(name string) string {
			body := raw(name).Body
			if wire.Get(body, "isError") != nil {
				return ""
			}
			content := wire.Get(body, "content")
			for _, at := range wire.Elements(content) {
				return wire.Text(wire.Get(at.In(content), "text"))
			}
			return ""
		},
	})
}

// What is listed can be called and what is not listed cannot, under whatever
// policy, at every door.
func TestListedIsCallable(t *testing.T) {
	p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Tools: toolsNamed(policyTools)}})
	p.Script(echoNames)
	def := httpServer("s", p.URL)
	c := newCrib(t, cribOptions{}, def)
	all := toolDoors(t, c)
	rnd := rand.New(rand.NewPCG(3, 5))
	some := map[int]bool{} // how many tools were given
	for range 25 {
		policy := randomPolicy(rnd, def)
		c.cat.Apply([]servers.Definition{policy})
		given := -1
		for _, d := range all {
			var callable []string
			before := arrived(p)
			for _, tool := range policyTools {
				switch got := d.call(d.of(tool)); got {
				case tool:
					callable = append(callable, d.of(tool))
				case "":
				default:
					t.Errorf("%s: %s called %s", d.name, tool, got)
				}
			}
			listed := d.list()
			if !slices.Equal(listed, callable) {
				t.Errorf("%s, tools %q, gates %v:\nlisted   %q\ncallable %q", d.name, policy.Tools, policy.Gates, listed, callable)
			}
			if n := arrived(p) - before; n != len(callable) {
				t.Errorf("%s: %d calls came, %d tools are callable", d.name, n, len(callable))
			}
			if given >= 0 && given != len(listed) {
				t.Errorf("%s: %d tools, %d at another door", d.name, len(listed), given)
			}
			given = len(listed)
		}
		some[given] = true
	}
	if len(some) < 4 {
		t.Errorf("the policies were too much alike: %v", some)
	}
}

// What is refused looks like what is not there: the same bytes but for the
// name. Names that only resemble one that is given are of that kind.
func TestDeniedLooksLikeUnknown(t *testing.T) {
	peers := map[string]*mcptest.HTTP{}
	var defs []servers.Definition
	for _, name := range []string{"s", "other"} {
		p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Tools: toolsNamed([]string{"given", "denied", "hidden"})}})
		p.Script(echoNames)
		peers[name] = p
		defs = append(defs, httpServer(name, p.URL, func(d *servers.Definition) {
			d.Tools = []string{"!hidden"}
			d.Gates = []servers.Gate{{Pattern: "denied", Effect: crib.Deny}}
		}))
	}
	defs[1].Gates[0].Pattern = "given"
	c := newCrib(t, cribOptions{}, defs...)
	for _, d := range toolDoors(t, c) {
		if got := d.call(d.of("given")); got != "given" {
			t.Errorf("%s: given: %q", d.name, got)
		}
		refused := []string{d.of("denied"), d.of("hidden"), d.of("Given"), d.of("GIVEN"), d.of("given "), d.of(" given"), d.of("giveN\u0000"),
			"other__given", "other__denied2", "s__s__given", "nobody__given", "mcp.s.given", "S__given", "s--given", "s_given", "s/given", "__given", "s__", "--", "__"}
		if d.of("given") == "given" {
			refused = append(refused, "s__given", "other__given")
		} else {
			refused = append(refused, "given", "denied")
		}
		unknown := d.raw(d.of("nothing"))
		before := arrived(peers["s"]) + arrived(peers["other"])
		for _, name := range refused {
			want := anonymous(unknown, d.of("nothing"))
			if r := d.raw(name); anonymous(r, name) != want || r.Status != unknown.Status {
				t.Errorf("%s: %q is answered\n%s, what is not there\n%s", d.name, name, r, unknown)
			}
		}
		if n := arrived(peers["s"]) + arrived(peers["other"]) - before; n != 0 {
			t.Errorf("%s: %d calls came", d.name, n)
		}
	}
}

var idMember = regexp.MustCompile(`"id":\d+`)

// anonymous is an answer without the name and the id of its request.
func anonymous(r *mcptest.Reply, name string) string {
	body := strings.Replace(string(r.Body), string(wire.Quote(": " + name))[1:], `: NAME"`, 1)
	return fmt.Sprint(r.Status, r.Header.Get("Content-Type"), idMember.ReplaceAllString(body, `"id":0`))
}

// A tool behind a gate that asks is not called, and the model is told that a
// person has to decide.
func TestGateThatAsks(t *testing.T) {
	p := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	c := newCrib(t, cribOptions{}, httpServer("s", p.URL, func(d *servers.Definition) {
		d.Gates = []servers.Gate{{Pattern: "*", Effect: crib.Allow}, {Pattern: "echo", Effect: crib.Ask}}
	}))
	for _, d := range toolDoors(t, c) {
		r := d.raw(d.of("echo"))
		if !strings.Contains(r.String(), "approval of a person") || !strings.Contains(r.String(), `"io.toolcrib/code":"denied"`) {
			t.Errorf("%s: %s", d.name, r)
		}
		if slices.Contains(d.list(), d.of("echo")) || !slices.Contains(d.list(), d.of("raw")) {
			t.Errorf("%s: listed are %q", d.name, d.list())
		}
	}
	if n := arrived(p); n != 0 {
		t.Errorf("%d calls came", n)
	}
}

// Taking a tool away holds from the next call on, for sessions that are open
// too; a call that runs already ends as it was allowed to. Clients are told.
func TestTakenAwayAtOnce(t *testing.T) {
	for name, tighten := range map[string]func(*servers.Definition){
		"gate":        func(d *servers.Definition) { d.Gates = []servers.Gate{{Pattern: "slow", Effect: crib.Deny}} },
		"gate asks":   func(d *servers.Definition) { d.Gates = []servers.Gate{{Pattern: "s*", Effect: crib.Ask}} },
		"not offered": func(d *servers.Definition) { d.Tools = []string{"!slow"} },
	} {
		for _, era := range bothEras {
			t.Run(fmt.Sprint(name, " ", era), func(t *testing.T) {
				t.Parallel() // it waits more than it works
				p := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
				def := httpServer("s", p.URL)
				c := newCrib(t, cribOptions{}, def)
				cl := c.client(era, "")
				before := toolNames(t, cl, era)
				told := changes(t, era, cl)
				hold := newGate(t)
				running := cl.Open(era, "tools/call", callOf("s__slow", hold.args(`"ticks":1`), token("1")))
				defer running.Close()
				running.Next()

				tight := def
				tighten(&tight)
				c.cat.Apply([]servers.Definition{tight})
				if r := call(cl, era, "s__slow", "{}"); r.Text() == "released" || arrived(p) != 1 {
					t.Errorf("%d calls came: %s", arrived(p), r)
				}
				after := toolNames(t, cl, era)
				if !slices.Equal(after, slices.DeleteFunc(before, func(n string) bool { return n == "s__slow" || name == "gate asks" && n == "s__sample" })) {
					t.Errorf("listed are %q", after)
				}
				hold.open()
				if e := running.Next(); !strings.Contains(e.Data, `"text":"released"`) {
					t.Errorf("the running call: %s", e.Data)
				}
				told()

				c.cat.Apply(nil)
				if r := call(cl, era, "s__echo", "{}"); r.RPCError().Message != "Unknown tool: s__echo" {
					t.Errorf("of a server that is gone: %s", r)
				}
				if got := toolNames(t, cl, era); len(got) != 0 {
					t.Errorf("listed are %q", got)
				}
				told()
			})
		}
	}
}

// changes opens what a client is told of changed lists on. The function it
// returns waits for one notification.
func changes(t *testing.T, era wire.Era, cl *mcptest.Client) (told func()) {
	t.Helper()
	var s *mcptest.Stream
	if era == wire.Legacy {
		s = cl.Get()
	} else {
		s = cl.Open(era, "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)
		s.Next() // the acknowledgement
	}
	t.Cleanup(s.Close)
	for !s.Quiet(250 * time.Millisecond) { // longer than changes are joined
	}
	return func() {
		t.Helper()
		for e := s.Next(); method(e.Data) != "notifications/tools/list_changed"; {
			e = s.Next()
		}
	}
}
