//go:build unix

package app

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// hanging is a crib whose secrets are printed by a program. That of the server
// "hung", the first one by name, goes on for ever once it was used.
type hanging struct {
	*world
	t      *testing.T
	app    *App
	stop   func() error
	client *mcptest.Client
	peer   *mcptest.HTTP // of the server "quick"
}

func newHanging(t *testing.T, limit time.Duration) *hanging {
	h := &hanging{world: newWorld(t), t: t, peer: mcptest.NewHTTP(t, mcptest.HTTPOptions{})}
	h.renew = limit
	h.write("toolcrib.yaml", "secrets:\n  - { store: exec, command: [sh, print.sh] }\n")
	h.write("print.sh", "if [ $1 = HUNG_KEY ] && [ -e hang ]; then echo >asked; exec sleep 600; fi\ncat \"keys/$1\"\n")
	for name, p := range map[string]*mcptest.HTTP{"hung": mcptest.NewHTTP(t, mcptest.HTTPOptions{}), "quick": h.peer} {
		key := strings.ToUpper(name) + "_KEY"
		h.write("mcp/"+name+".md", fmt.Sprintf("---\nmcp:\n  transport: { http: %q }\n  headers: { X-Key: %s }\n  gate: { echo: allow }\n---\n", p.URL, key))
		h.write("keys/"+key, "key-one-of-"+name)
	}
	h.app, h.stop = h.start()
	h.client = h.world.client(h.app)
	for _, name := range []string{"hung", "quick"} {
		if r := h.client.Post(wire.Modern, "tools/call", `{"name":"`+name+`__echo","arguments":{}}`); r.RPCError().Code != 0 {
			t.Fatal(r)
		}
	}
	h.write("hang", "")
	h.write("keys/QUICK_KEY", "key-two-of-quick")
	return h
}

// reload starts one and returns when it waits for the secret that does not
// come.
func (h *hanging) reload() (done chan error) {
	h.t.Helper()
	done = make(chan error, 1)
	go func() { done <- h.app.Reload() }()
	mcptest.Eventually(h.t, "the hung secret is asked for", func() bool { return h.has("asked") })
	return done
}

// renewed waits until the quick server is called with its new secret.
func (h *hanging) renewed() {
	h.t.Helper()
	mcptest.Eventually(h.t, "the other server has its new secret", func() bool {
		r := h.client.Post(wire.Modern, "tools/call", `{"name":"quick__echo","arguments":{}}`)
		return r.Status == http.StatusOK && h.peer.Last("tools/call").Header.Get("X-Key") == "key-two-of-quick"
	})
}

func (h *hanging) wait(what string, done chan error) {
	h.t.Helper()
	select {
	case err := <-done:
		if err != nil {
			h.t.Errorf("%s: %v", what, err)
		}
	case <-time.After(mcptest.Patience):
		h.t.Fatalf("%s goes on", what)
	}
}

// Secrets that do not come keep neither another server from its own, nor the
// next reload, nor the crib from its end.
func TestHungSecretsHoldNobodyUp(t *testing.T) {
	h := newHanging(t, time.Hour)
	began := time.Now()
	first := h.reload()
	h.renewed()
	h.peerPage("more", "")
	second := h.reload()
	mcptest.Eventually(t, "a later reload counts", func() bool { return len(h.app.Status().Servers) == 3 })
	stopped := make(chan error, 1)
	go func() { stopped <- h.stop() }()
	h.wait("the first reload", first)
	h.wait("the second reload", second)
	h.wait("the end", stopped)
	if d := time.Since(began); d > 9*time.Second { // a lookup alone has ten
		t.Errorf("it ended by itself, after %v", d)
	}
	if err := h.app.Reload(); err == nil || h.app.Status().Refused != nil {
		t.Errorf("a reload behind the end: %v, %+v", err, h.app.Status().Refused)
	}
}

// All lookups have one time together, and what was asked for until its end
// counts.
func TestRenewalHasALimit(t *testing.T) {
	h := newHanging(t, 2*time.Second)
	began := time.Now()
	if _, err := Dial(h.data).Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(began); !h.has("asked") || d > 8*time.Second { // a lookup alone has ten
		t.Errorf("it took %v", d)
	}
	h.renewed()
}
