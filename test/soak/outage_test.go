package soak

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

const (
	outage   = 3 * time.Second        // how long a server is away
	longer   = 4 * time.Second        // likewise, from the start: time for several attempts to reach it
	recovery = 500 * time.Millisecond // behind its return calls may still fail
	beat     = 50 * time.Millisecond  // between two calls
	before   = time.Second            // of calls that the server answers
	after    = 1500 * time.Millisecond
)

// A server is killed and comes back at the same address, without its sessions.
// Only the calls of the outage fail; the session is renewed once; nothing is
// executed twice. It makes no difference whether the crib knew the server
// before.
func TestOutage(t *testing.T) {
	for _, tc := range []struct {
		name   string
		server string // the era it speaks
		client wire.Era
		page   string
		legs   int // before the outage; 0: the server is away from the start
	}{
		{"legacy client of a legacy server", mcptest.EraLegacy, wire.Legacy, "", 1},
		{"modern client of a modern server", mcptest.EraModern, wire.Modern, "", 1},
		{"modern client of a legacy server", mcptest.EraLegacy, wire.Modern, "", 1},
		{"a session's own connection", mcptest.EraLegacy, wire.Legacy, "  share: session\n", 2},
		{"a legacy server that was never there", mcptest.EraLegacy, wire.Legacy, "", 0},
		{"a modern server that was never there", mcptest.EraModern, wire.Modern, "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel() // it waits more than it works
			p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: tc.server}})
			road := newRelay(t, strings.TrimSuffix(strings.TrimPrefix(p.URL, "http://"), "/mcp"))
			url := "http://" + road.address + "/mcp"
			warm, away, sessions := before, outage, 1+tc.legs
			if tc.legs == 0 {
				warm, away = 0, longer
				road.shut()
			}
			c := startCrib(t, map[string]string{"s": httpPage(url, tc.page)})
			cl := c.client(t, "") // whose initialize waits for no server
			if tc.client == wire.Legacy {
				cl.Initialize("")
			}
			calls, killed, back := keepCalling(t, cl, tc.client, warm, away, road, p)
			judgeOutage(t, calls, killed, back)
			if n := p.Requests("initialize"); tc.server == mcptest.EraLegacy && n != sessions {
				t.Errorf("the server saw initialize %d times, want %d: one for each connection, and one for the renewal", n, sessions)
			}
			if ran := p.Executions("echo"); ran > len(calls) {
				t.Errorf("%d calls were executed %d times", len(calls), ran)
			}
		})
	}
}

// timedCall is one call of the beat.
type timedCall struct {
	sent, answered time.Time
	verdict        verdict
	reply          *mcptest.Reply
	why            string
}

// keepCalling calls a tool at each beat, kills the server meanwhile and brings
// it back.
func keepCalling(t *testing.T, cl *mcptest.Client, era wire.Era, warm, away time.Duration, road *relay, p *mcptest.HTTP) (calls []*timedCall, killed, back time.Time) {
	t.Helper()
	kill, revive := time.After(warm), time.After(warm+away)
	end := time.After(warm + away + slower(recovery) + after)
	tick := time.NewTicker(beat)
	defer tick.Stop()
	var answers sync.WaitGroup
	defer answers.Wait()
	for {
		select {
		case <-kill:
			killed = time.Now()
			road.shut()
			p.Forget()
		case <-revive:
			road.open()
			back = time.Now()
		case <-end:
			return calls, killed, back
		case <-tick.C:
			call := &timedCall{sent: time.Now()}
			token := fmt.Sprintf("beat-%d", len(calls))
			calls = append(calls, call)
			answers.Go(func() {
				call.reply = cl.Post(era, "tools/call", `{"name":"s__echo","arguments":{"token":"`+token+`"}}`)
				call.verdict, call.why = read(call.reply, token)
				call.answered = time.Now()
			})
		}
	}
}

func judgeOutage(t *testing.T, calls []*timedCall, killed, back time.Time) {
	t.Helper()
	well, failed, first := 0, 0, time.Duration(-1)
	for i, call := range calls {
		at := call.sent.Sub(back).Round(time.Millisecond)
		if call.verdict == wrong {
			t.Errorf("call %d, sent %s after the return: %s", i, at, call.why)
		}
		outside := call.answered.Before(killed) || call.sent.After(back.Add(slower(recovery)))
		if outside && call.verdict != completed {
			t.Errorf("call %d, sent %s after the return: %s", i, at, call.reply)
		}
		if call.verdict != completed {
			failed++
			continue
		}
		well++
		if first < 0 && call.sent.After(killed) {
			first = at
		}
	}
	t.Logf("%d calls completed, %d failed; the first that was sent behind the kill and completed was sent %s after the return", well, failed, first)
	if failed == 0 {
		t.Error("no call failed: there was no outage")
	}
}

// relay carries bytes to a server, at one address that can be shut as a
// killed process leaves it: connections cut, new ones refused.
type relay struct {
	t  testing.TB
	to string

	mu       sync.Mutex // guards what follows
	address  string
	listener net.Listener // nil while it is shut
	conns    []net.Conn
	work     sync.WaitGroup
}

func newRelay(t testing.TB, to string) *relay {
	g := &relay{t: t, address: "127.0.0.1:0", to: to}
	g.open()
	t.Cleanup(g.shut)
	return g
}

// open lets connections in.
func (g *relay) open() {
	l, err := net.Listen("tcp", g.address)
	if err != nil {
		g.t.Fatalf("the address is taken: %v", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.address, g.listener, g.conns = l.Addr().String(), l, nil
	g.work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			g.work.Go(func() { g.carry(conn) })
		}
	})
}

// shut cuts everything and waits until it is cut.
func (g *relay) shut() {
	g.mu.Lock()
	if g.listener == nil {
		g.mu.Unlock()
		return
	}
	g.listener.Close()
	g.listener = nil
	for _, conn := range g.conns {
		conn.Close()
	}
	g.mu.Unlock()
	g.work.Wait()
}

// carry copies between a client and the server until either ends.
func (g *relay) carry(conn net.Conn) {
	defer conn.Close()
	to, err := net.Dial("tcp", g.to)
	if err != nil {
		return
	}
	defer to.Close()
	if !g.keep(conn, to) {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		io.Copy(conn, to) //nolint:errcheck // an error is an end like any other
		conn.Close()
	})
	io.Copy(to, conn) //nolint:errcheck // likewise
	to.Close()
	back.Wait()
}

// keep notes connections to be cut, and reports false where it is too late for
// that.
func (g *relay) keep(conns ...net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listener == nil {
		return false
	}
	g.conns = append(g.conns, conns...)
	return true
}
