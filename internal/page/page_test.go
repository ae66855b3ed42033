package page

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/secret"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// pageOf puts block, without indentation, under mcp: in a page.
func pageOf(block string) string {
	return "---\nmcp:\n  " + strings.ReplaceAll(strings.TrimSpace(block), "\n", "\n  ") + "\n---\n# Title\n\nText.\n"
}

func noWarnings(faults []Fault) []Fault {
	var out []Fault
	for _, f := range faults {
		if f.Severity == Error {
			out = append(out, f)
		}
	}
	return out
}

func TestParseEverything(t *testing.T) {
	src := pageOf(`
transport: { http: https://mcp.example.com/v1 }
headers: { Authorization: EXAMPLE_MCP_TOKEN, X-Api: "k ${ env:KEY }", X-Mode: { value: fast } }
trust: { search: never, delete_record: always }
gate: { "*": ask, "drop*": deny }
tools: [ "search*", "!search_internal" ]
enabled: false
description: Ours.
era: legacy
timeout: 90s
methods: [ "vendor/*" ]
share: session
may: [sampling, roots]`)
	p, faults := Parse("mcp/x.md", []byte(src))
	if len(noWarnings(faults)) > 0 {
		t.Fatal(faults)
	}
	want := Block{
		Transport: Transport{URL: "https://mcp.example.com/v1"},
		Headers: []NamedTemplate{
			{Name: "Authorization", Value: secret.Reference(secret.AnyStore, "EXAMPLE_MCP_TOKEN"), At: Place{Line: 4, Col: 14}},
			{Name: "X-Api", Value: secret.Join(secret.Literal("k "), secret.Reference("env", "KEY")), At: Place{Line: 4, Col: 48}},
			{Name: "X-Mode", Value: secret.Literal("fast"), At: Place{Line: 4, Col: 73}},
		},
		Gates:       []Gate{{"search", crib.Allow}, {"delete_record", crib.Ask}, {"*", crib.Ask}, {"drop*", crib.Deny}},
		Tools:       []string{"search*", "!search_internal"},
		Description: "Ours.",
		Era:         wire.Legacy,
		Timeout:     90 * time.Second,
		Methods:     []string{"vendor/*"},
		Dialogue:    Dialogue{Share: ShareSession, May: []string{MayRoots, MaySampling}},
	}
	if !reflect.DeepEqual(p.Block, want) {
		t.Errorf("got  %+v\nwant %+v", p.Block, want)
	}
	if p.Body != "# Title\n\nText.\n" || p.At != (Place{Line: 2, Col: 1}) {
		t.Errorf("body %q at %v", p.Body, p.At)
	}
}

func TestParseCommands(t *testing.T) {
	tests := []struct {
		block string
		want  Transport
	}{
		{`transport: { stdio: 'npx -y pkg@1.2.3' }`, Transport{Command: []string{"npx", "-y", "pkg@1.2.3"}}},
		{`transport: { command: npx, args: [-y, pkg@1.2.3, 8080, true, 1.0], cwd: ~/dir }`, Transport{Command: []string{"npx", "-y", "pkg@1.2.3", "8080", "true", "1.0"}, Dir: "~/dir"}},
		{`transport: { command: "/opt/My Srv/x" }`, Transport{Command: []string{"/opt/My Srv/x"}}},
		{"transport:\n  stdio: >-\n    x\n    --c \"a b\"\n  cwd: sub", Transport{Command: []string{"x", "--c", "a b"}, Dir: "sub"}},
		{`transport: { stdio: "~/bin/x ~/y" }`, Transport{Command: []string{"~/bin/x", "~/y"}}},
	}
	for _, tt := range tests {
		p, faults := Parse("x", []byte(pageOf(tt.block)))
		if len(noWarnings(faults)) > 0 || !reflect.DeepEqual(p.Block.Transport, tt.want) {
			t.Errorf("%s: got %q %v", tt.block, p.Block.Transport, faults)
		}
	}
}

