package mcphttp_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/wire"
)

const elicitRequest = `{"method":"elicitation/create","params":` + elicitParams + `,"x-q":"keep"}`

// asked sends a call that is answered with questions, and returns the raw
// requestState of the answer.
func asked(t *testing.T, cl *mcptest.Client, params string) (state, result string) {
	t.Helper()
	r := cl.Post(wire.Modern, "tools/call", params)
	result = r.Result()
	state = string(wire.Get([]byte(result), "requestState"))
	if kind, _ := wire.GetText([]byte(result), "resultType"); kind != "input_required" || state == "" {
		t.Fatalf("no question: %v", r)
	}
	return state, result
}

// withAnswers are the members that a retry has beside the first request.
func withAnswers(state, responses string) []string {
	return []string{`"requestState":` + state, `"inputResponses":` + responses}
}

const oneAnswer = `{"k1":` + accepted + `}`

// A question of a modern server travels through the client and back: the
// question and the answers as they were, the server's state sealed in ours
// (2026-07-28, Multi Round-Trip Requests).
func TestRoundTrip(t *testing.T) {
	for name, server := range recorders(t, mcptest.EraModern, shared(servers.ShareServer, may(everything)...)) {
		t.Run(name, func(t *testing.T) {
			c := newCrib(t, cribOptions{}, server.def)
			cl := c.dial(name)
			const args = `{"count":2,"rounds":2,"n":1.0}`
			state, result := asked(t, cl, callOf("elicit", args))
			if want := `"inputRequests":{"k1":` + elicitRequest + `,"k2":` + elicitRequest + `},`; !strings.Contains(result, want) || !strings.Contains(result, `"x-top":"keep"`) {
				t.Errorf("the question is %s", result)
			}
			checkSealed(t, state)
			again, result := asked(t, cl, callOf("elicit", args, withAnswers(state, `{"k1":1,"k2":2}`)...))
			if again == state || !strings.Contains(result, `"x-top":"keep"`) {
				t.Errorf("the second question is %s", result)
			}
			const answers = `{"k1":` + accepted + `,"k2":{"action":"decline"},"more":1e2}`
			r := cl.Post(wire.Modern, "tools/call", callOf("elicit", args, withAnswers(again, answers)...))
			if got := string(wire.Get([]byte(r.Result()), "structuredContent")); got != answers {
				t.Errorf("the server got %v", r)
			}
			for _, m := range server.received() {
				if strings.Contains(m, state) || strings.Contains(m, again) {
					t.Errorf("the server got our state: %s", m)
				}
			}
		})
	}
}

// checkSealed checks that nothing of the server's state can be read.
func checkSealed(t *testing.T, state string) {
	t.Helper()
	sealed, err := base64.RawURLEncoding.DecodeString(wire.Text([]byte(state)))
	if err != nil || strings.Contains(state+string(sealed), "st<") || strings.Contains(string(sealed), "tester") {
		t.Errorf("the state is %s: %v", state, err)
	}
}

func TestRoundTripOnTheAggregate(t *testing.T) {
	peer := modernPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
	cl := c.dial("")
	state, result := asked(t, cl, callOf("fake__elicit", "{}"))
	if want := strings.Replace(elicitRequest, `"message":"`, `"message":"[fake] `, 1); !strings.Contains(result, `"inputRequests":{"k1":`+want+`}`) {
		t.Errorf("the question is %s", result)
	}
	r := cl.Post(wire.Modern, "tools/call", callOf("fake__elicit", "{}", withAnswers(state, oneAnswer)...))
	if got := string(wire.Get([]byte(r.Result()), "structuredContent")); got != oneAnswer {
		t.Errorf("the server got %v", r)
	}
	if peer.Executions("elicit") != 1 || peer.Requests("tools/call") != 2 {
		t.Errorf("%d executions of %d calls", peer.Executions("elicit"), peer.Requests("tools/call"))
	}
}

