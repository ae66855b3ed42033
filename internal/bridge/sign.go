package bridge

import "github.com/toolcrib/toolcrib/internal/wire"

// SignedAll is Signed for all questions of an inputRequests.
func SignedAll(server string, asked []byte) []wire.Edit {
	var edits []wire.Edit
	for _, q := range wire.Members(asked) {
		question := q.Val.In(asked)
		method, _ := wire.GetText(question, "method")
		edits = append(edits, SignedAt(server, KindOf(method), question, q.Val.From)...)
	}
	return edits
}

// SignedAt is Signed for a question that lies at base.
func SignedAt(server, kind string, question []byte, base int) []wire.Edit {
	for _, m := range wire.Members(question) {
		if m.Key != "params" {
			continue
		}
		edits := Signed(server, kind, question, m.Val)
		for i := range edits {
			edits[i].At.From += base
			edits[i].At.To += base
		}
		return edits
	}
	return nil
}

// Signed puts the server's name before the text that a question shows to a
// person, where the client cannot see which of the servers asks. params is the
// params object of the question in body.
func Signed(server, kind string, body []byte, params wire.Span) []wire.Edit {
	if kind != Elicitation {
		return nil
	}
	for _, m := range wire.Members(params.In(body)) {
		if m.Key == "message" && body[params.From+m.Val.From] == '"' {
			at := params.From + m.Val.From + 1
			return []wire.Edit{{At: wire.Span{From: at, To: at}, With: []byte("[" + server + "] ")}}
		}
	}
	return nil
}