func TestDefaults(t *testing.T) {
	p, faults := Parse("x", []byte(pageOf("transport: { stdio: x }")))
	want := NewBlock()
	want.Transport.Command = []string{"x"}
	if len(faults) > 0 || !reflect.DeepEqual(p.Block, want) {
		t.Errorf("got %+v, %v", p.Block, faults)
	}
	if !p.Block.Enabled || p.Block.Timeout != 60*time.Second || p.Block.Dialogue.Share != ShareServer ||
		!reflect.DeepEqual(p.Block.Dialogue.May, []string{MayElicitation, MayRoots}) {
		t.Errorf("defaults %+v", p.Block)
	}
	for _, tt := range []struct {
		block string
		want  Inherit
	}{{"inherit: none", Inherit{None: true}}, {"inherit: [B, A, B]", Inherit{Names: []string{"A", "B"}}}} {
		p, faults := Parse("x", []byte(pageOf("transport: { stdio: x }\n"+tt.block)))
		if len(faults) > 0 || !reflect.DeepEqual(p.Block.Inherit, tt.want) {
			t.Errorf("%s: %+v %v", tt.block, p.Block.Inherit, faults)
		}
	}
	p, _ = Parse("x", []byte(pageOf("transport: { stdio: x }\nmay: []")))
	if p.Block.Dialogue.May == nil || len(p.Block.Dialogue.May) != 0 {
		t.Errorf("may: [] is %#v", p.Block.Dialogue.May)
	}
}

func TestPageForms(t *testing.T) {
	const plain = "---\nmcp:\n  transport: { stdio: x }\n---\nBody\n"
	tests := []struct{ name, src, body string }{
		{"plain", plain, "Body\n"},
		{"CRLF", strings.ReplaceAll(plain, "\n", "\r\n"), "Body\r\n"},
		{"BOM", "\ufeff" + plain, "Body\n"},
		{"BOM and CRLF", "\ufeff" + strings.ReplaceAll(plain, "\n", "\r\n"), "Body\r\n"},
		{"spaces behind the fences", strings.ReplaceAll(plain, "---\n", "---  \n"), "Body\n"},
		{"no body", "---\nmcp: { transport: { stdio: x } }\n---", ""},
		{"metadata", "---\nmetadata:\n  title: x\n  mcp: { transport: { stdio: x } }\n---\nBody\n", "Body\n"},
		{"other keys", "---\ntitle: x\ndescription: y\nagent: { mcp: [a] }\nmcp: { transport: { stdio: x } }\n---\nBody\n", "Body\n"},
		{"a fence in the body", plain + "---\n", "Body\n---\n"},
		{"comments", "---\n# one\nmcp: # two\n  # three\n  transport: { stdio: x } # four\n---\nBody\n", "Body\n"},
	}
	for _, tt := range tests {
		p, faults := Parse("x", []byte(tt.src))
		if len(faults) > 0 || p.Body != tt.body || len(p.Block.Transport.Command) != 1 {
			t.Errorf("%s: body %q, %v, %v", tt.name, p.Body, p.Block.Transport, faults)
		}
	}
}

