package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/mcptest"
)

// kind is how a server of the soak behaves.
type kind string

const (
	healthy  kind = "healthy"
	hangs    kind = "hangs"    // says nothing, or answers calls after minutes
	crashes  kind = "crashes"  // its process ends now and then
	floods   kind = "floods"   // its stderr without end
	cuts     kind = "cuts"     // the connection, in half of its calls
	nonsense kind = "nonsense" // between and instead of answers
)

// upstream is one server of the soak.
type upstream struct {
	name   string
	kind   kind
	page   string
	ledger string        // a line for each executed call; "" where none is
	peer   *mcptest.HTTP // nil for a process
}

// Numbers of the servers.
const (
	crashEvery  = 20 * time.Second // in the soak of soakFull; in a shorter one as much shorter
	soakFull    = 10 * time.Minute
	fastest     = 700 * time.Millisecond // a process lives at least
	callTimeout = "5s"                   // on each page
	lateAnswer  = 3 * time.Minute        // of a server that hangs
)

// fleet makes the twenty servers of the soak: over HTTP and stdio, in both
// eras.
func fleet(t *testing.T, seed uint64, length time.Duration) []*upstream {
	t.Helper()
	f := &fleetOf{t: t, dir: t.TempDir(), seed: seed}
	life := max(fastest, time.Duration(float64(crashEvery)*min(1, float64(length)/float64(soakFull))))
	f.process(healthy, mcptest.EraLegacy)
	f.process(healthy, mcptest.EraModern)
	f.http(healthy, mcptest.EraLegacy, nil)
	f.http(healthy, mcptest.EraDual, nil)
	f.silent()
	f.process(hangs, mcptest.EraDual, "mute")
	f.http(hangs, mcptest.EraLegacy, answerLate)
	f.http(hangs, mcptest.EraModern, answerLate)
	f.process(crashes, mcptest.EraLegacy, "mortal", life.String())
	f.process(crashes, mcptest.EraModern, "mortal", life.String())
	f.process(crashes, mcptest.EraFirst, "mortal", life.String())
	f.process(floods, mcptest.EraLegacy, "loud")
	f.process(floods, mcptest.EraModern, "loud")
	f.process(floods, mcptest.EraDual, "loud")
	f.http(cuts, mcptest.EraLegacy, cutHalf)
	f.http(cuts, mcptest.EraModern, cutHalf)
	f.http(cuts, mcptest.EraDual, cutHalf)
	f.process(nonsense, mcptest.EraLegacy, "mad", fmt.Sprint(seed))
	f.http(nonsense, mcptest.EraLegacy, talkNonsense)
	f.http(nonsense, mcptest.EraModern, talkNonsense)
	return f.all
}

// fleetOf collects servers.
type fleetOf struct {
	t    *testing.T
	dir  string
	seed uint64
	all  []*upstream
}

func (f *fleetOf) add(k kind) *upstream {
	u := &upstream{name: fmt.Sprintf("%s-%d", k, len(f.all)), kind: k}
	u.ledger = filepath.Join(f.dir, u.name)
	f.all = append(f.all, u)
	return u
}

const pageMore = "  timeout: " + callTimeout + "\n"

// process adds a server that is started; habits are arguments of bePeer.
func (f *fleetOf) process(k kind, era string, habits ...string) {
	u := f.add(k)
	argv := mcptest.Peer("-era", era, "-ledger", u.ledger)
	if len(habits) > 0 {
		argv = append(append([]string{argv[0], peerArg}, append(habits, "--")...), argv[1:]...)
	}
	u.page = stdioPage(argv, pageMore)
}

// misbehaviour answers some of the calls in place of the server. roll gives the
// server's own random numbers, from 0 to 1.
type misbehaviour func(w http.ResponseWriter, r *http.Request, body []byte, u *upstream, roll func() float64) bool

func (f *fleetOf) http(k kind, era string, act misbehaviour) {
	u := f.add(k)
	u.peer = mcptest.NewHTTP(f.t, mcptest.HTTPOptions{Options: mcptest.Options{Era: era, Ledger: u.ledger}})
	u.page = httpPage(u.peer.URL, pageMore)
	if act == nil {
		return
	}
	var mu sync.Mutex // guards rng
	rng := rand.New(rand.NewPCG(f.seed, uint64(len(f.all))))
	roll := func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return rng.Float64()
	}
	u.peer.Script(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		return strings.Contains(string(body), `"tools/call"`) && act(w, r, body, u, roll)
	})
}

