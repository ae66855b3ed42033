package mcphttp_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// held is a call at a server that does in it what the test says.
type held struct {
	mcptest.Dictation
	way
	t    *testing.T
	call request
}

var pings atomic.Int64 // so that each has an id of its own

func (w way) hold(t *testing.T) *held {
	d := mcptest.Dictate(t)
	return &held{Dictation: d, way: w, t: t, call: w.tool("notify", d.Args())}
}

// formOf is a question of the server with a raw id.
func formOf(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"elicitation/create","params":` + elicitParams + `}`
}

// takenBack says that the server does not ask a question any more.
func takenBack(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
}

func progressOf(token string, n int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, token, n)
}

func logOf(level, data string) string {
	return `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"` + level + `","data":"` + data + `"}}`
}

// told is a raw result whose text is said.
func told(text string) string { return `{"content":[{"type":"text","text":"` + text + `"}]}` }

// at waits for the call at the server, and returns the value at keys of
// its message.
func (h *held) at(keys ...string) string {
	h.t.Helper()
	found := ""
	mcptest.Eventually(h.t, "the call", func() bool {
		for _, m := range h.requests("tools/call") {
			if strings.Contains(m, h.Args()) {
				found = string(wire.GetPath([]byte(m), keys...))
				return true
			}
		}
		return false
	})
	return found
}

// heard waits until the crib has taken all that was said.
func (h *held) heard() {
	h.t.Helper()
	id := fmt.Sprintf(`"ping-%d"`, pings.Add(1))
	h.Say(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
	h.answered(id, "{}")
}

// answered waits for the answer to a question of the server.
func (h *held) answered(id, want string) {
	h.t.Helper()
	mcptest.Eventually(h.t, "the answer to "+id, func() bool { return h.responses()[id] != "" })
	if got := h.responses()[id]; got != want {
		h.t.Errorf("to %s the server got %s, want %s", id, got, want)
	}
}

// retry sends the request again, with these members; it waits in the background.
func (h *held) retry(cl *mcptest.Client, members ...string) <-chan *mcptest.Reply {
	came := make(chan *mcptest.Reply, 1)
	go func() { came <- send(cl, h.call, members...) }()
	return came
}

// meta are members of a request that ask for progress and log messages; "" asks
// for none.
func meta(progressToken, level string) string {
	var members []string
	if progressToken != "" {
		members = append(members, `"progressToken":`+progressToken)
	}
	if level != "" {
		members = append(members, `"`+wire.MetaLogLevel+`":"`+level+`"`)
	}
	return `"_meta":{` + strings.Join(members, ",") + `}`
}

// Between an answer that asks and the retry a client hears nothing. The retry
// says anew what it wants to hear, and under which token.
func TestClientThatIsAwayHearsNothing(t *testing.T) {
	direct(t, mcptest.EraLegacy, func(t *testing.T, w way) {
		cl := w.crib.dial(w.endpoint)
		h := w.hold(t)
		h.Say(formOf(`"a"`))
		r := send(cl, h.call, meta(`"first"`, "debug"))
		first := turnOf(t, r)
		if len(r.Others()) != 0 {
			t.Errorf("beside the question came %q", r.Others())
		}
		token := h.at("params", "_meta", "progressToken")
		h.Say(progressOf(token, 1), logOf("error", "away"))
		h.heard()

		again := h.retry(cl, append(first.answers(accepted), meta(`"second"`, "error"))...)
		h.answered(`"a"`, accepted)
		h.Say(progressOf(token, 2), logOf("info", "little"), logOf("error", "much"), formOf(`"b"`))
		r = <-again
		if want := []string{progressOf(`"second"`, 2), logOf("error", "much")}; !slices.Equal(r.Others(), want) {
			t.Errorf("the retry got %q, want %q", r.Others(), want)
		}

		again = h.retry(cl, turnOf(t, r).answers(accepted)...)
		h.answered(`"b"`, accepted)
		h.Say(progressOf(token, 3), logOf("emergency", "unasked"))
		h.Answer(told("done"))
		if r = <-again; len(r.Others()) != 0 || r.Text() != "done" {
			t.Errorf("a retry that asked for nothing got %v", r)
		}
	}, shared(servers.ShareSession, may(everything)...))
}

// A client that leaves cancels its request at the server, also when it is a
// retry that it leaves.
func TestClientLeavesAHeldRequest(t *testing.T) {
	for _, rounds := range []int{0, 1, 2} {
		t.Run(strconv.Itoa(rounds), func(t *testing.T) {
			direct(t, mcptest.EraLegacy, func(t *testing.T, w way) {
				cl := w.crib.dial(w.endpoint)
				h := w.hold(t)
				var members []string
				for round := range rounds {
					h.Say(formOf(strconv.Itoa(round)))
					members = turnOf(t, send(cl, h.call, append(members, meta(`"t"`, ""))...)).answers(accepted)
				}
				s := make(chan *mcptest.Stream, 1)
				go func() {
					s <- cl.Open(wire.Modern, h.call.method, h.call.with(append(members, meta(`"t"`, ""))...))
				}()
				if rounds > 0 {
					h.answered(strconv.Itoa(rounds-1), accepted)
				}
				h.Say(progressOf(h.at("params", "_meta", "progressToken"), 1))
				open := <-s
				open.Next()
				open.Close()
				w.wantCancelled(t, h.at("id"))
				if rounds == 0 {
					return
				}
				if r := send(cl, h.call, members...); r.RPCError().Code != wire.CodeInvalidParams {
					t.Errorf("the state afterwards: %v", r)
				}
			}, shared(servers.SharePrincipal, may(everything)...))
		})
	}
}

// A client that never comes back ends its request at the server, and its state
// is worth nothing by then.
func TestClientThatNeverComesBack(t *testing.T) {
	own := func(name string) []string { return []string{name} }
	waysWith(t, cribOptions{round: 50 * time.Millisecond}, mcptest.EraLegacy, own, func(t *testing.T, w way) {
		cl := w.crib.dial(w.endpoint)
		h := w.hold(t)
		h.Say(formOf(`"a"`))
		q := turnOf(t, send(cl, h.call))
		w.wantCancelled(t, h.at("id"))
		before := len(h.requests("tools/call"))
		if r := send(cl, h.call, q.answers(accepted)...); r.RPCError().Code != wire.CodeInvalidParams {
			t.Errorf("the state afterwards: %v", r)
		}
		if after := len(h.requests("tools/call")); after != before {
			t.Error("the server got the call again")
		}
	}, shared(servers.ShareSession, may(everything)...))
}

// A question that its server took back while the client was away gets no
// answer; the others do, and the conversation goes on.
func TestQuestionIsTakenBackWhileTheClientIsAway(t *testing.T) {
	direct(t, mcptest.EraLegacy, func(t *testing.T, w way) {
		cl := w.crib.dial(w.endpoint)
		h := w.hold(t)
		h.Say(formOf(`"a"`), formOf(`1`))
		q := turnOf(t, send(cl, h.call))
		for len(q.keys) < 2 { // a machine that is busy may tear apart what comes together
			h.heard()
			q = turnOf(t, send(cl, h.call, withAnswers(q.state, "{}")...))
		}
		h.Say(takenBack(`1`), takenBack(`"1"`), takenBack(`"none"`))
		h.heard()
		again := h.retry(cl, q.answers(accepted, accepted)...)
		h.answered(`"a"`, accepted)
		h.Say(formOf(`"c"`))
		q = turnOf(t, <-again)

		h.Say(takenBack(`"c"`)) // all that is left
		h.heard()
		again = h.retry(cl, q.answers(accepted)...)
		h.Say(formOf(`"d"`))
		q = turnOf(t, <-again)
		again = h.retry(cl, q.answers(accepted)...)
		h.answered(`"d"`, accepted)
		h.Answer(told("done"))
		if r := <-again; r.Text() != "done" {
			t.Errorf("%v", r)
		}
		got := h.responses()
		maps.DeleteFunc(got, func(id, _ string) bool { return strings.Contains(id, "ping") })
		if !maps.Equal(got, map[string]string{`"a"`: accepted, `"d"`: accepted}) {
			t.Errorf("the server got %v", got)
		}
	}, shared(servers.ShareSession, may(everything)...))
}

// What a server asks while the client is away is put to the client when it
// comes back, whatever key it guesses.
func TestServerAsksWhileTheClientIsAway(t *testing.T) {
	direct(t, mcptest.EraLegacy, func(t *testing.T, w way) {
		cl := w.crib.dial(w.endpoint)
		h := w.hold(t)
		h.Say(formOf(`"a"`))
		first := turnOf(t, send(cl, h.call))
		h.Say(formOf(`"b"`))
		h.heard()
		const guess = `{"action":"accept","content":{"guess":true}}`
		responses := `"":` + guess
		for i := range 5 {
			responses += fmt.Sprintf(`,"q%d":%s,"k%d":%s`, i, guess, i, guess)
		}
		second := turnOf(t, send(cl, h.call, withAnswers(first.state, `{`+responses+`}`)...))
		if len(second.keys) != 1 || second.keys[0] == first.keys[0] {
			t.Errorf("first asked was %q, then %q", first.keys, second.keys)
		}
		h.answered(`"a"`, guess)
		again := h.retry(cl, second.answers(accepted)...)
		h.answered(`"b"`, accepted)
		h.Answer(told("done"))
		if r := <-again; r.Text() != "done" {
			t.Errorf("%v", r)
		}
	}, shared(servers.ShareSession, may(everything)...))
}

// A server that answers while the client is away waits for nothing: its
// question is declined, and the client gets the answer when it comes back.
func TestServerAnswersWhileTheClientIsAway(t *testing.T) {
	direct(t, mcptest.EraLegacy, func(t *testing.T, w way) {
		cl := w.crib.dial(w.endpoint)
		h := w.hold(t)
		h.Say(formOf(`"a"`))
		q := turnOf(t, send(cl, h.call))
		h.Answer(told("done without"))
		mcptest.Eventually(t, "the answer to the question", func() bool { return h.responses()[`"a"`] != "" })
		if r := send(cl, h.call, q.answers(accepted)...); r.Text() != "done without" {
			t.Errorf("%v", r)
		}
		if r := send(cl, h.call, q.answers(accepted)...); r.RPCError().Code != wire.CodeInvalidParams {
			t.Errorf("used twice: %v", r)
		}
		works(t, cl, wire.Modern, "echo")
		if got := h.responses()[`"a"`]; wire.ReadError([]byte(got)).Code != wire.CodeMethodNotFound {
			t.Errorf("the server got %s", got)
		}
	}, shared(servers.ShareSession, may(everything)...))
}

// What becomes of a request whose server dies while the client is away is not
// known, and the client is told so when it comes back.
func TestServerDiesWhileTheClientIsAway(t *testing.T) {
	peer := legacyPeer(t)
	starts := filepath.Join(t.TempDir(), "starts")
	private := shared(servers.ShareSession, may(everything)...)
	c := newCrib(t, cribOptions{},
		httpServer("far", peer.URL, private), stdioServer("near", mcptest.Peer("-era", "legacy", "-starts", starts), private))
	for name, kill := range map[string]func(){
		"far": peer.CutConnections,
		"near": func() {
			for _, line := range linesOf(t, starts) {
				pid, err := strconv.Atoi(line)
				if err != nil {
					t.Fatal(err)
				}
				if p, err := os.FindProcess(pid); err == nil {
					p.Kill() //nolint:errcheck // it may have ended
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			cl := c.dial(name)
			q := turnOf(t, cl.Post(wire.Modern, "tools/call", callOf("elicit", "{}")))
			kill()
			r := cl.Post(wire.Modern, "tools/call", callOf("elicit", "{}", q.answers(accepted)...))
			if !isError(r.Message()) || codeOf(r) != crib.Unknown {
				t.Errorf("%v", r)
			}
		})
	}
	if n := peer.Executions("elicit"); n != 1 {
		t.Errorf("it was executed %d times", n)
	}
}

// When the crib ends, so do the requests that servers hold for clients that are
// away.
func TestCribEndsWhileTheClientIsAway(t *testing.T) {
	direct(t, mcptest.EraLegacy, func(t *testing.T, w way) {
		h := w.hold(t)
		h.Say(formOf(`"a"`))
		turnOf(t, send(w.crib.dial(w.endpoint), h.call))
		w.crib.gw.Close()
		w.wantCancelled(t, h.at("id"))
	}, shared(servers.ShareSession, may(everything)...))
}

// Requests that are held at one time are asked for each by itself, whoever
// shares the connection: nobody gets another's question, or answers it.
func TestHeldRequestsSideBySide(t *testing.T) {
	direct(t, mcptest.EraLegacy, func(t *testing.T, w way) {
		tokens := []string{w.crib.token, w.crib.newToken("other")}
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				cl := w.crib.dialAs(tokens[i%2], w.endpoint)
				name := fmt.Sprintf("client-%d", i)
				h := w.hold(t)
				id := fmt.Sprintf(`"%d"`, i/2) // the connections of the two know nothing of each other's ids
				h.Say(strings.Replace(formOf(id), "Who are <you>?", name, 1))
				q := turnOf(t, send(cl, h.call))
				if len(q.asks) != 1 || !strings.Contains(q.asks[0], `"message":"`+name+`"`) {
					t.Errorf("%s was asked %q", name, q.asks)
				}
				again := h.retry(cl, q.answers(`{"action":"accept","content":{"name":"`+name+`"}}`)...)
				mcptest.Eventually(t, "the answer of "+name, func() bool { return strings.Contains(h.responses()[id], name) })
				h.Answer(told(name))
				if r := <-again; r.Text() != name {
					t.Errorf("%s got %v", name, r)
				}
			})
		}
		all.Wait()
	}, shared(servers.SharePrincipal, may(everything)...))
}

// On a connection that everybody shares, whoever calls hears what its own call
// makes the server say, or nothing; and nobody is asked.
func TestNobodyHearsAnother(t *testing.T) {
	for server, client := range map[string]wire.Era{mcptest.EraLegacy: wire.Modern, mcptest.EraModern: wire.Legacy} {
		t.Run(string(client)+" clients", func(t *testing.T) {
			ways(t, server, func(t *testing.T, w way) {
				tokens := []string{w.crib.token, w.crib.newToken("other-" + w.endpoint + "x")}
				var calls []*held
				streams := make([]chan *mcptest.Stream, len(tokens))
				for i := range tokens {
					cl := w.crib.dialAs(tokens[i], w.endpoint)
					if client == wire.Legacy {
						setLevel(t, w.crib.opened(cl), "debug")
					}
					h := w.hold(t)
					streams[i] = make(chan *mcptest.Stream, 1)
					level := map[wire.Era]string{wire.Modern: "debug"}[client]
					go func() { streams[i] <- cl.Open(client, h.call.method, h.call.with(meta(`"t"`, level))) }()
					h.at("id")
					calls = append(calls, h)
				}
				for i, h := range calls { // while both are open
					if server == mcptest.EraLegacy {
						h.Say(formOf(fmt.Sprintf(`"q%d"`, i)))
					}
					h.Say(logOf("error", fmt.Sprintf("said to %d", i)), progressOf(h.at("params", "_meta", "progressToken"), i))
				}
				heard := make([][]string, len(tokens))
				open := make([]*mcptest.Stream, len(tokens))
				for i := range open {
					open[i] = <-streams[i]
					for len(heard[i]) == 0 || method(heard[i][len(heard[i])-1]) != "notifications/progress" {
						heard[i] = append(heard[i], open[i].Next().Data)
					}
				}
				for i, h := range calls {
					h.Answer(told(fmt.Sprintf("answer %d", i)))
					got := append(heard[i], rest(open[i])...)
					want := []string{progressOf(`"t"`, i)}
					if w.name == "http" { // the stream of the call proves whose it is
						want = []string{logOf("error", fmt.Sprintf("said to %d", i)), want[0]}
					}
					last := (&mcptest.Reply{Body: []byte(got[len(got)-1])}).Text()
					if !slices.Equal(got[:len(got)-1], want) || last != fmt.Sprintf("answer %d", i) {
						t.Errorf("client %d got %q, want %q", i, got, want)
					}
				}
				if server == mcptest.EraLegacy {
					mcptest.Eventually(t, "the answers to both questions", func() bool { return len(w.responses()) == len(tokens) })
				}
				for id, got := range w.responses() {
					if wire.ReadError([]byte(got)).Code != wire.CodeMethodNotFound {
						t.Errorf("to %s the server got %s", id, got)
					}
				}
			}, shared(servers.ShareServer, may(everything)...))
		})
	}
}
