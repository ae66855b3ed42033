package mcphttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// A call goes on for as long as its server shows life, many times longer than
// it may be silent, and the client hears that on its stream; one whose server
// says nothing ends at the limit.
func TestTimeoutsAreIdle(t *testing.T) {
	const idle = 400 * time.Millisecond
	for _, era := range []string{mcptest.EraModern, mcptest.EraLegacy} {
		for name, life := range map[string]string{"comments": ": still here\n\n", "progress": "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":ID,\"progress\":1}}\n\n"} {
			t.Run(era+" "+name, func(t *testing.T) {
				p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: era}})
				answerCalls(p, func(w http.ResponseWriter, r *http.Request, id string) {
					w.Header().Set("Content-Type", "text/event-stream")
					rc := http.NewResponseController(w)
					beat := time.NewTicker(idle / 8)
					defer beat.Stop()
					for range 40 { // five times as long as it may be silent
						select {
						case <-beat.C:
						case <-r.Context().Done():
							return
						}
						fmt.Fprint(w, strings.ReplaceAll(life, "ID", id))
						rc.Flush() //nolint:errcheck // the crib sees what is missing
					}
					fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"resultType\":\"complete\",\"content\":[{\"type\":\"text\",\"text\":\"at last\"}]}}\n\n", id)
				})
				def := httpServer("s", p.URL)
				timeout(idle)(&def)
				c := newCrib(t, cribOptions{keepAlive: 50 * time.Millisecond}, def)
				for _, client := range []wire.Era{wire.Modern, wire.Legacy} {
					r := call(c.client(client, "s"), client, "echo", "{}")
					if r.Text() != "at last" {
						t.Errorf("%s client: %s", client, r)
					}
					if h := r.Header; !strings.HasPrefix(h.Get("Content-Type"), "text/event-stream") || h.Get("X-Accel-Buffering") != "no" {
						t.Errorf("%s client: the quiet call is no stream: %v", client, h)
					}
				}
			})
		}
		t.Run(era+" silence", func(t *testing.T) {
			p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: era}})
			answerCalls(p, func(w http.ResponseWriter, r *http.Request, _ string) {
				w.Header().Set("Content-Type", "text/event-stream")
				http.NewResponseController(w).Flush() //nolint:errcheck // the crib sees what is missing
				<-r.Context().Done()
			})
			def := httpServer("s", p.URL)
			timeout(idle)(&def)
			c := newCrib(t, cribOptions{}, def)
			r := call(c.client(wire.Modern, "s"), wire.Modern, "echo", "{}")
			if codeOf(r) != crib.Timeout || !strings.Contains(r.Text(), notKnown) {
				t.Errorf("answered with %s", r)
			}
		})
	}
}

// A server that refuses the crib's credential is a tool's error that names the
// server; the client's own login is never in doubt, and nothing of the refusal
// is passed on. A refusal of GET or DELETE alone costs no call.
func TestARefusedCredentialIsTheServersTrouble(t *testing.T) {
	for _, era := range []string{mcptest.EraModern, mcptest.EraLegacy} {
		for _, verb := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			for _, status := range []int{401, 403} {
				p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: era}})
				var on atomic.Bool
				p.Script(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
					if method, _ := wire.GetText(body, "method"); r.Method != verb || verb == http.MethodPost && (method != "tools/call" || !on.Load()) {
						return false
					}
					w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="http://169.254.169.254/", error="insufficient_scope"`)
					w.Header().Set("Set-Cookie", "a=b")
					w.WriteHeader(status)
					return true
				})
				c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
				for _, client := range []wire.Era{wire.Modern, wire.Legacy} {
					cl := c.client(client, "s")
					on.Store(false)
					works(t, cl, client, "echo")
					on.Store(true)
					r := call(cl, client, "echo", "{}")
					switch {
					case r.Status != http.StatusOK || r.Header.Get("WWW-Authenticate") != "" || r.Header.Get("Set-Cookie") != "":
						t.Errorf("%s %s %d: HTTP %d %v", era, verb, status, r.Status, r.Header)
					case verb == http.MethodPost && (codeOf(r) != crib.Unauthorized || !strings.Contains(r.Text(), "server s refuses the credential")):
						t.Errorf("%s %s %d: %s", era, verb, status, r)
					case verb != http.MethodPost && r.RPCError().Code != 0:
						t.Errorf("%s %s %d: %s", era, verb, status, r)
					}
					if leaked := p.Last("tools/call").Header.Get("Authorization"); leaked != "" {
						t.Errorf("the client's token went to the server: %s", leaked)
					}
				}
			}
		}
	}
}

// What a server names is never fetched: redirects, icons, schemas, metadata.
func TestNothingIsFetchedThatAServerNames(t *testing.T) {
	var hits atomic.Int64
	canary := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer canary.Close()
	p := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	p.SetTools(fmt.Sprintf(`[{"name":"echo","icons":[{"src":"%s/icon"}],"inputSchema":{"$schema":"%s/schema","type":"object","properties":{"a":{"$ref":"%s/ref"}}}}]`, canary.URL, canary.URL, canary.URL))
	c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
	works(t, c.client(wire.Modern, "s"), wire.Modern, "echo")
	for _, status := range []int{301, 302, 303, 307, 308, 401} {
		for _, verb := range []string{http.MethodPost, http.MethodGet} {
			q := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
			q.Script(func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				if r.Method != verb {
					return false
				}
				w.Header().Set("Location", canary.URL+"/elsewhere")
				w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+canary.URL+`/metadata"`)
				w.WriteHeader(status)
				return true
			})
			c := newCrib(t, cribOptions{}, httpServer("s", q.URL))
			call(c.client(wire.Modern, "s"), wire.Modern, "echo", "{}")
		}
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("%d requests went where a server pointed", n)
	}
}

// Sessions that nobody ends go by themselves, and what belongs to them with
// them: the next clients find what the first ones found.
func TestSessionsThatNobodyEnds(t *testing.T) {
	def, starts := peerServer(t, "-era", "legacy")
	def.Dialogue.Share = "session"
	c := newCrib(t, cribOptions{idle: 300 * time.Millisecond}, def)
	for range 5 {
		works(t, c.client(wire.Legacy, def.Name), wire.Legacy, "echo")
	}
	if n := starts(); n < 5 {
		t.Errorf("%d processes for 5 sessions", n)
	}
	mcptest.Eventually(t, "the sessions have ended", func() bool { return c.gw.Sessions() == 0 })
	mcptest.Eventually(t, "their processes have ended", func() bool { return serverState(t, c, def.Name).Legs <= 1 })
}
