// Package conformance runs the protocol's conformance suite over the crib: as
// a server, between the suite's client and a fixture server, and as a client,
// between a fixture client and the suite's servers. Client, crib and server
// speak one era in each run. `make peers` installs the suite; without it the
// tests say SKIP and why, and with CI=true a skip is a failure.
// expected-failures.yml has what may fall short.
//
//	go test ./test/conformance -v              # prints what passed
//	go test ./test/conformance -run Server     # one half of it
package conformance

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The requirement sets, each for one era.
const (
	legacy = "2025-11-25"
	modern = "2026-07-28"
)

// built are the programs that take part.
type built struct{ crib, server, client, shim string }

var build = sync.OnceValues(func() (b built, err error) {
	folder, err = os.MkdirTemp("", "toolcrib-conformance-")
	if err != nil {
		return b, err
	}
	for pkg, to := range map[string]*string{
		".":                       &b.crib,
		"./test/conformance/shim": &b.shim,
		"github.com/modelcontextprotocol/go-sdk/conformance/everything-server": &b.server,
		"github.com/modelcontextprotocol/go-sdk/conformance/everything-client": &b.client,
	} {
		*to = filepath.Join(folder, filepath.Base(pkg))
		if pkg == "." {
			*to = filepath.Join(folder, "toolcrib")
		}
		cmd := exec.Command("go", "build", "-o", *to, pkg)
		cmd.Dir = "../.."
		if out, err := cmd.CombinedOutput(); err != nil {
			return b, fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
		}
	}
	return b, nil
})

var folder string // of what was built

func TestMain(m *testing.M) {
	code := m.Run()
	if folder != "" {
		os.RemoveAll(folder) //nolint:errcheck // in the temporary folder
	}
	os.Exit(code)
}

func programs(t *testing.T) built {
	t.Helper()
	b, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// freeAddress is a loopback address that nobody had a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// start runs a program until the test ends.
func start(t *testing.T, name string, args ...string) {
	t.Helper()
	var log bytes.Buffer
	ctx, stop := context.WithCancel(context.Background())
	c := exec.CommandContext(ctx, name, args...)
	c.Stdout, c.Stderr = &log, &log
	// Not an interrupt: a shell in the background has its children ignore those.
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = grace
	if err := c.Start(); err != nil {
		stop()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		c.Wait() //nolint:errcheck // its log says why
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(name), log.String())
		}
	})
}

// answers waits until something answers at url.
func answers(t *testing.T, url string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		resp, err := http.Get(url)
		if err == nil {
			resp.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing answers at %s: %v", url, err)
		}
		timer := time.NewTimer(20 * time.Millisecond)
		<-timer.C
	}
}

const serverPage = `---
mcp:
  transport: %s
  may: [elicitation, roots, sampling]
  share: session
  gate: { "*": allow }
  era: %s
---
`

// TestServer runs the server suite of each era through the crib, before servers
// of each era that speak HTTP or stdio.
func TestServer(t *testing.T) {
	suite(t)
	b := programs(t)
	workspace := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(workspace, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("toolcrib.yaml", "auth:\n  anonymous: true\n") // the suite has no token to show
	eras := map[string]string{"legacy": legacy, "modern": modern}
	for era, set := range eras {
		write("mcp/stdio-"+era+".md", fmt.Sprintf(serverPage, fmt.Sprintf("{ command: %q }", b.server), era))
		address := freeAddress(t)
		start(t, b.server, "-http", address, fmt.Sprintf("-stateless=%v", set == modern))
		answers(t, "http://"+address)
		write("mcp/http-"+era+".md", fmt.Sprintf(serverPage, fmt.Sprintf("{ http: %q }", "http://"+address+"/"), era))
	}
	address := freeAddress(t)
	start(t, b.crib, "serve", "--workspace", workspace, "--data", t.TempDir(), "--listen", address)
	answers(t, "http://"+address+"/readyz")
	for era, set := range eras {
		for _, name := range []string{"http-legacy", "http-modern", "stdio-legacy", "stdio-modern"} {
			t.Run(fmt.Sprintf("%s client, %s server", era, name), func(t *testing.T) {
				t.Parallel()
				results := t.TempDir()
				out := runSuite(t, "server", "--url", "http://"+address+"/v1/mcp/"+name, "--requirements", set, "-o", results)
				found := make(map[string][]check)
				for name, list := range checks(t, results) {
					found[strings.TrimPrefix(name, "server-")] = list
				}
				score(t, found, required(t, "Server", set), expected(t, "Server"))
				if t.Failed() {
					t.Log(out)
				}
			})
		}
	}
}

// TestClient runs the client suite with the crib in the client's place.
func TestClient(t *testing.T) {
	suite(t)
	b := programs(t)
	for _, set := range []string{legacy, modern} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			results := t.TempDir()
			out := runSuite(t, "client", "--command", strings.Join([]string{b.shim, b.crib, b.client}, " "), "--requirements", set, "-o", results)
			scenarios := required(t, "Client", set)
			score(t, checks(t, results), scenarios, expected(t, "Client"))
			droveToTheEnd(t, results, scenarios)
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

// droveToTheEnd fails the test where the shim says that its driver failed: a
// driver that ends early leaves out checks, and the suite does not mind.
func droveToTheEnd(t *testing.T, results string, scenarios []string) {
	t.Helper()
	for _, name := range scenarios {
		logs, err := filepath.Glob(filepath.Join(results, name+"-*", "stderr.txt"))
		if err != nil || len(logs) == 0 {
			t.Errorf("%s: no log of its client: %v", name, err)
		}
		for _, f := range logs {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(b), "\nshim: ") {
				t.Errorf("%s: the driver failed:\n%s", name, b)
			}
		}
	}
}
