package peers

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// script runs an ES module of testdata where it finds the installed packages.
func (p *person) script(name string, env ...string) string {
	p.t.Helper()
	src, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, node(p.t), "--input-type=module", "-e", string(src))
	cmd.Dir, cmd.Env, cmd.WaitDelay = filepath.Join(root(p.t), ".peers"), append(slices.Clone(p.env), env...), 5*time.Second
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if e, ok := err.(*exec.ExitError); ok {
			exit = e
			p.t.Fatalf("%s: %v\n%s", name, err, exit.Stderr)
		}
		p.t.Fatalf("%s: %v", name, err)
	}
	return string(out)
}

// sdkReport is what testdata/sdk.mjs prints.
type sdkReport struct {
	Tools     []string
	Prompts   int
	Resources []string
	Echo      string
	Long      string
	Progress  []float64
	Prompt    int
	Doc       string
}

func checkReport(t *testing.T, out string) {
	t.Helper()
	var r sdkReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !slices.Contains(r.Tools, "everything__echo") || r.Echo != "Echo: hello" || len(r.Progress) == 0 || r.Prompt == 0 || r.Prompts == 0 {
		t.Errorf("%+v", r)
	}
	if len(r.Resources) == 0 || r.Doc != r.Resources[0] || !strings.HasPrefix(r.Doc, "crib.everything+") {
		t.Errorf("a resource was listed as %q and read as %q", r.Resources, r.Doc)
	}
}

// The TypeScript SDK's clients of both generations reach everything, over HTTP
// and over stdio.
func TestTypeScriptSDK(t *testing.T) {
	need(t, "@modelcontextprotocol", "sdk", "package.json")
	need(t, "@modelcontextprotocol", "client", "package.json")
	p := newPerson(t)
	p.serve()
	p.crib("add", "everything", "--", node(t), need(t, "@modelcontextprotocol", "server-everything", "dist", "index.js"))
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era+" http", func(t *testing.T) {
			checkReport(t, p.script("sdk.mjs", "CRIB_ERA="+era, "CRIB_URL=http://"+p.status().Address+"/v1/mcp", "CRIB_TOKEN="+p.token()))
		})
		t.Run(era+" stdio", func(t *testing.T) {
			checkReport(t, p.script("sdk.mjs", "CRIB_ERA="+era, `CRIB_COMMAND=["`+p.bin+`","connect"]`))
		})
	}
}

// The inspector's command line, which the ecosystem debugs with.
func TestInspector(t *testing.T) {
	need(t, "@modelcontextprotocol", "inspector", "package.json")
	inspector := filepath.Join(root(t), ".peers", "node_modules", ".bin", "mcp-inspector")
	p := newPerson(t)
	p.serve()
	p.crib("add", "everything", "--", node(t), need(t, "@modelcontextprotocol", "server-everything", "dist", "index.js"))
	url := "http://" + p.status().Address + "/v1/mcp"
	ask := func(args ...string) string {
		t.Helper()
		out, err := p.run(inspector, append([]string{"--cli", url, "--transport", "http", "--header", "Authorization: Bearer " + p.token()}, args...)...)
		if err != nil {
			t.Fatalf("inspector %v: %v\n%s", args, err, out)
		}
		return out
	}
	wantAll(t, ask("--method", "tools/list"), "everything__echo", "inputSchema")
	wantAll(t, ask("--method", "tools/call", "--tool-name", "everything__echo", "--tool-arg", "message=hello"), "Echo: hello")
	wantAll(t, ask("--method", "resources/list"), "crib.everything+")
}
