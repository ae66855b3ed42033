package mcphttp_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/wire"
)

const garbledTools = `[{"name":"garbled","inputSchema":{"type":"object"}},{"name":"echo","inputSchema":{"type":"object"}}]`

// garblers are servers of every sort, whose tool garbled says whatever bytes it
// is given.
func garblers(t *testing.T) []behind {
	file := filepath.Join(t.TempDir(), "tools.json")
	if err := os.WriteFile(file, []byte(garbledTools), 0o600); err != nil {
		t.Fatal(err)
	}
	var all []behind
	for _, era := range []string{mcptest.EraLegacy, mcptest.EraModern} {
		for name, sse := range map[string]bool{"json": false, "sse": true} {
			p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: era, Tools: garbledTools}, AlwaysSSE: sse})
			all = append(all, behind{name: name + "-" + era, era: eraNamed(era), def: httpServer(name+"-"+era, p.URL), seen: p.Seen})
		}
		all = append(all, behindStdio(t, "stdio-"+era, era, "-tools", file))
	}
	return all
}

func garbledArgs(at, text string) string {
	return fmt.Sprintf(`{"at":%q,"bytes":%q}`, at, base64.StdEncoding.EncodeToString([]byte(text)))
}

// forGarblers runs a test with clients of each era for each of garblers.
func forGarblers(t *testing.T, test func(t *testing.T, cl *mcptest.Client, client wire.Era, b behind)) {
	all := garblers(t)
	var defs []servers.Definition
	for _, b := range all {
		defs = append(defs, b.def)
	}
	c := newCrib(t, cribOptions{}, defs...)
	for _, b := range all {
		for _, client := range bothEras {
			t.Run(fmt.Sprintf("%s client of %s", client, b.name), func(t *testing.T) {
				test(t, c.clientAs(t, client, b.name), client, b)
			})
		}
	}
}

// wantText fails the test unless the answer is UTF-8 and has the string in it,
// byte for byte, and says that it was repaired only if it was.
func wantText(t *testing.T, r *mcptest.Reply, raw string, repaired bool) bool {
	t.Helper()
	message := r.Message()
	ok := utf8.ValidString(message) && strings.Contains(message, `"`+raw+`"`)
	if !ok {
		t.Errorf("got %.300s, want %.100q in it", message, raw)
	}
	if note := wire.GetPath([]byte(r.Result()), "_meta", wire.MetaRepaired); (string(note) == "true") != repaired {
		t.Errorf("its note of a repair is %q, want one: %v", note, repaired)
		return false
	}
	return ok
}

// Text that a model reads comes as it is, escapes included. Only bytes that are
// no UTF-8, which would break every client, are replaced, and the result says
// so.
func TestTextOfResults(t *testing.T) {
	texts := []struct{ name, raw, want string }{
		{"a byte that begins nothing", "a\xc3(b", "a\uFFFD(b"},
		{"another code page", "\xb0\xa1\xb3\xaa.txt", "\uFFFD.txt"},
		{"cut off in a character", "ab\xe2\x82", "ab\uFFFD"},
		{"a surrogate as bytes", "\xed\xa0\xbd", "\uFFFD"},
		{"an overlong slash", "..\xc0\xaf..", "..\uFFFD.."},
		{"beside an escape", `\ud83d` + "\xff" + `\"`, `\ud83d` + "\uFFFD" + `\"`},
		{"half a surrogate pair", `\ud83d`, ""},
		{"a pair the wrong way round", `\ude00\ud83d`, ""},
		{"NUL", `a\u0000b`, ""},
		{"line separators", "a\u2028b\u2029c", ""},
		{"escapes nobody needs", `\u003c\/\u2028`, ""},
		{"not characters", "\uFFFE\uFFFD\U0010FFFF", ""},
	}
	forGarblers(t, func(t *testing.T, cl *mcptest.Client, client wire.Era, _ behind) {
		for _, tc := range texts {
			want := tc.want
			if want == "" {
				want = tc.raw
			}
			for _, at := range []string{"text", "structured"} {
				r := call(cl, client, "garbled", garbledArgs(at, tc.raw))
				if !wantText(t, r, want, tc.want != "") {
					t.Errorf("that was %s, in %s", tc.name, at)
				}
			}
		}
		r := call(cl, client, "garbled", garbledArgs("structured", "\xff"))
		if got := wire.GetPath([]byte(r.Result()), "_meta", "x-m"); string(got) != `"keep"` {
			t.Errorf("what stood in _meta before: %s", r)
		}
	})
}

