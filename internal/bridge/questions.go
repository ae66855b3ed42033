package bridge

import (
	"crypto/rand"
	"slices"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// Question is what a server asks of a client: a request of a legacy server, or
// a member of inputRequests of a modern one.
type Question struct {
	Key    string // in inputRequests
	Method string
	Params []byte // raw object; nil if there is none
}

// Kinds of questions by the capability of clients that they need (2026-07-28,
// Multi Round-Trip Requests, Server Requirements).
const (
	Elicitation = "elicitation"
	Sampling    = "sampling"
	Roots       = "roots"
)

// Kind names the capability that a client needs to be asked, "" for what is no
// question.
func (q Question) Kind() string { return KindOf(q.Method) }

// KindOf is the kind of the questions that are asked by a method, "" if none are.
func KindOf(method string) string {
	switch method {
	case "elicitation/create":
		return Elicitation
	case "sampling/createMessage":
		return Sampling
	case "roots/list":
		return Roots
	}
	return ""
}

// Needs says what a client needs to be asked q, for errors.
func (q Question) Needs() string {
	if mode, _ := wire.GetText(q.Params, "mode"); q.Kind() == Elicitation && mode == "url" {
		return "elicitation by a link"
	}
	if kind := q.Kind(); kind != "" {
		return kind
	}
	return q.Method
}

// Questions reads the inputRequests of a result, in their order.
func Questions(result []byte) []Question {
	asked := wire.Get(result, "inputRequests")
	var out []Question
	for _, m := range wire.Members(asked) {
		raw := m.Val.In(asked)
		method, _ := wire.GetText(raw, "method")
		out = append(out, Question{Key: m.Key, Method: method, Params: wire.Get(raw, "params")})
	}
	return out
}

const inputRequired = "input_required"

// AsksForInput reports whether any reader could take a result for a question:
// of members with one name, some take the first and some the last.
func AsksForInput(result []byte) bool {
	if !wire.MayHave(result, inputRequired) {
		return false
	}
	for _, m := range wire.Members(result) {
		if m.Key == "resultType" && wire.Text(m.Val.In(result)) == inputRequired {
			return true
		}
	}
	return false
}

// InputRequired is the result by which a modern server asks (2026-07-28, Multi
// Round-Trip Requests, InputRequiredResult), without a state.
func InputRequired(questions []Question) []byte {
	asked := []byte{'{'}
	for _, q := range questions {
		asked = append(wire.AppendString(comma(asked), q.Key), `:{`...)
		asked = append(q.appendTo(asked), '}')
	}
	return slices.Concat([]byte(`{"resultType":"input_required","inputRequests":`), asked, []byte("}}"))
}

// appendTo appends the members of q as a request.
func (q Question) appendTo(out []byte) []byte {
	out = wire.AppendString(append(out, `"method":`...), q.Method)
	if q.Params != nil {
		out = append(append(out, `,"params":`...), q.Params...)
	}
	return out
}

// Request is q as a request of a legacy server with a raw id.
func (q Question) Request(id string) []byte {
	return append(q.appendTo([]byte(`{"jsonrpc":"2.0","id":`+id+`,`)), '}')
}

// Responses is the inputResponses with the raw results of questions.
func Responses(questions []Question, results [][]byte) []byte {
	out := []byte{'{'}
	for i, q := range questions {
		out = append(wire.AppendString(comma(out), q.Key), ':')
		out = append(out, results[i]...)
	}
	return append(out, '}')
}

// ModernQuestion makes a legacy server's question one of a modern server: there
// is no notification that a link was visited, and so no id for it.
func ModernQuestion(q Question) Question {
	if q.Kind() == Elicitation && wire.Get(q.Params, elicitationID) != nil {
		q.Params = wire.SetMembers(nil, q.Params, wire.Set{Key: elicitationID})
	}
	return q
}

const elicitationID = "elicitationId"

// LegacyQuestion makes a modern server's question one of a legacy server, which
// gives a link an id.
func LegacyQuestion(q Question) Question {
	if mode, _ := wire.GetText(q.Params, "mode"); q.Kind() == Elicitation && mode == "url" && wire.Get(q.Params, elicitationID) == nil {
		q.Params = wire.SetMembers(nil, q.Params, wire.Set{Key: elicitationID, Val: wire.Quote(rand.Text())})
	}
	return q
}

// Links reads the links that a legacy server's error demands to be visited
// before it does what it was asked (2025-11-25, Elicitation, URL Elicitation
// Required Error), as questions of a modern one. It is nil for any other error.
func Links(object []byte) []Question {
	e := wire.ReadError(object)
	if e.Code != wire.CodeURLElicitation {
		return nil
	}
	list := wire.Get(e.Data, "elicitations")
	var out []Question
	for _, at := range wire.Elements(list) {
		params := at.In(list)
		if mode, _ := wire.GetText(params, "mode"); mode != "url" || !wire.IsObject(params) {
			return nil
		}
		out = append(out, ModernQuestion(Question{Method: "elicitation/create", Params: params}))
	}
	return out
}

// WithInputs puts the answers of a client, and the state that a server gave for
// them, into the params of a request (2026-07-28, Multi Round-Trip Requests,
// Client Requirements). A state of nil is left out.
func WithInputs(m wire.Message, responses, state []byte) (wire.Message, error) {
	params := wire.SetMembers(nil, m.Params.All.In(m.Body),
		wire.Set{Key: "inputResponses", Val: responses}, wire.Set{Key: "requestState", Val: state})
	return wire.ScanServer(wire.Apply(nil, m.Body, wire.Edit{At: m.Params.All, With: params}))
}

// Permitted returns the client capabilities without those that a server may
// not make use of.
func Permitted(capabilities []byte, may []string) []byte {
	if len(capabilities) <= len("{}") {
		return capabilities
	}
	var sets []wire.Set
	if wire.Get(capabilities, "tasks") != nil {
		// Answers of clients that are tasks themselves lead nowhere.
		sets = append(sets, wire.Set{Key: "tasks"})
	}
	for _, c := range []string{Elicitation, Roots, Sampling} {
		if !slices.Contains(may, c) && wire.Get(capabilities, c) != nil {
			sets = append(sets, wire.Set{Key: c})
		}
	}
	if len(sets) == 0 {
		return capabilities
	}
	return wire.SetMembers(nil, capabilities, sets...)
}

// Capabilities are those of a client by which a server may ask it something: of
// what it declared, what is in may, in one form for all clients that can do the
// same. An elicitation without a mode is one by form (2026-07-28, Elicitation,
// Capabilities).
func Capabilities(declared []byte, may []string) []byte {
	out := []byte{'{'}
	add := func(kind string, parts ...string) {
		raw := wire.Get(declared, kind)
		if len(raw) == 0 || raw[0] != '{' || !slices.Contains(may, kind) {
			return
		}
		own := []byte{'{'}
		for _, part := range parts {
			v := wire.Get(raw, part)
			if has := len(v) > 0 && v[0] == '{'; has || part == "form" && len(wire.Members(raw)) == 0 {
				own = append(wire.AppendString(comma(own), part), `:{}`...)
			}
		}
		if kind == Elicitation && len(own) == 1 {
			return // in no way that is known here
		}
		out = append(wire.AppendString(comma(out), kind), ':')
		out = append(append(out, own...), '}')
	}
	add(Elicitation, "form", "url")
	add(Roots)
	add(Sampling, "context", "tools")
	return append(out, '}')
}

// comma goes between the members of an object that is being written.
func comma(object []byte) []byte {
	if len(object) > 1 {
		return append(object, ',')
	}
	return object
}

// Allows reports whether a client of these capabilities, in the form that
// Capabilities gives them, may be asked q. Whoever knows no links would take a
// link for a form.
func Allows(capabilities []byte, q Question) bool {
	kind := q.Kind()
	own := wire.Get(capabilities, kind)
	if kind != Elicitation {
		return kind != "" && own != nil
	}
	mode, named := wire.GetText(q.Params, "mode")
	if !named {
		mode = "form"
	}
	return wire.Get(own, mode) != nil
}