// TestFaults names for each wrong block the place and a part of the message.
func TestFaults(t *testing.T) {
	const ok = "transport: { stdio: x }\n"
	const web = "transport: { http: https://h/m }\n"
	tests := []struct {
		block string
		at    string // line:col
		want  string
	}{
		// keys and types
		{ok + "enabeld: false", "4:3", `(did you mean "enabled"?)`},
		{ok + "wibble: 1", "4:3", "its keys are: transport, headers"},
		{ok + "roles: [a]", "4:10", "known, not yet"},
		{ok + "review: x", "4:11", "known, not yet"},
		{ok + "handover: x", "4:13", "known, not yet"},
		{ok + "credential: x", "4:15", "known, not yet"},
		{ok + "effects: none", "4:12", "known, not yet"},
		{web + "share: project", "4:10", "use session"},
		{ok + "enabled: yes", "4:12", "true or false"},
		{ok + `enabled: "true"`, "4:12", "without quotes"},
		{ok + "description: 5", "4:16", "put it in quotes"},
		{ok + "era: new", "4:8", "auto, modern, legacy"},
		{ok + "share: all", "4:10", "server, principal, session"},
		{ok + "may: roots", "4:8", "a list was expected"},
		{ok + "may: [root]", "4:9", "elicitation, roots, sampling"},
		{ok + "timeout: 60", "4:12", "such as 60s"},
		{ok + "timeout: 1ms", "4:12", "out of range"},
		{ok + "timeout: 25h", "4:12", "out of range"},
		{ok + "timeout: -5s", "4:12", "out of range"},
		{ok + "inherit: all", "4:12", "none was expected"},
		{ok + "inherit: [A-B]", "4:13", "not the name of a variable"},
		{ok + "inherit: [TOOLCRIB_MCP_SERVERS]", "4:13", "the crib's own"},
		{ok + "tools: search", "4:10", "a list was expected"},
		{ok + "tools: []", "4:10", "enabled: false"},
		{ok + "tools: [a, '']", "4:14", "1 to 128"},
		{ok + "tools: ['!']", "4:11", "1 to 128"},
		{ok + "tools: ['a b']", "4:11", "spaces"},
		{ok + "tools: [5]", "4:11", "entry 1, is a number"},
		{ok + "methods: ['tools/call']", "4:13", "part of the protocol"},
		{ok + "methods: ['notifications/*']", "4:13", "part of the protocol"},
		{ok + "trust: [search]", "4:10", "a mapping of tool patterns"},
		{ok + "trust: { search: ask }", "4:20", "always or never"},
		{ok + "gate: { search: always }", "4:19", "ask or allow or deny"},
		{ok + "trust: { a: never }\ngate: { a: ask }", "5:11", "different things"},
		{ok + `gate: { "a b": ask }`, "4:11", "spaces"},
		// transport
		{"enabled: true", "3:3", "has no transport"},
		{"transport: https://h/m", "3:14", "was expected"},
		{"transport: {}", "3:14", "exactly one of"},
		{"transport: { http: https://h, stdio: x }", "3:16", "exactly one of"},
		{"transport: { url: https://h }", "3:16", "no key \"url\""},
		{"transport: { stdio: x, args: [y] }", "3:16", "args belong to command"},
		{"transport: { http: https://h, cwd: d }", "3:16", "cwd belongs to a command"},
		{"transport: { command: x, args: y }", "3:34", "a list was expected"},
		{"transport: { command: x, args: [[y]] }", "3:35", "text was expected"},
		{"transport: { command: '' }", "3:25", "command is empty"},
		{"transport: { stdio: 'a \"b' }", "3:16", "is not closed"},
		{"transport: { stdio: 'a && b' }", "3:16", "no shell runs"},
		{"transport: { command: x, args: ['${ env:T }'] }", "3:16", "give the secret under env"},
		{"transport: { command: x, args: ['${TOKEN}'] }", "3:16", "give the secret under env"},
		{"transport: { command: x, args: ['${A:-d}'] }", "3:16", "give the secret under env"},
		{"transport: { command: x, cwd: '${HOME}' }", "3:16", "nothing is expanded here"},
		// addresses
		{"transport: { http: ftp://h/m }", "3:22", "http:// or https://"},
		{"transport: { http: h/m }", "3:22", "http:// or https://"},
		{"transport: { http: 'https://' }", "3:22", "names no host"},
		{"transport: { http: 'https://h\\x' }", "3:22", "not an address"},
		{"transport: { http: 'https://u:p@h/m' }", "3:22", "user name or password"},
		{"transport: { http: 'https://h/m#x' }", "3:22", "#"},
		{"transport: { http: 'https://h/m?api_key=0123456789abcdef01234567' }", "3:22", "in its query"},
		{"transport: { http: 'https://h/${ env:X }' }", "3:22", "not expanded"},
		// values
		{web + "headers: [A]", "4:12", "a mapping of names to values"},
		{web + "headers: { 'A B': C }", "4:14", "not the name of a header"},
		{web + "headers: { Host: C }", "4:14", "set by the crib itself"},
		{web + "headers: { Mcp-Session-Id: C }", "4:14", "set by the crib itself"},
		{web + "headers: { X-A: B, x-a: C }", "4:22", "twice"},
		{ok + "env: { A: b }", "4:13", "{ value: … }"},
		{ok + "env: { A: 8080 }", "4:13", "A is a number"},
		{ok + "env: { A: }", "4:", "A is nothing"},
		{ok + "env: { A: { valu: x } }", "4:15", "{ value: … }"},
		{ok + "env: { A: { value: x, more: y } }", "4:15", "{ value: … }"},
		{ok + "env: { A: { value: [x] } }", "4:22", "text was expected"},
		{ok + "env: { A: '${X}' }", "4:13", "${ secrets:X }"},
		{ok + "env: { A: '${x' }", "4:13", "closing brace"},
		{ok + "env: { 'A-B': C }", "4:10", "not the name of a variable"},
		{ok + "env: { A=B: C }", "4:10", "not the name of a variable"},
		// YAML
		{ok + "enabled: true\nenabled: true", "5:3", "already defined"},
		{ok + "env: { A: &x B }", "4:13", "anchors and aliases"},
		{ok + "description: !x y", "4:16", "tag"},
		{ok + "tools: [!x]", "4:10", "may need quotes"},
		{"transport: { command: x, args: [@a/b] }", "3:35", "may need quotes"},
		{ok + "env: " + strings.Repeat("[", 40), "4:", "nested more than 32 deep"},
		{ok + "env: " + strings.Repeat("{a: ", 40), "4:", "nested more than 32 deep"},
		{ok + "env:\n  " + strings.Repeat("- ", 40), "5:", "nested more than 32 deep"},
	}
	for _, tt := range tests {
		_, faults := Parse("f.md", []byte(pageOf(tt.block)))
		bad := noWarnings(faults)
		if len(bad) != 1 {
			t.Errorf("%s\n  %d faults: %v", tt.block, len(bad), bad)
			continue
		}
		if got := bad[0].String(); !strings.HasPrefix(got, "f.md:"+tt.at) || !strings.Contains(got, ": error: ") || !strings.Contains(got, tt.want) {
			t.Errorf("%s\n  got  %s\n  want %s … %s", tt.block, got, tt.at, tt.want)
		}
	}
}

