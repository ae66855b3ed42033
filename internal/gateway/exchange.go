package gateway

import (
	"net/http"
	"strings"
	"sync"

	"github.com/toolcrib/toolcrib/internal/bridge"
	"github.com/toolcrib/toolcrib/internal/catalog"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// exchange is one request on one leg: it makes the message for the server, and
// it is the Listener for what the server says because of it.
type exchange struct {
	g        *Gateway
	req      *Request // that it began with
	server   *catalog.Server
	era      wire.Era  // of the leg
	dialogue *dialogue // by which the client is asked; nil where it is asked on its stream

	mu     sync.Mutex        // guards all below
	caller *Request          // whose client listens now
	sink   Sink              // to it; nil while it does not
	asked  map[string]string // the server's id of a request → ours, while the client has not answered
	done   bool
}

// attach says which request of the client is open now.
func (ex *exchange) attach(req *Request, sink Sink) {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	ex.caller, ex.sink = req, sink
}

// listener is the request that is open now, and what leads to its client.
func (ex *exchange) listener() (*Request, Sink) {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	return ex.caller, ex.sink
}

// carried are the client's headers that go on to the server.
var carried = []string{"Traceparent", "Tracestate", "Baggage"}

// outgoing makes the message for the server.
func (ex *exchange) outgoing(t *target) (*upstream.Outgoing, error) {
	m, at := ex.req.Message, t.at
	if bridge.Crossing(ex.req.Era, ex.era) {
		var err error
		if m, err = ex.translated(t); err != nil {
			return nil, err
		}
		if at.OK() {
			at = publicAt(m)
		}
	}
	out := &upstream.Outgoing{
		Method: m.Method, Src: m.Body, ID: m.ID, Token: m.Meta.ProgressToken,
		Name: t.name, HasName: t.name != "", Owner: owns(m.Method), Read: wire.Repeatable(m.Method),
		Timeout: ex.server.Def().Timeout,
	}
	if m.Method == "tasks/result" { // it waits for the task, which may ask (2025-11-25, Tasks, Input Required Status)
		out.Owner, out.Timeout = true, upstream.MaxCallTime
	}
	if at.OK() {
		out.Edits = append(out.Edits, wire.Edit{At: at, With: wire.Quote(t.name)})
	}
	if ex.era == wire.Modern {
		if err := ex.modern(out, m, t); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// publicAt finds in a translated message where the public name stands.
func publicAt(m wire.Message) wire.Span {
	switch m.Method {
	case "resources/read", "resources/subscribe", "resources/unsubscribe":
		return m.Params.URI
	case "completion/complete":
		at, _ := refAt(m)
		return at
	}
	return m.Params.Name
}

// owns reports whether a server may ask its client something because of a
// request (2026-07-28, Multi Round-Trip Requests, Supported Requests).
func owns(method string) bool {
	return method == "tools/call" || method == "prompts/get" || method == "resources/read"
}

// translated is the client's message in the era of the leg.
func (ex *exchange) translated(t *target) (wire.Message, error) {
	if ex.era == wire.Legacy {
		if t.state != nil && !t.state.Links {
			return wire.Message{}, errChanged
		}
		return bridge.LegacyRequest(ex.req.Message)
	}
	s := ex.req.Session
	m, err := bridge.ModernRequest(ex.req.Message, s.Client.Info, askable(ex.req, ex.server.Def()), s.LogLevel())
	if err != nil || t.inputs == nil {
		return m, err
	}
	return bridge.WithInputs(m, t.inputs.responses, t.inputs.state)
}

// errChanged refuses what was begun when a server spoke another era.
var errChanged = crib.Errorf(crib.Invalid, "the server does not speak the version of the protocol any more in which this was begun; send the request again, without requestState")

// modern adds what a modern server expects beside the body, and takes out what
// it may not make use of.
func (ex *exchange) modern(out *upstream.Outgoing, m wire.Message, t *target) error {
	if caps := m.Meta.ClientCapabilities; caps.OK() {
		raw := caps.In(m.Body)
		if now := bridge.Permitted(raw, ex.server.Def().Dialogue.May); len(now) != len(raw) {
			out.Edits = append(out.Edits, wire.Edit{At: caps, With: now})
		}
	}
	switch {
	case t.state != nil && t.state.Links:
		return errChanged
	case t.state != nil:
		out.Edits = append(out.Edits, bridge.StateEdit(m, t.state))
	case t.inputs == nil && owns(m.Method) && (m.Params.RequestState.OK() || m.Params.InputResponses.OK()):
		return crib.Errorf(crib.Invalid, "requestState and inputResponses belong to a question that the crib brought to this client, and it brought none")
	}
	if ex.req.Header != nil && !ex.req.aggregate() {
		for k, v := range ex.req.Header {
			if strings.HasPrefix(k, wire.HeaderParamPrefix) {
				set(&out.Params, k, v)
			}
		}
	}
	if len(t.params) > 0 {
		if out.Params == nil {
			out.Params = make(http.Header)
		}
		if err := wire.SetParams(out.Params, t.params, m.Params.Arguments.In(m.Body)); err != nil {
			return crib.Errorf(crib.Invalid, "%s", err)
		}
	}
	for _, k := range carried {
		if v := ex.req.Header[k]; v != nil {
			set(&out.Header, k, v)
		}
	}
	return nil
}

// set sets a header of h, which is made when it is needed: mostly it is not.
func set(h *http.Header, name string, values []string) {
	if *h == nil {
		*h = make(http.Header)
	}
	(*h)[name] = values
}

// Notification brings what the server tells because of this request to the
// client.
func (ex *exchange) Notification(m wire.Message) {
	req, sink := ex.listener()
	if sink == nil && m.Method != "notifications/cancelled" {
		return // the client is away, and what comes back asks for itself
	}
	switch m.Method {
	case "notifications/progress":
		token := req.Message.Meta.ProgressToken
		if !token.OK() || !m.Params.ProgressToken.OK() {
			return
		}
		sink.Send(wire.Apply(nil, m.Body, wire.Edit{At: m.Params.ProgressToken, With: token.In(req.Message.Body)}))
	case "notifications/message":
		if wantsLog(req, m) {
			sink.Send(m.Body)
		}
	case "notifications/elicitation/complete":
		if req.Era == wire.Legacy { // a modern client got no id that it could mean
			sink.Send(m.Body)
		}
	case "notifications/cancelled":
		ex.withdrawn(m)
	default:
		sink.Send(m.Body)
	}
}

// wantsLog reports whether the client asked for a log message. A modern client
// asks with the request; a legacy one with its session, and gets what the
// server sends until it does.
func wantsLog(req *Request, m wire.Message) bool {
	if req.Era == wire.Legacy {
		return req.Session.WantsLog(m)
	}
	asked := req.Message.Meta.LogLevel.In(req.Message.Body)
	if asked == nil {
		return false
	}
	level, _ := m.Params.Level.Text(m.Body)
	return wire.Logged(level, wire.Text(asked))
}

// askable are the capabilities by which a server may ask the client of req
// something.
func askable(req *Request, def *servers.Definition) []byte {
	return bridge.Capabilities(declared(req), def.Dialogue.May)
}

// declared are the raw capabilities of the client of req.
func declared(req *Request) []byte {
	if req.Session != nil {
		return req.Session.Client.Capabilities
	}
	return req.Message.Meta.ClientCapabilities.In(req.Message.Body)
}

// conversing reports whether the server may hold the request open while its
// client is asked by answers.
func (ex *exchange) conversing() bool {
	if ex.req.Era == wire.Legacy || ex.era == wire.Modern || !owns(ex.req.Message.Method) {
		return false
	}
	def := ex.server.Def()
	return def.Dialogue.Share != servers.ShareServer && len(askable(ex.req, def)) > len("{}")
}

// Request brings a question of a legacy server to the client whose request made
// it ask. Anything else is declined, so that the server goes on.
func (ex *exchange) Request(m wire.Message, answer func([]byte)) {
	q := bridge.Question{Method: m.Method, Params: m.Params.All.In(m.Body)}
	switch {
	case !ex.mayAsk(q) || !wire.IsObject(m.Body): // and nothing that can be read in two ways
		answer(upstream.Decline(m))
	case ex.req.Session != nil:
		ex.askSession(m, q.Kind(), answer)
	case ex.dialogue == nil || !ex.dialogue.ask(q, m.ID.In(m.Body), answer):
		answer(upstream.Decline(m))
	}
}

// askSession asks a legacy client on the stream of its request.
func (ex *exchange) askSession(m wire.Message, kind string, answer func([]byte)) {
	s := ex.req.Session
	id, ok := s.Ask(func(resp wire.Message) {
		ex.mu.Lock()
		delete(ex.asked, string(m.ID.In(m.Body)))
		ex.mu.Unlock()
		answer(wire.Apply(nil, resp.Body, wire.Edit{At: resp.ID, With: m.ID.In(m.Body)}))
	}, func() { answer(upstream.Decline(m)) })
	if !ok { // the session ended: nobody is there to ask
		answer(upstream.Decline(m))
		return
	}
	if !ex.remember(m, id) {
		s.Withdraw(id)
		return
	}
	edits := []wire.Edit{{At: m.ID, With: []byte(id)}}
	if ex.req.aggregate() {
		edits = append(edits, bridge.Signed(ex.server.Name(), kind, m.Body, m.Params.All)...)
	}
	_, sink := ex.listener()
	sink.Send(wire.Apply(nil, m.Body, edits...))
}

// mayAsk reports whether the server was told that it may ask such a question.
// On a connection that everybody shares it was told of nothing.
func (ex *exchange) mayAsk(q bridge.Question) bool {
	def := ex.server.Def()
	return def.Dialogue.Share != servers.ShareServer && bridge.Allows(askable(ex.req, def), q)
}

func (ex *exchange) remember(m wire.Message, id string) bool {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	if ex.done {
		return false
	}
	if ex.asked == nil {
		ex.asked = make(map[string]string)
	}
	ex.asked[string(m.ID.In(m.Body))] = id
	return true
}

// withdrawn tells the client that the server no longer waits for an answer.
func (ex *exchange) withdrawn(m wire.Message) {
	if ex.dialogue != nil {
		ex.dialogue.withdraw(m.Params.RequestID.In(m.Body))
		return
	}
	ex.mu.Lock()
	id, ok := ex.asked[string(m.Params.RequestID.In(m.Body))]
	delete(ex.asked, string(m.Params.RequestID.In(m.Body)))
	sink := ex.sink
	ex.mu.Unlock()
	if !ok {
		return
	}
	ex.req.Session.Forget(id)
	sink.Send(wire.Apply(nil, m.Body, wire.Edit{At: m.Params.RequestID, With: []byte(id)}))
}

// close ends the exchange: nobody can answer its open questions any more.
func (ex *exchange) close() {
	ex.mu.Lock()
	ids := make([]string, 0, len(ex.asked))
	for _, id := range ex.asked {
		ids = append(ids, id)
	}
	ex.done, ex.asked = true, nil
	ex.mu.Unlock()
	for _, id := range ids {
		ex.req.Session.Withdraw(id)
	}
}
