package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/page"
	"github.com/toolcrib/toolcrib/internal/secret"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// workspace makes a folder with files, by name and text.
func workspace(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func names(defs []Definition) []string {
	var out []string
	for _, d := range defs {
		out = append(out, d.Name)
	}
	return out
}

func faultsOf(faults []page.Fault, s page.Severity) []string {
	var out []string
	for _, f := range faults {
		if f.Severity == s {
			out = append(out, f.String())
		}
	}
	return out
}

const minimal = "---\nmcp: { transport: { stdio: from-page } }\n---\nBody\n"

func TestPrecedence(t *testing.T) {
	dir := workspace(t, map[string]string{
		"mcp/page.md":     minimal,
		"mcp/disabled.md": "---\nmcp: { transport: { stdio: from-page }, enabled: false }\n---\n",
		"mcp/broken.md":   "---\nmcp: { transport: { stdio: from-page }, wibble: 1 }\n---\n",
	})
	file := `tools:
  - { name: page, from: mcp:from-file }
  - { name: disabled, from: mcp:from-file }
  - { name: broken, from: mcp:from-file }
  - { name: bad_entry, from: npx }
  - { name: in_file, from: mcp:from-file }
`
	env := `{"page": {"transport": {"stdio": "from-env"}}, "broken": {"transport": {"stdio": "from-env"}}, "bad-entry": {"transport": {"stdio": "from-env"}},
		"in-file": {"transport": {"stdio": "from-env"}}, "in-env": {"transport": {"stdio": "from-env"}}}`
	set, faults := Load(Options{Workspace: dir, File: "toolcrib.yaml", FileSrc: []byte(file), Env: env})

	if got := names(set.All()); !slices.Equal(got, []string{"disabled", "in-env", "in-file", "page"}) {
		t.Errorf("All() = %q", got)
	}
	for name, program := range map[string]string{"page": "from-page", "disabled": "from-page", "in-file": "from-file", "in-env": "from-env"} {
		d, ok := set.Get(name)
		if !ok || d.Transport.Command[0] != program || d.Enabled != (name != "disabled") {
			t.Errorf("Get(%q) = %+v, %v", name, d, ok)
		}
	}
	for _, name := range []string{"broken", "bad-entry", "", "zzz"} {
		if _, ok := set.Get(name); ok {
			t.Errorf("Get(%q) found something", name)
		}
	}
	var broken []string
	for _, b := range set.Broken() {
		broken = append(broken, fmt.Sprint(b.Name, " ", b.Source, " ", len(b.Faults)))
	}
	if !slices.Equal(broken, []string{"bad-entry toolcrib.yaml:5 1", "broken mcp/broken.md:2 1"}) {
		t.Errorf("Broken() = %q", broken)
	}
	var shadowed []string
	for _, s := range set.Shadowed() {
		shadowed = append(shadowed, fmt.Sprint(s.Name, " ", s.Source, " by ", s.By))
	}
	want := []string{
		"bad-entry TOOLCRIB_MCP_SERVERS by toolcrib.yaml:5",
		"broken toolcrib.yaml:4 by mcp/broken.md:2",
		"broken TOOLCRIB_MCP_SERVERS by mcp/broken.md:2",
		"disabled toolcrib.yaml:3 by mcp/disabled.md:2",
		"in-file TOOLCRIB_MCP_SERVERS by toolcrib.yaml:6",
		"page toolcrib.yaml:2 by mcp/page.md:2",
		"page TOOLCRIB_MCP_SERVERS by mcp/page.md:2",
	}
	if !slices.Equal(shadowed, want) {
		t.Errorf("Shadowed() = %q", shadowed)
	}
	if got := faultsOf(faults, page.Error); len(got) != 2 || !strings.HasPrefix(got[0], "mcp/broken.md:2:41: error: mcp has no key") || !strings.HasPrefix(got[1], "toolcrib.yaml:5:") {
		t.Errorf("faults %q", got)
	}
	if d, _ := set.Get("page"); d.Body != "Body\n" || d.Source != (Source{FromPage, "mcp/page.md", 2}) || d.Timeout != DefaultTimeout {
		t.Errorf("page: %+v", d)
	}
}

func TestPageNames(t *testing.T) {
	files := map[string]string{"mcp/README.md": "# What is here", "mcp/.hidden.md": "x", "mcp/notes.txt": "x", "mcp/sub/x.md": "x", "mcp/good.md": minimal}
	bad := []string{"My Server", "under_score", "UPPER", "a.b", "-a", "a--b", strings.Repeat("a", 32), "__proto__"}
	for _, name := range bad {
		files["mcp/"+name+".md"] = minimal
	}
	set, faults := Load(Options{Workspace: workspace(t, files)})
	if got := names(set.All()); !slices.Equal(got, []string{"good"}) {
		t.Errorf("All() = %q", got)
	}
	if got := faultsOf(faults, page.Error); len(got) != len(bad) {
		t.Errorf("%d faults: %q", len(got), got)
	}
	if len(set.Broken()) != 0 {
		t.Errorf("a file that cannot be a server owns a name: %v", set.Broken())
	}
}

func TestUnreadablePageKeepsItsName(t *testing.T) {
	dir := workspace(t, map[string]string{"mcp/a.md/x": "", "mcp/b.md": "---\nmcp: {" + strings.Repeat(" ", page.MaxPageBytes) + "}\n---\n"})
	set, faults := Load(Options{Workspace: dir, Env: `{"a": {"transport": {"stdio": "x"}}, "b": {"transport": {"stdio": "x"}}}`})
	if len(set.All()) != 0 || len(set.Broken()) != 2 || len(set.Shadowed()) != 2 || len(faults) != 2 {
		t.Errorf("%+v\n%v", set, faults)
	}
}

func TestNothingDefined(t *testing.T) {
	for _, o := range []Options{{}, {Workspace: t.TempDir()}, {FileSrc: []byte("listen: x\n")}, {FileSrc: []byte("tools:\n")}, {FileSrc: []byte("tools: []")}, {Env: " \n"}, {Env: "{}"}} {
		set, faults := Load(o)
		if len(set.All()) > 0 || len(faults) > 0 {
			t.Errorf("%+v: %v, %v", o, set.All(), faults)
		}
	}
}

func TestEnvironment(t *testing.T) {
	set, faults := Load(Options{Env: `{"x": {"transport": {"command": "npx", "args": ["-y", "@a/b@1"], "cwd": "d"}, "env": {"A": "A_SECRET", "B": {"value": "é\ud83d\ude00\/"}},
		"gate": {"*": "ask"}, "timeout": "5s", "enabled": false, "era": "modern"}}`})
	d, ok := set.Get("x")
	if !ok || len(faults) > 0 {
		t.Fatal(faults)
	}
	if !slices.Equal(d.Transport.Command, []string{"npx", "-y", "@a/b@1"}) || d.Timeout != 5*time.Second || d.Enabled || d.Era != wire.Modern || d.Source.String() != EnvVariable {
		t.Errorf("%+v", d)
	}
	if text, _ := d.Env[1].Value.LiteralText(); text != "é😀/" {
		t.Errorf("B = %q", text)
	}
	const ok1 = `"transport": {"stdio": "x"}`
	for _, tt := range []struct{ env, want string }{
		{`[]`, "TOOLCRIB_MCP_SERVERS: error: the value is a list"},
		{`{`, "TOOLCRIB_MCP_SERVERS $: error: not valid JSON at byte 1"},
		{`{} x`, "something follows"},
		{`{} {}`, "something follows"},
		{`{"x": {` + ok1 + `}, "x": {` + ok1 + `}}`, "occurs twice"},
		{`{"X": {` + ok1 + `}}`, `server name "X"`},
		{`{"a_b": {` + ok1 + `}}`, `server name "a_b"`},
		{`{"x": {` + ok1 + `, "enabeld": false}}`, `TOOLCRIB_MCP_SERVERS $.x.enabeld: error: x has no key "enabeld" (did you mean "enabled"?)`},
		{`{"x": {` + ok1 + `, "tools": ["a", 5]}}`, "$.x.tools[1]: error: tools, entry 2, is a number"},
		{`{"x": null}`, "$.x: error: x is empty"},
		{`{"x": "npx"}`, "$.x: error: x is text"},
		{`{"x": {` + ok1 + `, "env": {"A": null}}}`, "$.x.env.A: error: A is nothing"},
		{`{"x": ` + strings.Repeat("[", 50) + strings.Repeat("]", 50) + `}`, "nested more than 32 deep"},
		{`{"x": {"transport": {"stdio": "` + strings.Repeat("x", page.MaxYAMLBytes) + `"}}}`, "larger than 256 KiB"},
	} {
		set, faults := Load(Options{Env: tt.env})
		if got := faultsOf(faults, page.Error); len(got) != 1 || !strings.Contains(got[0], tt.want) || len(set.All()) > 1 {
			t.Errorf("%.100s: %q", tt.env, got)
		}
	}
}

func TestTools(t *testing.T) {
	const src = `
tools:
  - name: google_maps
    from: mcp:npx
    description: Provides geocoding.
    params:
      mcp_args: -y @modelcontextprotocol/server-google-maps@1.0.0 --c "a b"
    env: { API_KEY: "${secrets:API_KEY}", LEVEL: debug, PORT: 8080, COST: 5$$ }
    gate: { "*": ask }
    timeout: 5m
    inherit: none
  - name: remote
    from: mcp:https://my-spice.example.com/v1/mcp
    params:
      mcp_auth_token: ${ secrets:MCP_SERVER_API_KEY }
      mcp_headers: 'X-API-Key: ${ op:a, b:c }, Accept-Language: en, de;q=0.5; X-Mode: fast,'
    era: legacy
  - name: listed
    from: mcp:docker run -i
    params: { mcp_args: [--rm, "a b:1", 7] }
  - name: headers
    from: mcp:http://localhost:8090/v1/mcp
    params: { mcp_headers: { X-A: "a, X-B: b", Authorization: "Basic ${ env:B }" } }
    enabled: false
  - name: windows
    from: mcp:"C:\Program Files\n.exe" --root=\\srv\share
`
	set, faults := Load(Options{File: "toolcrib.yaml", FileSrc: []byte(src)})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	maps, _ := set.Get("google-maps")
	if !slices.Equal(maps.Transport.Command, []string{"npx", "-y", "@modelcontextprotocol/server-google-maps@1.0.0", "--c", "a b"}) ||
		maps.Description != "Provides geocoding." || maps.Timeout != 5*time.Minute || !maps.Inherit.None ||
		!reflect.DeepEqual(maps.Gates, []Gate{{Pattern: "*", Effect: crib.Ask}}) || maps.Source != (Source{FromFile, "toolcrib.yaml", 3}) {
		t.Errorf("%+v", maps)
	}
	checkValues(t, maps.Env, "API_KEY=${ secrets:API_KEY }", "COST=5$$", "LEVEL=debug", "PORT=8080")
	remote, _ := set.Get("remote")
	if remote.Transport.URL != "https://my-spice.example.com/v1/mcp" || remote.Era != wire.Legacy {
		t.Errorf("%+v", remote)
	}
	checkValues(t, remote.Headers, "Accept-Language=en, de;q=0.5", "Authorization=${ secrets:MCP_SERVER_API_KEY }", "X-API-Key=${ op:a, b:c }", "X-Mode=fast")
	listed, _ := set.Get("listed")
	if !slices.Equal(listed.Transport.Command, []string{"docker", "run", "-i", "--rm", "a b:1", "7"}) {
		t.Errorf("%q", listed.Transport.Command)
	}
	headers, _ := set.Get("headers")
	checkValues(t, headers.Headers, "Authorization=Basic ${ env:B }", "X-A=a, X-B: b")
	if headers.Enabled {
		t.Error("enabled: false is not heard")
	}
	windows, _ := set.Get("windows")
	if !slices.Equal(windows.Transport.Command, []string{`C:\Program Files\n.exe`, `--root=\\srv\share`}) {
		t.Errorf("%q", windows.Transport.Command)
	}
}

func checkValues(t *testing.T, got []NamedTemplate, want ...string) {
	t.Helper()
	var have []string
	for _, n := range got {
		have = append(have, n.Name+"="+n.Value.Source())
	}
	if !slices.Equal(have, want) {
		t.Errorf("got %q, want %q", have, want)
	}
}

func TestToolWarnings(t *testing.T) {
	for _, tt := range []struct{ entry, want string }{
		{"{ name: x, from: 'mcp:https://h/m', params: { mcp_auth_token: '${ env:T }', mcp_headers: 'authorization: ${ env:U }, X-A: b' } }", "mcp_auth_token wins"},
		{"{ name: x, from: 'mcp:npx', params: { mcp_args: -y pkg } }", "newest"},
		{"{ name: x, from: 'mcp:cmd', trust: { '*': never } }", "without asking"},
	} {
		set, faults := Load(Options{File: "f", FileSrc: []byte("tools:\n  - " + tt.entry)})
		d, ok := set.Get("x")
		if got := faultsOf(faults, page.Warning); !ok || len(faults) != 1 || len(got) != 1 || !strings.Contains(got[0], tt.want) {
			t.Errorf("%s: %v", tt.entry, faults)
		}
		if strings.Contains(tt.entry, "authorization") {
			checkValues(t, d.Headers, "Authorization=${ env:T }", "X-A=b")
		}
	}
}

func TestToolFaults(t *testing.T) {
	const key = "0123456789abcdef01234567"
	tests := []struct{ entry, at, want string }{
		{"npx", "2:5", "a mapping was expected"},
		{"{ from: 'mcp:npx' }", "2:7", "no name"},
		{"{ name: x }", "2:7", "no from"},
		{"{ name: X Y, from: 'mcp:npx' }", "2:13", "server name"},
		{"{ name: '../e', from: 'mcp:npx' }", "2:13", "server name"},
		{"{ name: 5, from: 'mcp:npx' }", "2:13", "put it in quotes"},
		{"{ name: x, from: builtin }", "2:22", "only mcp: is known"},
		{"{ name: x, from: 'mcp:' }", "2:22", "names no program"},
		{"{ name: x, from: 'mcp:a && b' }", "2:22", "no shell runs"},
		{"{ name: x, from: 'mcp:https://u:p@h/' }", "2:22", "user name"},
		{"{ name: x, from: 'mcp:npx', parms: {} }", "2:33", `did you mean "params"`},
		{"{ name: x, from: 'mcp:npx', transport: {} }", "2:33", "no key \"transport\""},
		{"{ name: x, from: 'mcp:npx', roles: [a] }", "2:40", "known, not yet"},
		{"{ name: x, from: 'mcp:npx', params: { args: a } }", "2:43", "mcp_args"},
		{"{ name: x, from: 'mcp:npx', params: { mcp_args: 'a \"' } }", "2:53", "is not closed"},
		{"{ name: x, from: 'mcp:npx', params: { mcp_args: { a: b } } }", "2:55", "text was expected"},
		{"{ name: x, from: 'mcp:npx', params: { mcp_args: '--t ${ env:T }' } }", "2:53", "not expanded"},
		{"{ name: x, from: 'mcp:npx', params: { mcp_args: '--api-key " + key + "' } }", "2:53", "looks like a key"},
		{"{ name: x, from: 'mcp:http://localhost', params: { mcp_headers: 'no colon' } }", "2:69", "Name: value"},
		{"{ name: x, from: 'mcp:http://localhost', params: { mcp_headers: 'Host: a' } }", "2:69", "set by the crib itself"},
		{"{ name: x, from: 'mcp:http://localhost', params: { mcp_headers: 'A: b, a: c' } }", "2:69", "twice"},
		{"{ name: x, from: 'mcp:http://localhost', params: { mcp_headers: [A] } }", "2:69", "text was expected"},
		{"{ name: x, from: 'mcp:http://localhost', params: { mcp_headers: 'X-Api-Key: " + key + "' } }", "2:69", "secrets/X_X_API_KEY"},
		{"{ name: x, from: 'mcp:http://localhost', params: { mcp_auth_token: " + key + " } }", "2:72", "secrets/X_AUTHORIZATION"},
		{"{ name: x, from: 'mcp:http://localhost', params: { mcp_auth_token: '' } }", "2:72", "is empty"},
		{"{ name: x, from: 'mcp:http://localhost', params: { mcp_auth_token: '${T}' } }", "2:72", "${ secrets:T }"},
		{"{ name: x, from: 'mcp:npx', env: [A] }", "2:38", "a mapping of variables"},
		{"{ name: x, from: 'mcp:npx', env: { A: } }", "2:", "A is nothing"},
		{"{ name: x, from: 'mcp:npx', env: { A: { value: b } } }", "2:45", "text was expected"},
		{"{ name: x, from: 'mcp:npx', env: { NODE_OPTIONS: b } }", "2:54", "run other code"},
		{"{ name: x, from: 'mcp:npx', env: { API_KEY: " + key + " } }", "2:49", "printf"},
		{"{ name: x, from: 'mcp:npx', env: { A: $HOME } }", "2:43", "$$ for a dollar"},
		{"{ name: x, from: 'mcp:npx' }\n  - { name: x, from: 'mcp:npx' }", "3:7", "a second server is called x"},
	}
	for _, tt := range tests {
		_, faults := Load(Options{File: "f", FileSrc: []byte("tools:\n  - " + tt.entry)})
		got := faultsOf(faults, page.Error)
		if len(got) != 1 || !strings.HasPrefix(got[0], "f:"+tt.at) || !strings.Contains(got[0], tt.want) {
			t.Errorf("%s\n  got %q", tt.entry, got)
		}
		for _, f := range faults {
			if strings.Contains(f.Msg, key) {
				t.Errorf("shown: %s", f)
			}
		}
	}
}

func TestSameNameInTheFile(t *testing.T) {
	set, faults := Load(Options{File: "f", FileSrc: []byte("tools:\n  - { name: a_b, from: mcp:first }\n  - { name: a-b, from: mcp:second }\n")})
	d, ok := set.Get("a-b")
	if !ok || d.Transport.Command[0] != "first" || len(faults) != 1 || !strings.Contains(faults[0].Msg, "in line 2, is used") || len(set.Shadowed()) > 0 {
		t.Errorf("%+v, %v", d, faults)
	}
}

func TestCheckSecrets(t *testing.T) {
	dir := workspace(t, map[string]string{"mcp/a.md": "---\nmcp:\n  transport: { stdio: x }\n  env:\n    A: ${ vault:X }\n    B: FINE\n    C: ${ env:A-B }\n---\n"})
	set, faults := Load(Options{Workspace: dir, Env: `{"e": {"transport": {"stdio": "x"}, "env": {"A": "${ op:X }"}}}`})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	stores, err := secret.NewStores(secret.Options{Specs: secret.DefaultStores()})
	if err != nil {
		t.Fatal(err)
	}
	got := faultsOf(set.CheckSecrets(stores), page.Error)
	want := []string{"mcp/a.md:5:5: error: A: ", "mcp/a.md:7:5: error: C: ", "TOOLCRIB_MCP_SERVERS $.e.env.A: error: A: "}
	if len(got) != len(want) {
		t.Fatalf("%q", got)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("%q", got[i])
		}
	}
}

func TestBadFileIsReported(t *testing.T) {
	for src, want := range map[string]string{"tools: {a: b}": "f:1:9: error: tools is a mapping", "tools: [": "f:1:", "tools: x": "f:1:8: error: tools is text"} {
		_, faults := Load(Options{File: "f", FileSrc: []byte(src)})
		if len(faults) != 1 || !strings.HasPrefix(faults[0].String(), want) {
			t.Errorf("%s: %v", src, faults)
		}
	}
}
