package upstream

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// never is a time that no test lives to see.
const never = time.Hour

// patiently limits what a test waits for.
func patiently(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), mcptest.Patience)
	t.Cleanup(cancel)
	return ctx
}

// serverOf makes a Server that is closed with the test.
func serverOf(t *testing.T, spec Spec, opts Options) *Server {
	t.Helper()
	if spec.Name == "" {
		spec.Name = "s"
	}
	if spec.Connect == nil {
		spec.Connect = noSecrets
	}
	if opts.StopGrace == 0 {
		opts.StopGrace = 100 * time.Millisecond
	}
	if opts.Environ == nil {
		opts.Environ = os.Environ()
	}
	s := New(spec, opts)
	t.Cleanup(s.Close)
	return s
}

// stdioServer is a Server of a stdio peer, and a function that counts its
// starts.
func stdioServer(t *testing.T, spec Spec, opts Options, flags ...string) (*Server, func() int) {
	t.Helper()
	starts := filepath.Join(t.TempDir(), "starts")
	spec.Command = mcptest.Peer(append(flags, "-starts", starts)...)
	return serverOf(t, spec, opts), func() int {
		b, err := os.ReadFile(starts)
		if err != nil {
			return 0
		}
		return bytes.Count(b, []byte("\n"))
	}
}

// mustLeg gets a leg or fails the test.
func mustLeg(t *testing.T, s *Server, want Want) Leg {
	t.Helper()
	leg, err := s.Leg(patiently(t), want)
	if err != nil {
		t.Fatal(err)
	}
	return leg
}

// toolCall is a tools/call, which must not be sent twice.
func toolCall(leg Leg, tool, arguments string) *Outgoing {
	out := NewRequest(leg, "1", "tools/call", `"name":"`+tool+`","arguments":`+arguments)
	out.Read, out.Owner = false, true
	return out
}

// echo makes one call over the leg and returns its error.
func echo(t *testing.T, leg Leg) error {
	t.Helper()
	reply, err := leg.Do(patiently(t), toolCall(leg, "echo", `{"n":1}`), Nobody{})
	if err == nil && reply.Message.Error.OK() {
		t.Fatalf("the call was answered with %s", reply.Message.Body)
	}
	return err
}

func TestOneLegForWhoSharesIt(t *testing.T) {
	tests := map[string]func(t *testing.T) *Server{
		"a process": func(t *testing.T) *Server {
			s, _ := stdioServer(t, Spec{}, Options{})
			return s
		},
		"an address": func(t *testing.T) *Server {
			return serverOf(t, Spec{URL: mcptest.NewHTTP(t, mcptest.HTTPOptions{}).URL}, Options{})
		},
	}
	for name, start := range tests {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			shares := []Share{{}, {Owner: "a"}, {Owner: "b"}}
			const callers = 4
			legs := make([]Leg, len(shares)*callers)
			var asking sync.WaitGroup
			for i := range legs {
				asking.Go(func() {
					leg, err := s.Leg(t.Context(), Want{Era: wire.Modern, Share: shares[i%len(shares)]})
					if err != nil {
						t.Error(err)
						return
					}
					legs[i] = leg
				})
			}
			asking.Wait()
			for i, leg := range legs {
				for j, other := range legs {
					if (leg == other) != (i%len(shares) == j%len(shares)) {
						t.Fatalf("callers %d and %d share one leg: %v", i, j, leg == other)
					}
				}
			}
			if st := s.State(); st.Legs != len(shares) || st.Phase != Ready {
				t.Errorf("got %+v", st)
			}
		})
	}
}

// A connection that fails takes nothing from those who share another one.
func TestAFailureIsNobodyElses(t *testing.T) {
	for _, era := range []wire.Era{wire.Modern, wire.Legacy} {
		t.Run(string(era), func(t *testing.T) {
			peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
			peer.Script(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
				if !bytes.Contains(body, []byte(`"unlucky"`)) {
					return false
				}
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			})
			s := serverOf(t, Spec{URL: peer.URL}, Options{})
			good := mustLeg(t, s, Want{Era: era, Share: Share{Owner: "good"}})
			bad := Want{Era: era, Share: Share{Owner: "bad"}, Declare: Declaration{Info: []byte(`{"name":"unlucky","version":"1"}`)}}
			for range 2 {
				if leg, err := s.Leg(patiently(t), bad); err == nil || crib.CodeOf(err) != crib.Unavailable {
					t.Fatalf("got %v, %v", leg, err)
				}
			}
			if got := s.EraFor(era); got != era {
				t.Errorf("the era is %q now", got)
			}
			if now := mustLeg(t, s, Want{Era: era, Share: Share{Owner: "good"}}); now != good {
				t.Error("the leg of the others was replaced")
			}
			if err := echo(t, good); err != nil {
				t.Error(err)
			}
		})
	}
}

