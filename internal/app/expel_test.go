package app

import (
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Who had a token that was revoked, or replaced, loses its streams and sessions
// with the next reload; nobody else does.
func TestARevokedTokenEndsItsStreams(t *testing.T) {
	w := newWorld(t)
	w.peerPage("fake", "  share: session\n  may: [elicitation]\n  gate: { '*': allow }\n", "-era", "legacy")
	a, stop := w.start()
	defer stop()
	d, err := OpenData(w.data)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	type listener struct {
		name             string
		client           *mcptest.Client
		standing, listen *mcptest.Stream
	}
	var all []listener
	for _, name := range []string{"revoked", "replaced", "kept"} {
		token, err := d.CreateToken(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Reload(); err != nil {
			t.Fatal(err)
		}
		cl := mcptest.NewClient(t, "http://"+a.Addr()+"/v1/mcp")
		cl.Header.Set("Authorization", "Bearer "+token)
		cl.Initialize("")
		l := listener{name, cl, cl.Get(), cl.OpenID(wire.Modern, `"l"`, "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)}
		t.Cleanup(l.standing.Close)
		t.Cleanup(l.listen.Close)
		l.listen.Next()
		if r := cl.Post(wire.Modern, "tools/call", `{"name":"fake__elicit","arguments":{}}`); !strings.Contains(r.Result(), "input_required") {
			t.Fatalf("%s: %v", name, r)
		}
		all = append(all, l)
	}
	if err := d.RevokeToken("revoked"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.CreateToken("replaced"); err != nil {
		t.Fatal(err)
	}
	if err := a.Reload(); err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		if l.name == "kept" {
			if r := l.client.Post(wire.Legacy, "ping", ""); r.Result() != "{}" {
				t.Errorf("%s: %v", l.name, r)
			}
			continue
		}
		for more := true; more; {
			_, more = l.standing.Any()
		}
		last := ""
		for e, more := l.listen.Any(); more; e, more = l.listen.Any() {
			last = e.Data
		}
		if !strings.Contains(last, `"resultType":"complete"`) {
			t.Errorf("%s: its subscription ended with %q", l.name, last)
		}
		if r := l.client.Post(wire.Modern, "tools/list", ""); r.Status != 401 {
			t.Errorf("%s: %v", l.name, r)
		}
	}
	srv, err := a.cat.Server("fake")
	if err != nil {
		t.Fatal(err)
	}
	// Of the three, and of the crib that found out what the server speaks: who is
	// kept has a connection for its session and one for its other requests.
	mcptest.Eventually(t, "the connections of the others to end", func() bool { return srv.Up().State().Legs <= 3 })
}
