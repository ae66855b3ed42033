package mcphttp_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// way is how clients reach a server: over a transport, at the server's own
// endpoint or at that of all servers.
type way struct {
	recorder
	crib     *cribT
	name     string // of the server
	endpoint string // "" is that of all
	from     int    // messages that the server had received before
}

// ways runs a test with a server of an era on every way to it.
func ways(t *testing.T, era string, test func(t *testing.T, w way), change ...func(*servers.Definition)) {
	t.Helper()
	waysTo(t, era, func(name string) []string { return []string{name, ""} }, test, change...)
}

// direct is ways for what is the same at every endpoint.
func direct(t *testing.T, era string, test func(t *testing.T, w way), change ...func(*servers.Definition)) {
	t.Helper()
	waysTo(t, era, func(name string) []string { return []string{name} }, test, change...)
}

func waysTo(t *testing.T, era string, endpoints func(name string) []string, test func(t *testing.T, w way), change ...func(*servers.Definition)) {
	t.Helper()
	waysWith(t, cribOptions{}, era, endpoints, test, change...)
}

func waysWith(t *testing.T, o cribOptions, era string, endpoints func(name string) []string, test func(t *testing.T, w way), change ...func(*servers.Definition)) {
	t.Helper()
	for name, server := range recorders(t, era, change...) {
		c := newCrib(t, o, server.def)
		for _, endpoint := range endpoints(name) {
			t.Run(fmt.Sprintf("%s at %q", name, endpoint), func(t *testing.T) {
				w := way{recorder: server, crib: c, name: name, endpoint: endpoint}
				w.from = len(w.news())
				test(t, w)
			})
		}
	}
}

// news are the messages that the server has received in this test.
func (w way) news() []string {
	return slices.DeleteFunc(w.received(), func(m string) bool { return m == "" })[w.from:]
}

// requests are those of the news that have a method.
func (w way) requests(name string) []string {
	return slices.DeleteFunc(w.news(), func(m string) bool { return method(m) != name })
}

// responses are the raw results and errors that the server got to its
// questions, by their raw ids.
func (w way) responses() map[string]string {
	out := map[string]string{}
	for _, m := range w.news() {
		if method(m) != "" {
			continue
		}
		id := string(wire.Get([]byte(m), "id"))
		out[id] += string(wire.Get([]byte(m), "result")) + string(wire.Get([]byte(m), "error"))
	}
	return out
}

// request is a method and its params, which further members can be added to.
type request struct{ method, open string }

func (r request) with(members ...string) string {
	return strings.Join(append([]string{r.open}, members...), ",") + "}"
}

// public is what clients call a tool or prompt of the server.
func (w way) public(name string) string {
	if w.endpoint == "" {
		return w.name + "__" + name
	}
	return name
}

// tool calls a tool, prompt gets a prompt that asks first, and read reads a
// resource that does.
func (w way) tool(name, args string) request {
	return request{"tools/call", strings.TrimSuffix(callOf(w.public(name), args), "}")}
}

func (w way) prompt() request {
	return request{"prompts/get", `{"name":"` + w.public("greet") + `","arguments":{"name":"A","ask":"1"}`}
}

func (w way) read() request {
	uri := "text://ask"
	if w.endpoint == "" {
		uri = "crib." + w.name + "+" + uri
	}
	return request{"resources/read", `{"uri":"` + uri + `"`}
}

// shown are the params of a question as a person's client gets them.
func (w way) shown(params string) string {
	if w.endpoint == "" {
		return strings.Replace(params, `"message":"`, `"message":"[`+w.name+`] `, 1)
	}
	return params
}

// given is what a server says that it was answered, of the result of any
// request that asks.
func given(r *mcptest.Reply) string {
	result := []byte(r.Result())
	if v := wire.Get(result, "structuredContent"); v != nil {
		return string(v)
	}
	for _, list := range []string{"messages", "contents"} {
		raw := wire.Get(result, list)
		for _, at := range wire.Elements(raw) {
			if text := wire.GetPath(at.In(raw), "content", "text"); text != nil {
				return wire.Text(text)
			}
			return wire.Text(wire.Get(at.In(raw), "text"))
		}
	}
	return ""
}

// turn is an answer that asks a modern client.
type turn struct {
	state string   // raw
	keys  []string // of the questions, in their order
	asks  []string // the raw questions
}

