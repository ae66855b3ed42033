//go:build linux

package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// buildProgram builds the program: what is shown here is shown of what people
// run.
func buildProgram(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "toolcrib")
	if out, err := exec.Command("go", "build", "-o", path, "github.com/toolcrib/toolcrib").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// served is a crib in a process of its own, with a server whose processes are
// known by a variable in their environment.
type served struct {
	*world
	program string
	id      string // what the processes of its server carry
	cmd     *exec.Cmd
	log     syncBuffer
}

type syncBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// newServed writes the page of a server that a shell starts by script, in which
// "$@" is a peer that ignores TERM and the end of its input.
func newServed(t *testing.T, program, script string) *served {
	t.Helper()
	s := &served{world: newWorld(t), program: program, id: "ORPHAN_TEST=" + strconv.Itoa(os.Getpid()) + "-" + filepath.Base(t.TempDir()) + "-" + t.Name()}
	name, value, _ := strings.Cut(s.id, "=")
	argv := append([]string{"-c", script, "sh"}, mcptest.Peer("-ignore-term", "-ignore-eof")...)
	s.write("mcp/s.md", fmt.Sprintf("---\nmcp:\n  transport: { command: sh, args: %s }\n  env: { %s: { value: %q } }\n---\n",
		quoted(argv), name, value))
	t.Cleanup(func() {
		for _, pid := range s.processes() {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		os.RemoveAll(s.data)
	})
	return s
}

func quoted(args []string) string {
	var list []string
	for _, a := range args {
		list = append(list, string(wire.Quote(a)))
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// command is the program with the folders of s and its environment.
func (s *served) command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.program, append(args, "--workspace", s.workspace, "--data", s.data, "--listen", "127.0.0.1:0")...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for name, value := range s.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

// serve starts the crib, and waits until it is ready.
func (s *served) serve(flags ...string) {
	s.t.Helper()
	s.cmd = s.command(append([]string{"serve"}, flags...)...)
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	crib := s.cmd
	s.t.Cleanup(func() {
		if crib.ProcessState == nil { // the test failed before it ended it
			crib.Process.Kill()
			crib.Wait()
		}
	})
	mcptest.Eventually(s.t, "a crib that is ready", func() bool {
		running, ok, err := FindRunning(s.data)
		return err == nil && ok && running.PID == crib.Process.Pid && running.Address != ""
	})
}

func (s *served) dial() *mcptest.Client {
	s.t.Helper()
	running, _, err := FindRunning(s.data)
	if err != nil {
		s.t.Fatal(err)
	}
	d, err := OpenData(s.data)
	if err != nil {
		s.t.Fatal(err)
	}
	defer d.Close()
	token, err := d.LocalToken()
	if err != nil {
		s.t.Fatal(err)
	}
	c := mcptest.NewClient(s.t, "http://"+running.Address+"/v1/mcp")
	c.Header.Set("Authorization", "Bearer "+token)
	return c
}

// use calls the server, so that its processes run.
func (s *served) use() *mcptest.Client {
	s.t.Helper()
	c := s.dial()
	if r := c.Post(wire.Modern, "tools/call", `{"name":"s__echo","arguments":{"a":1}}`); r.Text() != `{"a":1}` {
		s.t.Fatalf("got %s; the crib says: %s", r, s.log.String())
	}
	if len(s.processes()) == 0 {
		s.t.Fatal("the server has no process: the test shows nothing")
	}
	return c
}

// processes are those that carry the id and have not ended.
func (s *served) processes() []int {
	s.t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		s.t.Fatal(err)
	}
	var found []int
	for _, dir := range all {
		env, err := os.ReadFile(dir + "/environ")
		if err != nil || !bytes.Contains(env, []byte(s.id+"\x00")) {
			continue // another user's, or gone
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			s.t.Fatal(err)
		}
		found = append(found, pid)
	}
	return found
}

func (s *served) allGone(when string) {
	s.t.Helper()
	mcptest.Eventually(s.t, "the end of every process "+when, func() bool { return len(s.processes()) == 0 })
}

func (s *served) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// tidy checks that the crib left the data folder as one that ended in order.
func (s *served) tidy() {
	s.t.Helper()
	for _, name := range []string{socketName, "serving.json"} {
		if _, err := os.Lstat(filepath.Join(s.data, name)); !errors.Is(err, fs.ErrNotExist) {
			s.t.Errorf("%s is left: %v", name, err)
		}
	}
	left, err := os.ReadDir(filepath.Join(s.data, childrenFolder))
	if err != nil || len(left) != 0 {
		s.t.Errorf("registered children: %v %v", left, err)
	}
}

// Between the crib and the server stands a launcher, as with npx and uv, and
// the server ignores everything but SIGKILL.
var launchers = map[string]string{
	"in the group":      `exec 3<&0; "$@" <&3 & wait`,
	"out of the group":  `exec 3<&0; setsid "$@" <&3 & wait`,
	"launcher has left": `exec 3<&0; { setsid sleep 600 <&- >&- 2>&- & }; exec "$@" <&3`,
}

func TestNothingOfAServerOutlivesTheCrib(t *testing.T) {
	program := buildProgram(t)
	for name, script := range launchers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServed(t, program, script)

			s.serve()
			s.use()
			s.signal(syscall.SIGKILL)
			s.cmd.Wait() //nolint:errcheck // it was killed
			if len(s.processes()) == 0 {
				t.Error("nothing was left behind: the test shows nothing")
			}
			s.serve()
			if left := s.processes(); len(left) != 0 {
				t.Errorf("a crib that is ready left %v of the one before", left)
			}
			mcptest.Eventually(t, "the log to tell", func() bool { // it may come behind what it tells of
				return strings.Contains(s.log.String(), "ended what a crib that was killed left running")
			})

			s.use()
			s.signal(syscall.SIGTERM)
			if err := s.cmd.Wait(); err != nil {
				t.Errorf("stopped: %v\n%s", err, s.log.String())
			}
			if left := s.processes(); len(left) != 0 {
				t.Errorf("a crib that stopped left %v", left)
			}
			s.tidy()
		})
	}
}

