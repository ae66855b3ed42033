package mcphttp_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// The question that the tool elicit asks, as the server writes it.
const (
	elicitMessage = `"message":"Who are <you>?"`
	elicitParams  = `{"mode":"form",` + elicitMessage + `,"requestedSchema":{"type":"object","properties":{"name":{"type":"string","x-ui":"keep"}},"required":["name"]},"x-p":"keep"}`
	accepted      = `{"action":"accept","content":{"name":"A <&> B","n":9007199254740993},"x-r":"keep"}`
)

// question is a request of a server as a legacy client gets it.
type question struct{ id, method, params string }

// nextQuestion reads on until the server asks something.
func nextQuestion(s *mcptest.Stream) question {
	for {
		body := []byte(s.Next().Data)
		if id := wire.Get(body, "id"); id != nil && method(string(body)) != "" {
			return question{string(id), method(string(body)), string(wire.Get(body, "params"))}
		}
	}
}

// lastOf reads a stream to its end and returns its last message: the answer.
func lastOf(t *testing.T, s *mcptest.Stream) string {
	t.Helper()
	messages := rest(s)
	if len(messages) == 0 {
		t.Fatal("the stream ended without an answer")
	}
	return messages[len(messages)-1]
}

func structured(data string) string {
	return string(wire.GetPath([]byte(data), "result", "structuredContent"))
}

func isError(data string) bool {
	return string(wire.GetPath([]byte(data), "result", "isError")) == "true"
}

const everything = "elicitation,roots,sampling"

func may(list string) []string { return strings.Split(list, ",") }

// A question of a legacy server reaches the client on the stream of the call
// that made it ask, and the answer the server, each byte as it was, but for
// the ids.
func TestQuestionGoesRound(t *testing.T) {
	for _, share := range []servers.Share{servers.ShareSession, servers.SharePrincipal} {
		for name, server := range recorders(t, mcptest.EraLegacy, shared(share, may(everything)...)) {
			for _, tc := range []struct{ tool, method, params, answer string }{
				{"elicit", "elicitation/create", elicitParams, accepted},
				{"sample", "sampling/createMessage", `{"messages":[{"role":"user","content":{"type":"text","text":"2+2?"}}],"maxTokens":9007199254740993,"x-p":"keep"}`, `{"role":"assistant","content":{"type":"text","text":"4"},"model":"m"}`},
				{"roots", "roots/list", `{}`, `{"roots":[{"uri":"file:///home","x":1.0}]}`},
			} {
				t.Run(fmt.Sprintf("%s %s of %s", share, tc.tool, name), func(t *testing.T) {
					c := newCrib(t, cribOptions{}, server.def)
					cl := c.enter(name)
					s := cl.Open(wire.Legacy, "tools/call", callOf(tc.tool, "{}"))
					q := nextQuestion(s)
					if q.method != tc.method || q.params != tc.params {
						t.Errorf("the question is %+v, want the params %s", q, tc.params)
					}
					if r := cl.Respond(q.id, tc.answer); r.Status != http.StatusAccepted {
						t.Errorf("the answer was not taken: %v", r)
					}
					if got := structured(lastOf(t, s)); got != `{"k1":`+tc.answer+`}` {
						t.Errorf("the server got %s", got)
					}
					for _, m := range server.received() {
						if strings.Contains(m, tc.answer) && string(wire.Get([]byte(m), "id")) == q.id {
							t.Errorf("the server got our id: %s", m)
						}
					}
					if r := cl.Respond(q.id, tc.answer); r.Status != http.StatusAccepted {
						t.Errorf("a second answer: %v", r)
					}
				})
			}
		}
	}
}

// On the aggregate a person reads which server asks.
func TestQuestionIsSigned(t *testing.T) {
	c := newCrib(t, cribOptions{}, httpServer("fake", legacyPeer(t).URL, shared(servers.ShareSession, may(everything)...)))
	cl := c.enter("")
	s := cl.Open(wire.Legacy, "tools/call", callOf("fake__elicit", "{}"))
	q := nextQuestion(s)
	if want := strings.Replace(elicitParams, `"message":"`, `"message":"[fake] `, 1); q.params != want {
		t.Errorf("the question is %s", q.params)
	}
	cl.Respond(q.id, `{"action":"decline"}`)
	if got := structured(lastOf(t, s)); got != `{"k1":{"action":"decline"}}` {
		t.Errorf("the server got %s", got)
	}
}