// turnOf reads an answer, which must be one that asks.
func turnOf(t *testing.T, r *mcptest.Reply) turn {
	t.Helper()
	result := []byte(r.Result())
	if kind, _ := wire.GetText(result, "resultType"); kind != "input_required" {
		t.Fatalf("no question: %v", r)
	}
	out := turn{state: string(wire.Get(result, "requestState"))}
	raw := wire.Get(result, "inputRequests")
	for _, m := range wire.Members(raw) {
		out.keys, out.asks = append(out.keys, m.Key), append(out.asks, string(m.Val.In(raw)))
	}
	if out.state == "" || len(out.keys) == 0 {
		t.Fatalf("half a question: %v", r)
	}
	return out
}

// answers are the members of a retry that answers the questions in their order.
func (q turn) answers(results ...string) []string {
	var all []string
	for i, result := range results {
		all = append(all, `"`+q.keys[i]+`":`+result)
	}
	return withAnswers(q.state, "{"+strings.Join(all, ",")+"}")
}

// send sends a request of a modern client.
func send(cl *mcptest.Client, rq request, members ...string) *mcptest.Reply {
	return cl.Post(wire.Modern, rq.method, rq.with(members...))
}

const (
	linkParams   = `{"mode":"url","url":"https://example.test/sign-in","message":"Sign in."}`
	sampleParams = `{"messages":[{"role":"user","content":{"type":"text","text":"2+2?"}}],"maxTokens":9007199254740993,"x-p":"keep"}`
	sampled      = `{"role":"assistant","content":{"type":"text","text":"4 <&>"},"model":"m","n":1.0,"x-r":"keep"}`
	rooted       = `{"roots":[{"uri":"file:///home","x":1e2}]}`
)

// asking are the requests because of which a server asks, with the question and
// an answer to it.
func (w way) asking() []struct {
	name    string
	request request
	method  string
	params  string
	answer  string
} {
	return []struct {
		name    string
		request request
		method  string
		params  string
		answer  string
	}{
		{"a form", w.tool("elicit", "{}"), "elicitation/create", elicitParams, accepted},
		{"a link", w.tool("elicit", `{"mode":"url"}`), "elicitation/create", linkParams, `{"action":"accept"}`},
		{"a completion", w.tool("sample", "{}"), "sampling/createMessage", sampleParams, sampled},
		{"the roots", w.tool("roots", "{}"), "roots/list", `{}`, rooted},
		{"a form before a prompt", w.prompt(), "elicitation/create", elicitParams, accepted},
		{"a form before a reading", w.read(), "elicitation/create", elicitParams, accepted},
	}
}

// A legacy server asks while it holds the request; the modern client is asked
// by an answer, and its retry brings the server the answers, each byte as it
// was, to the one request that it holds.
func TestModernClientIsAskedByALegacyServer(t *testing.T) {
	for _, share := range []servers.Share{servers.ShareSession, servers.SharePrincipal} {
		t.Run(string(share), func(t *testing.T) {
			ways(t, mcptest.EraLegacy, func(t *testing.T, w way) {
				for _, tc := range w.asking() {
					w.from += len(w.news())
					cl := w.crib.dial(w.endpoint)
					q := turnOf(t, send(cl, tc.request))
					if want := `{"method":"` + tc.method + `","params":` + w.shown(tc.params) + `}`; !slices.Equal(q.asks, []string{want}) {
						t.Errorf("%s: asked was %q, want %s", tc.name, q.asks, want)
					}
					checkSealed(t, q.state)
					if r := send(cl, tc.request, q.answers(tc.answer)...); given(r) != `{"k1":`+tc.answer+`}` {
						t.Errorf("%s: %v", tc.name, r)
					}
					if got := w.requests(tc.request.method); len(got) != 1 || strings.Contains(got[0], "inputResponses") {
						t.Errorf("%s: the server got %q", tc.name, got)
					}
					for id, result := range w.responses() {
						if result != tc.answer || strings.Contains(id, "crib") {
							t.Errorf("%s: to %s the server got %s", tc.name, id, result)
						}
					}
					if len(w.responses()) != 1 {
						t.Errorf("%s: the server got the answers %v", tc.name, w.responses())
					}
				}
			}, shared(share, may(everything)...))
		})
	}
}