// A key of the other transport does nothing, and says so; the server stays.
func TestKeysOfTheOtherTransport(t *testing.T) {
	for block, want := range map[string]string{
		"transport: { stdio: x }\nheaders: { A: B }":        "headers have no effect",
		"transport: { http: 'https://h/m' }\nenv: { A: B }": "env has no effect",
		"transport: { http: 'https://h/m' }\ninherit: none": "inherit has no effect",
	} {
		_, faults := Parse("f.md", []byte(pageOf(block)))
		if bad := noWarnings(faults); len(bad) != 0 || len(faults) != 1 || !strings.Contains(faults[0].Msg, want) {
			t.Errorf("%s: %v", block, faults)
		}
	}
}

func TestPageFaults(t *testing.T) {
	tests := []struct{ src, at, want string }{
		{"", "f:1", "a page begins"},
		{"# Title\n", "f:1", "a page begins"},
		{"---\nmcp: {}\n", "f:1", "another line ---"},
		{"---\n---\n", "f", "no key mcp"},
		{"---\ntitle: x\n---\n", "f:2:1", "no key mcp"},
		{"---\nmpc: { transport: { stdio: x } }\n---\n", "f:2:1", `did you mean mcp by "mpc"?`},
		{"---\nmcp:\n---\n", "f:2:", "mcp is empty"},
		{"---\nmcp: [x]\n---\n", "f:2:6", "a mapping of keys"},
		{"---\n- x\n---\n", "f:2:1", "no key mcp"},
		{"---\nmcp: { transport: { stdio: x } }\nmetadata: { mcp: { transport: { stdio: y } } }\n---\n", "f:3:13", "twice"},
		{"---\nmcp: { transport: { stdio: x } }\nenabled: false\n---\n", "f:3:1", "indent it"},
		{"---\nmcp: { transport: { stdio: \"x } }\n---\n", "f:2:", "not valid YAML"},
		{"---\nmcp:\n\ttransport: x\n---\n", "f:3:", "not valid YAML"},
		{strings.Repeat("x", MaxPageBytes+1), "f:", "larger than 1024 KiB"},
		{"---\n# " + strings.Repeat("x", MaxYAMLBytes) + "\n---\n", "f:", "larger than 256 KiB"},
	}
	for _, tt := range tests {
		_, faults := Parse("f", []byte(tt.src))
		if len(faults) != 1 || !strings.HasPrefix(faults[0].String(), tt.at) || !strings.Contains(faults[0].Msg, tt.want) {
			t.Errorf("%.60q: %v", tt.src, faults)
		}
	}
}

func TestAllFaultsAreReported(t *testing.T) {
	_, faults := Parse("f", []byte(pageOf("transport: { stdio: x }\nera: new\ntimeout: 5\nenv: { A: b, PATH: C }")))
	if len(faults) != 4 {
		t.Errorf("%d faults: %v", len(faults), faults)
	}
}