// Questions asked at once have ids of their own, and may be answered in any
// order; several rounds of one call are as many questions.
func TestSeveralQuestions(t *testing.T) {
	for name, server := range recorders(t, mcptest.EraLegacy, shared(servers.ShareSession, may(everything)...)) {
		t.Run(name, func(t *testing.T) {
			c := newCrib(t, cribOptions{}, server.def)
			cl := c.enter(name)
			s := cl.Open(wire.Legacy, "tools/call", callOf("elicit", `{"count":3,"rounds":2}`))
			ids := map[string]bool{}
			for round := range 2 {
				var asked []string
				for range 3 {
					q := nextQuestion(s)
					if ids[q.id] {
						t.Errorf("the id %s was used before", q.id)
					}
					ids[q.id] = true
					asked = append(asked, q.id)
				}
				for i := range 3 {
					cl.Respond(asked[2-i], fmt.Sprintf(`{"action":"accept","content":{"round":%d}}`, round))
				}
			}
			const one = `{"action":"accept","content":{"round":1}}`
			if got := structured(lastOf(t, s)); got != `{"k1":`+one+`,"k2":`+one+`,"k3":`+one+`}` {
				t.Errorf("the server got %s", got)
			}
		})
	}
}

// A client may answer with an error; the server gets it as it is.
func TestQuestionAnsweredWithAnError(t *testing.T) {
	c := newCrib(t, cribOptions{}, httpServer("fake", legacyPeer(t).URL, shared(servers.ShareSession, may(everything)...)))
	cl := c.enter("fake")
	s := cl.Open(wire.Legacy, "tools/call", callOf("elicit", "{}"))
	const failed = `{"code":-1,"message":"no <person>","data":{"big":9007199254740993}}`
	r := cl.Raw(http.MethodPost, `{"jsonrpc":"2.0","id":`+nextQuestion(s).id+`,"error":`+failed+`}`,
		"Content-Type: application/json", "Mcp-Session-Id: "+cl.Session)
	if r.Status != http.StatusAccepted {
		t.Errorf("the answer was not taken: %v", r)
	}
	if got := structured(lastOf(t, s)); got != `{"k1":{"error":`+failed+`}}` {
		t.Errorf("the server got %s", got)
	}
}

// What the client did not declare, or the server's page does not let it ask,
// is not declared to the server, and declined where it asks all the same: the
// call goes on.
func TestQuestionsThatAreNotAsked(t *testing.T) {
	const all = `{"elicitation":{},"sampling":{},"roots":{}}`
	asks := map[string]string{"elicitation/create": "elicit", "sampling/createMessage": "sample", "roots/list": "roots"}
	for _, tc := range []struct {
		name    string
		share   servers.Share
		may     string
		caps    string
		refused []string
	}{
		{"nothing is declared", servers.ShareSession, everything, `{}`, []string{"elicitation/create", "sampling/createMessage", "roots/list"}},
		{"one is not declared", servers.ShareSession, everything, `{"elicitation":{},"roots":{}}`, []string{"sampling/createMessage"}},
		{"one may not be asked", servers.ShareSession, "elicitation,roots", all, []string{"sampling/createMessage"}},
		{"only one may be asked", servers.SharePrincipal, "sampling", all, []string{"elicitation/create", "roots/list"}},
		{"of the server's own making", servers.ShareSession, everything, all, []string{"vendor/ask", "tools/list"}},
	} {
		for name, server := range recorders(t, mcptest.EraLegacy, shared(tc.share, may(tc.may)...)) {
			t.Run(tc.name+" over "+name, func(t *testing.T) {
				c := newCrib(t, cribOptions{}, server.def)
				cl := c.dial(name)
				cl.Capabilities = tc.caps
				c.opened(cl)
				for _, method := range tc.refused {
					r := cl.Post(wire.Legacy, "tools/call", callOf("request", `{"method":"`+method+`"}`))
					if code := wire.ReadError(wire.Get([]byte(r.Text()), "error")).Code; code != wire.CodeMethodNotFound || len(r.Others()) != 0 {
						t.Errorf("%s: %v", method, r)
					}
					if tool := asks[method]; tool != "" {
						r := cl.Post(wire.Legacy, "tools/call", callOf(tool, "{}"))
						if !strings.Contains(r.Text(), "the client declared no") || len(r.Others()) != 0 {
							t.Errorf("%s: %v", tool, r)
						}
					}
				}
				if r := cl.Post(wire.Legacy, "tools/call", callOf("request", `{"method":"ping"}`)); string(wire.Get([]byte(r.Text()), "result")) != "{}" {
					t.Errorf("ping: %v", r)
				}
			})
		}
	}
}

