package peers

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// homeOf writes a home in which Claude Code and Codex have servers.
func homeOf(t *testing.T, p *person) (files map[string]string) {
	t.Helper()
	files = map[string]string{
		".claude.json": `{
  "numStartups": 3,
  "hasCompletedOnboarding": true,
  "mcpServers": {
    "My Server": { "type": "stdio", "command": "node", "args": ["` + need(t, "@modelcontextprotocol", "server-everything", "dist", "index.js") + `"],
      "env": { "API_KEY": "sk-live-0123456789abcdefghijklmnop" } },
    "remote": { "type": "http", "url": "https://mcp.example.com/v1", "headers": { "Authorization": "Bearer ${REMOTE_TOKEN:-none}" } }
  }
}
`,
		".codex/config.toml": `# my settings
model = "gpt-x"

[mcp_servers.notes] # keep
command = "npx"
args = ["-y", "notes-mcp@1.2.3"]
`,
	}
	for name, text := range files {
		path := filepath.Join(p.home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// tree reads every file below the home, by its path.
func (p *person) tree() map[string]string {
	p.t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(p.home, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(p.home, path)
		out[rel] = string(b)
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// Servers are moved in, the clients are given the crib alone, and the real
// clients see that; afterwards everything goes back to what it was.
func TestMovingIn(t *testing.T) {
	need(t, ".bin", "claude")
	need(t, ".bin", "codex")
	p := newPerson(t)
	homeOf(t, p)
	preview, err := p.run(p.bin, "import")
	if err == nil {
		t.Errorf("without a terminal and without --yes nothing may be moved:\n%s", preview)
	}
	wantAll(t, preview, "my-server", "remote", "notes")
	out := p.crib("import", "--yes")
	wantAll(t, out, "my-server", "remote", "notes")
	if strings.Contains(preview+out, "sk-live-") {
		t.Errorf("a key was printed:\n%s", preview+out)
	}
	p.serve()
	p.crib("client", "add", "claude-code", "--replace")
	p.crib("client", "add", "codex", "--replace")
	claude := p.claude("1", "mcp", "list")
	wantAll(t, claude, "toolcrib")
	codex := p.codex("1", "mcp", "list")
	wantAll(t, codex, "toolcrib")
	for _, gone := range []string{"My Server", "remote", "notes"} {
		if strings.Contains(claude+codex, gone) {
			t.Errorf("%s is still there:\n%s\n%s", gone, claude, codex)
		}
	}
	wantAll(t, p.crib("call", "mcp.my-server.echo", `{"message":"moved"}`), "Echo: moved")
}

// What import and client add did is taken back byte for byte, and uninstall
// leaves nothing.
func TestMovingOut(t *testing.T) {
	p := newPerson(t)
	homeOf(t, p)
	before := p.tree()
	p.crib("import", "--yes")
	p.crib("client", "add", "claude-code", "--replace")
	p.crib("client", "add", "codex", "--replace")
	if after := p.tree(); after[".claude.json"] == before[".claude.json"] || after[".codex/config.toml"] == before[".codex/config.toml"] {
		t.Fatal("nothing was replaced")
	}
	p.crib("import", "--undo")
	after := p.tree()
	for name, text := range before {
		if after[name] != text {
			t.Errorf("%s is not what it was:\n%s", name, after[name])
		}
	}
	p.crib("import", "--yes")
	p.crib("client", "add", "claude-code", "--replace")
	p.crib("uninstall", "--yes")
	if after := p.tree(); !maps.Equal(before, after) {
		for name := range after {
			if before[name] != after[name] {
				t.Errorf("%s was left or changed:\n%s", name, after[name])
			}
		}
		t.Errorf("before %d files, after %d", len(before), len(after))
	}
}
