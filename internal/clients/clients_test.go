package clients_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/clients"
	"github.com/toolcrib/toolcrib/internal/crib"
)

var update = flag.Bool("update", false, "write the golden files")

var registration = clients.Registration{
	URL:     "http://127.0.0.1:8090/v1/mcp",
	Token:   "crib_fixture-token_0123456789",
	Command: []string{"/opt/tool crib/toolcrib", "connect"},
}

// machine is a home folder with the files of all nine clients, and a project.
func machine(t testing.TB) clients.Env {
	t.Helper()
	root := t.TempDir()
	env := clients.Env{Home: filepath.Join(root, "home"), Dir: filepath.Join(root, "project"), GOOS: "linux"}
	for from, to := range map[string]string{"testdata/home": env.Home, "testdata/project": env.Dir} {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	windsurf := filepath.Join(env.Home, ".codeium/windsurf/mcp_config.json")
	content := bytes.ReplaceAll(read(t, windsurf), []byte("\n"), []byte("\r\n"))
	write(t, windsurf, string(content), 0o640)
	return env
}

func emptyMachine(t testing.TB) clients.Env {
	t.Helper()
	root := t.TempDir()
	env := clients.Env{Home: filepath.Join(root, "home"), Dir: filepath.Join(root, "project"), GOOS: "linux"}
	for _, dir := range []string{env.Home, env.Dir} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return env
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t testing.TB, path, content string, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// snapshot is every file and folder below the machine, with mode and content.
func snapshot(t *testing.T, env clients.Env) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(filepath.Dir(env.Home), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %s", info.Mode(), path)
		if info.Mode().IsRegular() {
			fmt.Fprintf(&b, " %q", read(t, path))
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		write(t, path, got, 0o644)
	}
	if want := string(read(t, path)); got != want {
		t.Errorf("%s differs; got:\n%s", path, got)
	}
}

func show(v clients.Value) string {
	var b strings.Builder
	for _, p := range v {
		switch {
		case p.Var == "":
			fmt.Fprintf(&b, "%q", p.Text)
		case p.HasDefault:
			fmt.Fprintf(&b, "<%s or %q>", p.Var, p.Default)
		default:
			fmt.Fprintf(&b, "<%s>", p.Var)
		}
	}
	return b.String()
}

func line(b *strings.Builder, key string, v clients.Value) {
	if len(v) > 0 {
		fmt.Fprintf(b, "    %s %s\n", key, show(v))
	}
}

func readAll(t *testing.T, env clients.Env) []clients.Entry {
	t.Helper()
	var all []clients.Entry
	for _, c := range clients.All() {
		entries, err := c.Read(env)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, entries...)
	}
	return all
}

func TestReadUnderstandsEveryClient(t *testing.T) {
	env := machine(t)
	var b strings.Builder
	for _, e := range readAll(t, env) {
		fmt.Fprintf(&b, "%s %s %s %q %s", e.Client, e.Scope, e.Project, e.Name, e.Transport)
		if e.Disabled {
			b.WriteString(" disabled")
		}
		fmt.Fprintf(&b, "\n    file %s\n", e.File)
		line(&b, "command", e.Command)
		for _, v := range e.Args {
			line(&b, "arg", v)
		}
		line(&b, "cwd", e.Cwd)
		line(&b, "url", e.URL)
		for _, kv := range e.Env {
			line(&b, "env "+kv.Name, kv.Value)
		}
		for _, kv := range e.Headers {
			line(&b, "header "+kv.Name, kv.Value)
		}
		for _, p := range e.Problems {
			fmt.Fprintf(&b, "    ! %s\n", p)
		}
	}
	golden(t, "entries.txt", strings.ReplaceAll(b.String(), filepath.Dir(env.Home), "ROOT"))
}

func TestRegisterThenUnregisterLeavesEveryByte(t *testing.T) {
	for _, c := range clients.All() {
		for name, fill := range map[string]func(testing.TB) clients.Env{"in use": machine, "new": emptyMachine} {
			t.Run(c.ID()+" "+name, func(t *testing.T) {
				env := fill(t)
				r := registration
				r.Name = "crib_under-test"
				before := snapshot(t, env)
				backups := t.TempDir()
				changes, text, err := c.Register(env, r)
				if err != nil || len(changes) != 1 {
					t.Fatalf("%d changes, %v", len(changes), err)
				}
				if strings.Contains(text, r.Token) || !strings.Contains(text, changes[0].Path) {
					t.Errorf("the text is %q", text)
				}
				commit(t, backups, "a", changes)
				if c.HTTP() != strings.Contains(string(changes[0].After), "Bearer "+r.Token) {
					t.Errorf("wrote %s", changes[0].After)
				}
				isRegistered(t, c, env, r)
				if again, text, err := c.Register(env, r); len(again) != 0 || err != nil {
					t.Errorf("registering again gives %v, %q, %v", again, text, err)
				}
				changes, _, err = c.Unregister(env, r.Name)
				if err != nil {
					t.Fatal(err)
				}
				commit(t, backups, "b", changes)
				if name == "new" {
					// Folders stay: only Undo knows who made them.
					if len(changes) != 1 || changes[0].After != nil {
						t.Errorf("the file stays: %q", changes)
					}
					return
				}
				if after := snapshot(t, env); after != before {
					t.Errorf("before\n%s\nafter\n%s", before, after)
				}
			})
		}
	}
}

func commit(t *testing.T, dir, label string, changes []clients.Change) {
	t.Helper()
	if err := clients.Commit(dir, label, changes); err != nil {
		t.Fatal(err)
	}
}

func isRegistered(t *testing.T, c *clients.Client, env clients.Env, r clients.Registration) {
	t.Helper()
	entries, err := c.Read(env)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(entries, func(e clients.Entry) bool { return e.Name == r.Name })
	if i < 0 {
		t.Fatalf("%s does not list %s", c.ID(), r.Name)
	}
	e := entries[i]
	if len(e.Problems) > 0 || e.Disabled || e.Scope != clients.User {
		t.Errorf("the entry reads as %+v", e)
	}
	if !c.HTTP() {
		if e.Transport != clients.Stdio || show(e.Command) != `"/opt/tool crib/toolcrib"` || len(e.Args) != 1 {
			t.Errorf("the entry reads as %+v", e)
		}
		return
	}
	if e.Transport != clients.HTTP || show(e.URL) != `"`+r.URL+`"` || len(e.Headers) != 1 || show(e.Headers[0].Value) != `"Bearer `+r.Token+`"` {
		t.Errorf("the entry reads as %+v", e)
	}
}

func TestReplaceLeavesTheCribAloneAndUndoRestores(t *testing.T) {
	for name, fill := range map[string]func(testing.TB) clients.Env{"in use": machine, "new": emptyMachine} {
		t.Run(name, func(t *testing.T) {
			env := fill(t)
			before := snapshot(t, env)
			backups := filepath.Join(t.TempDir(), "state", "undo")
			for _, c := range clients.All() {
				changes, _, err := c.Replace(env, registration)
				if err != nil {
					t.Fatal(err)
				}
				commit(t, backups, c.ID(), changes)
			}
			for _, e := range readAll(t, env) {
				if e.Transport != "" && (e.Name != clients.RegistrationName || e.Scope != clients.User) {
					t.Errorf("%s still has %q in %s", e.Client, e.Name, e.File)
				}
			}
			for _, c := range clients.All() {
				isRegistered(t, c, env, clients.Registration{Name: clients.RegistrationName, URL: registration.URL, Token: registration.Token})
			}
			undoAll(t, backups)
			if after := snapshot(t, env); after != before {
				t.Errorf("before\n%s\nafter\n%s", before, after)
			}
		})
	}
}

func undoAll(t *testing.T, backups string) {
	t.Helper()
	list, err := clients.List(backups)
	if err != nil || len(list) == 0 {
		t.Fatalf("%d backups, %v", len(list), err)
	}
	for _, b := range slices.Backward(list) {
		if _, err := clients.Undo(backups, b.Label); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := clients.List(backups); len(list) != 0 || err != nil {
		t.Errorf("%v is left, %v", list, err)
	}
}

func TestReplaceKeepsWhatOnlyTheClientCanStart(t *testing.T) {
	env := machine(t)
	zed, err := clients.ByID("zed")
	if err != nil {
		t.Fatal(err)
	}
	changes, _, err := zed.Replace(env, registration)
	if err != nil || len(changes) != 1 {
		t.Fatal(changes, err)
	}
	after := string(changes[0].After)
	for _, want := range []string{`"database_url": "postgresql://me@localhost/db"`, "// the last one", "// 🌒", `"buffer_font_size": 14,`} {
		if !strings.Contains(after, want) {
			t.Errorf("%s is gone from\n%s", want, after)
		}
	}
}

func TestReadAndRegisterFollowTheEnvironment(t *testing.T) {
	env := emptyMachine(t)
	dir := t.TempDir()
	env.Getenv = func(name string) string {
		return map[string]string{
			"CLAUDE_CONFIG_DIR": dir + "/claude", "CODEX_HOME": dir + "/codex",
			"XDG_CONFIG_HOME": dir + "/xdg", "APPDATA": dir + "/roaming",
		}[name]
	}
	for _, c := range []struct{ id, goos, want string }{
		{"claude-code", "linux", dir + "/claude/.claude.json"},
		{"codex", "darwin", dir + "/codex/config.toml"},
		{"claude-desktop", "linux", dir + "/xdg/Claude/claude_desktop_config.json"},
		{"claude-desktop", "darwin", env.Home + "/Library/Application Support/Claude/claude_desktop_config.json"},
		{"claude-desktop", "windows", dir + "/roaming/Claude/claude_desktop_config.json"},
		{"vscode", "linux", dir + "/xdg/Code/User/mcp.json"},
		{"vscode", "darwin", env.Home + "/Library/Application Support/Code/User/mcp.json"},
		{"vscode", "windows", dir + "/roaming/Code/User/mcp.json"},
		{"zed", "linux", dir + "/xdg/zed/settings.json"},
		{"zed", "darwin", env.Home + "/.config/zed/settings.json"},
		{"zed", "windows", dir + "/roaming/Zed/settings.json"},
		{"opencode", "windows", dir + "/xdg/opencode/opencode.json"},
		{"windsurf", "windows", env.Home + "/.codeium/windsurf/mcp_config.json"},
		{"gemini-cli", "linux", env.Home + "/.gemini/settings.json"},
		{"cursor", "linux", env.Home + "/.cursor/mcp.json"},
	} {
		env.GOOS = c.goos
		client, err := clients.ByID(c.id)
		if err != nil {
			t.Fatal(err)
		}
		changes, _, err := client.Register(env, registration)
		if err != nil || len(changes) != 1 || filepath.ToSlash(changes[0].Path) != filepath.ToSlash(c.want) {
			t.Errorf("%s on %s: %v, %v, want %s", c.id, c.goos, changes, err, c.want)
		}
	}
}

func TestHostileNamesAreRefused(t *testing.T) {
	env := emptyMachine(t)
	for _, name := range []string{
		"x]\n[mcp_servers.y", "a.b", "__proto__", "constructor", "toString", strings.Repeat("a", 65), strings.Repeat("a", 300),
		"a b", "a/b", "../e", `a"b`, "a\x00", "é", "a\n", " ", "${x}",
	} {
		r := registration
		r.Name = name
		for _, c := range clients.All() {
			_, _, register := c.Register(env, r)
			_, _, replace := c.Replace(env, r)
			_, _, unregister := c.Unregister(env, name)
			for _, err := range []error{register, replace, unregister} {
				if crib.CodeOf(err) != crib.Invalid {
					t.Errorf("%s takes %q: %v", c.ID(), name, err)
				}
			}
		}
	}
}

func TestHostileRegistrationsAreRefused(t *testing.T) {
	env := emptyMachine(t)
	codex, err := clients.ByID("codex")
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]clients.Registration{
		"no address, no command":   {Token: "t"},
		"no token":                 {URL: registration.URL},
		"token with a newline":     {URL: registration.URL, Token: "a\nb"},
		"token with a reference":   {URL: registration.URL, Token: "${HOME}"},
		"token with a quote":       {URL: registration.URL, Token: `a"b`},
		"address of a file":        {URL: "file:///etc/passwd", Token: "t"},
		"address with a password":  {URL: "http://u:p@127.0.0.1/v1/mcp", Token: "t"},
		"address with a reference": {URL: "http://127.0.0.1/${HOME}", Token: "t"},
		"command with a reference": {Command: []string{"toolcrib", "${HOME}"}},
		"command with a newline":   {Command: []string{"toolcrib\n"}},
		"command that is no text":  {Command: []string{"\xff"}},
	} {
		if changes, _, err := codex.Register(env, r); crib.CodeOf(err) != crib.Invalid || len(changes) != 0 {
			t.Errorf("%s: %v, %v", name, changes, err)
		} else if strings.Contains(err.Error(), "a\nb") {
			t.Errorf("%s: the error shows the token: %v", name, err)
		}
	}
}

func TestBrokenFilesAreNotTouched(t *testing.T) {
	for _, c := range clients.All() {
		env := machine(t)
		for _, path := range c.Files(env) {
			if _, err := os.Stat(path); err == nil {
				write(t, path, "{\n  \"a\": 1\n  \"b\": [\n", 0o644)
			}
		}
		before := snapshot(t, env)
		_, readErr := c.Read(env)
		_, _, registerErr := c.Register(env, registration)
		_, _, unregisterErr := c.Unregister(env, clients.RegistrationName)
		_, _, replaceErr := c.Replace(env, registration)
		for _, err := range []error{readErr, registerErr, unregisterErr, replaceErr} {
			if crib.CodeOf(err) != crib.Invalid || !strings.Contains(fmt.Sprint(err), "fix line") {
				t.Errorf("%s: %v", c.ID(), err)
			}
		}
		if snapshot(t, env) != before {
			t.Errorf("%s: something changed", c.ID())
		}
	}
}

func TestABrokenFileCostsOnlyItsOwnEntries(t *testing.T) {
	env := machine(t)
	write(t, filepath.Join(env.Dir, ".mcp.json"), "{", 0o644)
	c, err := clients.ByID("claude-code")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := c.Read(env)
	if len(entries) != 4 || err == nil || !strings.Contains(err.Error(), ".mcp.json") {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}

func TestAProjectInTheHomeFolderIsReadOnce(t *testing.T) {
	env := machine(t)
	env.Dir = env.Home
	c, err := clients.ByID("cursor")
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := c.Read(env); len(entries) != 2 || err != nil {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}

func TestOpenCodeVersion2(t *testing.T) {
	env := emptyMachine(t)
	path := filepath.Join(env.Home, ".config/opencode/opencode.json")
	write(t, path, `{"mcp": {"servers": {"a": {"type": "local", "command": ["x"], "disabled": true}}}}`, 0o600)
	c, err := clients.ByID("opencode")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := c.Read(env)
	if err != nil || len(entries) != 1 || entries[0].Name != "a" || !entries[0].Disabled {
		t.Errorf("%+v, %v", entries, err)
	}
	changes, _, err := c.Register(env, registration)
	want := `{"mcp": {"servers": {"a": {"type": "local", "command": ["x"], "disabled": true}, "toolcrib": {"type": "remote", ` +
		`"url": "http://127.0.0.1:8090/v1/mcp", "oauth": false, "headers": {"Authorization": "Bearer crib_fixture-token_0123456789"}}}}}`
	if err != nil || len(changes) != 1 || string(changes[0].After) != want {
		t.Errorf("%v\n%s", err, changes[0].After)
	}
}

func TestDetect(t *testing.T) {
	full, empty := machine(t), emptyMachine(t)
	for _, c := range clients.All() {
		if !c.Detect(full) || c.Detect(empty) {
			t.Errorf("%s: in use %v, not in use %v", c.ID(), c.Detect(full), c.Detect(empty))
		}
	}
	if _, err := clients.ByID("emacs"); crib.CodeOf(err) != crib.NotFound || !strings.Contains(err.Error(), "opencode") {
		t.Errorf("got %v", err)
	}
}

func TestTheLineNamesTheCommandAndWhoCanRead(t *testing.T) {
	env := machine(t)
	c, err := clients.ByID("claude-code")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(env.Home, ".claude.json")
	for _, mode := range []fs.FileMode{0o600, 0o644} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, text, err := c.Register(env, registration)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text, `claude mcp add --scope user --transport http toolcrib http://127.0.0.1:8090/v1/mcp --header "Authorization: Bearer …"`) {
			t.Errorf("the command is not in %q", text)
		}
		if warns := strings.Contains(text, "other users"); warns != (mode == 0o644) {
			t.Errorf("mode %o: %q", mode, text)
		}
	}
}

func TestReadFileTellsTheClientByTheContent(t *testing.T) {
	env := machine(t)
	for _, c := range []struct{ path, content, want string }{
		{"a.json", `{"mcpServers": {"x": {"command": "c", "args": ["${A:-b}", "${env:C}"]}}}`, `file/x <A or "b"><C>`},
		{"b.json", `{"servers": {"x": {"command": "c", "args": ["${env:C}", "${A}"]}}}`, `vscode/x <C><A>`},
		{"c.json", `{"context_servers": {"x": {"command": "c", "args": ["${A}"]}}}`, `zed/x <A>`},
		{"d.json", `{"mcp": {"x": {"type": "local", "command": ["c", "{env:A}"]}}}`, `opencode/x <A>`},
		{"e.json", `{"mcp": {"inputs": [{"id": "i", "default": "d"}], "servers": {"x": {"command": "c", "args": ["${input:i}"]}}}}`, `vscode/x "d"`},
		{"f.conf", "[mcp_servers.x]\ncommand = 'c'\nargs = ['$A']\n", `codex/x "$A"`},
		{".gemini/settings.json", `{"mcpServers": {"x": {"command": "c", "args": ["$A"]}}}`, `gemini-cli/x <A>`},
	} {
		path := filepath.Join(env.Home, "files", c.path)
		write(t, path, c.content, 0o600)
		entries, err := clients.ReadFile(env, path)
		if err != nil || len(entries) != 1 {
			t.Errorf("%s: %+v, %v", c.path, entries, err)
			continue
		}
		got := entries[0].Client + "/" + entries[0].Name + " "
		for _, v := range entries[0].Args {
			got += show(v)
		}
		if got != c.want || entries[0].File != path {
			t.Errorf("%s: %s, want %s", c.path, got, c.want)
		}
	}
	write(t, filepath.Join(env.Home, "none.json"), `{"a": 1}`, 0o600)
	if _, err := clients.ReadFile(env, filepath.Join(env.Home, "none.json")); crib.CodeOf(err) != crib.Invalid {
		t.Errorf("a file without servers: %v", err)
	}
	if _, err := clients.ReadFile(env, filepath.Join(env.Home, "absent.json")); crib.CodeOf(err) != crib.NotFound {
		t.Errorf("no file: %v", err)
	}
}

func TestNoHomeIsSaid(t *testing.T) {
	for _, c := range clients.All() {
		_, err := c.Read(clients.Env{GOOS: "linux"})
		var e *crib.Error
		if !errors.As(err, &e) || e.Code != crib.Invalid {
			t.Errorf("%s: %v", c.ID(), err)
		}
	}
}

func FuzzRegisterInCodex(f *testing.F) {
	config, err := os.ReadFile("testdata/home/.codex/config.toml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range []string{"toolcrib", "x]\n[mcp_servers.y", "a.b", "__proto__", "search", strings.Repeat("a", 300)} {
		f.Add(name, string(config))
		f.Add(name, "mcp_servers = {}\n")
	}
	codex, err := clients.ByID("codex")
	if err != nil {
		f.Fatal(err)
	}
	env := emptyMachine(f)
	f.Fuzz(func(t *testing.T, name, config string) {
		write(t, filepath.Join(env.Home, ".codex/config.toml"), config, 0o600)
		before, err := codex.Read(env)
		if err != nil {
			return
		}
		r := registration
		if r.Name = name; name == "" {
			r.Name = clients.RegistrationName // what no name stands for
		}
		changes, _, err := codex.Register(env, r)
		if err != nil || len(changes) == 0 {
			return
		}
		write(t, filepath.Join(env.Home, ".codex/config.toml"), string(changes[0].After), 0o600)
		after, err := codex.Read(env)
		if err != nil {
			t.Fatal(err)
		}
		others := func(e clients.Entry) bool { return e.Name == r.Name }
		if was, is := slices.DeleteFunc(before, others), slices.DeleteFunc(slices.Clone(after), others); fmt.Sprint(was) != fmt.Sprint(is) {
			t.Fatalf("other entries are\n%v, were\n%v", is, was)
		}
		isRegistered(t, codex, env, r)
	})
}
