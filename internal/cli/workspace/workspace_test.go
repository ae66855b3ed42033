package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/clients"
	"github.com/toolcrib/toolcrib/internal/config"
	"github.com/toolcrib/toolcrib/internal/crib"
)

// open makes a workspace with these files and opens it.
func open(t *testing.T, files map[string]string, env map[string]string) *Workspace {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, "ws", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	cfg, faults := config.Load(config.Options{Workspace: filepath.Join(dir, "ws"), Data: filepath.Join(dir, "data"), LookupEnv: lookup})
	if faults != nil {
		t.Fatal(faults)
	}
	return Open(cfg, lookup)
}

const key = "sk-abcdefghijklmnopqrstuvwx"

func TestHeadersBecomeWhatAPageSays(t *testing.T) {
	for _, tt := range []struct {
		name    string
		value   clients.Value
		want    string // on the page
		secrets string
	}{
		{"a bearer token", clients.Text("Bearer " + key), "    Authorization: S_TOKEN\n", "S_TOKEN"},
		{"another scheme", clients.Text("Basic " + key), "    Authorization: \"Basic ${ secrets:S_TOKEN }\"\n", "S_TOKEN"},
		{"no scheme", clients.Text(key), "    Authorization: S_TOKEN\n", "S_TOKEN"},
		{"the name of a secret", clients.Variable("MINE"), "    Authorization: MINE\n", ""},
		{"behind its scheme", append(clients.Text("Bearer "), clients.Part{Var: "MINE"}), "    Authorization: MINE\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := open(t, nil, map[string]string{"MINE": "x"})
			p, err := w.PlanOne(clients.Entry{
				Source: clients.Source{Name: "s"}, Transport: clients.HTTP, URL: clients.Text("https://mcp.example.com/mcp"),
				Headers: []clients.KV{{Name: "Authorization", Value: tt.value}},
			}, Fixed{})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(p.SecretNames(), " "); got != tt.secrets {
				t.Errorf("secrets %q; want %q", got, tt.secrets)
			}
			page := string(p.Files[len(p.Files)-1].After)
			if !strings.Contains(page, tt.want) || strings.Contains(page, key) {
				t.Errorf("the page says\n%s\nwant in it\n%s", page, tt.want)
			}
		})
	}
}

func TestWhatNoPageCanSay(t *testing.T) {
	for _, tt := range []struct {
		name  string
		entry clients.Entry
		code  crib.Code
	}{
		{"a key in an argument", clients.Entry{Transport: clients.Stdio, Command: clients.Text("x"), Args: []clients.Value{clients.Text("--api-key=" + key)}}, crib.Unsupported},
		{"a variable in an argument", clients.Entry{Transport: clients.Stdio, Command: clients.Text("x"), Args: []clients.Value{clients.Variable("V")}}, crib.Unsupported},
		{"a key in an address", clients.Entry{Transport: clients.HTTP, URL: clients.Text("https://mcp.example.com/?api_key=" + key)}, crib.Unsupported},
		{"a folder of a variable", clients.Entry{Transport: clients.Stdio, Command: clients.Text("x"), Cwd: clients.Variable("V")}, crib.Unsupported},
		{"an address of another kind", clients.Entry{Transport: clients.HTTP, URL: clients.Text("ws://mcp.example.com")}, crib.Invalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.entry.Name = "s"
			_, err := open(t, nil, nil).PlanOne(tt.entry, Fixed{})
			if err == nil || crib.CodeOf(err) != tt.code || strings.Contains(err.Error(), key) {
				t.Errorf("err = %v, code %s; want code %s and no key", err, crib.CodeOf(err), tt.code)
			}
		})
	}
}