// swapped is the raw state with one character replaced by another.
func swapped(state string, at int) string {
	b := []byte(state)
	if b[at] == 'A' {
		b[at] = 'B'
	} else {
		b[at] = 'A'
	}
	return string(b)
}

// A state is worth something only as it was given: once, to the same caller,
// for the same request.
func TestStateIsNotTakenOnTrust(t *testing.T) {
	peer, twin := modernPeer(t), modernPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL), httpServer("twin", twin.URL))
	strange := newCrib(t, cribOptions{}, httpServer("fake", peer.URL)) // with a key of its own
	cl, other := c.dial("fake"), c.dialAs(c.newToken("other"), "fake")
	const args = `{"a":1}`
	answers := `"inputResponses":` + oneAnswer
	for _, tc := range []struct {
		name  string
		tried func(state string) *mcptest.Reply
	}{
		{"the first character", func(state string) *mcptest.Reply {
			return cl.Post(wire.Modern, "tools/call", callOf("elicit", args, withAnswers(swapped(state, 1), oneAnswer)...))
		}},
		{"one in the middle", func(state string) *mcptest.Reply {
			return cl.Post(wire.Modern, "tools/call", callOf("elicit", args, withAnswers(swapped(state, len(state)/2), oneAnswer)...))
		}},
		{"cut short", func(state string) *mcptest.Reply {
			return cl.Post(wire.Modern, "tools/call", callOf("elicit", args, withAnswers(state[:len(state)/2]+`"`, oneAnswer)...))
		}},
		{"empty", func(string) *mcptest.Reply {
			return cl.Post(wire.Modern, "tools/call", callOf("elicit", args, withAnswers(`""`, oneAnswer)...))
		}},
		{"null", func(string) *mcptest.Reply {
			return cl.Post(wire.Modern, "tools/call", callOf("elicit", args, withAnswers(`null`, oneAnswer)...))
		}},
		{"missing", func(string) *mcptest.Reply {
			return cl.Post(wire.Modern, "tools/call", callOf("elicit", args, answers))
		}},
		{"of another principal", func(state string) *mcptest.Reply {
			return other.Post(wire.Modern, "tools/call", callOf("elicit", args, withAnswers(state, oneAnswer)...))
		}},
		{"of another tool", func(state string) *mcptest.Reply {
			return cl.Post(wire.Modern, "tools/call", callOf("sample", args, withAnswers(state, oneAnswer)...))
		}},
		{"of another server", func(state string) *mcptest.Reply {
			return c.dial("twin").Post(wire.Modern, "tools/call", callOf("elicit", args, withAnswers(state, oneAnswer)...))
		}},
		{"of another method", func(state string) *mcptest.Reply {
			return cl.Post(wire.Modern, "prompts/get", callOf("elicit", args, withAnswers(state, oneAnswer)...))
		}},
		{"of other arguments", func(state string) *mcptest.Reply {
			return cl.Post(wire.Modern, "tools/call", callOf("elicit", `{"a":2}`, withAnswers(state, oneAnswer)...))
		}},
		{"of arguments spelled otherwise", func(state string) *mcptest.Reply {
			return cl.Post(wire.Modern, "tools/call", callOf("elicit", `{"a":1.0}`, withAnswers(state, oneAnswer)...))
		}},
		{"of another crib", func(state string) *mcptest.Reply {
			return strange.dial("fake").Post(wire.Modern, "tools/call", callOf("elicit", args, withAnswers(state, oneAnswer)...))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			state, _ := asked(t, cl, callOf("elicit", args))
			before := peer.Requests("tools/call") + twin.Requests("tools/call")
			if r := tc.tried(state); r.RPCError().Code != wire.CodeInvalidParams {
				t.Errorf("%v", r)
			}
			if after := peer.Requests("tools/call") + twin.Requests("tools/call"); after != before {
				t.Error("it reached the server")
			}
			retry := callOf("elicit", args, withAnswers(state, oneAnswer)...)
			if r := cl.Post(wire.Modern, "tools/call", retry); string(wire.Get([]byte(r.Result()), "structuredContent")) != oneAnswer {
				t.Errorf("its owner cannot use it any more: %v", r)
			}
			if r := cl.Post(wire.Modern, "tools/call", retry); r.RPCError().Code != wire.CodeInvalidParams {
				t.Errorf("used twice: %v", r)
			}
		})
	}
}

