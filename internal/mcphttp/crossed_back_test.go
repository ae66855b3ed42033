package mcphttp_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// open sends a request of a legacy client, whose questions are read from its
// stream.
func open(cl *mcptest.Client, rq request) *mcptest.Stream {
	return cl.Open(wire.Legacy, rq.method, rq.with())
}

// refuse answers a question with an error.
func refuse(cl *mcptest.Client, id, failure string) *mcptest.Reply {
	return cl.Raw(http.MethodPost, `{"jsonrpc":"2.0","id":`+id+`,"error":`+failure+`}`,
		"Content-Type: application/json", wire.HeaderSession+": "+cl.Session, wire.HeaderProtocolVersion+": "+cl.Version)
}

// retries are the messages by which a modern server got answers.
func (w way) retries(name string) []string {
	return slices.DeleteFunc(w.requests(name), func(m string) bool {
		return wire.GetPath([]byte(m), "params", "requestState") == nil && wire.GetPath([]byte(m), "params", "inputResponses") == nil
	})
}

// A modern server asks by an answer; the legacy client is asked on the stream
// of its request, and the server gets what it answered, each byte as it was,
// with a request that continues the first.
func TestLegacyClientIsAskedByAModernServer(t *testing.T) {
	ways(t, mcptest.EraModern, func(t *testing.T, w way) {
		cl := w.crib.enter(w.endpoint)
		used := map[string]bool{}
		for _, tc := range w.asking() {
			w.from += len(w.news())
			s := open(cl, tc.request)
			q := nextQuestion(s)
			params := q.params
			if tc.name == "a link" { // a legacy client wants an id for it
				minted := wire.Get([]byte(params), "elicitationId")
				if len(wire.Text(minted)) < 16 {
					t.Errorf("the link has the id %s", minted)
				}
				params = string(wire.SetMembers(nil, []byte(params), wire.Set{Key: "elicitationId"}))
			}
			if q.method != tc.method || params != w.shown(tc.params) {
				t.Errorf("%s: the question is %+v, want the params %s", tc.name, q, w.shown(tc.params))
			}
			if used[q.id] {
				t.Errorf("%s: the id %s was used before", tc.name, q.id)
			}
			used[q.id] = true
			if r := cl.Respond(q.id, tc.answer); r.Status != http.StatusAccepted {
				t.Errorf("%s: the answer was not taken: %v", tc.name, r)
			}
			last := &mcptest.Reply{Body: []byte(lastOf(t, s))}
			if given(last) != `{"k1":`+tc.answer+`}` {
				t.Errorf("%s: %v", tc.name, last)
			}
			sent, retried := w.requests(tc.request.method), w.retries(tc.request.method)
			if len(sent) != 2 || len(retried) != 1 {
				t.Fatalf("%s: the server got %q", tc.name, sent)
			}
			if got := string(wire.GetPath([]byte(retried[0]), "params", "inputResponses")); got != `{"k1":`+tc.answer+`}` {
				t.Errorf("%s: the server got %s", tc.name, got)
			}
			for _, key := range []string{"name", "uri", "arguments"} {
				first, second := wire.GetPath([]byte(sent[0]), "params", key), wire.GetPath([]byte(sent[1]), "params", key)
				if string(first) != string(second) {
					t.Errorf("%s: %s was %s, then %s", tc.name, key, first, second)
				}
			}
			if r := cl.Respond(q.id, tc.answer); r.Status != http.StatusAccepted {
				t.Errorf("%s: a second answer: %v", tc.name, r)
			}
		}
	}, shared(servers.ShareServer, may(everything)...))
}

// Questions asked at once have ids of their own and may be answered in any
// order; several rounds of one call are as many questions.
func TestSeveralQuestionsOfAModernServer(t *testing.T) {
	ways(t, mcptest.EraModern, func(t *testing.T, w way) {
		cl := w.crib.enter(w.endpoint)
		s := open(cl, w.tool("elicit", `{"count":3,"rounds":2}`))
		used := map[string]bool{}
		for round := range 2 {
			var ids []string
			for range 3 {
				q := nextQuestion(s)
				if used[q.id] {
					t.Errorf("the id %s was used before", q.id)
				}
				used[q.id] = true
				ids = append(ids, q.id)
			}
			for _, i := range []int{1, 2, 0} {
				cl.Respond(ids[i], fmt.Sprintf(`{"action":"accept","content":{"round":%d,"i":%d}}`, round, i))
			}
		}
		const answer = `{"action":"accept","content":{"round":1,"i":%d}}`
		want := fmt.Sprintf(`{"k1":`+answer+`,"k2":`+answer+`,"k3":`+answer+`}`, 0, 1, 2)
		if got := structured(lastOf(t, s)); got != want {
			t.Errorf("the server got %s", got)
		}
		if retried := w.retries("tools/call"); len(retried) != 2 || len(w.requests("tools/call")) != 3 {
			t.Errorf("the server got %q", w.news())
		}
	}, shared(servers.ShareServer, may(everything)...))
}