// A server that says it speaks the legacy era and does not is asked once.
func TestAServerThatPromisesTooMuch(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	peer.Script(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
		if !bytes.Contains(body, []byte(`"initialize"`)) {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"not today"}}`, mcptest.RequestID(body))
		return true
	})
	s := serverOf(t, Spec{URL: peer.URL}, Options{})
	for range 3 {
		leg := mustLeg(t, s, Want{Era: wire.Legacy})
		if leg.Hello().Era != wire.Modern {
			t.Fatalf("got a leg of era %q", leg.Hello().Era)
		}
		if err := echo(t, leg); err != nil {
			t.Fatal(err)
		}
	}
	asked := 0
	for _, seen := range peer.Seen() {
		if seen.RPCMethod == "initialize" {
			asked++
		}
	}
	if asked != 1 {
		t.Errorf("initialize was sent %d times", asked)
	}
	if legs := s.State().Legs; legs != 1 {
		t.Errorf("%d legs are open", legs)
	}
}

// A server that dies in each call is not started for each call.
func TestACrashLoopIsSlow(t *testing.T) {
	s, starts := stdioServer(t, Spec{Era: wire.Legacy}, Options{}, "-die-on", "echo")
	began := time.Now()
	for range 12 {
		leg, err := s.Leg(patiently(t), Want{Era: wire.Legacy})
		if err != nil {
			if code := crib.CodeOf(err); code != crib.Unavailable {
				t.Fatalf("got %s: %v", code, err)
			}
			continue
		}
		if err := echo(t, leg); crib.CodeOf(err) != crib.Unknown {
			t.Fatalf("a call that killed its server ended with %v", err)
		}
	}
	// Two at once, and then one for each second at most.
	if most := 3 + int(time.Since(began)/FirstBackoff); starts() > most {
		t.Errorf("started %d times within %s", starts(), time.Since(began))
	}
	if st := s.State(); st.Phase != Failed && st.Phase != Starting || st.Error == "" && st.Phase == Failed {
		t.Errorf("got %+v", st)
	}
}

// An attempt that failed is not repeated for each caller.
func TestAFailedAttemptIsNotRepeatedAtOnce(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	peer.Script(func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})
	s := serverOf(t, Spec{URL: peer.URL}, Options{})
	began := time.Now()
	for range 20 {
		if _, err := s.Leg(patiently(t), Want{Era: wire.Modern}); crib.CodeOf(err) != crib.Unavailable {
			t.Fatalf("got %v", err)
		}
	}
	if most := 1 + int(time.Since(began)/FirstBackoff); len(peer.Seen()) > most {
		t.Errorf("%d requests within %s", len(peer.Seen()), time.Since(began))
	}
}

// What is being connected when the server's secrets have changed is not used:
// it was made with the old ones, and an attempt that fails with them says
// nothing.
func TestRenewWhileItConnects(t *testing.T) {
	for name, first := range map[string]error{"it comes up": nil, "it fails": crib.Errorf(crib.Unavailable, "no such secret")} {
		t.Run(name, func(t *testing.T) {
			peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
			begun, goOn := make(chan struct{}), make(chan struct{})
			var attempts atomic.Int32
			s := serverOf(t, Spec{URL: peer.URL, Era: wire.Modern, Connect: func(context.Context) (Credentials, error) {
				if attempts.Add(1) > 1 {
					return Credentials{Header: http.Header{"X-Key": {"new"}}}, nil
				}
				close(begun)
				<-goOn
				return Credentials{Header: http.Header{"X-Key": {"old"}}}, first
			}}, Options{})
			waited := make(chan error, 1)
			go func() {
				_, err := s.Leg(patiently(t), Want{Era: wire.Modern})
				waited <- err
			}()
			<-begun
			s.Renew()
			close(goOn)
			if err := <-waited; crib.CodeOf(err) != crib.CodeOf(first) {
				t.Errorf("who waited meanwhile: %v", err)
			}
			if err := echo(t, mustLeg(t, s, Want{Era: wire.Modern})); err != nil {
				t.Error(err)
			}
			if key := peer.Last("tools/call").Header.Get("X-Key"); key != "new" {
				t.Errorf("called with the %s secret", key)
			}
		})
	}
}

// A leg that does not fit any more makes place for a new one, and what is open
// on it goes on to its end.
func TestARetiredLegEndsItsCalls(t *testing.T) {
	for _, kind := range []string{"a process", "an address"} {
		t.Run(kind, func(t *testing.T) {
			var s *Server
			if kind == "a process" {
				s, _ = stdioServer(t, Spec{}, Options{})
			} else {
				s = serverOf(t, Spec{URL: mcptest.NewHTTP(t, mcptest.HTTPOptions{}).URL}, Options{})
			}
			old := mustLeg(t, s, Want{Era: wire.Modern})
			release := filepath.Join(t.TempDir(), "release")
			ended := make(chan error, 1)
			go func() {
				_, err := old.Do(context.Background(), toolCall(old, "slow", `{"release":"`+release+`"}`), Nobody{})
				ended <- err
			}()
			mcptest.Eventually(t, "the call is open", func() bool { return old.Open() == 1 })

			old.Retire()
			now := mustLeg(t, s, Want{Era: wire.Modern})
			if now == old {
				t.Fatal("the retired leg was given out")
			}
			if isClosed(old.Done()) {
				t.Fatal("the retired leg was closed with a call on it")
			}
			if err := echo(t, now); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(release, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err != nil {
				t.Errorf("the open call ended with %v", err)
			}
			<-old.Done()
			if again := mustLeg(t, s, Want{Era: wire.Modern}); again != now {
				t.Error("the end of the old leg took the new one away")
			}
		})
	}
}

// What is being connected for a session that ends meanwhile leaves nothing.
func TestDropWhileConnecting(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	arrived, free := make(chan struct{}, 1), make(chan struct{})
	peer.Script(func(_ http.ResponseWriter, _ *http.Request, body []byte) bool {
		if bytes.Contains(body, []byte(`"initialize"`)) {
			arrived <- struct{}{}
			<-free
		}
		return false
	})
	s := serverOf(t, Spec{URL: peer.URL, Era: wire.Legacy}, Options{})
	got := make(chan error, 1)
	go func() {
		_, err := s.Leg(context.Background(), Want{Era: wire.Legacy, Share: Share{Owner: "session"}})
		got <- err
	}()
	<-arrived
	s.Drop(Share{Owner: "session"})
	close(free)
	if err := <-got; crib.CodeOf(err) != crib.Unavailable {
		t.Errorf("who waited got %v", err)
	}
	mcptest.Eventually(t, "the session at the server ends", func() bool { return peer.Sessions() == 1 && peer.LiveSessions() == 0 })
	if st := s.State(); st.Legs != 0 {
		t.Errorf("got %+v", st)
	}
}

// Dropping a share closes its leg and no other.
func TestDrop(t *testing.T) {
	s := serverOf(t, Spec{URL: mcptest.NewHTTP(t, mcptest.HTTPOptions{}).URL}, Options{})
	mine, others := mustLeg(t, s, Want{Era: wire.Legacy, Share: Share{Owner: "mine"}}), mustLeg(t, s, Want{Era: wire.Legacy, Share: Share{Owner: "others"}})
	s.Drop(Share{Owner: "mine"})
	<-mine.Done()
	if isClosed(others.Done()) || mustLeg(t, s, Want{Era: wire.Legacy, Share: Share{Owner: "others"}}) != others {
		t.Error("another share lost its leg")
	}
}

// No leg comes up for a session that has ended.
func TestNoLegForTheDead(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	s := serverOf(t, Spec{URL: peer.URL}, Options{})
	dead := Want{Era: wire.Legacy, Share: Share{Owner: "session"}, Live: func() bool { return false }}
	if _, err := s.Leg(patiently(t), dead); crib.CodeOf(err) != crib.Unavailable || len(peer.Seen()) != 0 {
		t.Errorf("got %v, and %d requests went out", err, len(peer.Seen()))
	}
}

// A server that hangs keeps its place among those that start until it shows
// life, or has had its time to.
func TestAHungStartDoesNotKeepOthers(t *testing.T) {
	tests := map[string]struct {
		probe time.Duration
		flags []string
	}{
		"without life":             {50 * time.Millisecond, []string{"-delay", "1h"}},
		"with life and no answers": {never, []string{"-delay", "1h", "-stderr", "10"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			opts := Options{Starting: make(chan struct{}, 1), ProbeTimeout: tt.probe}
			hung, _ := stdioServer(t, Spec{Name: "hung", Era: wire.Modern}, opts, tt.flags...)
			var asking sync.WaitGroup
			ctx, leave := context.WithCancel(t.Context())
			asking.Go(func() {
				if _, err := hung.Leg(ctx, Want{Era: wire.Modern}); err == nil {
					t.Error("a server that hangs came up")
				}
			})
			mcptest.Eventually(t, "the first one starts", func() bool { return hung.State().Phase == Starting })
			other, _ := stdioServer(t, Spec{Name: "other", Era: wire.Modern}, opts)
			mustLeg(t, other, Want{Era: wire.Modern})
			leave()
			asking.Wait()
			hung.Close()
			mcptest.Eventually(t, "every place is free", func() bool { return len(opts.Starting) == 0 })
		})
	}
}

// A start that takes too long ends, and says so.
func TestAStartEnds(t *testing.T) {
	s, _ := stdioServer(t, Spec{}, Options{StartTimeout: 100 * time.Millisecond}, "-delay", "1h")
	_, err := s.Leg(patiently(t), Want{Era: wire.Modern})
	if crib.CodeOf(err) != crib.Unavailable || !strings.Contains(fmt.Sprint(err), "did not start within 100ms") {
		t.Errorf("got %v", err)
	}
}

// A caller that leaves gets an answer; the start goes on for the next one.
func TestAStartIsNotTheCallers(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	arrived, free := make(chan struct{}, 1), make(chan struct{})
	peer.Script(func(http.ResponseWriter, *http.Request, []byte) bool {
		select {
		case arrived <- struct{}{}:
		default:
		}
		<-free
		return false
	})
	s := serverOf(t, Spec{URL: peer.URL, Era: wire.Modern}, Options{})
	ctx, leave := context.WithCancel(t.Context())
	got := make(chan error, 1)
	go func() {
		_, err := s.Leg(ctx, Want{Era: wire.Modern})
		got <- err
	}()
	<-arrived
	leave()
	if err := <-got; crib.CodeOf(err) != crib.Unavailable || !strings.Contains(err.Error(), "still starting") {
		t.Errorf("got %v", err)
	}
	close(free)
	mustLeg(t, s, Want{Era: wire.Modern})
	if n := peer.Requests("server/discover"); n != 1 {
		t.Errorf("discovered %d times", n)
	}
}

// An end of the crib's own leaves nothing behind and tells the truth about
// what was open.
func TestCloseWithAnOpenCall(t *testing.T) {
	for _, kind := range []string{"a process", "an address"} {
		t.Run(kind, func(t *testing.T) {
			ledger := filepath.Join(t.TempDir(), "ledger")
			var s *Server
			if kind == "a process" {
				s, _ = stdioServer(t, Spec{}, Options{}, "-ledger", ledger)
			} else {
				peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Ledger: ledger}})
				s = serverOf(t, Spec{URL: peer.URL}, Options{})
			}
			leg := mustLeg(t, s, Want{Era: wire.Modern})
			ended := make(chan error, 1)
			go func() {
				_, err := leg.Do(context.Background(), toolCall(leg, "slow", `{"release":"/nowhere"}`), Nobody{})
				ended <- err
			}()
			mcptest.Eventually(t, "the call is executed", func() bool {
				_, err := os.Stat(ledger)
				return err == nil
			})
			s.Close()
			if err := <-ended; crib.CodeOf(err) != crib.Unknown {
				t.Errorf("got %v", err)
			}
			if _, err := s.Leg(patiently(t), Want{Era: wire.Modern}); crib.CodeOf(err) != crib.Unavailable {
				t.Errorf("a closed server gave %v", err)
			}
		})
	}
}

// Finish takes nothing new and lets what is open end.
func TestFinish(t *testing.T) {
	s, _ := stdioServer(t, Spec{}, Options{})
	leg := mustLeg(t, s, Want{Era: wire.Modern})
	release := filepath.Join(t.TempDir(), "release")
	ended, finished := make(chan error, 1), make(chan struct{})
	go func() {
		_, err := leg.Do(context.Background(), toolCall(leg, "slow", `{"release":"`+release+`"}`), Nobody{})
		ended <- err
	}()
	mcptest.Eventually(t, "the call is open", func() bool { return leg.Open() == 1 })
	go func() {
		defer close(finished)
		s.Finish(context.Background())
	}()
	mcptest.Eventually(t, "nothing new is taken", func() bool {
		_, err := s.Leg(patiently(t), Want{Era: wire.Modern})
		return err != nil
	})
	if isClosed(finished) || isClosed(leg.Done()) {
		t.Error("it did not wait for the open call")
	}
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	<-finished
	<-leg.Done()
}
