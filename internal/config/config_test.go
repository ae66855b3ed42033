package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/page"
	"github.com/toolcrib/toolcrib/internal/secret"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/web"
)

// options are those of a crib whose toolcrib.yaml is src, none if it is "".
func options(src string, vars map[string]string) Options {
	return Options{
		LookupEnv: func(name string) (string, bool) { v, ok := vars[name]; return v, ok },
		ReadFile: func(string) ([]byte, error) {
			if src == "" {
				return nil, fs.ErrNotExist
			}
			return []byte(src), nil
		},
	}
}

func home(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{"HOME": t.TempDir()}
}

func lines(faults []page.Fault, s page.Severity) []string {
	var out []string
	for _, f := range faults {
		if f.Severity == s {
			out = append(out, f.String())
		}
	}
	return out
}

const example = `
listen: 127.0.0.1:9000
auth: { anonymous: true }
runtime:
  mcp: { allowed_hosts: [localhost, "my-host.internal:8090"] }
  cors: { allowed_origins: ["https://app.example.com"] }
secrets:
  - { store: env }
  - { store: file, dir: secrets }
  - { store: exec, name: op, command: [op, read] }
tools: []
`

func TestLoad(t *testing.T) {
	vars := home(t)
	vars[servers.EnvVariable] = "{}"
	c, faults := Load(options(example, vars))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	config := filepath.Join(vars["HOME"], ".config", "toolcrib")
	data := filepath.Join(vars["HOME"], ".local", "state", "toolcrib")
	if c.Listen != "127.0.0.1:9000" || !c.Anonymous || c.Workspace != config || c.Data != data || c.File() != filepath.Join(config, "toolcrib.yaml") ||
		!slices.Equal(c.AllowedHosts, []string{"localhost", "my-host.internal:8090"}) || !slices.Equal(c.AllowedOrigins, []string{"https://app.example.com"}) {
		t.Errorf("%+v", c)
	}
	if want := []secret.StoreSpec{{Kind: secret.EnvStore}, {Kind: secret.FileStore, Dir: "secrets"}, {Kind: secret.ExecStore, Name: "op", Command: []string{"op", "read"}}}; !reflect.DeepEqual(c.Secrets, want) {
		t.Errorf("stores %+v", c.Secrets)
	}
	if want := (servers.Options{Workspace: config, File: FileName, FileSrc: []byte(example), Env: "{}"}); !reflect.DeepEqual(c.Definitions(), want) {
		t.Errorf("definitions %+v", c.Definitions())
	}
	for _, s := range c.Settings() {
		want := File
		if s.Key == KeyWorkspace || s.Key == KeyData {
			want = Default
		}
		if s.Source != want || s.Value == "" {
			t.Errorf("%+v", s)
		}
	}
	if _, err := web.Guard(web.Options{AllowedHosts: c.AllowedHosts, AllowedOrigins: c.AllowedOrigins}); err != nil {
		t.Error(err)
	}
}

// As an editor on Windows writes it.
func TestByteOrderMark(t *testing.T) {
	src := "\ufefflisten: 127.0.0.1:9000\r\ntools:\r\n  - name: files\r\n    from: mcp:https://mcp.example.com/mcp\r\n"
	c, faults := Load(options(src, home(t)))
	if len(faults) != 0 || c.Listen != "127.0.0.1:9000" {
		t.Errorf("listen is %q, faults %v", c.Listen, faults)
	}
	if set, faults := servers.Load(c.Definitions()); len(faults) != 0 || len(set.All()) != 1 {
		t.Errorf("%d servers, faults %v", len(set.All()), faults)
	}
	_, faults = Load(options("\ufefflisten: 0.0.0.0:80\n", home(t)))
	if got := lines(faults, page.Error); len(got) != 1 || !strings.HasPrefix(got[0], "toolcrib.yaml:1:9: ") {
		t.Errorf("a fault behind it stands at %v", got)
	}
}