func TestFaultsNeverShowValues(t *testing.T) {
	const canary = "cnry7f3a91c04d55aa01"
	for _, block := range []string{
		"headers: { Authorization: '%' }", "headers: { Authorization: 'Bearer %' }", "headers: { Authorization: '${ %' }", "headers: { Authorization: '${%}' }",
		"headers: { Authorization: { valu: '%' } }", "headers: '%'", "headers: { A: { value: 'x${%' } }", "description: \"%", "era: '%'", "timeout: '%'", "share: '%'", "may: ['%']",
		"enabled: '%'", "inherit: '%'", "trust: { a: '%' }", "env: { API_KEY: { value: '%' } }",
	} {
		src := pageOf("transport: { http: 'https://h/m' }\n" + strings.ReplaceAll(block, "%", canary))
		checkCanary(t, src, canary)
	}
	for _, transport := range []string{
		"{ http: '%' }", "{ http: 'https://u:%@h/' }", "{ http: 'https://h/\x7f%' }", "{ http: 'https://h/?api_key=%' }", "{ http: 'https://h/#%' }", "{ stdio: 'x \"%' }",
		"{ stdio: '%; x' }", "{ command: x, args: ['--api-key', '%'] }", "{ command: x, args: ['--api-key=%'] }", "{ command: x, args: [API_KEY=%] }", "'%'", "{ command: x, args: '%' }",
	} {
		checkCanary(t, pageOf("transport: "+strings.ReplaceAll(transport, "%", canary)), canary)
	}
	checkCanary(t, pageOf("transport: { stdio: x }\nheaders: { sk-"+canary+": x }"), canary)
	checkCanary(t, pageOf("transport: { stdio: x }\nsk-"+canary+": x"), canary)
}

func checkCanary(t *testing.T, src, canary string) {
	t.Helper()
	_, faults := Parse("f", []byte(src))
	if len(faults) == 0 {
		t.Errorf("no fault in\n%s", src)
	}
	for _, f := range faults {
		if strings.Contains(f.String(), canary) {
			t.Errorf("shown: %s", f)
		}
	}
}

func TestWarnings(t *testing.T) {
	const ok = "transport: { stdio: x }\n"
	tests := []struct{ block, want string }{
		{ok + "trust: { a: never }", `"a" run without asking`},
		{ok + "gate: { '*': allow }", `"*" run without asking`},
		{ok + "gate: { '*': ask, a: deny }", ""},
		{ok + "env: { A: { value: '${ env:X }' } }", "nothing is expanded"},
		{ok + "env: { API_KEY: { value: 0123456789abcdef01234567 } }", "secrets/API_KEY"},
		{ok + "env: { LOG_LEVEL: { value: debug } }", ""},
		{"transport: { http: http://h.example.com/m }", "not encrypted"},
		{"transport: { http: 'http://127.0.0.1:8080/m' }", ""},
		{"transport: { http: 'http://[::1]/m' }", ""},
		{"transport: { http: 'http://a.localhost/m' }", ""},
		{"transport: { http: 'https://h/sk-abcdefghijklmnop1234/m' }", "in its path"},
		{"transport: { command: npx -y pkg@1.0.0 }", "write { stdio: '…' }"},
		{"transport: { command: x, args: [--api-key, 0123456789abcdef01234567] }", "argument 2 looks like a key"},
		{"transport: { command: x, args: [API_KEY=0123456789abcdef01234567] }", "argument 1 looks like a key"},
		{"transport: { command: x, args: [$HOME/y] }", "$VARIABLE"},
		{"transport: { command: x, args: ['^a$', '$1'] }", ""},
	}
	for _, tt := range tests {
		_, faults := Parse("f", []byte(pageOf(tt.block)))
		switch {
		case Faulty(faults):
			t.Errorf("%s: %v", tt.block, faults)
		case tt.want == "" && len(faults) > 0:
			t.Errorf("%s: %v", tt.block, faults)
		case tt.want != "" && (len(faults) != 1 || !strings.Contains(faults[0].String(), ": warning: ") || !strings.Contains(faults[0].Msg, tt.want)):
			t.Errorf("%s: %v", tt.block, faults)
		}
	}
}

