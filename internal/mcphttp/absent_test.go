package mcphttp_test

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

const (
	absentBudget = 100 * time.Millisecond // of the crib in these tests
	absentLimit  = 3 * absentBudget       // for a list, on a machine that does nothing else
	absentSlack  = 700 * time.Millisecond // more, on one that does
	maxNotices   = 12                     // for the lists of two servers
)

// silence accepts connections and says nothing, until the test ends.
func silence(t *testing.T) (url string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return "http://" + l.Addr().String() + "/mcp" // the backlog accepts
}

// Servers that are not there cost a list a moment and their own tools, and
// what is shown says which are missing. As they come up clients are told, once
// for each.
func TestAbsentServers(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	var locked atomic.Bool
	locked.Store(true)
	guarded := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	guarded.Script(func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
		if locked.Load() {
			w.WriteHeader(http.StatusUnauthorized)
		}
		return locked.Load()
	})
	gate := filepath.Join(t.TempDir(), "gate")
	late := []string{"/bin/sh", "-c", `while ! [ -e "$0" ]; do sleep 0.05; done; exec "$@"`, gate}
	c := newCrib(t, cribOptions{budget: absentBudget, firstWait: mcptest.Patience, upstream: upstream.Options{ProbeTimeout: mcptest.Patience}},
		httpServer("healthy", peer.URL), httpServer("guarded", guarded.URL), httpServer("silent", silence(t)),
		stdioServer("crashed", []string{"/bin/sh", "-c", "echo no config >&2; exit 7"}),
		stdioServer("starting", append(late, mcptest.Peer()...)))
	clients := map[wire.Era]*mcptest.Client{wire.Legacy: c.client(wire.Legacy, ""), wire.Modern: c.client(wire.Modern, "")}
	missing := func(era wire.Era) string {
		t.Helper()
		began := time.Now()
		r := clients[era].Post(era, "tools/list", "{}")
		if took := time.Since(began); took > absentLimit+absentSlack {
			t.Errorf("%s: the list took %s", era, took)
		}
		if !strings.Contains(r.Result(), `"name":"healthy__echo"`) {
			t.Errorf("%s: the tools of the healthy server are missing: %s", era, r)
		}
		return string(wire.GetPath([]byte(r.Result()), "_meta", wire.MetaUnavailable))
	}
	for _, era := range bothEras {
		for range 3 {
			if got := missing(era); got != `["crashed","guarded","silent","starting"]` {
				t.Errorf("%s: missing are %s", era, got)
			}
		}
	}
	for name, want := range map[string][]upstream.Phase{
		"healthy": {upstream.Ready}, "guarded": {upstream.Failed}, "silent": {upstream.Starting},
		"crashed": {upstream.Failed, upstream.Starting}, "starting": {upstream.Starting},
	} {
		srv, err := c.cat.Server(name)
		if err != nil {
			t.Fatal(err)
		}
		if st := srv.Up().State(); !slices.Contains(want, st.Phase) || st.Phase == upstream.Failed && st.Error == "" {
			t.Errorf("%s is shown as %s (%q), want %s", name, st.Phase, st.Error, want)
		}
	}

	standing := clients[wire.Legacy].Get()
	defer standing.Close()
	listening := clients[wire.Modern].Open(wire.Modern, "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)
	defer listening.Close()
	listening.Next() // the acknowledgement
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	toldOfReturn(t, standing, clients[wire.Legacy], wire.Legacy, "starting__echo")
	toldOfReturn(t, listening, clients[wire.Modern], wire.Modern, "starting__echo")

	// Who only listens is told that a server is back: nobody asks meanwhile.
	locked.Store(false)
	toldOfReturn(t, standing, clients[wire.Legacy], wire.Legacy, "guarded__echo")
	toldOfReturn(t, listening, clients[wire.Modern], wire.Modern, "guarded__echo")
	for _, s := range []*mcptest.Stream{standing, listening} {
		for range maxNotices { // of the other lists, and one that came while a client asked
			if s.Quiet(absentBudget) {
				break
			}
		}
	}
	for range 5 { // asking changes nothing, so nobody is told
		for _, era := range bothEras {
			missing(era)
		}
	}
	if !standing.Quiet(absentBudget) || !listening.Quiet(absentBudget) {
		t.Error("clients are told of a change again and again")
	}
}

// toldOfReturn is toldUntil for a server that comes up in both eras, one
// after the other, and behind what is still to be told of others.
func toldOfReturn(t *testing.T, s *mcptest.Stream, cl *mcptest.Client, era wire.Era, tool string) {
	t.Helper()
	for range maxNotices {
		if e := s.Next(); method(e.Data) != "notifications/tools/list_changed" {
			continue
		}
		if r := cl.Post(era, "tools/list", "{}"); strings.Contains(r.Result(), `"name":"`+tool+`"`) {
			return
		}
	}
	t.Errorf("the %s client was told in vain", era)
}
