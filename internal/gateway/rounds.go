package gateway

import (
	"context"
	"strconv"
	"time"

	"github.com/toolcrib/toolcrib/internal/bridge"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// inputs are what a legacy client answered to a modern server, and the state
// that the server gave with its questions.
type inputs struct {
	responses []byte // raw object; nil if nothing was asked
	state     []byte // raw; nil if there was none
}

// carry brings a request to its server, and the questions of a modern server to
// a legacy client: on the stream of its request, which stays open until there
// is an answer. A modern client is asked by an answer.
func (g *Gateway) carry(ctx context.Context, req *Request, t *target, sink Sink) (*upstream.Reply, error) {
	for round := 1; ; round++ {
		reply, err := g.send(ctx, req, t, sink)
		if err != nil || req.Era == wire.Modern || reply.Era == wire.Legacy || !reply.Message.Result.OK() {
			return reply, err
		}
		result := reply.Message.Result.In(reply.Message.Body)
		if !bridge.AsksForInput(result) {
			return reply, nil
		}
		if err := t.mayAskFor(req, result, round); err != nil {
			return nil, err
		}
		t.inputs = &inputs{state: wire.Get(result, "requestState")}
		if t.inputs.responses, err = g.put(ctx, req, t, bridge.Questions(result), round, sink); err != nil {
			return nil, err
		}
	}
}

// mayAskFor refuses a result that asks its client for something it may not.
// Those of extensions are between a client and a server of the same era.
func (t *target) mayAskFor(req *Request, result []byte, round int) error {
	name := t.server.Name()
	switch {
	case !owns(req.Message.Method):
		return crib.Errorf(crib.Unsupported, "server %s asks for input in answer to %s, which the protocol does not allow", name, req.Message.Method)
	case round > bridge.MaxRounds:
		return crib.Errorf(crib.Denied, "server %s asked %d times for one request; it is ended here", name, bridge.MaxRounds)
	case !wire.IsObject(result):
		return crib.Errorf(crib.Unavailable, "server %s asks something that can be read in two ways", name)
	}
	return t.mayAskThese(req, bridge.Questions(result))
}

// mayAskThese refuses questions that the page or the client does not allow.
func (t *target) mayAskThese(req *Request, questions []bridge.Question) error {
	name := t.server.Name()
	if len(questions) > bridge.MaxQuestions {
		return crib.Errorf(crib.Denied, "server %s asks more than %d questions at one time", name, bridge.MaxQuestions)
	}
	caps := askable(req, t.server.Def())
	for _, q := range questions {
		if q.Kind() == "" && req.Era == wire.Modern {
			continue // the client knows what it declared
		}
		if !bridge.Allows(caps, q) {
			return crib.Errorf(crib.Denied, "server %s asks the client for %s, which its page or the client does not allow", name, q.Needs())
		}
	}
	return nil
}

// answered is a legacy client's answer to the question of an index; without a
// message it gives none.
type answered struct {
	index int
	m     wire.Message
}

// put puts questions to a legacy client and waits for all answers, in the form
// of inputResponses. A server that asks nothing wants to be tried again.
func (g *Gateway) put(ctx context.Context, req *Request, t *target, questions []bridge.Question, round int, sink Sink) ([]byte, error) {
	if len(questions) == 0 {
		return nil, wait(ctx, min(bridge.FirstPause<<(round-1), bridge.MaxPause))
	}
	s := req.Session
	came := make(chan answered, len(questions))
	open := make([]string, 0, len(questions))
	defer func() {
		for _, id := range open {
			if s.Forget(id) {
				sink.Send(cancelled(id))
			}
		}
	}()
	for i, q := range questions {
		id, ok := s.Ask(func(m wire.Message) { came <- answered{i, m} }, func() { came <- answered{index: i} })
		if !ok {
			return nil, errLeft
		}
		open = append(open, id)
		body := bridge.LegacyQuestion(q).Request(id)
		if req.aggregate() {
			body = wire.Apply(nil, body, bridge.SignedAt(t.server.Name(), q.Kind(), body, 0)...)
		}
		sink.Send(body)
	}
	return g.collect(ctx, t, questions, came)
}

var errLeft = crib.Errorf(crib.Cancelled, "the client left before it answered a question of the server")

// collect waits for the answers to questions.
func (g *Gateway) collect(ctx context.Context, t *target, questions []bridge.Question, came <-chan answered) ([]byte, error) {
	late := time.NewTimer(g.roundTime)
	defer late.Stop()
	results := make([][]byte, len(questions))
	for range questions {
		select {
		case a := <-came:
			result, err := t.resultOf(questions[a.index], a.m)
			if err != nil {
				return nil, err
			}
			results[a.index] = result
		case <-ctx.Done():
			return nil, errLeft
		case <-late.C:
			return nil, crib.Errorf(crib.Timeout, "the client did not answer a question of server %s within %s; the request was not finished", t.server.Name(), g.roundTime)
		}
	}
	return bridge.Responses(questions, results), nil
}

// resultOf is what the client answered, as a modern client would: it has no
// error to give, but a person can cancel.
func (t *target) resultOf(q bridge.Question, m wire.Message) ([]byte, error) {
	if m.Body == nil {
		return nil, errLeft
	}
	if result := m.Result.In(m.Body); wire.IsObject(result) {
		return result, nil
	}
	if q.Kind() == bridge.Elicitation {
		return []byte(`{"action":"cancel"}`), nil
	}
	why := "it gave no result"
	if e := wire.ReadError(m.Error.In(m.Body)); e.Message != "" {
		why = e.Message
	}
	return nil, crib.Errorf(crib.Denied, "the client refused %s, which server %s asked for: %s", q.Method, t.server.Name(), why)
}

// wait waits for d.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return errLeft
	}
}