// Two sessions that ask at one time each get their own question, and can
// answer no other.
func TestQuestionsStayInTheirSession(t *testing.T) {
	for name, server := range recorders(t, mcptest.EraLegacy, shared(servers.ShareSession, may(everything)...)) {
		t.Run(name, func(t *testing.T) {
			c := newCrib(t, cribOptions{}, server.def)
			one, two := c.enter(name), c.opened(c.dialAs(c.newToken("other"), name))
			standing := two.Get()
			defer standing.Close()
			first := one.Open(wire.Legacy, "tools/call", callOf("elicit", "{}"))
			mine := nextQuestion(first)
			second := two.Open(wire.Legacy, "tools/call", callOf("sample", "{}"))
			theirs := nextQuestion(second)
			if mine.method != "elicitation/create" || theirs.method != "sampling/createMessage" {
				t.Errorf("the questions are %+v and %+v", mine, theirs)
			}
			two.Respond(theirs.id, `{"whose":"second"}`)
			two.Respond(mine.id, `{"whose":"second"}`) // both sessions may use the same ids
			two.Respond(theirs.id, `{"whose":"second"}`)
			if got := structured(lastOf(t, second)); got != `{"k1":{"whose":"second"}}` {
				t.Errorf("the second server got %s", got)
			}
			one.Respond(mine.id, `{"whose":"first"}`)
			if got := structured(lastOf(t, first)); got != `{"k1":{"whose":"first"}}` {
				t.Errorf("the first server got %s", got)
			}
			two.Delete()
			for e, open := standing.Any(); open; e, open = standing.Any() {
				if strings.Contains(e.Data, "create") {
					t.Errorf("the standing stream got %s", e.Data)
				}
			}
		})
	}
}

// On a pipe that two calls share, nothing proves whose question it is: it is
// declined, and asked again when only one is left.
func TestQuestionWithoutAnOwner(t *testing.T) {
	c := newCrib(t, cribOptions{}, stdioServer("near", mcptest.Peer("-era", "legacy"), shared(servers.SharePrincipal, may(everything)...)))
	one, two := c.enter("near"), c.enter("near")
	hold := newGate(t)
	busy := one.Open(wire.Legacy, "tools/call", callOf("slow", hold.args(`"ticks":1`), token("1")))
	busy.Next()
	r := two.Post(wire.Legacy, "tools/call", callOf("elicit", "{}"))
	if !strings.Contains(r.Text(), `{"k1":{"error":{"code":-32601,`) || len(r.Others()) != 0 {
		t.Errorf("beside another call: %v", r)
	}
	hold.open()
	if left := rest(busy); len(left) != 1 {
		t.Errorf("the other call got %q", left)
	}
	s := two.Open(wire.Legacy, "tools/call", callOf("elicit", "{}"))
	two.Respond(nextQuestion(s).id, accepted)
	if got := structured(lastOf(t, s)); got != `{"k1":`+accepted+`}` {
		t.Errorf("alone: %s", got)
	}
}

// A question that is open when its call ends is closed on both sides, however
// the call ends.
func TestCallEndsWithAnOpenQuestion(t *testing.T) {
	for name, server := range recorders(t, mcptest.EraLegacy, shared(servers.ShareSession, may(everything)...)) {
		t.Run(name+", cancelled", func(t *testing.T) {
			c := newCrib(t, cribOptions{}, server.def)
			cl := c.enter(name)
			s := cl.OpenID(wire.Legacy, "7", "tools/call", callOf("elicit", "{}"))
			q := nextQuestion(s)
			cl.Post(wire.Legacy, "notifications/cancelled", `{"requestId":7}`)
			if m := lastOf(t, s); wire.Get([]byte(m), "error") == nil {
				t.Errorf("the cancelled call: %s", m)
			}
			if r := cl.Respond(q.id, accepted); r.Status != http.StatusAccepted {
				t.Errorf("a late answer: %v", r)
			}
			if r := cl.Post(wire.Legacy, "tools/call", callOf("echo", "{}")); r.Text() != "{}" {
				t.Errorf("the next call: %v", r)
			}
			for _, m := range server.received() {
				if strings.Contains(m, accepted) {
					t.Errorf("the server got a late answer: %s", m)
				}
			}
		})
		t.Run(name+", session over", func(t *testing.T) {
			c := newCrib(t, cribOptions{}, server.def)
			cl := c.enter(name)
			s := cl.Open(wire.Legacy, "tools/call", callOf("elicit", "{}"))
			nextQuestion(s)
			if r := cl.Delete(); r.Status != http.StatusNoContent {
				t.Errorf("DELETE: %v", r)
			}
			rest(s)
		})
	}
}