// Questions that come together are asked together, and none of them under a key
// that was used before.
func TestQuestionsOfALegacyServerAreJoined(t *testing.T) {
	ways(t, mcptest.EraLegacy, func(t *testing.T, w way) {
		cl := w.crib.dial(w.endpoint)
		call := w.tool("elicit", `{"count":3,"rounds":2}`)
		joined := false
		for range 5 { // a machine that is busy may tear apart what comes together
			used, turns := map[string]bool{}, 0
			r := send(cl, call)
			for wire.Text(wire.Get([]byte(r.Result()), "resultType")) == "input_required" {
				q := turnOf(t, r)
				turns++
				var results []string
				for _, key := range q.keys {
					if used[key] {
						t.Errorf("the key %s was used before", key)
					}
					used[key] = true
					results = append(results, `{"action":"accept","content":{"key":"`+key+`"}}`)
				}
				r = send(cl, call, q.answers(results...)...)
			}
			if len(used) != 6 {
				t.Fatalf("asked was %d times: %v", len(used), r)
			}
			whole, last := given(r), 0
			for key := range used {
				last += strings.Count(whole, `"content":{"key":"`+key+`"}`)
			}
			if last != 3 {
				t.Errorf("the server got %s", whole)
			}
			if joined = turns == 2; joined {
				break
			}
		}
		if !joined {
			t.Error("questions that came together were asked one by one")
		}
	}, shared(servers.ShareSession, may(everything)...))
}

// A question waits a little for those that come soon after it.
func TestQuestionWaitsForOthers(t *testing.T) {
	direct(t, mcptest.EraLegacy, func(t *testing.T, w way) {
		cl := w.crib.dial(w.endpoint)
		for range 10 { // a machine that is busy may be too late
			h := w.hold(t)
			came := h.retry(cl)
			h.Say(formOf(`"a"`))
			h.heard()
			h.Say(formOf(`"b"`))
			r := <-came
			joined := len(turnOf(t, r).keys) == 2
			h.Answer(told("done"))
			for r.Text() != "done" { // what came too late is asked by itself
				q := turnOf(t, r)
				r = send(cl, h.call, q.answers(slices.Repeat([]string{accepted}, len(q.keys))...)...)
			}
			if joined {
				return
			}
		}
		t.Error("no question waited for another")
	}, shared(servers.ShareSession, may(everything)...))
}

// What is not answered is asked again under another key, what was not asked is
// not looked at, and the server gets nothing but answers.
func TestAnswersThatAreNone(t *testing.T) {
	direct(t, mcptest.EraLegacy, func(t *testing.T, w way) {
		cl := w.crib.dial(w.endpoint)
		for _, tc := range []struct {
			responses string // KEY stands for the key
			again     bool
		}{
			{``, true},
			{`{}`, true},
			{`{"other":` + accepted + `}`, true},
			{`{"k1":` + accepted + `}`, true},
			{`{"":` + accepted + `}`, true},
			{`{"KEY":1}`, true},
			{`{"KEY":null}`, true},
			{`{"KEY":"accept"}`, true},
			{`{"KEY":[` + accepted + `]}`, true},
			{`null`, true},
			{`[]`, true},
			{`{"KEY":` + accepted + `,"other":{"action":"decline"},"n":1}`, false},
		} {
			w.from += len(w.news())
			call := w.tool("elicit", "{}")
			first := turnOf(t, send(cl, call))
			members := []string{`"requestState":` + first.state}
			if tc.responses != "" {
				members = append(members, `"inputResponses":`+strings.ReplaceAll(tc.responses, "KEY", first.keys[0]))
			}
			r := send(cl, call, members...)
			if tc.again {
				second := turnOf(t, r)
				if second.keys[0] == first.keys[0] || second.state == first.state || second.asks[0] != first.asks[0] {
					t.Errorf("%s: first %v, then %v", tc.responses, first, second)
				}
				if got := w.responses(); len(got) != 0 {
					t.Errorf("%s: the server got %v", tc.responses, got)
				}
				r = send(cl, call, second.answers(accepted)...)
			}
			if given(r) != oneAnswer || len(w.requests("tools/call")) != 1 || len(w.responses()) != 1 {
				t.Errorf("%s: %v; the server got %q", tc.responses, r, w.news())
			}
		}
	}, shared(servers.SharePrincipal, may(everything)...))
}

