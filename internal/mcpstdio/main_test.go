package mcpstdio

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quickRetry is the pause before a stream is opened again, for tests.
const quickRetry = 5 * time.Millisecond

// harness is the client at the other end of the pipe.
type harness struct {
	t     *testing.T
	in    *io.PipeWriter
	lines chan string
	stop  context.CancelFunc
	ended chan error
	next  atomic.Int64
}

// connect runs a relay against url. change may set more options.
func connect(t *testing.T, url string, change ...func(*Options)) *harness {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	h := &harness{t: t, in: inW, lines: make(chan string, 1000), ended: make(chan error, 1)}
	o := Options{In: inR, Out: outW, URL: url, Retry: quickRetry}
	for _, f := range change {
		f(&o)
	}
	var ctx context.Context
	ctx, h.stop = context.WithCancel(t.Context())
	go func() {
		read := make(chan line)
		go readLines(outR, 64<<20, read, nil)
		for l := range read {
			h.lines <- string(l.text)
		}
		close(h.lines)
	}()
	go func() {
		h.ended <- Run(ctx, o)
		outW.Close()
		inR.Close()
	}()
	t.Cleanup(func() {
		h.stop()
		inW.Close()
		for range h.lines { //nolint:revive // until the end
		}
	})
	return h
}

func (h *harness) send(format string, args ...any) {
	h.t.Helper()
	if _, err := fmt.Fprintf(h.in, format+"\n", args...); err != nil {
		h.t.Fatal(err)
	}
}

// receive returns the next line that is written.
func (h *harness) receive() string {
	h.t.Helper()
	select {
	case l, ok := <-h.lines:
		if !ok {
			h.t.Fatal("the relay ended")
		}
		return l
	case <-time.After(mcptest.Patience):
		h.t.Fatal("no line came")
	}
	return ""
}

func (h *harness) expect(want string) {
	h.t.Helper()
	if got := h.receive(); got != want {
		h.t.Errorf("got  %s\nwant %s", got, want)
	}
}

// expectParts fails unless the next line has all parts.
func (h *harness) expectParts(parts ...string) string {
	h.t.Helper()
	got := h.receive()
	for _, p := range parts {
		if !strings.Contains(got, p) {
			h.t.Errorf("%s lacks %s", got, p)
		}
	}
	return got
}

// answers receives n lines and returns them by the id they have.
func (h *harness) answers(n int) map[string]string {
	h.t.Helper()
	out := make(map[string]string)
	for range n {
		l := h.receive()
		out[string(wire.Get([]byte(l), "id"))] = l
	}
	return out
}

// initialize opens a legacy conversation with the id "init".
func (h *harness) initialize(version string) {
	h.t.Helper()
	h.send(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":%q,"capabilities":{"elicitation":{},"roots":{}},"clientInfo":{"name":"t","version":"1"}}}`, version)
	h.expectParts(`"id":"init"`, `"protocolVersion":"`+version+`"`)
	h.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// call sends a tools/call with a raw id.
func (h *harness) call(era wire.Era, id, tool, arguments string) {
	h.t.Helper()
	meta := ""
	if era == wire.Modern {
		meta = "," + modernMeta
	}
	h.send(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s%s}}`, id, tool, arguments, meta)
}

// wait returns what Run returned.
func (h *harness) wait() error {
	h.t.Helper()
	select {
	case err := <-h.ended:
		return err
	case <-time.After(mcptest.Patience):
		h.t.Fatal("Run did not return")
	}
	return nil
}

// drained returns the lines that were not received, once Run has returned.
func (h *harness) drained() []string {
	h.t.Helper()
	var out []string
	for l := range h.lines {
		out = append(out, l)
	}
	return out
}

// eventually waits until done.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	deadline := time.After(mcptest.Patience)
	for !done() {
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}

// listenOn returns a listener at any free port.
func listenOn(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// serve serves handler at l until the test ends, or until the function that it
// returns is called.
func serve(t *testing.T, l net.Listener, handler http.Handler) (stop func()) {
	s := &http.Server{Handler: handler}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Serve(l) //nolint:errcheck // it says that it was closed
	}()
	stop = func() {
		s.Close()
		<-done
	}
	t.Cleanup(stop)
	return stop
}
