// Package peers holds the tests that meet real programs: MCP servers, clients
// and harnesses from npm, and the system's own network namespaces. They use
// the crib as a person does, by its commands. `make peers` installs what they
// need; without it they say SKIP and why, and with CI=true a skip is a failure.
package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const patience = 60 * time.Second // for one command of a real program

// missing skips a test, or fails it where everything must be installed.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing, and CI=true: run make peers", what)
	}
	t.Skipf("SKIP: %s is missing; make peers installs it", what)
}

// root is the folder of the project.
func root(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// need finds an installed peer.
func need(t *testing.T, path ...string) string {
	t.Helper()
	full := filepath.Join(append([]string{root(t), ".peers", "node_modules"}, path...)...)
	if _, err := os.Stat(full); err != nil {
		missing(t, filepath.Join(path...))
	}
	node(t)
	return full
}

func node(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("node")
	if err != nil {
		missing(t, "node")
	}
	return path
}

var built string // the folder of the program, once it was built

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "toolcrib-peers-")
	if err != nil {
		return "", err
	}
	built = dir
	bin := filepath.Join(dir, "toolcrib")
	cmd := exec.Command("go", "build", "-o", bin, ".")
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %v\n%s", err, out)
	}
	return bin, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// person is somebody with a home folder and the crib's command.
type person struct {
	t    *testing.T
	bin  string
	home string
	env  []string
}

func newPerson(t *testing.T) *person {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	return &person{t: t, bin: bin, home: home, env: []string{
		"HOME=" + home, "PATH=" + filepath.Dir(node(t)) + ":/usr/local/bin:/usr/bin:/bin",
		"TMPDIR=" + t.TempDir(), "XDG_CONFIG_HOME=" + filepath.Join(home, ".config"), "XDG_STATE_HOME=" + filepath.Join(home, ".local", "state"),
		"TOOLCRIB_LISTEN=" + freeAddress(t), "NO_COLOR=1",
	}}
}

func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// run runs a command in the person's world and returns what it printed.
func (p *person) run(name string, args ...string) (string, error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = p.env, p.home, 5*time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// crib runs a command of the crib that must succeed.
func (p *person) crib(args ...string) string {
	p.t.Helper()
	out, err := p.run(p.bin, args...)
	if err != nil {
		p.t.Fatalf("toolcrib %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// status is the part of `toolcrib status --json` that tests look at.
type status struct {
	Address string
	Servers []struct {
		Name, State, Error string
		Known              bool
		Tools              []struct{ Name, Public string }
	}
}

// serve starts the crib and waits until it is ready. It ends with the test.
func (p *person) serve() {
	p.t.Helper()
	cmd := exec.Command(p.bin, "serve")
	cmd.Env, cmd.Dir = p.env, p.home
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	p.t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt) //nolint:errcheck // it may have ended
		select {
		case <-ended:
		case <-time.After(patience):
			cmd.Process.Kill() //nolint:errcheck // likewise
			p.t.Error("the crib did not stop")
		}
		if p.t.Failed() {
			p.t.Logf("toolcrib serve:\n%s", out.String())
		}
	})
	p.until("the crib is ready", func() bool {
		_, err := p.run(p.bin, "status", "--json")
		return err == nil
	})
}

func (p *person) status() status {
	p.t.Helper()
	var s status
	if err := json.Unmarshal([]byte(p.crib("status", "--json")), &s); err != nil {
		p.t.Fatal(err)
	}
	return s
}

// until polls for something that takes its time.
func (p *person) until(what string, ok func() bool) {
	p.t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			p.t.Fatalf("%s: not within %s", what, patience)
		}
		<-tick.C
	}
}

// token is the text of the token for this person's own use.
func (p *person) token() string {
	p.t.Helper()
	var found string
	err := filepath.WalkDir(filepath.Join(p.home, ".local", "state", "toolcrib"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if text := strings.TrimSpace(string(b)); err == nil && strings.HasPrefix(text, "tcb_") {
			found = text
		}
		return nil
	})
	if err != nil || found == "" {
		p.t.Fatalf("no token for local use: %v", err)
	}
	return found
}

func wantAll(t *testing.T, out string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(out, part) {
			t.Errorf("%q is missing in:\n%s", part, out)
		}
	}
}
