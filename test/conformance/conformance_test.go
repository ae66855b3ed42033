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
type built struct{ crib, server, asker, client, shim string }

var build = sync.OnceValues(func() (b built, err error) {
	folder, err = os.MkdirTemp("", "toolcrib-conformance-")
	if err != nil {
		return b, err
	}
	for pkg, to := range map[string]*string{
		".":                        &b.crib,
		"./test/conformance/shim":  &b.shim,
		"./test/conformance/asker": &b.asker,
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
	for era, set := range eras {
		for name, program := range map[string]string{"": b.server, "-asker": b.asker} {
			write("mcp/stdio-"+era+name+".md", fmt.Sprintf(serverPage, fmt.Sprintf("{ command: %q }", program), era))
			address := freeAddress(t)
			start(t, program, "-http", address, fmt.Sprintf("-stateless=%v", set == modern))
			answers(t, "http://"+address)
			write("mcp/http-"+era+name+".md", fmt.Sprintf(serverPage, fmt.Sprintf("{ http: %q }", "http://"+address+"/"), era))
		}
	}
	address := freeAddress(t)
	start(t, b.crib, "serve", "--workspace", workspace, "--data", t.TempDir(), "--listen", address)
	answers(t, "http://"+address+"/readyz")
	for client, set := range eras {
		for server := range eras {
			for _, transport := range []string{"http", "stdio"} {
				t.Run(fmt.Sprintf("%s client, %s server over %s", client, server, transport), func(t *testing.T) {
					t.Parallel()
					url := "http://" + address + "/v1/mcp/" + transport + "-" + server
					found, out := serverChecks(t, "--url", url, "--requirements", set)
					sections := []string{"server"}
					if client != server {
						sections = append(sections, client+" client, "+server+" server")
						for _, name := range askedOtherwise[set] {
							again, _ := serverChecks(t, "--url", url+"-asker", "--scenario", name, "--spec-version", set)
							found[name] = again[name]
						}
					}
					score(t, found, required(t, "Server", set), expected(t, sections...))
					if t.Failed() {
						t.Log(out)
					}
				})
			}
		}
	}
}

var eras = map[string]string{"legacy": legacy, "modern": modern}

// askedOtherwise are the scenarios of a set in which the fixture of the SDK,
// before a server of the other era, asks nothing or only once: its tools ask by
// requests of their own, which it refuses on modern connections, and it answers
// one result that requires input on legacy ones. The asker does both.
var askedOtherwise = map[string][]string{
	legacy: {"tools-call-sampling", "tools-call-elicitation", "elicitation-sep1034-defaults", "elicitation-sep1330-enums"},
	modern: {"input-required-result-multi-round"},
}

// serverChecks runs the server suite.
func serverChecks(t *testing.T, args ...string) (found map[string][]check, out string) {
	t.Helper()
	results := t.TempDir()
	out = runSuite(t, append([]string{"server", "-o", results}, args...)...)
	found = make(map[string][]check)
	for name, list := range checks(t, results) {
		found[strings.TrimPrefix(name, "server-")] = list
	}
	return found, out
}

// TestClient runs the client suite with the crib in the client's place, before a
// driver of each era.
func TestClient(t *testing.T) {
	suite(t)
	b := programs(t)
	for server, set := range eras {
		for client := range eras {
			t.Run(fmt.Sprintf("%s driver, %s server", client, server), func(t *testing.T) {
				t.Parallel()
				command, sections := []string{b.shim, b.crib, b.client}, []string{"client"}
				if client != server {
					command = []string{b.shim, "-crossed", b.crib, b.client}
					sections = append(sections, client+" driver, "+server+" server")
				}
				results := t.TempDir()
				out := runSuite(t, "client", "--command", strings.Join(command, " "), "--requirements", set, "-o", results)
				scenarios := required(t, "Client", set)
				score(t, checks(t, results), scenarios, expected(t, sections...))
				droveToTheEnd(t, results, scenarios)
				if t.Failed() {
					t.Log(out)
				}
			})
		}
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