func TestNothingIsLeftOfAServerThatDoesNotStart(t *testing.T) {
	s := newServed(t, buildProgram(t), `sleep 600 & setsid sleep 600 & echo no such thing >&2; exit 3`)
	s.serve()
	_, err := Dial(s.data).Connect(context.Background(), "s")
	if crib.CodeOf(err) != crib.Unavailable || !strings.Contains(err.Error(), "exit code 3") || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("connect: %v", err)
	}
	s.allGone("of a start that failed")
	s.signal(syscall.SIGTERM)
	if err := s.cmd.Wait(); err != nil {
		t.Error(err)
	}
	s.tidy()
}

// A second signal waits for no request and for no child, and still leaves
// nothing behind.
func TestSecondSignalHurriesAndTidiesUp(t *testing.T) {
	program := buildProgram(t)
	for name, script := range launchers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServed(t, program, script)
			s.serve()
			c := s.use()
			open := c.Open(wire.Modern, "tools/call", `{"name":"s__slow","arguments":{"release":"/never/there","ticks":1},"_meta":{"progressToken":1}}`)
			defer open.Close()
			open.Next() // it has reached the server
			s.signal(syscall.SIGTERM)
			mcptest.Eventually(t, "the first signal is heard", func() bool {
				st, err := Dial(s.data).Status(t.Context())
				return err == nil && st.Draining
			})
			began := time.Now()
			s.signal(syscall.SIGINT)
			if err := s.cmd.Wait(); err != nil {
				t.Errorf("ended: %v\n%s", err, s.log.String())
			}
			if took := time.Since(began); took > Drain/2 {
				t.Errorf("it took %v", took)
			}
			if left := s.processes(); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
			s.tidy()
		})
	}
}
