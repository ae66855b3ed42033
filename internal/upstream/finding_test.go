package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// A secret that was rotated is used from the next call on.
func TestARotatedSecret(t *testing.T) {
	for _, era := range []wire.Era{wire.Modern, wire.Legacy} {
		t.Run(string(era), func(t *testing.T) {
			var held, good atomic.Value // the crib's and the server's
			held.Store("Bearer one")
			good.Store("Bearer one")
			peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
			peer.Script(func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				if r.Header.Get("Authorization") == good.Load() {
					return false
				}
				w.WriteHeader(http.StatusUnauthorized)
				return true
			})
			s := serverOf(t, Spec{URL: peer.URL, Connect: func(context.Context) (Credentials, error) {
				return Credentials{Header: http.Header{"Authorization": {held.Load().(string)}}}, nil
			}}, Options{})
			leg := mustLeg(t, s, Want{Era: era})
			if err := echo(t, leg); err != nil {
				t.Fatal(err)
			}
			good.Store("Bearer two")
			held.Store("Bearer two")
			if err := echo(t, mustLeg(t, s, Want{Era: era})); crib.CodeOf(err) != crib.Unauthorized {
				t.Fatalf("the old secret got %v", err)
			}
			if err := echo(t, mustLeg(t, s, Want{Era: era})); err != nil {
				t.Errorf("the new secret got %v", err)
			}
			if n := peer.Executions("echo"); n != 2 {
				t.Errorf("executed %d times", n)
			}
		})
	}
}