// Variables that choose what runs, and headers that are the crib's own, are
// left out and said so; the server comes all the same.
func TestWhatIsLeftOut(t *testing.T) {
	p, err := open(t, nil, nil).PlanOne(clients.Entry{
		Source: clients.Source{Name: "s"}, Transport: clients.Stdio, Command: clients.Text("x"),
		Env: []clients.KV{{Name: "PATH", Value: clients.Text("/opt/bin")}, {Name: "LEVEL", Value: clients.Text("debug")}},
	}, Fixed{})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Block.Env) != 1 || p.Block.Env[0].Name != "LEVEL" {
		t.Errorf("env is %v", p.Block.Env)
	}
	if !slices.ContainsFunc(p.Notes, func(n string) bool { return strings.Contains(n, "PATH") }) {
		t.Errorf("notes are %q", p.Notes)
	}
}

func TestNewKeysTakeNoNameThatIsTaken(t *testing.T) {
	w := open(t, map[string]string{"secrets/S_API_KEY": "old"}, map[string]string{"S_API_KEY_2": "set"})
	p, err := w.PlanOne(clients.Entry{
		Source: clients.Source{Name: "s"}, Transport: clients.Stdio, Command: clients.Text("x"),
		Env: []clients.KV{{Name: "API_KEY", Value: clients.Text(key)}},
	}, Fixed{})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.SecretNames(); !slices.Equal(got, []string{"S_API_KEY_3"}) {
		t.Errorf("secrets are %q", got)
	}
}

// Adding writes all files or none.
func TestAddIsWhole(t *testing.T) {
	w := open(t, nil, nil)
	p, err := w.PlanOne(clients.Entry{
		Source: clients.Source{Name: "s"}, Transport: clients.Stdio, Command: clients.Text("x"),
		Env: []clients.KV{{Name: "API_KEY", Value: clients.Text(key)}},
	}, Fixed{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Make(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.PagePath("s"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.Add(p); crib.CodeOf(err) != crib.Invalid {
		t.Errorf("err = %v", err)
	}
	if _, err := os.Stat(filepath.Join(w.Config.Workspace, "secrets", "S_API_KEY")); !os.IsNotExist(err) {
		t.Errorf("the key was left behind: %v", err)
	}
	if text, _ := os.ReadFile(w.PagePath("s")); string(text) != "mine" {
		t.Errorf("the page is %q", text)
	}
}

func TestKeysThatOneServerNames(t *testing.T) {
	page := func(refs string) string { return "---\nmcp:\n  transport: { command: x }\n  env: " + refs + "\n---\n" }
	w := open(t, map[string]string{
		"mcp/a.md":       page(`{ A: ALONE, B: SHARED, C: "${ file:BOTH }", D: NOWHERE }`),
		"mcp/b.md":       page(`{ B: SHARED, C: BOTH }`),
		"secrets/ALONE":  "1",
		"secrets/SHARED": "2",
		"secrets/BOTH":   "3",
	}, nil)
	if got, want := w.OnlyNamedBy("a"), []string{filepath.Join(w.Config.Workspace, "secrets", "ALONE")}; !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
}

// A file store that is the workspace itself must not make uninstall remove
// all of it.
func TestFilesNeverNameTheWorkspace(t *testing.T) {
	for _, dir := range []string{".", "..", "/"} {
		w := open(t, map[string]string{"toolcrib.yaml": "secrets: [{ store: file, dir: \"" + dir + "\" }]\n"}, nil)
		for _, name := range w.Files() {
			if !filepath.IsLocal(name) || filepath.Clean(name) == "." {
				t.Errorf("dir %q: %q is in the list", dir, name)
			}
		}
	}
}

func TestBackupsNameWhatMadeThem(t *testing.T) {
	w := open(t, map[string]string{"mcp/a.md": "---\n---\n"}, nil)
	file := filepath.Join(t.TempDir(), "client.json")
	change := []clients.Change{{Path: file, After: []byte("{}"), Mode: 0o600}}
	if err := w.Commit(Replace, "claude-code", "my-server", change); err != nil {
		t.Fatal(err)
	}
	list, err := w.Backups()
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	if b := list[0]; b.Kind != Replace || b.Client != "claude-code" || b.Server != "my-server" || !b.Registers() {
		t.Errorf("%+v", b)
	}
	if _, err := w.Undo(list[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
}