// inputRequired makes a server's question one of the crib's: its state is
// sealed into ours, and only what the page and the client allow is asked.
func (g *Gateway) inputRequired(req *Request, t *target, result []byte, links bool) ([]byte, error) {
	s := t.stateOf(req)
	if t.state != nil {
		s.Round = t.state.Round + 1
	}
	if err := t.mayAskFor(req, result, s.Round+1); err != nil {
		if t.dialogue != nil {
			t.dialogue.end(err)
		}
		return nil, err
	}
	s.Links = links
	if t.dialogue != nil && !links { // which demands them is over
		s.Dialogue = t.dialogue.id
	}
	s.Upstream = wire.Get(result, "requestState")
	s.Expires = time.Now().Add(g.roundTime)
	sealed, err := g.sealer.Seal(s)
	if err != nil {
		return nil, err
	}
	if s.Dialogue != "" {
		g.suspend(t.dialogue)
	}
	sets := []wire.Set{{Key: "requestState", Val: wire.Quote(sealed)}}
	if req.aggregate() {
		asked := wire.Get(result, "inputRequests")
		if edits := bridge.SignedAll(t.server.Name(), asked); len(edits) > 0 {
			sets = append(sets, wire.Set{Key: "inputRequests", Val: wire.Apply(nil, asked, edits...)})
		}
	}
	return wire.SetMembers(nil, result, sets...), nil
}

// links are the links that a legacy server wants to have visited first, nil if
// the answer says something else or the client can be shown none.
func (t *target) links(req *Request, reply *upstream.Reply) []bridge.Question {
	if req.Era == wire.Legacy || reply.Era == wire.Modern || !owns(req.Message.Method) {
		return nil
	}
	links := bridge.Links(reply.Message.Error.In(reply.Message.Body))
	caps := askable(req, t.server.Def())
	for i := range links {
		links[i].Key = "l" + strconv.Itoa(i+1)
		if !bridge.Allows(caps, links[i]) {
			return nil
		}
	}
	return links
}

// putLinks asks a modern client to visit links. The server did nothing, and
// gets the request again when the client comes back.
func (g *Gateway) putLinks(req *Request, t *target, links []bridge.Question) Answer {
	asked, err := g.inputRequired(req, t, bridge.InputRequired(links), true)
	if err != nil {
		return g.trouble(req, err)
	}
	return Answer{Body: wire.ResultBody(req.id(), asked)}
}

// consented refuses a request whose person did not want to visit a link.
func (t *target) consented(req *Request) error {
	if !t.state.Links {
		return nil
	}
	responses := req.Message.Params.InputResponses.In(req.Message.Body)
	for _, m := range wire.Members(responses) {
		if action, _ := wire.GetText(m.Val.In(responses), "action"); action != "accept" {
			return crib.Errorf(crib.Denied, "server %s needs a link to be visited first, and that was declined", t.server.Name())
		}
	}
	return nil
}