// Of several questions those that were answered are not asked again.
func TestSomeAnswersAreMissing(t *testing.T) {
	direct(t, mcptest.EraLegacy, func(t *testing.T, w way) {
		cl := w.crib.dial(w.endpoint)
		call := w.tool("elicit", `{"count":2}`)
		first := turnOf(t, send(cl, call))
		second := turnOf(t, send(cl, call, first.answers(`{"action":"decline"}`)...))
		if len(second.keys) != 1 || slices.Contains(first.keys, second.keys[0]) {
			t.Errorf("first asked was %q, then %q", first.keys, second.keys)
		}
		first.state = second.state // with the old keys, which are worth nothing any more
		third := turnOf(t, send(cl, call, first.answers(slices.Repeat([]string{accepted}, len(first.keys))...)...))
		got := given(send(cl, call, third.answers(accepted)...))
		if strings.Count(got, accepted) != 1 || strings.Count(got, `{"action":"decline"}`) != 1 {
			t.Errorf("the server got %s", got)
		}
	}, shared(servers.ShareSession, may(everything)...))
}

// The state of a request that a server holds is worth something only as it was
// given: once, to the same caller, for the same request.
func TestStateOfAHeldRequestIsNotTakenOnTrust(t *testing.T) {
	direct(t, mcptest.EraLegacy, func(t *testing.T, w way) {
		c := w.crib
		cl := c.dial(w.endpoint)
		other := c.dialAs(c.newToken("other-"+w.endpoint+"x"), w.endpoint)
		call := w.tool("elicit", `{"a":1}`)
		for _, tc := range []struct {
			name    string
			client  *mcptest.Client
			request request
			change  func(q turn) []string
		}{
			{"of another principal", other, call, func(q turn) []string { return q.answers(accepted) }},
			{"of another tool", cl, w.tool("sample", `{"a":1}`), func(q turn) []string { return q.answers(accepted) }},
			{"of another method", cl, w.read(), func(q turn) []string { return q.answers(accepted) }},
			{"of other arguments", cl, w.tool("elicit", `{"a":1.0}`), func(q turn) []string { return q.answers(accepted) }},
			{"changed", cl, call, func(q turn) []string {
				q.state = swapped(q.state, len(q.state)/2)
				return q.answers(accepted)
			}},
			{"missing", cl, call, func(q turn) []string { return q.answers(accepted)[1:] }},
			{"null", cl, call, func(q turn) []string {
				q.state = "null"
				return q.answers(accepted)
			}},
		} {
			w.from += len(w.news())
			q := turnOf(t, send(cl, call))
			if r := send(tc.client, tc.request, tc.change(q)...); r.RPCError().Code != wire.CodeInvalidParams {
				t.Errorf("%s: %v", tc.name, r)
			}
			if len(w.responses()) != 0 {
				t.Errorf("%s: the server got %v", tc.name, w.responses())
			}
			if r := send(cl, call, q.answers(accepted)...); given(r) != oneAnswer {
				t.Errorf("%s: its owner cannot use it any more: %v", tc.name, r)
			}
			if r := send(cl, call, q.answers(accepted)...); r.RPCError().Code != wire.CodeInvalidParams {
				t.Errorf("%s: used twice: %v", tc.name, r)
			}
			if len(w.requests("tools/call")) != 1 || len(w.responses()) != 1 {
				t.Errorf("%s: the server got %q", tc.name, w.news())
			}
		}
	}, shared(servers.SharePrincipal, may(everything)...))
}

// Of many who bring one state at the same time, one gets through.
func TestStateOfAHeldRequestIsSpentOnce(t *testing.T) {
	direct(t, mcptest.EraLegacy, func(t *testing.T, w way) {
		cl := w.crib.dial(w.endpoint)
		call := w.tool("elicit", "{}")
		q := turnOf(t, send(cl, call))
		var all sync.WaitGroup
		replies := make([]*mcptest.Reply, 20)
		for i := range replies {
			all.Go(func() {
				replies[i] = send(cl, call, q.answers(fmt.Sprintf(`{"action":"accept","content":{"i":%d}}`, i))...)
			})
		}
		all.Wait()
		through := 0
		for i, r := range replies {
			switch {
			case given(r) == fmt.Sprintf(`{"k1":{"action":"accept","content":{"i":%d}}}`, i):
				through++
			case r.RPCError().Code != wire.CodeInvalidParams && !isError(r.Message()):
				t.Errorf("retry %d: %v", i, r)
			}
		}
		if through != 1 || len(w.requests("tools/call")) != 1 || len(w.responses()) != 1 {
			t.Errorf("%d of 20 got through; the server got %q", through, w.news())
		}
	}, shared(servers.ShareSession, may(everything)...))
}