// Of many who send one state at the same time, one gets through.
func TestStateIsSpentOnce(t *testing.T) {
	peer := modernPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
	cl := c.dial("fake")
	state, _ := asked(t, cl, callOf("elicit", "{}"))
	before := peer.Requests("tools/call")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { cl.Post(wire.Modern, "tools/call", callOf("elicit", "{}", withAnswers(state, oneAnswer)...)) })
	}
	all.Wait()
	if n := peer.Requests("tools/call") - before; n != 1 {
		t.Errorf("%d of 20 reached the server", n)
	}
}

// A server that refuses an answer without a word of MCP had it in its hands:
// it does not come a second time.
func TestARefusedAnswerIsSpent(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusTooManyRequests, http.StatusTemporaryRedirect} {
		peer := modernPeer(t)
		c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
		cl := c.dial("fake")
		state, _ := asked(t, cl, callOf("elicit", "{}"))
		came := answerCalls(peer, answerWith(status, "text/plain", "no"))
		for range 2 {
			cl.Post(wire.Modern, "tools/call", callOf("elicit", "{}", withAnswers(state, oneAnswer)...))
		}
		if came.Load() != 1 {
			t.Errorf("HTTP %d: the answer came %d times", status, came.Load())
		}
	}
}

// inputRequired makes a peer answer a method with these members of an
// input_required result, until a request comes with inputResponses or
// requestState; that is answered with final.
func inputRequired(name, members, final string) mcptest.Script {
	return func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
		if method(string(body)) != name {
			return false
		}
		result := `{"resultType":"input_required",` + members + `}`
		if wire.GetPath(body, "params", "inputResponses") != nil || wire.GetPath(body, "params", "requestState") != nil {
			result = final
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, mcptest.RequestID(body), result)
		return true
	}
}

const done = `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`

// A server asks only what its page and the client allow.
func TestQuestionsOfAModernServerThatAreNotAsked(t *testing.T) {
	const all = `{"elicitation":{},"sampling":{},"roots":{},"extensions":{"com.x/y":{}}}`
	for _, tc := range []struct {
		name, may, caps, method string
		allowed                 bool
	}{
		{"allowed", everything, all, "sampling/createMessage", true},
		{"of an extension", everything, all, "vendor/thing", true},
		{"the client lacks it", everything, `{"elicitation":{},"roots":{}}`, "sampling/createMessage", false},
		{"the client lacks all", everything, `{}`, "elicitation/create", false},
		{"the page leaves it out", "elicitation,roots", all, "sampling/createMessage", false},
		{"the page leaves another out", "elicitation,sampling", all, "roots/list", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			peer := modernPeer(t)
			peer.Script(inputRequired("tools/call", `"requestState":"s","inputRequests":{"a":{"method":"elicitation/create"},"b":{"method":"`+tc.method+`"}}`, done))
			c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL, shared(servers.ShareServer, may(tc.may)...)))
			cl := c.dial("fake")
			cl.Capabilities = tc.caps
			r := cl.Post(wire.Modern, "tools/call", callOf("elicit", "{}"))
			kind, _ := wire.GetText([]byte(r.Result()), "resultType")
			if tc.allowed && kind != "input_required" || !tc.allowed && (kind != "complete" || !isError(r.Message()) || strings.Contains(r.Message(), "requestState")) {
				t.Errorf("%v", r)
			}
			told := string(wire.GetPath(peer.Last("tools/call").Body, "params", "_meta", wire.MetaClientCapabilities))
			for _, capability := range may(everything) {
				declared := wire.Get([]byte(tc.caps), capability) != nil && strings.Contains(tc.may, capability)
				if (wire.Get([]byte(told), capability) != nil) != declared {
					t.Errorf("the server was told of %s", told)
				}
			}
		})
	}
}

