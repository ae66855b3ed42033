package mcphttp_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Times of servers that are asked all the time for a sign of life, and have no
// time to give one.
const (
	eager     = 10 * time.Millisecond // between questions
	impatient = 40 * time.Millisecond // for an answer
	long      = 20 * impatient        // of a call
	few       = 4                     // questions that may be on their way as a call comes or ends
)

// quiet is what a server says that does one thing at a time: it could not serve
// a stream of changes beside anything else.
const quiet = `{"tools":{}}`

func isQuestion(method string) bool { return method == "ping" || method == "server/discover" }

// worker is a server that does one thing at a time.
type worker struct {
	def      servers.Definition
	received func() []string // the methods that came, in order
	starts   func() int      // of its process, 1 where there is none
}

// workers are servers of one era that do one thing at a time.
func workers(t *testing.T, era wire.Era) []worker {
	dir := t.TempDir()
	record, starts := filepath.Join(dir, "record"), filepath.Join(dir, "starts")
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: string(era)}})
	var turn sync.Mutex // of the one that is served; what waits for it waits in the script
	peer.Script(func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
		if name, _ := wire.GetText(wire.Get(body, "params"), "name"); name == "slow" {
			turn.Lock()
			go func() { // the call is over with its request
				<-r.Context().Done()
				turn.Unlock()
			}()
			return false
		}
		if m, _ := wire.GetText(body, "method"); isQuestion(m) {
			turn.Lock()
			turn.Unlock() //nolint:staticcheck // it is only waited for
		}
		return false
	})
	return []worker{
		{
			def:      stdioServer("process", mcptest.Peer("-era", string(era), "-serial", "-capabilities", quiet, "-record", record, "-starts", starts), func(d *servers.Definition) { d.Era = era }),
			received: func() []string { return methodsOf(linesOf(t, record)) },
			starts:   func() int { return len(linesOf(t, starts)) },
		},
		{
			def: httpServer("address", peer.URL, func(d *servers.Definition) { d.Era = era }),
			received: func() []string {
				var out []string
				for _, s := range peer.Seen() {
					out = append(out, s.RPCMethod)
				}
				return out
			},
			starts: func() int { return 1 },
		},
	}
}

func methodsOf(lines []string) []string {
	var out []string
	for _, line := range lines {
		out = append(out, method(line))
	}
	return out
}

// A server that does one thing at a time has no time for signs of life while a
// call runs. It is not asked for any, not taken for dead, and its call ends
// well; when it has time again it is asked again.
func TestNobodyAsksABusyServer(t *testing.T) {
	for _, era := range bothEras {
		for _, w := range workers(t, era) {
			t.Run(fmt.Sprintf("%s %s", era, w.def.Name), func(t *testing.T) {
				c := newCrib(t, cribOptions{upstream: upstream.Options{Liveness: eager, ProbeTimeout: impatient}}, w.def)
				cl := c.client(era, w.def.Name)
				works(t, cl, era, "echo")
				questions := func() (n int) {
					for _, m := range w.received() {
						if isQuestion(m) {
							n++
						}
					}
					return n
				}
				before := questions()
				mcptest.Eventually(t, "the idle server is asked", func() bool { return questions() > before })

				hold := newGate(t)
				done := make(chan *mcptest.Reply, 1)
				go func() { done <- call(cl, era, "slow", hold.args()) }()
				mcptest.Eventually(t, "the call", func() bool { return count(w.received(), "tools/call") == 2 })
				busy := time.NewTimer(long)
				defer busy.Stop()
				atStart := questions()
				<-busy.C
				hold.open()
				if r := <-done; r.Text() != "released" {
					t.Errorf("the call: %s", r)
				}
				after := questions()
				if n := after - atStart; n > few { // a process shows only now what it was asked
					t.Errorf("the busy server was asked %d times", n)
				}
				mcptest.Eventually(t, "the server that has time again is asked", func() bool { return questions() > after })
				works(t, cl, era, "echo")
				if n := w.starts(); n != 1 {
					t.Errorf("the process was started %d times", n)
				}
				if st := serverState(t, c, w.def.Name); st.Phase != upstream.Ready {
					t.Errorf("state: %+v", st)
				}
			})
		}
	}
}

func count(list []string, want string) (n int) {
	for _, s := range list {
		if s == want {
			n++
		}
	}
	return n
}