// A legacy server that never has enough is ended, and told so.
func TestRoundsOfALegacyServerEnd(t *testing.T) {
	const rounds = 16
	direct(t, mcptest.EraLegacy, func(t *testing.T, w way) {
		cl := w.crib.dial(w.endpoint)
		call := w.tool("elicit", `{"rounds":100,`+mark("greedy")+`}`)
		r := send(cl, call)
		for range rounds {
			r = send(cl, call, turnOf(t, r).answers(accepted)...)
		}
		if !isError(r.Message()) || !strings.Contains(r.Text(), "16 times") {
			t.Errorf("after %d rounds: %v", rounds, r)
		}
		w.wantCancelled(t, w.idOf(t, "greedy"))
	}, shared(servers.ShareSession, may(everything)...))
}

// What a modern client did not declare, or the server's page does not let it
// ask, is not declared to the server, and declined where it asks all the same:
// the call goes on. On a connection that everybody shares nothing is asked.
func TestQuestionsOfALegacyServerThatAreNotAsked(t *testing.T) {
	const all = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`
	questions := map[string]struct{ tool, request string }{
		"elicitation": {"elicit", `{"method":"elicitation/create","params":` + elicitParams + `}`},
		"sampling":    {"sample", `{"method":"sampling/createMessage","params":` + sampleParams + `}`},
		"roots":       {"roots", `{"method":"roots/list"}`},
	}
	for _, tc := range []struct {
		name  string
		share servers.Share
		may   string
		caps  string
		told  string // of what the server may ask
	}{
		{"everybody's connection", servers.ShareServer, everything, all, ""},
		{"nothing is declared", servers.ShareSession, everything, `{}`, ""},
		{"one is not declared", servers.ShareSession, everything, `{"elicitation":{},"roots":{}}`, "elicitation,roots"},
		{"one may not be asked", servers.SharePrincipal, "elicitation,roots", all, "elicitation,roots"},
		{"only one may be asked", servers.ShareSession, "sampling", all, "sampling"},
	} {
		direct(t, mcptest.EraLegacy, func(t *testing.T, w way) {
			cl := w.crib.dial(w.endpoint)
			cl.Capabilities = tc.caps
			for kind, q := range questions {
				if strings.Contains(tc.told, kind) {
					continue
				}
				if r := send(cl, w.tool(q.tool, "{}")); !strings.Contains(r.Text(), "the client declared no "+kind) {
					t.Errorf("%s, %s: %v", tc.name, q.tool, r)
				}
				r := send(cl, w.tool("request", q.request))
				if code := wire.ReadError(wire.Get([]byte(r.Text()), "error")).Code; code != wire.CodeMethodNotFound || len(r.Others()) != 0 {
					t.Errorf("%s, a stubborn server asks for %s: %v", tc.name, kind, r)
				}
			}
			most := 0
			for _, m := range w.requests("initialize") {
				caps := wire.GetPath([]byte(m), "params", "capabilities")
				for kind := range questions {
					if wire.Get(caps, kind) != nil && !strings.Contains(tc.told, kind) {
						t.Errorf("%s: the server was told %s", tc.name, caps)
					}
				}
				most = max(most, len(wire.Members(caps)))
			}
			if want := strings.Count(tc.told, ",") + min(1, len(tc.told)); most != want {
				t.Errorf("%s: the server was told of %d kinds, want %s", tc.name, most, tc.told)
			}
		}, shared(tc.share, may(tc.may)...))
	}
}

// Only what the crib was asked becomes a question: a legacy server's result is
// a result, whatever a member of it is called.
func TestLegacyResultIsNoQuestion(t *testing.T) {
	for _, share := range []servers.Share{servers.ShareServer, servers.ShareSession} {
		ways(t, mcptest.EraLegacy, func(t *testing.T, w way) {
			for _, kind := range []string{
				`"resultType":"input_required"`,
				`"result\u0054ype":"input\u005frequired"`,
			} {
				d := mcptest.Dictate(t)
				d.Answer(`{` + kind + `,"requestState":"x","inputRequests":{"a":{"method":"roots/list"}},"content":[{"type":"text","text":"done"}]}`)
				r := send(w.crib.dial(w.endpoint), w.tool("notify", d.Args()))
				kinds := 0
				for _, m := range wire.Members([]byte(r.Result())) {
					if m.Key == "resultType" && wire.Text(m.Val.In([]byte(r.Result()))) == "complete" {
						kinds++
					} else if m.Key == "resultType" {
						t.Errorf("%s of share %s: %v", kind, share, r)
					}
				}
				if kinds != 1 || r.Text() != "done" {
					t.Errorf("%s of share %s: %v", kind, share, r)
				}
			}
		}, shared(share, may(everything)...))
	}
}
