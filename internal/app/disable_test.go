package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// A server that is switched off, or whose page is gone, has its calls cut at
// once: the model reads that nobody knows what became of them.
func TestSwitchingOffCutsCalls(t *testing.T) {
	http := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	for _, kind := range []string{"stdio", "http"} {
		for _, era := range []wire.Era{wire.Modern, wire.Legacy} {
			for _, off := range []string{"  enabled: false\n", ""} {
				t.Run(fmt.Sprintf("%s %s %q", kind, era, off), func(t *testing.T) {
					w := newWorld(t)
					ledger := filepath.Join(t.TempDir(), "ledger")
					before := http.Executions("slow")
					page := func(more string) {
						if kind == "stdio" {
							w.peerPage("s", more, "-ledger", ledger)
							return
						}
						w.write("mcp/s.md", fmt.Sprintf("---\nmcp:\n  transport: { http: %q }\n%s---\n", http.URL, more))
					}
					page("")
					w.peerPage("other", "")
					a, stop := w.start()
					defer stop()
					cl := w.client(a)
					if era == wire.Legacy {
						cl.Initialize("")
					}
					call := func(tool, arguments string) *mcptest.Reply {
						return cl.Post(era, "tools/call", `{"name":"`+tool+`","arguments":`+arguments+`}`)
					}
					if r := call("s__echo", "{}"); r.RPCError().Code != 0 {
						t.Fatal(r)
					}
					done := make(chan *mcptest.Reply, 1)
					go func() { done <- call("s__slow", `{"release":"/nowhere"}`) }()
					mcptest.Eventually(t, "the call is there", func() bool {
						b, _ := os.ReadFile(ledger)
						return http.Executions("slow") > before || strings.Contains(string(b), "slow")
					})
					if off == "" {
						w.remove("mcp/s.md")
					} else {
						page(off)
					}
					began := time.Now()
					if err := a.Reload(); err != nil {
						t.Fatal(err)
					}
					r := <-done
					if took := time.Since(began); took > 5*time.Second { // a second, and what others take of the machine
						t.Errorf("it was cut after %s", took)
					}
					if text := r.Text(); !strings.Contains(r.Result(), `"isError":true`) || !strings.Contains(text, "server s was removed or switched off") || !strings.Contains(text, "not known whether") {
						t.Errorf("it was answered with %s", r)
					}
					if r := call("other__echo", "{}"); r.RPCError().Code != 0 {
						t.Errorf("another server: %s", r)
					}
					if r := call("s__echo", "{}"); r.RPCError().Code != wire.CodeInvalidParams {
						t.Errorf("its tool behind that: %s", r)
					}
				})
			}
		}
	}
}