// However many marks a character carries, it is as good a text as another.
func TestTextOfAMegabyteOfMarks(t *testing.T) {
	const marks = 1 << 19 // of two bytes each
	forGarblers(t, func(t *testing.T, cl *mcptest.Client, client wire.Era, b behind) {
		if client != b.era {
			return // the same bytes again
		}
		r := call(cl, client, "garbled", fmt.Sprintf(`{"bytes":%q,"repeat":%d}`, base64.StdEncoding.EncodeToString([]byte("\u0301")), marks))
		if text := r.Text(); text != strings.Repeat("\u0301", marks) {
			t.Errorf("%d bytes came", len(text))
		}
	})
}

// An error is an answer too: it is repaired, and stays that error.
func TestTextOfErrors(t *testing.T) {
	forGarblers(t, func(t *testing.T, cl *mcptest.Client, client wire.Era, _ behind) {
		r := call(cl, client, "garbled", garbledArgs("error", "\xff"))
		wantText(t, r, "\uFFFD", false)
		if r.RPCError().Code != -32099 {
			t.Errorf("got %s", r)
		}
	})
}

// Nothing but answers is repaired. A notification that cannot be read is
// dropped, a question is refused, and the call goes on.
func TestTextOfWhatIsNoAnswer(t *testing.T) {
	forGarblers(t, func(t *testing.T, cl *mcptest.Client, client wire.Era, b behind) {
		r := cl.Post(client, "tools/call", callOf("garbled", garbledArgs("progress", "\xff"), token("1")))
		if r.Text() != "told" || len(r.Others()) != 0 {
			t.Errorf("a notification: %s", r)
		}
		if b.era == wire.Modern {
			return // its questions are results
		}
		r = call(cl, client, "garbled", garbledArgs("question", "\xff"))
		if !strings.Contains(r.Text(), `"code":-32700`) || len(r.Others()) != 0 {
			t.Errorf("a question: %s", r)
		}
		r = cl.Post(client, "tools/call", callOf("garbled", garbledArgs("progress", "fine"), token("2")))
		if len(r.Others()) != 1 {
			t.Errorf("a notification that can be read: %s", r)
		}
	})
}

// A definition that cannot be read is left out and named; it is not guessed at,
// and costs the others nothing.
func TestTextOfDefinitions(t *testing.T) {
	tools := `[{"name":"first","inputSchema":{"type":"object"}},` +
		`{"name":"text","description":"Says ` + "\xc3(" + `","inputSchema":{"type":"object"}},` +
		`{"name":"na` + "\xff" + `me","inputSchema":{"type":"object"}},` +
		`{"name":"deep","inputSchema":{"type":"object","properties":{"` + "\xe2\x82" + `":{}}}},` +
		`{"name":"last","description":"\ud83d ` + "\u2028" + `","inputSchema":{"type":"object"}}]`
	file := filepath.Join(t.TempDir(), "tools.json")
	if err := os.WriteFile(file, []byte(tools), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, era := range bothEras {
		p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: string(era), Tools: tools}})
		for _, def := range []servers.Definition{httpServer("http", p.URL), stdioServer("stdio", mcptest.Peer("-era", string(era), "-tools", file))} {
			t.Run(fmt.Sprintf("%s %s", era, def.Name), func(t *testing.T) {
				c := newCrib(t, cribOptions{}, def)
				for _, client := range bothEras {
					for _, server := range []string{"", def.Name} {
						cl := c.clientAs(t, client, server)
						names := toolNames(t, cl, client)
						for i, name := range names {
							names[i] = strings.TrimPrefix(name, def.Name+"__")
						}
						if got := strings.Join(names, " "); got != "first last" {
							t.Errorf("%s client of %q sees %s", client, server, got)
						}
					}
					for _, name := range []string{"text", "deep"} {
						if r := call(c.clientAs(t, client, def.Name), client, name, "{}"); r.RPCError().Code != wire.CodeInvalidParams {
							t.Errorf("%s can be called: %s", name, r)
						}
					}
				}
				srv, err := c.cat.Server(def.Name)
				if err != nil {
					t.Fatal(err)
				}
				var left []string
				for _, problem := range srv.Problems() {
					if strings.Contains(problem.Why, "UTF-8") && problem.Every {
						left = append(left, problem.ID)
					}
				}
				if got := strings.Join(left, " "); got != "text na\uFFFDme deep" {
					t.Errorf("named as left out: %q", got)
				}
			})
		}
	}
}