func TestUnpinnedPackages(t *testing.T) {
	tests := []struct {
		command string
		pkg     string // named in the warning; "" is none
	}{
		{"npx -y pkg", "pkg"},
		{"npx -y @scope/pkg", "@scope/pkg"},
		{"npx -y @scope/pkg@latest", "@scope/pkg@latest"},
		{"npx pkg@^1", "pkg@^1"},
		{"npx -y @scope/pkg@1.2.3 --flag", ""},
		{"npx --package=pkg cmd", "pkg"},
		{"npx -p pkg@1.0.0 cmd", ""},
		{"npx --registry https://r pkg", "pkg"},
		{"npx ./local", ""},
		{"/usr/bin/npx pkg", "pkg"},
		{`'C:\node\npx.cmd' pkg`, "pkg"},
		{"npm exec -- pkg", "pkg"},
		{"npm run start", ""},
		{"pnpm dlx pkg", "pkg"},
		{"bunx pkg", "pkg"},
		{"bun x pkg@2.0.0", ""},
		{"uvx mcp-server", "mcp-server"},
		{"uvx mcp-server==1.0", ""},
		{"uvx mcp-server@1.0", ""},
		{"uvx mcp-server@latest", "mcp-server@latest"},
		{"uvx --from pkg cmd", "pkg"},
		{"uvx --from pkg==2.1 cmd", ""},
		{"uvx --from git+https://x/y cmd", ""},
		{"uv tool run pkg", "pkg"},
		{"uv run server.py", ""},
		{"pipx run pkg", "pkg"},
		{"docker run -i --rm mcp/time", "mcp/time"},
		{"docker run -i --rm -e KEY mcp/time:latest", "mcp/time:latest"},
		{"docker run -i --rm -v /a:/b mcp/time:1.0", ""},
		{"docker run --env=A=b r.example.com:5000/time", "r.example.com:5000/time"},
		{"docker run r/time@sha256:0123", ""},
		{"podman run x", "x"},
		{"docker compose up", ""},
		{"npx", ""},
		{"node server.js", ""},
	}
	for _, tt := range tests {
		_, faults := Parse("f", []byte(pageOf("transport:\n  stdio: >-\n    "+tt.command)))
		switch {
		case Faulty(faults), tt.pkg == "" && len(faults) > 0:
			t.Errorf("%s: %v", tt.command, faults)
		case tt.pkg != "" && (len(faults) != 1 || !strings.Contains(faults[0].Msg, " of "+tt.pkg+" is newest")):
			t.Errorf("%s: %v", tt.command, faults)
		}
	}
}

func TestCheckEnvName(t *testing.T) {
	refused := []string{"PATH", "Path", "LD_PRELOAD", "LD_X", "DYLD_INSERT_LIBRARIES", "NODE_OPTIONS", "node_options", "PYTHONPATH", "PYTHONSTARTUP", "BASH_ENV", "ENV",
		"PERL5OPT", "RUBYOPT", "JAVA_TOOL_OPTIONS", "GIT_SSH_COMMAND", "", "1A", "A-B", "A B", "A=B", "Ä", "A\x00"}
	for _, name := range refused {
		if err := CheckEnvName(name); crib.CodeOf(err) != crib.Invalid {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"API_KEY", "LOG_LEVEL", "PATHS", "MY_PATH", "ENVIRONMENT", "HOME", "HTTPS_PROXY", "_x", "NODE_EXTRA_CA_CERTS", "PYTHONUNBUFFERED", "npm_config_registry"} {
		if err := CheckEnvName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestCoreMethod(t *testing.T) {
	for _, m := range []string{"tools/call", "tools/", "initialize", "ping", "server/discover", "notifications/x", "resources/read", "prompts/get", "completion/complete",
		"logging/setLevel", "sampling/createMessage", "elicitation/create", "roots/list", "subscriptions/listen", "tasks/get"} {
		if !CoreMethod(m) {
			t.Errorf("%s is core", m)
		}
	}
	for _, m := range []string{"vendor/x", "pingpong", "tool/call", "initializer", "x/tools/call"} {
		if CoreMethod(m) {
			t.Errorf("%s is not core", m)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"transport", "env", "era", "may", "mcp"}
	for in, want := range map[string]string{"transprot": "transport", "Transport": "transport", "en": "env", "enviroment": "", "xyz": "", "": "", "mpc": "mcp", strings.Repeat("a", 500): ""} {
		if got := Nearest(in, known); got != want {
			t.Errorf("Nearest(%.20q) = %q, want %q", in, got, want)
		}
	}
}