func TestDefaults(t *testing.T) {
	for _, src := range []string{"", "# nothing\n", "auth:\nruntime:\n"} {
		c, faults := Load(options(src, home(t)))
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		if c.Listen != DefaultListen || c.Anonymous || c.AllowedHosts != nil || c.AllowedOrigins != nil || !reflect.DeepEqual(c.Secrets, secret.DefaultStores()) {
			t.Errorf("%q: %+v", src, c)
		}
		for _, s := range c.Settings() {
			if s.Source != Default {
				t.Errorf("%+v", s)
			}
		}
	}
}

func TestPrecedence(t *testing.T) {
	dir := t.TempDir()
	join := func(name string) string { return filepath.Join(dir, name) }
	all := map[string]string{"HOME": dir, "XDG_CONFIG_HOME": join("xc"), "XDG_STATE_HOME": join("xs"), VarWorkspace: join("we"), VarData: join("de"), VarListen: "127.0.0.1:2"}
	cut := func(names ...string) map[string]string {
		out := map[string]string{}
		for k, v := range all {
			if !slices.Contains(names, k) {
				out[k] = v
			}
		}
		return out
	}
	const src = "listen: 127.0.0.1:1\n"
	tests := []struct {
		name                    string
		vars                    map[string]string
		flags                   Options
		workspace, data, listen string
		source                  Source // of all three
	}{
		{"flags", all, Options{Workspace: join("wf"), Data: join("df"), Listen: "127.0.0.1:3"}, join("wf"), join("df"), "127.0.0.1:3", Flag},
		{"environment", all, Options{}, join("we"), join("de"), "127.0.0.1:2", Env},
		{"XDG", cut(VarWorkspace, VarData, VarListen), Options{}, join("xc/toolcrib"), join("xs/toolcrib"), "127.0.0.1:1", ""},
		{"home", cut(VarWorkspace, VarData, VarListen, "XDG_CONFIG_HOME", "XDG_STATE_HOME"), Options{}, join(".config/toolcrib"), join(".local/state/toolcrib"), "127.0.0.1:1", ""},
		{"relative XDG", map[string]string{"HOME": dir, "XDG_CONFIG_HOME": "x", "XDG_STATE_HOME": "y"}, Options{}, join(".config/toolcrib"), join(".local/state/toolcrib"), "127.0.0.1:1", ""},
		{"Windows", map[string]string{"USERPROFILE": dir}, Options{}, join(".config/toolcrib"), join(".local/state/toolcrib"), "127.0.0.1:1", ""},
	}
	for _, tt := range tests {
		o := options(src, tt.vars)
		o.Workspace, o.Data, o.Listen = tt.flags.Workspace, tt.flags.Data, tt.flags.Listen
		c, faults := Load(o)
		if len(faults) > 0 || c.Workspace != filepath.FromSlash(tt.workspace) || c.Data != filepath.FromSlash(tt.data) || c.Listen != tt.listen {
			t.Errorf("%s: %s %s %s %v", tt.name, c.Workspace, c.Data, c.Listen, faults)
		}
		folders, listen := tt.source, tt.source
		if tt.source == "" {
			folders, listen = Default, File
		}
		if c.Source(KeyWorkspace) != folders || c.Source(KeyData) != folders || c.Source(KeyListen) != listen {
			t.Errorf("%s: sources %v", tt.name, c.Settings())
		}
	}
}

func TestRelativeFoldersAreMadeAbsolute(t *testing.T) {
	o := options("", nil)
	o.Workspace, o.Data = "w", "d"
	c, faults := Load(o)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if len(faults) > 0 || c.Workspace != filepath.Join(here, "w") || c.Data != filepath.Join(here, "d") {
		t.Errorf("%s %s %v", c.Workspace, c.Data, faults)
	}
}

func TestTheWorkspaceIsRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, FileName), []byte("listen: '[::1]:7'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, faults := Load(Options{Workspace: dir, Data: dir})
	if len(faults) > 0 || c.Listen != "[::1]:7" {
		t.Errorf("%s, %v", c.Listen, faults)
	}
}

