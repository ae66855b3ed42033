package mcphttp_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// peerServer is a stdio peer whose starts are counted.
func peerServer(t testing.TB, flags ...string) (def servers.Definition, starts func() int) {
	file := filepath.Join(t.TempDir(), "starts")
	def = stdioServer("s", mcptest.Peer(append(flags, "-starts", file)...))
	return def, func() int { return len(linesOf(t, file)) }
}

// Some servers end when anything but initialize comes first. That is no crash:
// they are started once more and spoken to as they like it, and the next time
// at once.
func TestProbeKillsTheServer(t *testing.T) {
	for name, flags := range map[string][]string{
		"says why":         nil,
		"ends in order":    {"-exit-code", "0"},
		"says a lot":       {"-stderr", "200000"},
		"prints a banner":  {"-banner", `Listening on stdio\n`},
		"speaks old":       {"-version", "2024-11-05"},
		"takes its time":   {"-delay", "200ms"},
		"answers serially": {"-serial", "-crlf"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			def, starts := peerServer(t, append(flags, "-era", "legacy", "-exit-unless-initialize")...)
			run := func(name string, want int) {
				t.Run(name, func(t *testing.T) {
					c := newCrib(t, cribOptions{dir: dir}, def)
					works(t, c.client(wire.Modern, "s"), wire.Modern, "echo")
					if n := starts(); n != want {
						t.Errorf("%d starts, want %d", n, want)
					}
					if st := serverState(t, c, "s"); st.Phase != upstream.Ready || st.Error != "" || len(st.Eras) != 1 || st.Eras[0] != wire.Legacy {
						t.Errorf("state: %+v", st)
					}
				})
			}
			run("first", 2)
			run("second", 3)
		})
	}
}

// A page that says what the server speaks saves it the probe.
func TestNamedEraIsNotProbed(t *testing.T) {
	for _, era := range bothEras {
		b := behindStdio(t, "s", string(era))
		b.def.Era = era
		c := newCrib(t, cribOptions{}, b.def)
		works(t, c.client(wire.Modern, "s"), wire.Modern, "echo")
		want := map[wire.Era]int{wire.Modern: 1, wire.Legacy: 0}[era]
		if n := len(b.received("server/discover")); n != want {
			t.Errorf("%s: %d server/discover came", era, n)
		}
		if n := len(b.received("initialize")); n != 1-want {
			t.Errorf("%s: %d initialize came", era, n)
		}
	}
}