// What a server says of itself is left out where it cannot be read, and what
// stands beside the items of a list likewise.
func TestTextOfHello(t *testing.T) {
	caps := `{"tools":{}},"x-keep":"\ud83d","instructions":"Use ` + "\xc3(" + `"`
	for _, era := range bothEras {
		p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: string(era), Capabilities: caps}})
		p.Script(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
			if method, _ := wire.GetText(body, "method"); method != "tools/list" {
				return false
			}
			answerWith(200, "application/json", `{"jsonrpc":"2.0","id":ID,"result":{"x-beside":"`+"\xff"+`","resultType":"complete","tools":[{"name":"echo","inputSchema":{"type":"object"}}],"x-keep":1.0}}`)(w, nil, mcptest.RequestID(body))
			return true
		})
		for _, def := range []servers.Definition{httpServer("http", p.URL), stdioServer("stdio", mcptest.Peer("-era", string(era), "-capabilities", caps))} {
			t.Run(fmt.Sprintf("%s %s", era, def.Name), func(t *testing.T) {
				c := newCrib(t, cribOptions{}, def)
				for _, client := range bothEras {
					cl := c.clientAs(t, client, def.Name)
					works(t, cl, client, "echo")
					hello := c.dial(def.Name).Initialize("")
					if client == wire.Modern {
						hello = cl.Post(client, "server/discover", "")
					}
					if strings.Contains(hello.Result(), "instructions") || hello.Result() == "" || !utf8.ValidString(hello.Result()) {
						t.Errorf("a %s client is told %s", client, hello)
					}
					if client == era && !strings.Contains(hello.Result(), `"x-keep":"\ud83d"`) {
						t.Errorf("a %s client is not told the rest: %s", client, hello)
					}
					list := cl.Post(client, "tools/list", "")
					if !utf8.ValidString(list.Result()) || !strings.Contains(list.Result(), `"echo"`) {
						t.Errorf("list for a %s client: %s", client, list)
					}
					if def.Name == "http" && (strings.Contains(list.Result(), "x-beside") || !strings.Contains(list.Result(), `"x-keep":1.0`)) {
						t.Errorf("beside the items, a %s client: %s", client, list)
					}
				}
			})
		}
	}
}

// Arguments that are no UTF-8 are never altered: the call is refused before
// anything of it goes to a server.
func TestTextOfArguments(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
	cl := c.enter("fake")
	for name, args := range map[string]string{
		"a value":      `{"a":"` + "\xc3(" + `"}`,
		"a name":       `{"` + "\xff" + `":1}`,
		"far down":     `{"a":[{"b":{"c":["` + "\xe2\x82" + `"]}}]}`,
		"at the end":   `{"a":"` + strings.Repeat("x", 1<<20) + "\x80" + `"}`,
		"a surrogate":  `{"a":"` + "\xed\xa0\x80" + `"}`,
		"half a pair":  `{"a":"\ud83d"}`, // an escape that stands for no text
		"beside them":  `{},"x":"` + "\xff" + `"`,
		"the tool":     `{},"name":"` + "ec\xffho" + `"`,
		"its own meta": `{},"_meta":{"x":"` + "\xff" + `"}`,
	} {
		for _, era := range bothEras {
			if r := cl.Post(era, "tools/call", callOf("echo", args)); r.Status != http.StatusBadRequest || r.RPCError().Message == "" {
				t.Errorf("%s, %s client: %s", name, era, r)
			}
		}
		if r := c.plain("/fake__echo").Raw(http.MethodPost, args, "Content-Type: application/json"); r.Status != http.StatusBadRequest {
			t.Errorf("%s, without MCP: %s", name, r)
		}
	}
	for _, kept := range []string{`{"a":"\ud83d\ude00"}`, `{"a":"` + "\u2028" + `"}`, `{"a":"\u0000"}`} {
		for _, era := range bothEras {
			r := call(cl, era, "echo", kept)
			if got := string(wire.Get([]byte(r.Result()), "structuredContent")); got != kept {
				t.Errorf("%s, %s client: came as %s", kept, era, got)
			}
		}
	}
	if n := peer.Requests("tools/call"); n != 3*len(bothEras) {
		t.Errorf("%d calls reached the server", n)
	}
}