func TestNoHome(t *testing.T) {
	c, faults := Load(options(example, nil))
	if got := lines(faults, page.Error); c == nil || len(got) != 2 || !strings.Contains(got[0], "give --workspace") || !strings.Contains(got[1], "give --data") {
		t.Errorf("%q", got)
	}
}

func TestFileThatCannotBeRead(t *testing.T) {
	o := options("x", home(t))
	o.ReadFile = func(string) ([]byte, error) { return nil, errors.New("broken disk") }
	if _, faults := Load(o); len(faults) != 1 || !strings.Contains(faults[0].String(), "broken disk") {
		t.Errorf("%v", faults)
	}
}

func TestFaults(t *testing.T) {
	tests := []struct{ src, want string }{
		{"lisen: x", `toolcrib.yaml:1:1: error: toolcrib.yaml has no key "lisen" (did you mean "listen"?)`},
		{"auth: { anonymus: true }", `toolcrib.yaml:1:9: error: auth has no key "anonymus" (did you mean "anonymous"?)`},
		{"auth: { anonymous: yes }", "toolcrib.yaml:1:20: error: auth.anonymous is text; true or false"},
		{"auth: true", "toolcrib.yaml:1:7: error: auth is true or false; a mapping"},
		{"runtime: { mpc: {} }", `did you mean "mcp"`},
		{"runtime:\n  mcp:\n    allowed_host: []", "toolcrib.yaml:3:5: error: runtime.mcp has no key"},
		{"runtime: { mcp: { allowed_hosts: localhost } }", "toolcrib.yaml:1:34: error: runtime.mcp.allowed_hosts is text; a list"},
		{"runtime: { mcp: { allowed_hosts: [a, 'http://b'] } }", "toolcrib.yaml:1:38: error: runtime.mcp.allowed_hosts: allowed host"},
		{"runtime: { mcp: { allowed_hosts: ['*', a] } }", "must stand alone"},
		{"runtime: { cors: { allowed_origins: [app.example.com] } }", "toolcrib.yaml:1:38: error: runtime.cors.allowed_origins: allowed origin"},
		{"runtime: { cors: { allowed_origins: ['https://a/path'] } }", "nothing behind them"},
		{"runtime: { cors: { allowed_origins: ['null'] } }", "allowed origin"},
		{"listen: 8090", "toolcrib.yaml:1:9: error: listen is a number"},
		{"listen: ':8090'", "toolcrib.yaml:1:9: error: listen \":8090\": this address can be reached"},
		{"secrets: env", "toolcrib.yaml:1:10: error: secrets is text; a list"},
		{"secrets: [env]", "toolcrib.yaml:1:11: error: a secret store is text"},
		{"secrets: [{ store: vault }]", "toolcrib.yaml:1:20: error: store: env, file, exec was expected"},
		{"secrets: [{ name: x }]", "needs store"},
		{"secrets: [{ store: file }]", "needs dir"},
		{"secrets: [{ store: file, dir: ~/x }]", "~ is not expanded"},
		{"secrets: [{ store: env, dir: x }]", "dir belongs to store: file"},
		{"secrets: [{ store: env, command: [x] }]", "command belongs to store: exec"},
		{"secrets: [{ store: exec }]", "needs command"},
		{"secrets: [{ store: exec, command: op read }]", "a list was expected"},
		{"secrets: [{ store: env, name: secrets }]", "all stores in order"},
		{"secrets: [{ store: env }, { store: env }]", "toolcrib.yaml:1:29: error: two secret stores"},
		{"secrets: [{ store: env, nam: x }]", `did you mean "name"`},
		{"listen: [", "not valid YAML"},
		{"- x", "toolcrib.yaml:1:1: error: toolcrib.yaml is a list"},
		{"listen: 127.0.0.1:1\n---\nlisten: x", "toolcrib.yaml:2:1: error: a second document"},
	}
	for _, tt := range tests {
		c, faults := Load(options(tt.src, home(t)))
		if got := lines(faults, page.Error); c == nil || len(got) != 1 || !strings.Contains(got[0], tt.want) {
			t.Errorf("%s\n  got  %q\n  want %s", tt.src, got, tt.want)
		}
	}
}

