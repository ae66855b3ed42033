package app

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Calls go on while a configuration is exchanged for another a hundred times,
// with broken files in between: what neither of the two allows is never
// allowed, and a server whose page says the same keeps its process.
func TestReloadUnderLoad(t *testing.T) {
	w := newWorld(t)
	// Neither configuration allows log: the one does not offer it but has no
	// gate, the other offers it behind a gate.
	pages := []string{
		"  tools: [ '!log' ]\n  gate: { echo: allow, fail: deny }\n",
		"  gate: { echo: deny, fail: allow, log: deny }\n",
	}
	w.peerPage("changing", pages[0])
	w.peerPage("steady", "  gate: { echo: allow }\n")
	a, stop := w.start()
	defer stop()
	clients := make([]*mcptest.Client, 8)
	for i := range clients {
		clients[i] = w.client(a)
	}
	tool := func(cl *mcptest.Client, name string) *mcptest.Reply {
		return cl.Post(wire.Modern, "tools/call", `{"name":"`+name+`","arguments":{}}`)
	}
	if r := tool(clients[0], "steady__echo"); r.Text() == "" {
		t.Fatal(r)
	}
	pid := pidOf(t, a, "steady")

	var over atomic.Bool
	var calls, allowed, refused atomic.Int64
	var hammering sync.WaitGroup
	for _, cl := range clients {
		hammering.Go(func() {
			for !over.Load() {
				for _, name := range []string{"changing__echo", "changing__log", "changing__fail", "steady__echo"} {
					r := tool(cl, name)
					calls.Add(1)
					done := r.RPCError().Code == 0
					switch {
					case done:
						allowed.Add(1)
					case strings.HasPrefix(r.RPCError().Message, "Unknown tool"):
						refused.Add(1)
					default:
						t.Errorf("%s: %s", name, r)
					}
					if name == "changing__log" && done || name == "steady__echo" && !done {
						t.Errorf("%s: %s", name, r)
					}
				}
			}
		})
	}
	file := filepath.Join(w.workspace, "mcp", "changing.md")
	for i := range 100 {
		switch i % 5 {
		case 1: // half written
			whole, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			w.write("mcp/changing.md", string(whole[:len(whole)*(i%4)/4]))
			if err := a.Reload(); crib.CodeOf(err) != crib.Invalid || !strings.Contains(err.Error(), "mcp/changing.md:") {
				t.Fatalf("a page that was cut off at %d: %v", len(whole)*(i%4)/4, err)
			}
			if a.Status().Refused == nil {
				t.Error("nobody is told that the reload was refused")
			}
			w.write("mcp/changing.md", string(whole))
		case 2: // what editors leave beside a page
			w.write("mcp/.changing.md.swp", "b0VIM")
			w.write("mcp/changing.md~", "---\nmcp: [\n")
			w.write("mcp/#changing.md#", "half")
		case 3:
			w.write("toolcrib.yaml", "runtime: [\n")
			if err := a.Reload(); crib.CodeOf(err) != crib.Invalid || !strings.Contains(err.Error(), "toolcrib.yaml:") {
				t.Fatalf("a broken toolcrib.yaml: %v", err)
			}
			if err := os.Remove(filepath.Join(w.workspace, "toolcrib.yaml")); err != nil {
				t.Fatal(err)
			}
		case 4: // a folder that is exchanged by its link
			target := filepath.Join(t.TempDir(), "mcp")
			if err := os.CopyFS(target, os.DirFS(filepath.Join(w.workspace, "mcp"))); err != nil {
				t.Fatal(err)
			}
			link := filepath.Join(w.workspace, "next")
			if err := os.Symlink(target, link); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(filepath.Join(w.workspace, "mcp")); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(link, filepath.Join(w.workspace, "mcp")); err != nil {
				t.Fatal(err)
			}
		}
		w.peerPage("changing", pages[i%2])
		if err := a.Reload(); err != nil {
			t.Fatal(err)
		}
		if a.Status().Refused != nil {
			t.Error("a reload that was taken is shown as refused")
		}
	}
	over.Store(true)
	hammering.Wait()
	if allowed.Load() == 0 || refused.Load() == 0 {
		t.Errorf("of %d calls %d were allowed and %d refused", calls.Load(), allowed.Load(), refused.Load())
	}
	if now := pidOf(t, a, "steady"); now != pid {
		t.Errorf("the server that did not change is another process: %d, %d before", now, pid)
	}
	t.Logf("%d calls, %d allowed", calls.Load(), allowed.Load())
}