// What a server says to the probe, how late, or that it says nothing, decides
// the era and no more: every one of these is connected by one start, in a time
// that the limit of the probe bounds.
func TestProbeOverStdio(t *testing.T) {
	const (
		probe = 250 * time.Millisecond
		late  = "600ms"
		bound = 8 * time.Second // far below the limits that are not the probe's
	)
	for _, tc := range []struct {
		name  string
		flags []string
		era   wire.Era
	}{
		{"modern", []string{"-era", "modern"}, wire.Modern},
		{"both", []string{"-era", "dual"}, wire.Modern},
		{"the first message decides", []string{"-era", "first"}, wire.Modern},
		{"legacy", []string{"-era", "legacy"}, wire.Legacy},
		{"invalid params", []string{"-era", "legacy", "-discover-error", "-32602"}, wire.Legacy},
		{"invalid request", []string{"-era", "legacy", "-discover-error", "-32600"}, wire.Legacy},
		{"internal error", []string{"-era", "legacy", "-discover-error", "-32603"}, wire.Legacy},
		{"not initialized", []string{"-era", "legacy", "-discover-error", "-32002"}, wire.Legacy},
		{"parse error", []string{"-era", "legacy", "-discover-error", "-32700"}, wire.Legacy},
		{"a code of its own", []string{"-era", "legacy", "-discover-error", "17"}, wire.Legacy},
		{"silent", []string{"-era", "legacy", "-silent-discover"}, wire.Legacy},
		{"silent and serial", []string{"-era", "legacy", "-silent-discover", "-serial"}, wire.Legacy},
		{"silent, speaks both", []string{"-era", "dual", "-silent-discover"}, wire.Legacy},
		{"floods stderr", []string{"-era", "legacy", "-stderr", "300000"}, wire.Legacy},
		{"starts late, modern", []string{"-era", "modern", "-delay", late}, wire.Modern},
		{"starts late, modern, serial", []string{"-era", "modern", "-delay", late, "-serial", "-capabilities", `{"tools":{}}`}, wire.Modern},
		{"starts late, legacy", []string{"-era", "legacy", "-delay", late}, wire.Legacy},
		{"answers late, modern", []string{"-era", "modern", "-discover-delay", late}, wire.Modern},
		{"refuses late", []string{"-era", "legacy", "-discover-delay", late}, wire.Legacy},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel() // they wait more than they work
			def, starts := peerServer(t, tc.flags...)
			c := newCrib(t, cribOptions{upstream: upstream.Options{ProbeTimeout: probe}}, def)
			cl := c.client(wire.Modern, "s")
			began := time.Now()
			works(t, cl, wire.Modern, "echo")
			if took := time.Since(began); took > bound {
				t.Errorf("took %s", took)
			}
			works(t, cl, wire.Modern, "echo") // the late answer to the loser does no harm
			if st := serverState(t, c, "s"); len(st.Eras) != 1 || st.Eras[0] != tc.era || starts() != 1 {
				t.Errorf("%d starts, state %+v; want 1 and %s", starts(), st, tc.era)
			}
		})
	}
}

// A modern refusal of the probe is no sign of the legacy era.
func TestModernRefusalOfProbe(t *testing.T) {
	def, starts := peerServer(t, "-era", "modern", "-discover-error", "-32021")
	c := newCrib(t, cribOptions{}, def)
	r := call(c.client(wire.Modern, "s"), wire.Modern, "echo", "{}")
	if codeOf(r) != crib.Unavailable || !strings.Contains(r.Text(), "server/discover") || starts() != 1 {
		t.Errorf("%d starts: %s", starts(), r)
	}
	if st := serverState(t, c, "s"); st.Phase != upstream.Failed || len(st.Eras) != 0 {
		t.Errorf("state %+v", st)
	}
}

// noiseBefore is what the fixture of the list of known failures prints before
// its first reply: a banner behind a byte order mark, a blank line, an array
// and an object that is no message. Behind the reply come the lines of -noise,
// among them 42 and null, and a partial line at the end.
const noiseBefore = `\ufeffStarting…\r\n\r\n[1,2]\n{\"level\":\"info\"}\n`

// Stray lines on stdout do not disturb: replies arrive, the lines are counted,
// and a partial last line fails its call at once.
func TestNoiseOnStdout(t *testing.T) {
	for _, era := range bothEras {
		t.Run(string(era), func(t *testing.T) {
			def, starts := peerServer(t, "-era", string(era), "-banner", noiseBefore, "-noise", "-crlf")
			c := newCrib(t, cribOptions{}, def)
			cl := c.client(wire.Modern, "s")
			for range 3 {
				works(t, cl, wire.Modern, "echo")
			}
			if n := serverState(t, c, "s").Noise; n < 3+3*5 {
				t.Errorf("%d lines were counted as noise", n)
			}
			var pending sync.WaitGroup
			for range 2 {
				s := cl.Open(wire.Modern, "tools/call", `{"name":"slow","arguments":{"release":"/never/there"},"_meta":{"progressToken":1}}`)
				s.Next() // it runs
				pending.Go(func() {
					defer s.Close()
					s.Next() // the other tick
					if last := s.Next(); !strings.Contains(last.Data, `"io.toolcrib/code":"unknown"`) {
						t.Errorf("pending: %s", last.Data)
					}
				})
			}
			began := time.Now()
			if r := call(cl, wire.Modern, "partial", "{}"); codeOf(r) != crib.Unknown {
				t.Errorf("partial: %s", r)
			}
			pending.Wait()
			if took := time.Since(began); took > time.Second {
				t.Errorf("the calls failed after %s", took)
			}
			works(t, cl, wire.Modern, "echo")
			if starts() != 2 {
				t.Errorf("%d starts", starts())
			}
		})
	}
}