func TestCheckListen(t *testing.T) {
	for _, good := range []string{"127.0.0.1:8090", "127.0.0.1:0", "127.9.9.9:1", "[::1]:8090", "localhost:8090", "127.0.0.1:65535"} {
		if err := CheckListen(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		"0.0.0.0:8090": "needs TLS", "[::]:8090": "needs TLS", ":8090": "needs TLS", "192.168.1.5:8090": "needs TLS", "example.com:8090": "needs TLS", "localhost.example.com:1": "needs TLS",
		"127.0.0.1": "host:port", "": "host:port", "::1:8090": "host:port", "127.0.0.1:": "a port", "127.0.0.1:http": "a port", "127.0.0.1:65536": "a port", "127.0.0.1:-1": "a port", "127.0.0.1:08": "a port",
	} {
		if err := CheckListen(bad); crib.CodeOf(err) != crib.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	o := options("", home(t))
	o.Listen = "0.0.0.0:1"
	if c, faults := Load(o); len(faults) != 1 || !strings.HasPrefix(faults[0].String(), "--listen: error: ") || c.Listen != DefaultListen {
		t.Errorf("flag: %v, %s", faults, c.Listen)
	}
	vars := home(t)
	vars[VarListen] = "0.0.0.0:1"
	if _, faults := Load(options("", vars)); len(faults) != 1 || !strings.HasPrefix(faults[0].String(), "TOOLCRIB_LISTEN: error: ") {
		t.Errorf("variable: %v", faults)
	}
}

func TestListsThatMeanTheDefault(t *testing.T) {
	c, faults := Load(options("runtime: { mcp: { allowed_hosts: [] }, cors: { allowed_origins: [] } }\nsecrets: []", home(t)))
	if len(faults) > 0 || len(c.AllowedHosts) != 0 || len(c.AllowedOrigins) != 0 || len(c.Secrets) != 0 {
		t.Errorf("%+v, %v", c, faults)
	}
	c, faults = Load(options("runtime: { mcp: { allowed_hosts: ['*'] }, cors: { allowed_origins: ['*'] } }", home(t)))
	if got := lines(faults, page.Warning); page.Faulty(faults) || len(got) != 1 || !strings.Contains(got[0], "DNS rebinding") || !slices.Equal(c.AllowedHosts, []string{"*"}) {
		t.Errorf("%+v, %v", c, faults)
	}
}

func TestFaultsNeverShowSecrets(t *testing.T) {
	const canary = "cnry7f3a91c04d55aa01"
	src := "secrets: [{ store: exec, command: [op, \"" + canary + "\", 5] }]\ntools:\n  - { name: x, from: 'mcp:https://u:" + canary + "@h' }\n  - { name: y, from: 'mcp:https://h', params: { mcp_auth_token: '${ " + canary + "' } }\n"
	c, faults := Load(options(src, home(t)))
	_, more := servers.Load(c.Definitions())
	all := append(faults, more...)
	if len(lines(all, page.Error)) != 3 {
		t.Errorf("%v", all)
	}
	for _, f := range all {
		if strings.Contains(f.String(), canary) {
			t.Errorf("shown: %s", f)
		}
	}
}

// TestSchemas holds what the schemas allow to what Load takes.
func TestSchemas(t *testing.T) {
	file := compile(t, JSONSchema())
	front := compile(t, page.JSONSchema())
	for _, tt := range []struct {
		schema *jsonschema.Schema
		doc    string
		ok     bool
	}{
		{file, example, true},
		{file, "tools:\n  - { name: x, from: 'mcp:npx', params: { mcp_args: -y a }, env: { A: 5 }, gate: { '*': ask } }", true},
		{file, "lisen: x", false},
		{file, "auth: { anonymous: 'true' }", false},
		{file, "tools: [{ name: x }]", false},
		{file, "tools: [{ name: x, from: 'mcp:npx', roles: [a] }]", false},
		{file, "secrets: [{ dir: x }]", false},
		{file, "secrets: [{ store: vault }]", false},
		{front, "mcp: { transport: { http: https://h }, headers: { A: B, C: { value: d }, E: 'x ${ env:F }' }, may: [roots], timeout: 5s }\ntitle: x", true},
		{front, "mcp: { transport: { command: x, args: [-y, 5], cwd: d }, inherit: none, tools: ['!x'] }", true},
		{front, "mcp: { transport: { stdio: x }, inherit: [A] }", true},
		{front, "mcp: { enabled: true }", false},
		{front, "mcp: { transport: { stdio: x, http: https://h } }", false},
		{front, "mcp: { transport: { stdio: x }, env: { A: b } }", false},
		{front, "mcp: { transport: { stdio: x }, era: new }", false},
		{front, "mcp: { transport: { stdio: x }, wibble: 1 }", false},
	} {
		var v any
		if err := yaml.Unmarshal([]byte(tt.doc), &v); err != nil {
			t.Fatal(err)
		}
		asJSON, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		inst, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
		if err != nil {
			t.Fatal(err)
		}
		if err := tt.schema.Validate(inst); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.doc, err)
		}
	}
}

