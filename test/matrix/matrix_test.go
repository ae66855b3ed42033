// Package matrix shows which of the protocol's features work for each pairing of
// a client and a server through the crib: of either era, with a server over HTTP
// or stdio. `make matrix` prints the table.
package matrix

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

func TestMain(m *testing.M) {
	mcptest.RunPeerIfAsked()
	os.Exit(m.Run())
}

// pairing is a client before a server.
type pairing struct {
	client, server wire.Era
	transport      string // of the server
}

func (p pairing) String() string {
	return fmt.Sprintf("%s client, %s server over %s", p.client, p.server, p.transport)
}

// page names the server of the pairing.
func (p pairing) page() string { return fmt.Sprintf("%s-%s-%s", p.client, p.server, p.transport) }

var pairings = func() (all []pairing) {
	for _, client := range []wire.Era{wire.Modern, wire.Legacy} {
		for _, server := range []wire.Era{wire.Modern, wire.Legacy} {
			for _, transport := range []string{"http", "stdio"} {
				all = append(all, pairing{client, server, transport})
			}
		}
	}
	return all
}()

// TestMatrix checks each feature in each pairing, and prints what it found.
func TestMatrix(t *testing.T) {
	crib := startCrib(t)
	found := make(map[pairing]map[string]verdict)
	var mu sync.Mutex // guards found
	t.Run("pairing", func(t *testing.T) {
		for _, p := range pairings {
			found[p] = make(map[string]verdict)
			t.Run(p.String(), func(t *testing.T) {
				t.Parallel()
				for _, f := range features {
					mark := failed
					t.Run(f.name, func(t *testing.T) {
						c := &cell{T: t, pairing: p, crib: crib}
						c.Client = c.dial()
						if got := f.check(c); !t.Failed() {
							mark = got
						}
					})
					mu.Lock()
					found[p][f.name] = mark
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("\n%s\n\nwithheld: between a client and a server of one era only; across them it is not offered, and was refused.", table(found))
}

const failed verdict = "FAIL"

// table has a row for each pairing and a column for each feature.
func table(found map[pairing]map[string]verdict) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-42s", "")
	for _, f := range features {
		fmt.Fprintf(&b, " %-*s", width(f.name), f.name)
	}
	for _, p := range pairings {
		fmt.Fprintf(&b, "\n%-42s", p)
		for _, f := range features {
			fmt.Fprintf(&b, " %-*s", width(f.name), found[p][f.name])
		}
	}
	return b.String()
}

func width(name string) int { return max(len(name), len(withheld)) }

// cell is one feature in one pairing.
type cell struct {
	*testing.T
	pairing
	*mcptest.Client
	crib string // its address
}

func (c *cell) dial() *mcptest.Client {
	cl := mcptest.NewClient(c.T, "http://"+c.crib+"/v1/mcp/"+c.page())
	cl.Capabilities = `{"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true},"sampling":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	if c.client == wire.Legacy {
		if r := cl.Initialize(""); cl.Session == "" {
			c.Fatalf("no session: %v", r)
		}
	}
	return cl
}

// post sends a request and waits for its answer.
func (c *cell) post(method, params string) *mcptest.Reply { return c.Post(c.client, method, params) }

// open sends a request whose answer is read message by message.
func (c *cell) open(method, params string) *mcptest.Stream { return c.Open(c.client, method, params) }

func callOf(tool, arguments string, more ...string) string {
	return `{"name":"` + tool + `","arguments":` + arguments + strings.Join(append([]string{""}, more...), ",") + `}`
}

// want fails the cell unless text contains all parts.
func (c *cell) want(text string, parts ...string) {
	c.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			c.Errorf("%s is missing in %s", p, text)
		}
	}
}

const page = `---
mcp:
  transport: %s
  share: session
  may: [elicitation, roots, sampling]
  gate: { "*": allow }
  era: %s
---
`

var serving = regexp.MustCompile(`msg=serving address=(\S+)`)

// startCrib starts the program itself with a server for each page, and returns
// its address.
func startCrib(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	program := filepath.Join(folder, "toolcrib")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	workspace := filepath.Join(folder, "workspace")
	files := map[string]string{"toolcrib.yaml": "auth:\n  anonymous: true\n"}
	for _, p := range pairings {
		transport := ""
		if p.transport == "http" {
			o := mcptest.Options{Era: string(p.server), Tasks: true, ListChangedOn: "fail"}
			transport = fmt.Sprintf("{ http: %q }", mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: o}).URL)
		} else {
			command := mcptest.Peer("-era", string(p.server), "-tasks", "-list-changed-on", "fail")
			quoted := make([]string, len(command))
			for i, part := range command {
				quoted[i] = fmt.Sprintf("%q", part)
			}
			transport = "{ command: " + quoted[0] + ", args: [" + strings.Join(quoted[1:], ", ") + "] }"
		}
		files["mcp/"+p.page()+".md"] = fmt.Sprintf(page, transport, p.server)
	}
	for name, text := range files {
		path := filepath.Join(workspace, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	c := exec.CommandContext(ctx, program, "serve", "--workspace", workspace, "--data", filepath.Join(folder, "data"), "--listen", "127.0.0.1:0")
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	log := &logged{found: make(chan string, 1)}
	c.Stderr = log
	if err := c.Start(); err != nil {
		stop()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		c.Wait() //nolint:errcheck // its log says why
		if t.Failed() {
			t.Logf("the crib said:\n%s", log)
		}
	})
	select {
	case address := <-log.found:
		return address
	case <-time.After(30 * time.Second):
		t.Fatalf("the crib does not serve:\n%s", log)
	}
	return ""
}

// logged keeps what the crib logs, and finds its address in it.
type logged struct {
	found chan string

	mu   sync.Mutex // guards both below
	text strings.Builder
	told bool
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(b)
	if at := serving.FindStringSubmatch(l.text.String()); at != nil && !l.told {
		l.told = true
		l.found <- at[1]
	}
	return len(b), nil
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