// silent adds a server that accepts connections and says nothing.
func (f *fleetOf) silent() {
	u := f.add(hangs)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.t.Fatal(err)
	}
	u.page = httpPage("http://"+l.Addr().String()+"/mcp", pageMore)
	var work sync.WaitGroup
	work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { // until the other side gives up
				defer conn.Close()
				for buf := make([]byte, 4096); ; {
					if _, err := conn.Read(buf); err != nil {
						return
					}
				}
			})
		}
	})
	f.t.Cleanup(func() {
		l.Close()
		work.Wait()
	})
}

// executed writes a call into the server's ledger.
func executed(u *upstream, body []byte) {
	var m struct {
		Params struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"params"`
	}
	if json.Unmarshal(body, &m) != nil {
		return
	}
	f, err := os.OpenFile(u.ledger, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return // the call counts as one that was not executed, and its answer is found wrong
	}
	defer f.Close()
	fmt.Fprintf(f, "%s\t%s\n", m.Params.Name, m.Params.Arguments)
}

// answerLate answers after all who ask have lost their patience.
func answerLate(_ http.ResponseWriter, r *http.Request, body []byte, u *upstream, _ func() float64) bool {
	executed(u, body)
	ctx, cancel := context.WithTimeout(r.Context(), lateAnswer)
	defer cancel()
	<-ctx.Done()
	return true
}

// cutHalf cuts the connection of half of the calls: before they are executed,
// after that, or in the middle of the answer.
func cutHalf(w http.ResponseWriter, _ *http.Request, body []byte, u *upstream, roll func() float64) bool {
	p := roll()
	if p > 0.5 {
		return false
	}
	if p > 0.1 {
		executed(u, body)
	}
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer conn.Close()
	if p > 0.3 {
		buf.WriteString("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":" + mcptest.RequestID(body)) //nolint:errcheck // it is cut anyway
		buf.Flush()                                                                                                                                               //nolint:errcheck // likewise
	}
	return true
}

// absurd are bodies in place of an answer; %s is the id of the request.
var absurd = []struct{ contentType, body string }{
	{"text/html", "<!doctype html><title>Sign in</title><p>%s"},
	{"application/json", `{"jsonrpc":"2.0","id":%s99999,"result":{"content":[{"type":"text","text":"of another"}]}}`},
	{"application/json", `{"jsonrpc":"2.0","id":%s,"id":0,"result":{}}`},
	{"application/json", `{"jsonrpc":"2.0","id":%s,"result":{"content":[]},"result":{"content":[]}}`},
	{"application/json", `{"jsonrpc":"2.0","id":%s,"result":`},
	{"application/json", `{"jsonrpc":"2.0","id":1e400,"result":{}}%.0s`},
	{"application/json", `[%s]`},
	{"application/json", "%.0s"},
	{"text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\n\ndata: nothing\n\n"},
	{"text/event-stream", ":\n\nevent: \xff\ndata: \xff%s\n\n"},
}

// valid are odd answers that a client must get.
var valid = []string{
	`{"content":[{"type":"text","text":"a` + "\xc3(" + `b"}],"x":1}`,
	`{"content":[{"type":"text","text":"n"}],"structuredContent":{"n":123456789012345678901234567890,"f":1e400,"z":-0.0}}`,
	`{"content":[{"type":"text","text":"\u0000\ud800"}],"resultType":"complete","resulttype":"x"}`,
}

// talkNonsense answers half of the calls with what is no answer, and some with
// an odd one.
func talkNonsense(w http.ResponseWriter, _ *http.Request, body []byte, u *upstream, roll func() float64) bool {
	p := roll()
	if p > 0.7 {
		return false
	}
	executed(u, body)
	id := mcptest.RequestID(body)
	if p > 0.5 {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, valid[int(roll()*float64(len(valid)))])
		return true
	}
	a := absurd[int(roll()*float64(len(absurd)))]
	w.Header().Set("Content-Type", a.contentType)
	if p < 0.1 {
		w.WriteHeader(http.StatusBadGateway)
	}
	fmt.Fprintf(w, a.body, id)
	return true
}

// httpPage is the page of a server that is reached by URL; more are further
// lines of it.
func httpPage(url, more string) string {
	return "---\nmcp:\n  transport: { http: " + quote(url) + " }\n  gate: { \"*\": allow }\n" + more + "---\n"
}

// stdioPage is the page of a server that is started.
func stdioPage(argv []string, more string) string {
	args := make([]string, len(argv)-1)
	for i, arg := range argv[1:] {
		args[i] = quote(arg)
	}
	return "---\nmcp:\n  transport: { command: " + quote(argv[0]) + ", args: [" + strings.Join(args, ", ") + "] }\n  gate: { \"*\": allow }\n" + more + "---\n"
}

// quote writes a string as YAML, which JSON is.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings can be written
	}
	return string(b)
}