// A server need not give a state, nor ask anything: it gets back what it gave.
func TestRoundTripWithHalfOfIt(t *testing.T) {
	for _, tc := range []struct {
		name, members, answers, state string
	}{
		{"no state", `"inputRequests":{"a":{"method":"elicitation/create"}}`, `"inputResponses":{"a":{}}`, ``},
		{"no questions", `"requestState":"s<&>\u2028\/"`, ``, `"s<&>\u2028\/"`},
		{"a large state", `"requestState":"` + strings.Repeat("é", 20<<10) + `"`, ``, `"` + strings.Repeat("é", 20<<10) + `"`},
	} {
		for _, name := range []string{"tools/call", "prompts/get", "resources/read"} {
			for _, endpoint := range []string{"", "fake"} {
				if tc.name == "a large state" && (name != "tools/call" || endpoint == "") {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s of %q", tc.name, name, endpoint), func(t *testing.T) {
					peer := modernPeer(t)
					peer.Script(inputRequired(name, tc.members, `{"resultType":"complete","content":[],"messages":[],"contents":[]}`))
					c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
					cl := c.dial(endpoint)
					params := map[string]string{"tools/call": `{"name":"echo"`, "prompts/get": `{"name":"plain"`, "resources/read": `{"uri":"text://a"`}[name]
					if endpoint == "" {
						params = map[string]string{"tools/call": `{"name":"fake__echo"`, "prompts/get": `{"name":"fake__plain"`, "resources/read": `{"uri":"crib.fake+text://a"`}[name]
					}
					first := cl.Post(wire.Modern, name, params+`}`)
					state := string(wire.Get([]byte(first.Result()), "requestState"))
					members := []string{params, `"requestState":` + state}
					if tc.answers != "" {
						members = append(members, tc.answers)
					}
					if r := cl.Post(wire.Modern, name, strings.Join(members, ",")+`}`); !strings.Contains(r.Result(), `"resultType":"complete"`) {
						t.Errorf("first %v, then %v", first, r)
					}
					if got := string(wire.GetPath(peer.Last(name).Body, "params", "requestState")); got != tc.state {
						t.Errorf("the server got back the state %.100s", got)
					}
				})
			}
		}
	}
}

// A server that never has enough is ended.
func TestRoundsEnd(t *testing.T) {
	const rounds = 16
	peer := modernPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
	cl := c.dial("fake")
	const args = `{"rounds":100}`
	state, _ := asked(t, cl, callOf("elicit", args))
	for range rounds - 1 {
		state, _ = asked(t, cl, callOf("elicit", args, withAnswers(state, oneAnswer)...))
	}
	r := cl.Post(wire.Modern, "tools/call", callOf("elicit", args, withAnswers(state, oneAnswer)...))
	if !isError(r.Message()) || !strings.Contains(r.Text(), "16 times") {
		t.Errorf("after %d rounds: %v", rounds, r)
	}
	if peer.Executions("elicit") != 1 {
		t.Errorf("%d executions", peer.Executions("elicit"))
	}
}

// What only the calls, prompts and readings may ask for is an error elsewhere.
func TestInputForWhatCannotAsk(t *testing.T) {
	peer := modernPeer(t)
	peer.Script(inputRequired("completion/complete", `"requestState":"s"`, done))
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
	r := c.dial("fake").Post(wire.Modern, "completion/complete", `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"name","value":""}}`)
	if r.RPCError().Code == 0 || !strings.Contains(r.RPCError().Message, "asks for input") {
		t.Errorf("%v", r)
	}
}
