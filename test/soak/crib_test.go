package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/app"
	"github.com/toolcrib/toolcrib/internal/config"
	"github.com/toolcrib/toolcrib/internal/mcptest"
)

// figures are what a process holds.
type figures struct {
	Goroutines  int
	Descriptors int   // -1 where the system does not tell
	Heap        int64 // bytes after a collection
}

// runCrib is a crib as a process of its own, so that what it holds is its own.
// Each line of stdin is a question: measure, or stacks. It stops in order when
// stdin ends.
func runCrib(args []string) int {
	a, err := app.New(app.Options{
		Load:    config.Options{Workspace: args[0], Data: args[1], Listen: "127.0.0.1:0"},
		Log:     slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Version: "soak",
		Environ: os.Environ(),
		Drain:   10 * time.Second,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(a.Addr())
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			switch in.Text() {
			case "measure":
				line, _ := json.Marshal(measure()) // numbers always can be written
				fmt.Println(string(line))
			case "stacks":
				pprof.Lookup("goroutine").WriteTo(os.Stderr, 1) //nolint:errcheck // for a person to read
			}
		}
	}()
	if err := a.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func measure() figures {
	runtime.GC()
	runtime.GC() // the first one finds what the second one frees
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	f := figures{Goroutines: runtime.NumGoroutine(), Descriptors: -1, Heap: int64(mem.HeapAlloc)}
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		f.Descriptors = len(entries)
	}
	return f
}

// cribProcess is a running crib.
type cribProcess struct {
	t         testing.TB
	workspace string
	data      string
	address   string
	token     string
	log       string // the file of its log

	cmd *exec.Cmd
	in  io.WriteCloser
	mu  sync.Mutex // guards out: one question at a time
	out *bufio.Reader
}

// startCrib starts a crib with these pages, by server.
func startCrib(t testing.TB, pages map[string]string) *cribProcess {
	t.Helper()
	c := &cribProcess{t: t, workspace: t.TempDir(), data: filepath.Join(t.TempDir(), "data"), log: filepath.Join(t.TempDir(), "log")}
	if err := os.Mkdir(filepath.Join(c.workspace, "mcp"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, page := range pages {
		if err := os.WriteFile(c.page(name), []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.start()
	d, err := app.OpenData(c.data)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if c.token, err = d.LocalToken(); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *cribProcess) page(name string) string {
	return filepath.Join(c.workspace, "mcp", name+".md")
}

func (c *cribProcess) start() {
	c.t.Helper()
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	log, err := os.Create(c.log)
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	c.cmd = exec.Command(self, cribArg, c.workspace, c.data)
	c.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.t.TempDir(), "TMPDIR=" + c.t.TempDir()}
	c.cmd.Stderr = log
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		c.t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(c.stop)
	c.out = bufio.NewReader(out)
	line, err := c.out.ReadString('\n')
	if err != nil {
		c.t.Fatalf("the crib did not start: %s", c.logTail())
	}
	c.address = strings.TrimSpace(line)
}

// stop ends the crib as a signal would, and fails the test if that is not in
// order.
func (c *cribProcess) stop() {
	c.in.Close()
	kill := time.AfterFunc(slower(20*time.Second), func() { c.cmd.Process.Kill() }) //nolint:errcheck // Wait tells
	defer kill.Stop()
	if err := c.cmd.Wait(); err != nil {
		c.t.Errorf("the crib ended badly: %v; its log: %s", err, c.logTail())
	}
}

// measure asks the crib what it holds.
func (c *cribProcess) measure() figures {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var f figures
	if _, err := io.WriteString(c.in, "measure\n"); err != nil {
		c.t.Fatalf("measure: %v; its log: %s", err, c.logTail())
	}
	line, err := c.out.ReadString('\n')
	if err == nil {
		err = json.Unmarshal([]byte(line), &f)
	}
	if err != nil {
		c.t.Fatalf("measure: %v; its log: %s", err, c.logTail())
	}
	return f
}

// writeStacks puts what every goroutine does into the log.
func (c *cribProcess) writeStacks() {
	io.WriteString(c.in, "stacks\n") //nolint:errcheck // a crib that is gone has none
	c.measure()                      // answers come in order: the stacks are written
}

// logTail is the end of the log.
func (c *cribProcess) logTail() string {
	b, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	const kept = 16 << 10
	return string(b[max(0, len(b)-kept):])
}

// client is a client of one server's endpoint, "" for all of them.
func (c *cribProcess) client(t testing.TB, server string) *mcptest.Client {
	url := "http://" + c.address + "/v1/mcp"
	if server != "" {
		url += "/" + server
	}
	cl := mcptest.NewClient(t, url)
	cl.Header.Set("Authorization", "Bearer "+c.token)
	return cl
}