func compile(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestReferenceNamesEveryKey(t *testing.T) {
	text := Reference() + page.Reference()
	for _, key := range []string{KeyListen, KeyAnonymous, KeyHosts, KeyOrigins, KeySecrets, "tools", "store", "dir", "command", "name", "from", "mcp_args", "mcp_auth_token", "mcp_headers",
		"transport", "headers", "env", "trust", "gate", "enabled", "description", "era", "timeout", "inherit", "methods", "share", "may", "http", "stdio", "args", "cwd",
		VarWorkspace, VarData, VarListen, VarProviders, servers.EnvVariable} {
		if !strings.Contains(text, "| `"+key+"` |") {
			t.Errorf("%s is missing", key)
		}
	}
	for _, hidden := range []string{"roles", "handover", "effects"} {
		if strings.Contains(text, "`"+hidden+"`") {
			t.Errorf("%s is not there yet, but described", hidden)
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "|") && strings.Count(line, "|") != 5 && strings.Count(line, "|") != 3 {
			t.Errorf("a row is out of shape: %s", line)
		}
	}
	if !bytes.Equal(JSONSchema(), JSONSchema()) {
		t.Error("the schema is not the same twice")
	}
}

func TestGetenvFallsBackToTheProcess(t *testing.T) {
	t.Setenv("TOOLCRIB_TEST", "x")
	if got := (Options{}).Getenv("TOOLCRIB_TEST"); got != "x" {
		t.Errorf("%q on %s", got, runtime.GOOS)
	}
}

// TestTemplate reads the template as it is, and with the comments taken off
// what looks like YAML.
func TestTemplate(t *testing.T) {
	c, faults := Load(options(Template, home(t)))
	if len(faults) > 0 || c.Source(KeyListen) != Default {
		t.Errorf("%+v, %v", c, faults)
	}
	var open strings.Builder
	for line := range strings.Lines(Template) {
		if code, ok := strings.CutPrefix(line, "# "); ok && !strings.Contains(line, ".md.\n") && !strings.HasSuffix(line, ".\n") && !strings.HasPrefix(code, "toolcrib") {
			line = code
		}
		open.WriteString(line)
	}
	c, faults = Load(options(open.String(), home(t)))
	set, more := servers.Load(c.Definitions())
	if all := append(faults, more...); len(all) > 0 || len(set.All()) != 2 || len(c.Secrets) != 3 || c.Source(KeyHosts) != File || c.Listen != DefaultListen {
		t.Errorf("%v\n%s", all, open.String())
	}
}
