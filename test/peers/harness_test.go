package peers

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// standIn starts a stand-in for a language model. It obeys lines of the form
// CALL <regular expression of a tool's name> <arguments> in the prompt, and
// then says what the tool answered.
func (p *person) standIn() (port string) {
	p.t.Helper()
	_, port, err := net.SplitHostPort(freeAddress(p.t))
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(node(p.t), "testdata/fakemodel.mjs", port, filepath.Join(p.home, "model.jsonl"))
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it may have ended
		cmd.Wait()         //nolint:errcheck // it was killed
	})
	p.until("the stand-in model listens", func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return port
}

// withEverything is a person whose crib serves server-everything.
func withEverything(t *testing.T) *person {
	t.Helper()
	p := newPerson(t)
	p.serve()
	p.crib("add", "everything", "--", node(t), need(t, "@modelcontextprotocol", "server-everything", "dist", "index.js"))
	return p
}

// claude runs Claude Code without a terminal.
func (p *person) claude(port string, args ...string) string {
	p.t.Helper()
	p.env = append(p.env, "ANTHROPIC_BASE_URL=http://127.0.0.1:"+port, "ANTHROPIC_API_KEY=dummy-key-for-tests",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "ENABLE_TOOL_SEARCH=false")
	out, err := p.run(need(p.t, ".bin", "claude"), args...)
	if err != nil {
		p.t.Fatalf("claude %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

const prompt = `CALL everything__echo$ {"message":"from the harness"}`

// Claude Code, registered by the crib, lists it as connected and calls a tool
// through it: over HTTP as `client add` registers it, and over `connect`.
func TestClaudeCode(t *testing.T) {
	need(t, ".bin", "claude")
	ask := []string{"-p", "--allowedTools", "mcp__toolcrib", "--", prompt}
	t.Run("http", func(t *testing.T) {
		p := withEverything(t)
		port := p.standIn()
		p.crib("client", "add", "claude-code")
		wantAll(t, p.claude(port, "mcp", "list"), "toolcrib", "Connected")
		wantAll(t, p.claude(port, ask...), "FINAL: Echo: from the harness")
	})
	t.Run("connect", func(t *testing.T) {
		p := withEverything(t)
		port := p.standIn()
		p.claude(port, "mcp", "add", "--scope", "user", "toolcrib", "--", p.bin, "connect")
		wantAll(t, p.claude(port, ask...), "FINAL: Echo: from the harness")
	})
}

// codex runs Codex without a terminal, against the stand-in model.
func (p *person) codex(port string, args ...string) string {
	p.t.Helper()
	p.env = append(p.env, "LAB_KEY=dummy-key-for-tests")
	home := filepath.Join(p.home, ".codex")
	if err := os.MkdirAll(home, 0o700); err != nil {
		p.t.Fatal(err)
	}
	if args[0] == "exec" {
		args = append([]string{"exec", "--skip-git-repo-check", "-c", "model_provider=fake", "-c", "model=fake",
			"-c", `model_providers.fake={name="fake",base_url="http://127.0.0.1:` + port + `/v1",env_key="LAB_KEY",wire_api="responses"}`,
			"-c", `mcp_servers.toolcrib.default_tools_approval_mode="approve"`, "-c", "mcp_servers.toolcrib.required=true", "--json"}, args[1:]...)
	}
	out, err := p.run(need(p.t, ".bin", "codex"), args...)
	if err != nil {
		p.t.Fatalf("codex %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// Codex likewise.
func TestCodex(t *testing.T) {
	need(t, ".bin", "codex")
	t.Run("http", func(t *testing.T) {
		p := withEverything(t)
		port := p.standIn()
		p.crib("client", "add", "codex")
		wantAll(t, p.codex(port, "mcp", "list"), "toolcrib")
		wantAll(t, p.codex(port, "exec", "--", prompt), `"text":"FINAL: `, `Output:\nEcho: from the harness`)
	})
	t.Run("connect", func(t *testing.T) {
		p := withEverything(t)
		port := p.standIn()
		p.codex(port, "mcp", "add", "toolcrib", "--", p.bin, "connect")
		wantAll(t, p.codex(port, "exec", "--", prompt), `"text":"FINAL: `, `Output:\nEcho: from the harness`)
	})
}
