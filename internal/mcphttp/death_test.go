package mcphttp_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// prompt is how long news of a dead server may take, with room for a machine
// that is busy. The limits that it would otherwise take are a minute and more.
const prompt = 5 * time.Second

// A server that ends right after its start is told of as soon as it has ended,
// with how it ended and what it said last, without secrets; others work on.
func TestExitRightAfterStart(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no sh")
	}
	const canary = "cnry-0123456789abcdef"
	redact := func(s string) string { return strings.ReplaceAll(s, canary, "[redacted]") }
	for name, script := range map[string]string{
		"at once":               `echo "bad key ` + canary + `" >&2; exit 7`,
		"after the first words": `read -r line; echo "bad key ` + canary + `" >&2; exit 7`,
		"with a process behind": `sleep 600 & echo "bad key ` + canary + `" >&2; exit 7`,
	} {
		t.Run(name, func(t *testing.T) {
			good, _ := peerServer(t)
			c := newCrib(t, cribOptions{upstream: upstream.Options{Redact: redact}}, stdioServer("bad", []string{"sh", "-c", script}), good)
			cl := c.client(wire.Modern, "")
			works(t, cl, wire.Modern, "s__echo")
			began := time.Now()
			r := call(cl, wire.Modern, "bad__echo", "{}")
			if took := time.Since(began); took > prompt {
				t.Errorf("it took %v", took)
			}
			text := r.String()
			if codeOf(r) != crib.Unavailable || !strings.Contains(text, "exit code 7") || !strings.Contains(text, "bad key [redacted]") || strings.Contains(text, canary) {
				t.Errorf("got %s", text)
			}
			works(t, cl, wire.Modern, "s__echo")
		})
	}
}

// A client that leaves while its answer is on the way harms nobody, neither
// the server nor those who share it.
func TestClientThatLeavesAsItsAnswerComes(t *testing.T) {
	const leaves = 20
	for _, era := range bothEras {
		t.Run(string(era), func(t *testing.T) {
			def, starts := peerServer(t, "-era", string(era))
			c := newCrib(t, cribOptions{}, def)
			stays := c.client(era, "s")
			works(t, stays, era, "echo")
			var gone sync.WaitGroup
			for i := range leaves {
				release := filepath.Join(t.TempDir(), "release")
				left := c.client(era, "s").Open(era, "tools/call",
					`{"name":"slow","arguments":{"release":`+string(wire.Quote(release))+`,"ticks":1},"_meta":{"progressToken":1}}`)
				left.Next() // the server works on it
				gone.Go(func() {
					if err := os.WriteFile(release, nil, 0o600); err != nil {
						t.Error(err)
					}
				})
				if i%2 == 0 {
					gone.Wait() // the answer is made now, and not only soon
				}
				left.Close()
			}
			gone.Wait()
			works(t, stays, era, "echo")
			if starts() != 1 {
				t.Errorf("%d starts", starts())
			}
			srv, err := c.cat.Server("s")
			if err != nil {
				t.Fatal(err)
			}
			mcptest.Eventually(t, "the end of what they asked for", func() bool { return srv.Up().State().Open == 0 })
		})
	}
}

// A server that writes more to stderr than a pipe holds, without a line end, at
// its start, before its answer to the probe and before each other one, is not
// held up by it.
func TestStderrFloodHoldsUpNoAnswer(t *testing.T) {
	for _, era := range bothEras {
		t.Run(string(era), func(t *testing.T) {
			def, starts := peerServer(t, "-era", string(era), "-stderr", "262144")
			c := newCrib(t, cribOptions{}, def)
			cl := c.client(era, "s")
			began := time.Now()
			for range 3 {
				works(t, cl, era, "echo")
			}
			if took := time.Since(began); took > 2*prompt {
				t.Errorf("it took %v", took)
			}
			if starts() != 1 {
				t.Errorf("%d starts", starts())
			}
		})
	}
}
