package mcphttp_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// toolsBySession makes a legacy peer list one tool, named by the session that
// asks.
func toolsBySession(peer *mcptest.HTTP) {
	peer.Script(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if method(string(body)) != "tools/list" {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"of-%s","inputSchema":{"type":"object"}}]}}`,
			mcptest.RequestID(body), strings.ToLower(r.Header.Get(wire.HeaderSession)))
		return true
	})
}

func namesOf(r *mcptest.Reply) string {
	list := wire.Get([]byte(r.Result()), "tools")
	var names []string
	for _, at := range wire.Elements(list) {
		name, _ := wire.GetText(at.In(list), "name")
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// What a server lists to one principal is shown to no other, whoever asks first
// and from wherever; a session sees its own.
func TestListsAreTheirOwners(t *testing.T) {
	for _, share := range []servers.Share{servers.SharePrincipal, servers.ShareSession} {
		for _, era := range []wire.Era{wire.Modern, wire.Legacy} {
			for _, endpoint := range []string{"", "fake"} {
				t.Run(fmt.Sprintf("%s clients of %q, share: %s", era, endpoint, share), func(t *testing.T) {
					peer := legacyPeer(t)
					toolsBySession(peer)
					c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL, shared(share, may(everything)...)))
					lists := make(map[string]string) // tool → who saw it
					for _, who := range []string{"first", "second", "third"} {
						cl := c.dialAs(c.newToken(who), endpoint)
						if era == wire.Legacy {
							c.opened(cl)
						}
						for range 2 { // asked for, and from the cache
							names := namesOf(cl.Post(era, "tools/list", `{}`))
							if by, seen := lists[names]; names == "" || seen && by != who {
								t.Errorf("%s got %q, as did %q", who, names, by)
							}
							lists[names] = who
						}
					}
				})
			}
		}
	}
}

// A new session of a principal need not wait for its own connection: it sees
// what the principal's last one did, and no one else's.
func TestANewSessionSeesTheLastList(t *testing.T) {
	peer := legacyPeer(t)
	toolsBySession(peer)
	c := newCrib(t, cribOptions{budget: time.Millisecond}, httpServer("fake", peer.URL, shared(servers.ShareSession, may(everything)...)))
	before := namesOf(c.enter("").Post(wire.Legacy, "tools/list", `{}`))
	release := make(chan struct{})
	peer.Script(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
		if method(string(body)) == "initialize" {
			<-release
		}
		return false
	})
	defer close(release)
	if got := namesOf(c.enter("").Post(wire.Legacy, "tools/list", `{}`)); got != before || got == "" {
		t.Errorf("a second session sees %q, the first saw %q", got, before)
	}
}

// share: project starts a command in the folder that its client works in: one
// for each folder of each principal, and none for a client that names none.
func TestProjectsHaveProcesses(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	c := newCrib(t, cribOptions{}, stdioServer("fake", mcptest.Peer("-era", "legacy"), shared(servers.ShareProject, may(everything)...)))
	second := c.newToken("second")
	pids := make(map[string]string) // pid → whose
	for _, endpoint := range []string{"", "fake"} {
		tool := "env"
		if endpoint == "" {
			tool = "fake__env"
		}
		for _, era := range []wire.Era{wire.Modern, wire.Legacy} {
			for _, token := range []string{c.token, second} {
				for _, dir := range []string{a, b} {
					cl := c.dialAs(token, endpoint)
					cl.Header.Set(wire.HeaderRoot, wire.FolderURI(dir))
					if era == wire.Legacy {
						c.opened(cl)
					}
					r := cl.Post(era, "tools/call", callOf(tool, "{}"))
					where, _ := wire.GetText([]byte(structured(r.Message())), "dir")
					if real, _ := filepath.EvalSymlinks(dir); where != real {
						t.Fatalf("%s client of %q in %s: it runs in %q: %v", era, endpoint, dir, where, r)
					}
					pid, whose := string(wire.Get([]byte(structured(r.Message())), "pid")), token+dir
					if old, known := pids[pid]; known && old != whose {
						t.Errorf("one process serves two")
					}
					pids[pid] = whose
				}
			}
		}
	}
	if len(pids) != 4 {
		t.Errorf("%d processes for two principals in two folders", len(pids))
	}
	r := c.dial("fake").Post(wire.Modern, "tools/call", callOf("env", "{}"))
	if !strings.Contains(r.Message(), "toolcrib connect") || structured(r.Message()) != "" {
		t.Errorf("a client that names no folder got %v", r)
	}
}

// A legacy client that declares roots is asked for them once, before the first
// request that needs them, and again when they change.
func TestProjectByRoots(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	c := newCrib(t, cribOptions{}, stdioServer("fake", mcptest.Peer("-era", "legacy"), shared(servers.ShareProject, may(everything)...)))
	for _, endpoint := range []string{"", "fake"} {
		t.Run(fmt.Sprintf("%q", endpoint), func(t *testing.T) {
			tool := "env"
			if endpoint == "" {
				tool = "fake__env"
			}
			cl := c.enter(endpoint)
			for i, dir := range []string{a, "", b} {
				var answer string
				if dir == "" {
					answer = cl.Post(wire.Legacy, "tools/call", callOf(tool, "{}")).Message() // it is known
					dir = a
				} else {
					if i > 0 {
						cl.Raw(http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, "Content-Type: application/json", "Mcp-Session-Id: "+cl.Session)
					}
					s := cl.Open(wire.Legacy, "tools/call", callOf(tool, "{}"))
					q := nextQuestion(s)
					if q.method != "roots/list" {
						t.Fatalf("it is asked %+v", q)
					}
					cl.Respond(q.id, `{"roots":[{"uri":"https://example.test/"},{"uri":"`+wire.FolderURI(dir)+`"}]}`)
					answer = lastOf(t, s)
				}
				where, _ := wire.GetText([]byte(structured(answer)), "dir")
				if real, _ := filepath.EvalSymlinks(dir); where != real {
					t.Errorf("in %s: it runs in %q: %s", dir, where, answer)
				}
			}
		})
	}
}
