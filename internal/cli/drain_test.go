package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/app"
	"github.com/toolcrib/toolcrib/internal/cli"
	"github.com/toolcrib/toolcrib/internal/config"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// shop is a crib in this process with one server, s, and a place for commands.
type shop struct {
	t       *testing.T
	peer    *mcptest.HTTP
	environ []string
	dir     string
	app     *app.App
	stop    context.CancelFunc // tells it to stop
	ended   chan error
}

func openShop(t *testing.T) *shop {
	t.Helper()
	data, err := os.MkdirTemp("", "tc") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(data) })
	s := &shop{t: t, peer: mcptest.NewHTTP(t, mcptest.HTTPOptions{}), dir: t.TempDir(), ended: make(chan error, 1)}
	vars := map[string]string{"HOME": t.TempDir(), "PATH": os.Getenv("PATH"), "TOOLCRIB_WORKSPACE": s.dir, "TOOLCRIB_DATA": data, "TOOLCRIB_LISTEN": "127.0.0.1:0"}
	for name, value := range vars {
		s.environ = append(s.environ, name+"="+value)
	}
	s.write("mcp/s.md", fmt.Sprintf("---\nmcp:\n  transport: { http: %q }\n---\n", s.peer.URL))
	s.app, err = app.New(app.Options{
		Load:    config.Options{LookupEnv: func(k string) (string, bool) { v, ok := vars[k]; return v, ok }},
		Version: "test", Environ: s.environ,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() { s.ended <- s.app.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		s.app.Hurry()
		<-s.ended
	})
	return s
}

func (s *shop) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// run runs a command.
func (s *shop) run(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = cli.Main(args, strings.NewReader(""), &out, &err, s.environ)
	return code, out.String(), err.String()
}

// hold calls the tool slow by a command, which ends when release is there, and
// returns when the server has the call.
func (s *shop) hold(release string) (ended <-chan string) {
	s.t.Helper()
	before := s.peer.Executions("slow")
	done := make(chan string, 1)
	go func() {
		code, out, err := s.run("call", "mcp.s.slow", `{"release":`+string(wire.Quote(release))+`}`)
		done <- fmt.Sprintf("exit %d: %s%s", code, out, err)
	}()
	mcptest.Eventually(s.t, "the call is open", func() bool { return s.peer.Executions("slow") > before })
	return done
}

// While the crib waits for what is open, commands say that it is stopping; none
// of them hangs, or has a crib of its own.
func TestCommandsWhileTheCribStops(t *testing.T) {
	s := openShop(t)
	release := filepath.Join(t.TempDir(), "release")
	held := s.hold(release)
	s.stop()
	mcptest.Eventually(t, "the crib is stopping", func() bool {
		resp, err := http.Get("http://" + s.app.Addr() + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return err == nil && string(body) == app.StoppingBody
	})
	if code, out, err := s.run("status"); code != 0 || !strings.Contains(out, "\nstopping   ") {
		t.Errorf("status: exit %d: %s%s", code, out, err)
	}
	if code, out, err := s.run("status", "--json"); code != 0 || string(wire.Get([]byte(out), "draining")) != "true" {
		t.Errorf("status --json: exit %d: %s%s", code, out, err)
	}
	var commands sync.WaitGroup
	for _, args := range [][]string{{"call", "mcp.s.echo"}, {"tools"}, {"connect"}} {
		commands.Go(func() {
			began := time.Now()
			code, out, err := s.run(args...)
			if code != 3 || !strings.Contains(err, "is stopping") || time.Since(began) > 15*time.Second {
				t.Errorf("%s: exit %d after %s: %s%s", args[0], code, time.Since(began), out, err)
			}
		})
	}
	commands.Wait()
	if n := s.peer.Executions("echo"); n != 0 {
		t.Errorf("a call was executed %d times", n)
	}
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := <-held; got != "exit 0: released\n" {
		t.Errorf("the open call ended with %s", got)
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
	s.ended <- nil // for the end of the test
	if code, out, err := s.run("status"); code != 3 || !strings.Contains(err, "no crib is running") {
		t.Errorf("status behind the end: exit %d: %s%s", code, out, err)
	}
}

// A call that is in flight when its server is switched off ends at once, and
// says why.
func TestDisableCutsACall(t *testing.T) {
	for _, command := range []string{"disable", "remove"} {
		t.Run(command, func(t *testing.T) {
			s := openShop(t)
			held := s.hold("/nowhere")
			began := time.Now()
			if code, out, err := s.run(command, "s"); code != 0 || !strings.Contains(out, "the running crib has it") {
				t.Fatalf("exit %d: %s%s", code, out, err)
			}
			got := <-held
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it ended after %s", took)
			}
			if !strings.Contains(got, "server s was removed or switched off") || !strings.Contains(got, "not known whether") || strings.HasPrefix(got, "exit 0") {
				t.Errorf("it ended with %s", got)
			}
		})
	}
}

// A fault in toolcrib.yaml shuts nobody out of the crib that runs. What the
// fault means for a reload the crib says.
func TestFaultyFileAndARunningCrib(t *testing.T) {
	const fault = "toolcrib.yaml:1:9: error:"
	s := openShop(t)
	s.write("toolcrib.yaml", "listen: 0.0.0.0:80\n")
	for _, tc := range []struct {
		args        []string
		code        int
		out, stderr string
	}{
		{[]string{"status"}, 0, "What is configured now would be refused; what is shown is what was loaded before:\n  " + fault, ""},
		{[]string{"status", "--json"}, 0, `"on_disk_faults": [`, ""},
		{[]string{"reload"}, 2, "", "toolcrib: " + fault},
		{[]string{"disable", "s"}, 2, "", "the running crib does not take it: " + fault},
		{[]string{"status"}, 0, "The last reload was refused", ""},
		{[]string{"disable", "elsewhere"}, 2, "", fault},
		{[]string{"tools"}, 2, "", "toolcrib: " + fault}, // it may have to start one
		{[]string{"remove", "s"}, 2, "", "toolcrib: " + fault},
	} {
		code, out, stderr := s.run(tc.args...)
		if code != tc.code || !strings.Contains(out, tc.out) || !strings.Contains(stderr, tc.stderr) {
			t.Errorf("%v: exit %d, want %d with %q and %q:\n%s%s", tc.args, code, tc.code, tc.out, tc.stderr, out, stderr)
		}
	}
	// The page is changed as it was asked for; the next file without a fault
	// brings it.
	s.write("toolcrib.yaml", "")
	if code, out, stderr := s.run("reload"); code != 0 {
		t.Errorf("exit %d: %s%s", code, out, stderr)
	}
	if _, out, _ := s.run("status"); !strings.Contains(out, "s\tdisabled") || strings.Contains(out, "refused") {
		t.Errorf("status: %s", out)
	}
}

// Without a crib the fault comes first: with it, none would start.
func TestFaultyFileAndNoCrib(t *testing.T) {
	s := openShop(t)
	s.write("toolcrib.yaml", "listen: [\n")
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
	s.ended <- nil
	for _, command := range []string{"status", "reload"} {
		if code, out, err := s.run(command); code != 2 || !strings.Contains(err, "toolcrib: toolcrib.yaml:1") {
			t.Errorf("%s: exit %d: %s%s", command, code, out, err)
		}
	}
	if code, out, err := s.run("disable", "s"); code != 0 || !strings.Contains(out, "Disabled s\n") || !strings.Contains(err, "Warning: toolcrib.yaml:1") {
		t.Errorf("disable: exit %d: %s%s", code, out, err)
	}
}