// The state of a modern server comes back as it was spelled, with the answers
// or, where it asked for none, alone and after a while; and so do questions
// without a state.
func TestStateOfAModernServerComesBack(t *testing.T) {
	t.Parallel()
	const state = `"s<&>\u2028\/é"`
	const question = `"inputRequests":{"a<&>\u2028":{"method":"elicitation/create","params":` + elicitParams + `}}`
	const responses = "{\"a<&>\u2028\":" + accepted + "}" // the same key, with no more escapes than it needs
	for _, tc := range []struct{ name, members, state, responses string }{
		{"both", question + `,"requestState":` + state, state, responses},
		{"no state", question, "", responses},
		{"no questions", `"requestState":` + state, state, ""},
		{"empty questions", `"inputRequests":{},"requestState":` + state, state, ""},
	} {
		for _, name := range []string{"tools/call", "prompts/get", "resources/read"} {
			t.Run(tc.name+" of "+name, func(t *testing.T) {
				t.Parallel()
				peer := modernPeer(t)
				c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL, shared(servers.ShareServer, may(everything)...)))
				w := way{crib: c, name: "fake", endpoint: "fake"}
				cl := c.enter("fake")
				var began, ended atomic.Int64
				ask := inputRequired(name, tc.members, `{"resultType":"complete","content":[],"messages":[],"contents":[],"x-done":1.0}`)
				peer.Script(func(rw http.ResponseWriter, r *http.Request, body []byte) bool {
					if method(string(body)) == name {
						began.CompareAndSwap(0, time.Now().UnixMilli())
						ended.Store(time.Now().UnixMilli())
					}
					return ask(rw, r, body)
				})
				s := open(cl, map[string]request{"tools/call": w.tool("echo", "{}"), "prompts/get": w.prompt(), "resources/read": w.read()}[name])
				if tc.responses != "" {
					cl.Respond(nextQuestion(s).id, accepted)
				}
				if m := replyTo(s); !strings.Contains(m.Result(), `"x-done":1.0`) {
					t.Errorf("%v", m)
				}
				params := wire.Get(peer.Last(name).Body, "params")
				if got := string(wire.Get(params, "requestState")); got != tc.state {
					t.Errorf("the state that came back is %s", got)
				}
				if got := string(wire.Get(params, "inputResponses")); got != tc.responses {
					t.Errorf("the answers that came are %s", got)
				}
				if n := peer.Requests(name); n > 2 {
					t.Errorf("it was sent %d times", n)
				}
				if pause := ended.Load() - began.Load(); tc.responses == "" && pause < 900 {
					t.Errorf("it was tried again after %d ms", pause)
				}
			})
		}
	}
}

// A legacy client may refuse with an error, which a modern one cannot: an
// elicitation is cancelled then, as if by the person; anything else ends the
// request, and what else is asked with it.
func TestLegacyClientRefusesAModernServer(t *testing.T) {
	const failure = `{"code":-1,"message":"no <person> here","data":{"big":9007199254740993}}`
	ways(t, mcptest.EraModern, func(t *testing.T, w way) {
		cl := w.crib.enter(w.endpoint)
		s := open(cl, w.tool("elicit", `{"count":2}`))
		first, second := nextQuestion(s), nextQuestion(s)
		refuse(cl, first.id, failure)
		cl.Respond(second.id, accepted)
		if got := structured(lastOf(t, s)); got != `{"k1":{"action":"cancel"},"k2":`+accepted+`}` {
			t.Errorf("the server got %s", got)
		}
		for _, tool := range []string{"sample", "roots"} {
			w.from += len(w.news())
			s := open(cl, w.tool(tool, `{"count":3}`))
			var asked []question
			for range 3 {
				asked = append(asked, nextQuestion(s))
			}
			refuse(cl, asked[1].id, failure)
			got := rest(s)
			for _, i := range []int{0, 2} {
				if !slices.ContainsFunc(got, func(m string) bool { return m == takenBack(asked[i].id) }) {
					t.Errorf("%s: question %s is still asked: %q", tool, asked[i].id, got)
				}
			}
			if last := got[len(got)-1]; len(got) != 3 || !isError(last) || !strings.Contains(last, asked[1].method) || !strings.Contains(last, "no <person> here") {
				t.Errorf("%s: %q", tool, got)
			}
			cl.Respond(asked[0].id, sampled) // late
			works(t, cl, wire.Legacy, w.public("echo"))
			if retried := w.retries("tools/call"); len(retried) != 0 {
				t.Errorf("%s: the server got %q", tool, retried)
			}
		}
	}, shared(servers.ShareServer, may(everything)...))
}

