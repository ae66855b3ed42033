package mcptest

import (
	"fmt"
	"strings"
	"sync"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// question is what a tool asks its client for.
type question struct {
	capability string // that the client must have declared
	method     string
	params     string // a raw object
}

// form asks the user to fill in a form.
var form = question{capability: "elicitation", method: "elicitation/create", params: `{"mode":"form","message":"Who are <you>?",` +
	`"requestedSchema":{"type":"object","properties":{"name":{"type":"string","x-ui":"keep"}},"required":["name"]},"x-p":"keep"}`}

func elicit(s *Server, x *exchange, args toolArgs) answer {
	q := form
	id := ""
	if x.era == wire.Legacy {
		id = `"elicitationId":"e-1",`
	}
	url := `{"mode":"url",` + id + `"url":"https://example.test/sign-in","message":"Sign in."}`
	switch {
	case args.Mode == "url":
		q.params = url
	case args.Mode == "url-error" && s.once("url-error"):
		a := refuse(wire.CodeURLElicitation, "sign in first")
		a.data = `{"elicitations":[` + url + `]}`
		return a
	case args.Mode == "url-error":
		return ok(textResult("signed in"))
	}
	return s.ask(x, args, q, structuredResult)
}

// once is true every other time.
func (s *Server) once(what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.states[what]++
	return s.states[what]%2 == 1
}

func sample(s *Server, x *exchange, args toolArgs) answer {
	return s.ask(x, args, question{"sampling", "sampling/createMessage",
		`{"messages":[{"role":"user","content":{"type":"text","text":"2+2?"}}],"maxTokens":9007199254740993,"x-p":"keep"}`}, structuredResult)
}

func roots(s *Server, x *exchange, args toolArgs) answer {
	return s.ask(x, args, question{"roots", "roots/list", `{}`}, structuredResult)
}

// request sends any request to a legacy client and answers its raw response.
func request(s *Server, x *exchange, args toolArgs) answer {
	if x.era == wire.Modern {
		return refuse(wire.CodeInternal, "request works in the legacy era only")
	}
	m, err := x.conn.ask(x.ctx, s.requestID(), args.Method, or(args.Params, "{}"), x.send)
	if err != nil {
		return answer{}
	}
	return ok(textResult(string(m.raw)))
}

// requestID makes the id of a request of the server. It is a string in one
// half of the cases and a number in the other, and never the same.
func (s *Server) requestID() string {
	n := s.next()
	if n%2 == 0 {
		return fmt.Sprintf(`"srv-%d"`, n)
	}
	return fmt.Sprint(1000 + n)
}

// ask asks the client as its era does: with requests of the server, or by
// results that require input. Either way the answer is what result makes of
// {"k1":RESULT,…}.
func (s *Server) ask(x *exchange, args toolArgs, q question, result func(raw string) string) answer {
	args.Count, args.Rounds = max(args.Count, 1), max(args.Rounds, 1)
	if x.era == wire.Modern {
		return s.askModern(x, args, q, result)
	}
	if !x.conn.declared(q.capability) {
		return ok(`{"content":[{"type":"text","text":` + quote("the client declared no "+q.capability) + `}],"isError":true}`)
	}
	var last string
	for range args.Rounds {
		var err error
		if last, err = s.askLegacy(x, args.Count, q); err != nil {
			return answer{}
		}
	}
	return ok(result(last))
}

// askLegacy asks count questions at once.
func (s *Server) askLegacy(x *exchange, count int, q question) (string, error) {
	replies := make([]string, count)
	errs := make([]error, count)
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() {
			m, err := x.conn.ask(x.ctx, s.requestID(), q.method, q.params, x.send)
			result := string(m.Result)
			if len(m.Error) > 0 {
				result = `{"error":` + string(m.Error) + `}`
			}
			replies[i], errs[i] = quote(key(i))+":"+result, err
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return "", err
		}
	}
	return "{" + strings.Join(replies, ",") + "}", nil
}

func key(i int) string { return fmt.Sprintf("k%d", i+1) }

// askModern answers that input is required until all rounds have been
// (2026-07-28, Multi-round-trip requests).
func (s *Server) askModern(x *exchange, args toolArgs, q question, result func(raw string) string) answer {
	if !has(x.par.Meta[wire.MetaClientCapabilities], q.capability) {
		a := refuse(wire.CodeMissingCapability, "the client declared no %s", q.capability)
		a.data = `{"requiredCapabilities":{` + quote(q.capability) + `:{}}}`
		return a
	}
	round := 0
	if state := x.par.RequestState; state != "" {
		next, known := s.roundOf(state)
		if !known {
			return refuse(wire.CodeInvalidParams, "no such requestState")
		}
		if len(x.par.InputResponses) == 0 {
			return refuse(wire.CodeInvalidParams, "no inputResponses")
		}
		round = next
	}
	if round == args.Rounds {
		return ok(result(string(x.par.InputResponses)))
	}
	asked := make([]string, args.Count)
	for i := range asked {
		asked[i] = quote(key(i)) + `:{"method":` + quote(q.method) + `,"params":` + q.params + `,"x-q":"keep"}`
	}
	a := ok(`{"inputRequests":{` + strings.Join(asked, ",") + `},"requestState":` + quote(s.newState(round+1)) + `,"x-top":"keep"}`)
	a.kind = "input_required"
	return a
}

// newState makes a requestState that continues with round.
func (s *Server) newState(round int) string {
	state := fmt.Sprintf("st<&>\u2028%d", s.next())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.states[state] = round
	return state
}

func (s *Server) roundOf(state string) (round int, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	round, known = s.states[state]
	return round, known
}