// A server that answers a call while its question is open waits for nothing;
// its question is declined, and the client's late answer goes nowhere.
func TestServerDoesNotWaitForItsAnswer(t *testing.T) {
	peer := legacyPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL, shared(servers.ShareSession, may(everything)...)))
	cl := c.enter("fake")
	cl.Post(wire.Legacy, "tools/list", "")
	peer.Script(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
		if method(string(body)) != "tools/call" {
			return false
		}
		var style mcptest.SSEStyle
		style.StartSSE(w)
		style.WriteSSE(w,
			mcptest.Event{Data: `{"jsonrpc":"2.0","id":"impatient","method":"elicitation/create","params":` + elicitParams + `}`},
			mcptest.Event{Data: `{"jsonrpc":"2.0","id":` + mcptest.RequestID(body) + `,"result":{"content":[{"type":"text","text":"done"}]}}`})
		return true
	})
	s := cl.Open(wire.Legacy, "tools/call", callOf("elicit", "{}"))
	q := nextQuestion(s)
	if m := lastOf(t, s); !strings.Contains(m, `"text":"done"`) {
		t.Errorf("the answer is %s", m)
	}
	cl.Respond(q.id, accepted)
	answers := func() (out []string) {
		for _, seen := range peer.Seen() {
			if strings.Contains(string(seen.Body), `"id":"impatient"`) {
				out = append(out, string(seen.Body))
			}
		}
		return out
	}
	mcptest.Eventually(t, "the answer to the question", func() bool { return len(answers()) > 0 })
	if got := answers(); len(got) != 1 || wire.Get([]byte(got[0]), "error") == nil {
		t.Errorf("the server got %q", got)
	}
}

// A server that takes its question back makes the client stop asking.
func TestServerTakesItsQuestionBack(t *testing.T) {
	peer := legacyPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL, shared(servers.ShareSession, may(everything)...)))
	cl := c.enter("fake")
	cl.Post(wire.Legacy, "tools/list", "")
	peer.Script(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
		if method(string(body)) != "tools/call" {
			return false
		}
		var style mcptest.SSEStyle
		style.StartSSE(w)
		style.WriteSSE(w,
			mcptest.Event{Data: `{"jsonrpc":"2.0","id":5,"method":"elicitation/create","params":` + elicitParams + `}`},
			mcptest.Event{Data: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":6,"reason":"of nothing"}}`},
			mcptest.Event{Data: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5,"reason":"<enough>"}}`},
			mcptest.Event{Data: `{"jsonrpc":"2.0","id":` + mcptest.RequestID(body) + `,"result":{"content":[]}}`})
		return true
	})
	s := cl.Open(wire.Legacy, "tools/call", callOf("elicit", "{}"))
	q := nextQuestion(s)
	want := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + q.id + `,"reason":"<enough>"}}`
	if e := s.Next(); e.Data != want {
		t.Errorf("got  %s\nwant %s", e.Data, want)
	}
	if m := lastOf(t, s); wire.Get([]byte(m), "result") == nil {
		t.Errorf("the answer is %s", m)
	}
}

// To a server whose connection is everybody's nothing is declared, and nobody
// is asked.
func TestSharedConnectionAsksNobody(t *testing.T) {
	for name, server := range recorders(t, mcptest.EraLegacy, shared(servers.ShareServer, may(everything)...)) {
		t.Run(name, func(t *testing.T) {
			c := newCrib(t, cribOptions{}, server.def)
			cl := c.enter(name)
			for _, tool := range []string{"elicit", "sample", "roots"} {
				if r := cl.Post(wire.Legacy, "tools/call", callOf(tool, "{}")); !strings.Contains(r.Text(), "the client declared no") {
					t.Errorf("%s: %v", tool, r)
				}
			}
			s := cl.Open(wire.Legacy, "tools/call", callOf("request", `{"method":"elicitation/create","params":`+elicitParams+`}`))
			defer s.Close()
			if isStream(s) {
				t.Fatalf("got %s", s.Next().Data)
			}
			if !strings.Contains(s.Text(), `"error":{"code":-32601,`) {
				t.Errorf("%v", &s.Reply)
			}
		})
	}
}

func isStream(s *mcptest.Stream) bool {
	return s.Header.Get("Content-Type") == "text/event-stream"
}
