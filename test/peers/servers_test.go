package peers

import (
	"os"
	"path/filepath"
	"testing"
)

// addAll adds the three reference servers from npm.
func addAll(t *testing.T, p *person) {
	t.Helper()
	files := filepath.Join(p.home, "files")
	if err := os.MkdirAll(files, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(files, "a.txt"), []byte("nine bolts, M6\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return need(t, "@modelcontextprotocol", name, "dist", "index.js") }
	p.crib("add", "everything", "--", node(t), at("server-everything"))
	p.crib("add", "files", "--", node(t), at("server-filesystem"), files)
	p.crib("add", "memory", "-e", "MEMORY_FILE_PATH="+filepath.Join(p.home, "memory.jsonl"), "--", node(t), at("server-memory"))
}

// Three servers of the ecosystem behind one address.
func TestReferenceServers(t *testing.T) {
	p := newPerson(t)
	p.serve()
	addAll(t, p)
	wantAll(t, p.crib("tools"), "mcp.everything.echo", "mcp.files.read_text_file", "mcp.memory.create_entities")
	wantAll(t, p.crib("call", "mcp.everything.echo", `{"message":"hello"}`), "Echo: hello")
	wantAll(t, p.crib("call", "mcp.everything.get-sum", `{"a":2,"b":40}`), "42")
	wantAll(t, p.crib("call", "mcp.files.read_text_file", `{"path":"`+filepath.Join(p.home, "files", "a.txt")+`"}`), "nine bolts")
	p.crib("call", "mcp.memory.create_entities", `{"entities":[{"name":"crib","entityType":"place","observations":["tools are kept here"]}]}`)
	wantAll(t, p.crib("call", "mcp.memory.read_graph", `{}`), "tools are kept here")
	p.crib("disable", "memory")
	if out, err := p.run(p.bin, "call", "mcp.memory.read_graph", `{}`); err == nil {
		t.Errorf("a tool of a server that is switched off was called:\n%s", out)
	}
}
