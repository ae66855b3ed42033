package matrix

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/app"
	"github.com/toolcrib/toolcrib/internal/config"
	"github.com/toolcrib/toolcrib/internal/mcptest"
)

// crib is a running one.
type crib struct {
	address string
	token   string // of a principal; without one a client is anonymous, another
}

// url is the endpoint of a page.
func (c crib) url(page string) string { return "http://" + c.address + "/v1/mcp/" + page }

const page = `---
mcp:
  transport: %s
  share: session
  may: [elicitation, roots, sampling]
  gate: { "*": allow }
  era: %s
---
`

// startCrib runs a crib with a server for each pairing.
func startCrib(t *testing.T) crib {
	t.Helper()
	folder := t.TempDir()
	workspace, data := filepath.Join(folder, "workspace"), filepath.Join(folder, "data")
	if err := os.MkdirAll(filepath.Join(workspace, "mcp"), 0o700); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"toolcrib.yaml": "auth:\n  anonymous: true\n"}
	for _, p := range pairings {
		files["mcp/"+p.page()+".md"] = fmt.Sprintf(page, transport(t, p.server), p.server.era)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(workspace, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer // read when the crib has ended
	a, err := app.New(app.Options{
		Load: config.Options{
			Workspace: workspace, Data: data, Listen: "127.0.0.1:0",
			LookupEnv: func(name string) (string, bool) {
				if name == "HOME" {
					return folder, true
				}
				return "", false
			},
		},
		Log:     slog.New(slog.NewTextHandler(&log, nil)),
		Version: "test",
		Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + folder},
		Drain:   10 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the crib: %v", err)
		}
		if t.Failed() {
			t.Logf("the crib said:\n%s", &log)
		}
	})
	return crib{a.Addr(), localToken(t, data)}
}

func localToken(t *testing.T, data string) string {
	t.Helper()
	d, err := app.OpenData(data)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	token, err := d.LocalToken()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// transport is what a page says of a server that the test runs itself, or that
// the crib starts.
func transport(t *testing.T, s side) string {
	if s.over == "http" {
		o := mcptest.Options{Era: string(s.era), Tasks: true, ListChangedOn: "fail"}
		return fmt.Sprintf("{ http: %q }", mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: o, Strict: true}).URL)
	}
	command := mcptest.Peer("-era", string(s.era), "-tasks", "-list-changed-on", "fail")
	quoted := make([]string, len(command))
	for i, part := range command {
		quoted[i] = fmt.Sprintf("%q", part)
	}
	return "{ command: " + quoted[0] + ", args: [" + strings.Join(quoted[1:], ", ") + "] }"
}
