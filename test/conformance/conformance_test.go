// Package conformance runs the protocol's conformance suite over the crib: as
// a server, between the suite's client and a fixture server, and as a client,
// between a fixture client and the suite's servers. Client, crib and server
// speak one era in each run. `make peers` installs the suite; without it the
// tests say SKIP and why, and with CI=true a skip is a failure.
//
//	go test ./test/conformance -v              # prints what passed
//	go test ./test/conformance -run Server     # one half of it
package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The requirement sets, each for one era.
const (
	legacy = "2025-11-25"
	modern = "2026-07-28"
)

const patience = 3 * time.Minute // for one run of the suite

// excused names the scored scenarios that may fail, with the reason. It is
// empty, and is meant to stay so.
var excused = map[string]string{}

// later are the scenarios of what the crib does not do yet: signing in.
func later(scenario string) bool { return strings.HasPrefix(scenario, "auth/") }

func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing, and CI=true: run make peers", what)
	}
	t.Skipf("SKIP: %s is missing; make peers installs it", what)
}

// suite returns the command that runs the suite.
func suite(t *testing.T) []string {
	t.Helper()
	bin, err := filepath.Abs("../../.peers/conformance/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	cmd := []string{filepath.Join(bin, "node", "bin", "node"), filepath.Join(bin, "@modelcontextprotocol", "conformance", "dist", "index.js")}
	for _, f := range cmd {
		if _, err := os.Stat(f); err != nil {
			missing(t, f)
		}
	}
	return cmd
}

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

// runSuite runs the suite and returns what it printed.
func runSuite(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := suite(t)
	c := exec.CommandContext(ctx, cmd[0], slices.Concat(cmd[1:], args)...)
	c.Dir = t.TempDir() // it leaves results where it runs
	out, err := c.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("the suite did not run: %v\n%s", err, out)
	}
	return string(out)
}

// required lists the scenarios that a requirement set scores for a side, Server
// or Client.
func required(t *testing.T, side, set string) []string {
	t.Helper()
	var names []string
	heading := ""
	for line := range strings.Lines(runSuite(t, "list", "--requirements", set)) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "- ")
		if !ok {
			if strings.TrimSpace(line) != "" {
				heading = line
			}
			continue
		}
		if strings.HasPrefix(heading, side+" scenarios") {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		t.Fatal("the suite lists no scenario")
	}
	return names
}

var (
	result    = regexp.MustCompile(`(?m)^[✓✗] (\S+): (\d+) passed, (\d+) failed`)
	notScored = regexp.MustCompile(`(?m)^  [✓✗] (\S+) \(`)
)

// score holds a run against what is required: each scenario that is scored ran,
// and none failed.
func score(t *testing.T, out string, scenarios []string) {
	t.Helper()
	unscored := map[string]bool{}
	for _, m := range notScored.FindAllStringSubmatch(out, -1) {
		unscored[m[1]] = true
	}
	ran, checks := map[string]bool{}, 0
	for _, m := range result.FindAllStringSubmatch(out, -1) {
		name, passed, failed := m[1], m[2], m[3]
		ran[name] = true
		if unscored[name] || later(name) {
			continue
		}
		var n int
		fmt.Sscan(passed, &n) //nolint:errcheck // it is a number
		checks += n
		reason, known := excused[name]
		switch {
		case failed != "0" && !known:
			t.Errorf("%s: %s checks failed", name, failed)
		case failed != "0":
			t.Logf("%s: excused: %s", name, reason)
		case known:
			t.Errorf("%s passes; take it out of excused", name)
		}
	}
	count := 0
	for _, name := range scenarios {
		if later(name) || unscored[name] {
			continue
		}
		count++
		if !ran[name] {
			t.Errorf("%s did not run", name)
		}
	}
	t.Logf("%d scenarios scored, %d checks passed", count, checks)
	if t.Failed() {
		t.Log(out)
	}
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
	c := exec.Command(name, args...)
	c.Stdout, c.Stderr = &log, &log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Signal(os.Interrupt) //nolint:errcheck // it may have ended
		c.Wait()                       //nolint:errcheck // its log says why
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
%s---
`

// TestServer runs the server suite through the crib, in each era, before a
// server that speaks HTTP and before one that speaks stdio.
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
	cells := []struct{ name, set string }{{"http-legacy", legacy}, {"http-modern", modern}, {"stdio-legacy", legacy}, {"stdio-modern", modern}}
	for _, c := range cells {
		if strings.HasPrefix(c.name, "stdio") {
			write("mcp/"+c.name+".md", fmt.Sprintf(serverPage, fmt.Sprintf("{ command: %q }", b.server), "  era: "+strings.TrimPrefix(c.name, "stdio-")+"\n"))
			continue
		}
		address := freeAddress(t)
		start(t, b.server, "-http", address, fmt.Sprintf("-stateless=%v", c.set == modern))
		answers(t, "http://"+address)
		write("mcp/"+c.name+".md", fmt.Sprintf(serverPage, fmt.Sprintf("{ http: %q }", "http://"+address+"/"), ""))
	}
	address := freeAddress(t)
	start(t, b.crib, "serve", "--workspace", workspace, "--data", t.TempDir(), "--listen", address)
	answers(t, "http://"+address+"/readyz")
	for _, c := range cells {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out := runSuite(t, "server", "--url", "http://"+address+"/v1/mcp/"+c.name, "--requirements", c.set)
			score(t, out, required(t, "Server", c.set))
		})
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
			score(t, out, required(t, "Client", set))
			if t.Failed() {
				explain(t, results)
			}
		})
	}
}

// explain prints the checks that failed, of scenarios that must not.
func explain(t *testing.T, results string) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(results, "*", "checks.json"))
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var checks []struct{ ID, Status, ErrorMessage string }
		if err := json.Unmarshal(b, &checks); err != nil {
			t.Errorf("%s: %v", f, err)
		}
		for _, c := range checks {
			if c.Status == "FAILURE" {
				t.Logf("%s: %s: %s", filepath.Base(filepath.Dir(f)), c.ID, c.ErrorMessage)
			}
		}
	}
}