// A byte order mark and line ends of either kind are no part of a message.
func TestMarksOnStdout(t *testing.T) {
	for _, flags := range [][]string{
		{"-bom"}, {"-crlf"}, {"-bom", "-crlf"}, {"-bom", "-banner", `\n\r\n \t\n`}, {"-banner", `\r\rprogress 10%\rprogress 100%\n`},
	} {
		def, _ := peerServer(t, flags...)
		c := newCrib(t, cribOptions{}, def)
		works(t, c.client(wire.Modern, "s"), wire.Modern, "echo")
	}
}

// A legacy server may ask whether anybody is there, in the middle of a call or
// without one, and is answered at once.
func TestServerPings(t *testing.T) {
	def, _ := peerServer(t, "-era", "legacy")
	c := newCrib(t, cribOptions{}, def)
	for _, era := range bothEras {
		r := call(c.client(era, "s"), era, "request", `{"method":"ping"}`)
		if !strings.Contains(r.Text(), `"result":{}`) {
			t.Errorf("%s: %s", era, r)
		}
		r = call(c.client(era, "s"), era, "request", `{"method":"vendor/ask"}`)
		if !strings.Contains(r.Text(), `"code":-32601`) {
			t.Errorf("%s: %s", era, r)
		}
	}
}

// A server that floods stderr, without a line end, is read all the same.
func TestStderrFlood(t *testing.T) {
	def, starts := peerServer(t, "-era", "legacy", "-stderr", "262144", "-serial")
	c := newCrib(t, cribOptions{}, def)
	cl := c.client(wire.Modern, "s")
	for range 3 {
		works(t, cl, wire.Modern, "echo")
	}
	if starts() != 1 {
		t.Errorf("%d starts", starts())
	}
}

// A child that dies fails what was open at once, says how it died, and is
// started again for the next call; calls on other servers do not notice.
func TestDeathFailsOpenCallsOnly(t *testing.T) {
	for _, era := range bothEras {
		t.Run(string(era), func(t *testing.T) {
			def, starts := peerServer(t, "-era", string(era))
			other := behindStdio(t, "other", string(era))
			c := newCrib(t, cribOptions{}, def, other.def)
			cl := c.client(wire.Modern, "")
			works(t, cl, wire.Modern, "s__echo")
			open := map[string]*mcptest.Stream{}
			for _, server := range []string{"s", "other"} {
				open[server] = cl.Open(wire.Modern, "tools/call", fmt.Sprintf(
					`{"name":"%s__slow","arguments":{"release":"/never/there","ticks":1},"_meta":{"progressToken":1}}`, server))
				defer open[server].Close()
				open[server].Next()
			}
			began := time.Now()
			r := call(cl, wire.Modern, "s__die", "{}")
			if codeOf(r) != crib.Unknown || !strings.Contains(r.Text(), "SIGKILL") {
				t.Errorf("die: %s", r)
			}
			if last := open["s"].Next(); !strings.Contains(last.Data, `"io.toolcrib/code":"unknown"`) {
				t.Errorf("the other open call: %s", last.Data)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("the calls failed after %s", took)
			}
			works(t, cl, wire.Modern, "s__echo")
			works(t, cl, wire.Modern, "other__echo")
			if starts() != 2 {
				t.Errorf("%d starts", starts())
			}
			if n := len(other.received("notifications/cancelled")); n != 0 {
				t.Errorf("the other server was told of %d cancellations", n)
			}
		})
	}
}
