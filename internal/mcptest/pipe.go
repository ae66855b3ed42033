package mcptest

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// Patience is how long the clients of this package wait for something that
// must come.
const Patience = 20 * time.Second

// Pipe is a raw stdio client: it starts a command and exchanges lines with it,
// byte for byte.
type Pipe struct {
	t     testing.TB
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string
	ended chan struct{}

	mu     sync.Mutex // guards stderr
	stderr bytes.Buffer
}

// StartPipe starts the command with the environment of the test. It is killed
// when the test ends.
func StartPipe(t testing.TB, argv ...string) *Pipe {
	t.Helper()
	p := &Pipe{t: t, cmd: exec.Command(argv[0], argv[1:]...), lines: make(chan string, 1000), ended: make(chan struct{})}
	p.cmd.Env = os.Environ()
	p.cmd.Stderr = writerFunc(p.noteStderr)
	p.cmd.WaitDelay = time.Second // a grandchild may keep the pipes
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout = w
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	var reader sync.WaitGroup
	reader.Go(func() { p.read(stdout) })
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // ExitCode tells
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // an error means that it has ended
		<-p.ended
		stdout.Close()
		reader.Wait()
	})
	return p
}

type writerFunc func(b []byte)

func (f writerFunc) Write(b []byte) (int, error) {
	f(b)
	return len(b), nil
}

func (p *Pipe) noteStderr(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stderr.Write(b)
}

func (p *Pipe) read(stdout io.Reader) {
	defer close(p.lines)
	r := bufio.NewReader(stdout)
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			p.lines <- line
		}
		if err != nil {
			return
		}
	}
}

// Send writes the line and a line feed.
func (p *Pipe) Send(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.stdin, line+"\n"); err != nil {
		p.t.Fatalf("send %s: %v", line, err)
	}
}

// Next returns the next line with its end, exactly as it came. It fails the
// test if none comes.
func (p *Pipe) Next() string {
	p.t.Helper()
	select {
	case line, ok := <-p.lines:
		if !ok {
			p.t.Fatalf("the process ended its output; stderr: %s", p.Stderr())
		}
		return line
	case <-time.After(Patience):
		p.t.Fatalf("no line came; stderr: %s", p.Stderr())
	}
	return ""
}

// Quiet reports whether no line came for the time given.
func (p *Pipe) Quiet(d time.Duration) bool {
	select {
	case line, ok := <-p.lines:
		if ok {
			p.t.Logf("unexpected line: %s", line)
		}
		return !ok
	case <-time.After(d):
		return true
	}
}

// CloseInput ends the input of the process.
func (p *Pipe) CloseInput() { p.stdin.Close() }

// Pid is the process id.
func (p *Pipe) Pid() int { return p.cmd.Process.Pid }

// ExitCode waits for the end of the process: its exit code, or -1 if a signal
// ended it.
func (p *Pipe) ExitCode() int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(Patience):
		p.t.Fatal("the process did not end")
		return 0
	}
}

// Stderr returns what came on stderr so far.
func (p *Pipe) Stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}