// A call that ends while its client is asked is over on both sides.
func TestCallEndsWhileALegacyClientIsAsked(t *testing.T) {
	ways(t, mcptest.EraModern, func(t *testing.T, w way) {
		cl := w.crib.enter(w.endpoint)
		call := w.tool("elicit", `{"count":2}`)
		s := cl.OpenID(wire.Legacy, "7", call.method, call.with())
		first, second := nextQuestion(s), nextQuestion(s)
		cl.Respond(first.id, accepted)
		cl.Post(wire.Legacy, "notifications/cancelled", `{"requestId":7}`)
		got := rest(s)
		if len(got) != 2 || got[0] != takenBack(second.id) || wire.Get([]byte(got[1]), "error") == nil {
			t.Errorf("the cancelled call: %q", got)
		}
		if r := cl.Respond(second.id, accepted); r.Status != http.StatusAccepted {
			t.Errorf("a late answer: %v", r)
		}

		gone := w.crib.enter(w.endpoint)
		s = open(gone, call)
		nextQuestion(s)
		if r := gone.Delete(); r.Status != http.StatusNoContent {
			t.Errorf("DELETE: %v", r)
		}
		rest(s)
		works(t, cl, wire.Legacy, w.public("echo"))
		if retried := w.retries("tools/call"); len(retried) != 0 {
			t.Errorf("the server got %q", retried)
		}
	}, shared(servers.ShareServer, may(everything)...))
}

// A modern server is told what it may ask a legacy client; one that asks
// for more all the same is not answered.
func TestQuestionsOfAModernServerToALegacyClientThatAreNotAsked(t *testing.T) {
	const all = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`
	const form = `{"method":"elicitation/create","params":` + elicitParams + `}`
	for _, tc := range []struct{ name, may, caps, told, asks string }{
		{"the client lacks it", everything, `{"elicitation":{},"roots":{}}`, "elicitation,roots", `{"method":"sampling/createMessage"}`},
		{"the client lacks all", everything, `{}`, "", form},
		{"the page leaves it out", "elicitation,roots", all, "elicitation,roots", `{"method":"sampling/createMessage"}`},
		{"the client knows no links", everything, `{"elicitation":{}}`, "elicitation", `{"method":"elicitation/create","params":` + linkParams + `}`},
		{"of an extension", everything, all, everything, `{"method":"vendor/thing"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			peer := modernPeer(t)
			peer.Script(inputRequired("tools/call", `"requestState":"s","inputRequests":{"a":`+tc.asks+`,"b":`+form+`}`, done))
			c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL, shared(servers.ShareServer, may(tc.may)...)))
			cl := c.dial("fake")
			cl.Capabilities = tc.caps
			r := c.opened(cl).Post(wire.Legacy, "tools/call", callOf("elicit", "{}"))
			if !isError(r.Message()) || len(r.Others()) != 0 || peer.Requests("tools/call") > 1 {
				t.Errorf("%v", r)
			}
			told := wire.GetPath(peer.Last("tools/call").Body, "params", "_meta", wire.MetaClientCapabilities)
			for _, kind := range may(everything) {
				if (wire.Get(told, kind) != nil) != strings.Contains(tc.told, kind) {
					t.Errorf("the server was told %s, want %s", told, tc.told)
				}
			}
		})
	}
}

// A modern server that never has enough is ended.
func TestRoundsOfAModernServerEnd(t *testing.T) {
	const rounds = 16
	direct(t, mcptest.EraModern, func(t *testing.T, w way) {
		cl := w.crib.enter(w.endpoint)
		s := open(cl, w.tool("elicit", `{"rounds":100}`))
		for range rounds {
			cl.Respond(nextQuestion(s).id, accepted)
		}
		if last := lastOf(t, s); !isError(last) || !strings.Contains(last, "16 times") {
			t.Errorf("after %d rounds: %s", rounds, last)
		}
		if n := len(w.retries("tools/call")); n != rounds {
			t.Errorf("the server got %d answers", n)
		}
	}, shared(servers.ShareServer, may(everything)...))
}

// Clients that call one modern server at the same time each get their own
// questions, and can answer no other.
func TestLegacyClientsOfAModernServerSideBySide(t *testing.T) {
	ways(t, mcptest.EraModern, func(t *testing.T, w way) {
		tokens := []string{w.crib.token, w.crib.newToken("other-" + w.endpoint + "x")}
		var all, ready sync.WaitGroup
		ready.Add(4)
		for i := range 4 {
			all.Go(func() {
				cl := w.crib.opened(w.crib.dialAs(tokens[i%2], w.endpoint))
				tool, want := "elicit", "elicitation/create"
				if i >= 2 {
					tool, want = "sample", "sampling/createMessage"
				}
				s := open(cl, w.tool(tool, fmt.Sprintf(`{"n":%d}`, i)))
				q := nextQuestion(s)
				ready.Done()
				ready.Wait() // all are asked at this moment
				if q.method != want {
					t.Errorf("client %d was asked %+v", i, q)
				}
				cl.Respond(`"crib-99"`, `{"client":"nobody"}`)
				cl.Respond(q.id, fmt.Sprintf(`{"client":%d}`, i))
				got := rest(s)
				if len(got) != 1 || structured(got[0]) != fmt.Sprintf(`{"k1":{"client":%d}}`, i) {
					t.Errorf("client %d got %q", i, got)
				}
			})
		}
		all.Wait()
		for _, m := range w.retries("tools/call") {
			n := string(wire.GetPath([]byte(m), "params", "arguments", "n"))
			if got := string(wire.GetPath([]byte(m), "params", "inputResponses")); got != `{"k1":{"client":`+n+`}}` {
				t.Errorf("call %s was answered %s", n, got)
			}
		}
	}, shared(servers.ShareServer, may(everything)...))
}