// A server that goes back to the legacy era at the same address is found out,
// however it refuses what it does not know any more.
func TestAServerThatIsRolledBack(t *testing.T) {
	refusals := map[string]func(w http.ResponseWriter, body []byte){
		"without an id": func(w http.ResponseWriter, _ []byte) {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}`)
		},
		"with an id of its own": func(w http.ResponseWriter, _ []byte) {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request: Missing session ID"}}`)
		},
		"in plain text": func(w http.ResponseWriter, _ []byte) {
			http.Error(w, "Bad Request: unsupported protocol version", http.StatusBadRequest)
		},
		"with the request's id": func(w http.ResponseWriter, body []byte) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"Bad Request: no valid session id"}}`, mcptest.RequestID(body))
		},
	}
	for name, refuse := range refusals {
		t.Run(name, func(t *testing.T) {
			peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
			s := serverOf(t, Spec{URL: peer.URL}, Options{})
			if leg := mustLeg(t, s, Want{Era: wire.Modern}); leg.Hello().Era != wire.Modern {
				t.Fatalf("got a leg of era %q", leg.Hello().Era)
			}
			peer.Script(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
				if r.Header.Get(wire.HeaderMethod) == "" {
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				refuse(w, body)
				return true
			})
			for range 3 { // what the first of them get is refused honestly
				leg := mustLeg(t, s, Want{Era: wire.Modern})
				if leg.Hello().Era == wire.Legacy {
					if err := echo(t, leg); err != nil {
						t.Error(err)
					}
					return
				}
				reply, err := leg.Do(patiently(t), toolCall(leg, "echo", `{}`), Nobody{})
				if err == nil && !reply.Message.Error.OK() {
					t.Fatalf("got %s", reply.Message.Body)
				}
			}
			t.Error("the crib goes on as before")
		})
	}
}

// A server whose session is lost and that gives no new one ends the leg, for
// all that wait for it.
func TestALostSessionThatIsNotRenewed(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	s := serverOf(t, Spec{URL: peer.URL, Era: wire.Legacy}, Options{})
	leg := mustLeg(t, s, Want{Era: wire.Legacy})
	peer.Script(func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
		http.Error(w, "no such thing", http.StatusNotFound)
		return true
	})
	var calling sync.WaitGroup
	for range 8 {
		calling.Go(func() {
			_, err := leg.Do(patiently(t), toolCall(leg, "echo", `{}`), Nobody{})
			if code := crib.CodeOf(err); err == nil || code == crib.Cancelled || code == crib.Internal {
				t.Errorf("got %v", err)
			}
		})
	}
	calling.Wait()
	<-leg.Done()
	s.Close()
	if n := peer.Executions("echo"); n != 0 {
		t.Errorf("executed %d times", n)
	}
}

// A lost session is renewed once for all that wait, and nothing is executed
// twice.
func TestALostSessionIsRenewedOnce(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	s := serverOf(t, Spec{URL: peer.URL, Era: wire.Legacy}, Options{})
	leg := mustLeg(t, s, Want{Era: wire.Legacy})
	peer.Forget()
	const callers = 8
	var calling sync.WaitGroup
	for range callers {
		calling.Go(func() {
			if err := echo(t, leg); err != nil {
				t.Error(err)
			}
		})
	}
	calling.Wait()
	if peer.Sessions() != 2 || peer.Executions("echo") != callers {
		t.Errorf("%d sessions, executed %d times", peer.Sessions(), peer.Executions("echo"))
	}
	if now := mustLeg(t, s, Want{Era: wire.Legacy}); now != leg {
		t.Error("the leg was replaced")
	}
}

// A process that takes any other first message as fatal is started once more.
func TestAnExitDuringTheProbe(t *testing.T) {
	tests := []struct {
		era    wire.Era
		starts int
	}{{"", 2}, {wire.Legacy, 1}}
	for _, tt := range tests {
		s, starts := stdioServer(t, Spec{Era: tt.era}, Options{}, "-era", "legacy", "-exit-unless-initialize")
		leg := mustLeg(t, s, Want{Era: wire.Modern})
		if leg.Hello().Era != wire.Legacy || starts() != tt.starts {
			t.Errorf("era %q: got a leg of era %q after %d starts", tt.era, leg.Hello().Era, starts())
		}
		if err := echo(t, leg); err != nil {
			t.Error(err)
		}
		if again := mustLeg(t, s, Want{Era: wire.Modern}); again != leg {
			t.Error("the respawn counts as a crash")
		}
	}
}

// A process that ends where its era was given is not started again, and its
// last words are shown.
func TestLastWordsAreShown(t *testing.T) {
	s, starts := stdioServer(t, Spec{Era: wire.Modern}, Options{}, "-exit-unless-initialize")
	const words = "expected initialize, got server/discover"
	_, err := s.Leg(patiently(t), Want{Era: wire.Modern})
	if crib.CodeOf(err) != crib.Unavailable || !strings.Contains(fmt.Sprint(err), words) {
		t.Errorf("got %v", err)
	}
	if n := starts(); n != 1 {
		t.Errorf("started %d times", n)
	}
	if st := s.State(); st.Phase != Failed || st.Legs != 0 || !strings.Contains(st.Error, words) {
		t.Errorf("got %+v", st)
	}
}

// Every kind of server is found out, also where what was remembered of it is
// not true any more.
func TestErasAreFoundOut(t *testing.T) {
	servers := map[string]struct {
		remembered []wire.Era
		peer       string
		asked, got wire.Era
	}{
		"modern, unknown":                     {nil, mcptest.EraModern, wire.Legacy, wire.Modern},
		"legacy, unknown":                     {nil, mcptest.EraLegacy, wire.Modern, wire.Legacy},
		"modern, remembered":                  {[]wire.Era{wire.Modern}, mcptest.EraModern, wire.Modern, wire.Modern},
		"legacy, remembered":                  {[]wire.Era{wire.Legacy}, mcptest.EraLegacy, wire.Modern, wire.Legacy},
		"modern, remembered as legacy":        {[]wire.Era{wire.Legacy}, mcptest.EraModern, wire.Modern, wire.Modern},
		"legacy, remembered as modern":        {[]wire.Era{wire.Modern}, mcptest.EraLegacy, wire.Legacy, wire.Legacy},
		"modern, remembered as both":          {[]wire.Era{wire.Legacy, wire.Modern}, mcptest.EraModern, wire.Legacy, wire.Modern},
		"legacy, remembered as both":          {[]wire.Era{wire.Legacy, wire.Modern}, mcptest.EraLegacy, wire.Modern, wire.Legacy},
		"first come, remembered as the other": {[]wire.Era{wire.Legacy}, mcptest.EraFirst, wire.Legacy, wire.Legacy},
	}
	for name, tt := range servers {
		for _, kind := range []string{"process", "address"} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				spec := Spec{Eras: slices.Clone(tt.remembered)}
				var s *Server
				if kind == "process" {
					s, _ = stdioServer(t, spec, Options{}, "-era", tt.peer)
				} else {
					spec.URL = mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: tt.peer}}).URL
					s = serverOf(t, spec, Options{})
				}
				leg := mustLeg(t, s, Want{Era: tt.asked})
				if got := leg.Hello().Era; got != tt.got {
					t.Fatalf("got a leg of era %q, want %q", got, tt.got)
				}
				if err := echo(t, leg); err != nil {
					t.Error(err)
				}
				if got := s.EraFor(tt.asked); got != tt.got {
					t.Errorf("%q is kept", got)
				}
			})
		}
	}
}

// A page that names an era is believed: nothing else is tried.
func TestAnEraThatWasGiven(t *testing.T) {
	for era, peerEra := range map[wire.Era]string{wire.Modern: mcptest.EraLegacy, wire.Legacy: mcptest.EraModern} {
		peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: peerEra}})
		s := serverOf(t, Spec{URL: peer.URL, Era: era}, Options{})
		if _, err := s.Leg(patiently(t), Want{Era: era}); crib.CodeOf(err) != crib.Unavailable {
			t.Errorf("%s: got %v", era, err)
		}
		if n := len(peer.Seen()); n != 1 {
			t.Errorf("%s: %d requests went out", era, n)
		}
	}
}

// What is slow to answer discover gets initialize behind it, and the first
// valid answer wins.
func TestASilentProbe(t *testing.T) {
	s, starts := stdioServer(t, Spec{}, Options{ProbeTimeout: 50 * time.Millisecond}, "-era", "legacy", "-silent-discover")
	leg := mustLeg(t, s, Want{Era: wire.Modern})
	if leg.Hello().Era != wire.Legacy || starts() != 1 {
		t.Errorf("got a leg of era %q after %d starts", leg.Hello().Era, starts())
	}
}