func pidOf(t *testing.T, a *App, server string) int {
	t.Helper()
	for _, s := range a.Status().Servers {
		if s.Name == server {
			return s.PID
		}
	}
	t.Fatalf("there is no server %s", server)
	return 0
}

// A secret that was changed is used by new connections, and the server that
// uses it gets one; others keep theirs.
func TestReloadTakesUpSecrets(t *testing.T) {
	w := newWorld(t)
	var keys sync.Map // by the server's name: the last key that came
	for _, name := range []string{"first", "second"} {
		p := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
		keys.Store(name, p)
		w.write("mcp/"+name+".md", fmt.Sprintf("---\nmcp:\n  transport: { http: %q }\n  headers: { X-Key: %s_KEY }\n  gate: { echo: allow }\n---\n", p.URL, strings.ToUpper(name)))
		w.write("secrets/"+strings.ToUpper(name)+"_KEY", "key-one-of-"+name)
	}
	a, stop := w.start()
	defer stop()
	cl := w.client(a)
	sent := func(name string) (key string, hellos int) {
		t.Helper()
		r := cl.Post(wire.Modern, "tools/call", `{"name":"`+name+`__echo","arguments":{}}`)
		if r.RPCError().Code != 0 {
			t.Fatal(r)
		}
		p, _ := keys.Load(name)
		peer := p.(*mcptest.HTTP)
		return peer.Last("tools/call").Header.Get("X-Key"), peer.Requests("server/discover")
	}
	for _, name := range []string{"first", "second"} {
		if key, _ := sent(name); key != "key-one-of-"+name {
			t.Fatalf("%s was called with %q", name, key)
		}
	}
	w.write("secrets/FIRST_KEY", "key-two-of-first")
	if err := a.Reload(); err != nil {
		t.Fatal(err)
	}
	if key, n := sent("first"); key != "key-two-of-first" || n != 2 {
		t.Errorf("the changed secret: called with %q over connection %d", key, n)
	}
	if key, n := sent("second"); key != "key-one-of-second" || n != 1 {
		t.Errorf("the other one: called with %q over connection %d", key, n)
	}
	if err := os.Remove(filepath.Join(w.workspace, "secrets", "SECOND_KEY")); err != nil {
		t.Fatal(err)
	}
	if err := a.Reload(); err != nil {
		t.Fatal(err)
	}
	if key, n := sent("second"); key != "key-one-of-second" || n != 1 {
		t.Errorf("a secret that is gone: called with %q over connection %d", key, n)
	}
}

// A secret that was missing, or refused by its server, is used as soon as it was
// mended and the crib told so: no attempt with it has failed.
func TestReloadTakesUpMendedSecrets(t *testing.T) {
	for name, before := range map[string]string{"missing": "", "refused": "wrong"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
			p.Script(func(rw http.ResponseWriter, r *http.Request, _ []byte) bool {
				if r.Header.Get("X-Key") == "right" {
					return false
				}
				rw.WriteHeader(http.StatusUnauthorized)
				return true
			})
			w.write("mcp/s.md", fmt.Sprintf("---\nmcp:\n  transport: { http: %q }\n  headers: { X-Key: S_KEY }\n  gate: { echo: allow }\n---\n", p.URL))
			w.write("secrets/S_KEY", before)
			a, stop := w.start()
			defer stop()
			cl := w.client(a)
			call := func() *mcptest.Reply {
				return cl.Post(wire.Modern, "tools/call", `{"name":"s__echo","arguments":{}}`)
			}
			for range 3 { // the next attempt waits for longer each time
				if r := call(); p.Executions("echo") != 0 {
					t.Fatalf("without its secret: %s", r)
				}
			}
			w.write("secrets/S_KEY", "right")
			if err := a.Reload(); err != nil {
				t.Fatal(err)
			}
			if r := call(); p.Executions("echo") != 1 {
				t.Errorf("with its secret: %s", r)
			}
		})
	}
}

func (w *world) remove(name string) {
	w.t.Helper()
	if err := os.Remove(filepath.Join(w.workspace, name)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) has(name string) bool {
	_, err := os.Stat(filepath.Join(w.workspace, name))
	return err == nil
}