// A question that was on its way when a call came is not answered before the
// call is. That is no reason to give up the call.
func TestAQuestionThatMeetsACall(t *testing.T) {
	for _, era := range bothEras {
		t.Run(string(era), func(t *testing.T) {
			peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: string(era), Capabilities: `{"tools":{}}`}}) // so that no list is asked for meanwhile
			var deaf atomic.Bool
			asked := make(chan struct{}, 100)
			peer.Script(func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
				if m, _ := wire.GetText(body, "method"); !isQuestion(m) && m != "tools/list" || !deaf.Load() {
					return false
				}
				asked <- struct{}{}
				<-r.Context().Done()
				return true
			})
			c := newCrib(t, cribOptions{upstream: upstream.Options{Liveness: eager, ProbeTimeout: 10 * impatient}}, httpServer("s", peer.URL, func(d *servers.Definition) { d.Era = era }))
			cl := c.client(era, "s")
			works(t, cl, era, "echo")
			deaf.Store(true)
			<-asked
			hold := newGate(t)
			done := make(chan *mcptest.Reply, 1)
			go func() { done <- call(cl, era, "slow", hold.args()) }()
			executions(t, peer, "slow", 1)
			busy := time.NewTimer(2 * 10 * impatient) // until the question is given up, and longer
			defer busy.Stop()
			<-busy.C
			if st := serverState(t, c, "s"); st.Phase != upstream.Ready || st.Open != 1 {
				t.Errorf("state: %+v", st)
			}
			deaf.Store(false)
			hold.open()
			if r := <-done; r.Text() != "released" {
				t.Errorf("the call: %s", r)
			}
			works(t, cl, era, "echo")
			if era == wire.Legacy && peer.Requests("initialize") != 1 {
				t.Errorf("%d initialize came", peer.Requests("initialize"))
			}
		})
	}
}

// Reading the configuration again takes no call from anybody: a server that is
// reached as before goes on, and one that is not ends its calls before it ends.
// One that is switched off is cut off, and its calls say so.
func TestReloadWithAnOpenCall(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(d *servers.Definition)
		starts int // of the process, when all is done
		cut    bool
	}{
		{"the same", func(*servers.Definition) {}, 1, false},
		{"another description", func(d *servers.Definition) { d.Description = "Mind the gap." }, 1, false},
		{"a gate", func(d *servers.Definition) {
			d.Gates = []servers.Gate{{Pattern: "fail", Effect: crib.Deny}}
		}, 1, false},
		{"another command", func(d *servers.Definition) {
			d.Transport.Command = append(d.Transport.Command, "-instructions", "New.")
		}, 2, false},
		{"switched off", func(d *servers.Definition) { d.Enabled = false }, 1, true},
	} {
		for _, era := range bothEras {
			t.Run(tc.name+", "+string(era), func(t *testing.T) {
				dir := t.TempDir()
				file, record := filepath.Join(dir, "starts"), filepath.Join(dir, "record")
				def := stdioServer("s", mcptest.Peer("-era", string(era), "-serial", "-capabilities", quiet, "-record", record, "-starts", file), func(d *servers.Definition) { d.Era = era })
				c := newCrib(t, cribOptions{upstream: upstream.Options{Liveness: eager, ProbeTimeout: 10 * time.Second}}, def)
				cl := c.client(era, "s")
				works(t, cl, era, "echo")
				hold := newGate(t)
				done := make(chan *mcptest.Reply, 1)
				go func() { done <- call(cl, era, "slow", hold.args()) }()
				mcptest.Eventually(t, "the call", func() bool { return count(methodsOf(linesOf(t, record)), "tools/call") == 2 })

				now := def
				now.Transport.Command = append([]string(nil), def.Transport.Command...)
				tc.change(&now)
				for range 3 {
					c.cat.Apply([]servers.Definition{now})
				}
				if tc.cut {
					if r := <-done; codeOf(r) != crib.Unknown || !strings.Contains(r.Text(), notKnown) {
						t.Errorf("the call: %s", r)
					}
					return
				}
				if tc.starts > 1 { // who comes now meets the new one, beside the call
					works(t, cl, era, "echo")
				}
				select {
				case r := <-done:
					t.Fatalf("the call ended: %s", r)
				default:
				}
				hold.open()
				if r := <-done; r.Text() != "released" {
					t.Errorf("the call: %s", r)
				}
				works(t, cl, era, "echo")
				if n := len(linesOf(t, file)); n != tc.starts {
					t.Errorf("%d starts, want %d", n, tc.starts)
				}
			})
		}
	}
}
