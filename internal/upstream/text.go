package upstream

import (
	"strings"
	"unicode/utf8"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// legible returns an answer as its caller may have it. Bytes that are no UTF-8
// would break the client that reads them, which would then wait for ever. In
// the answer to a call they are replaced, and the result says so. What a server
// says of itself a model reads as instructions: it is not guessed at, what
// cannot be read is left out. The items of a list stay as they came, for the
// catalog leaves out the broken ones one by one.
func legible(spec *Spec, opts *Options, out *Outgoing, m wire.Message) wire.Message {
	if m.Legible() {
		return m
	}
	switch out.Method {
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list":
		return m
	case "initialize", "server/discover":
		if !m.Result.OK() {
			break
		}
		rest, left := wire.LegibleMembers(m.Result.In(m.Body))
		if now, err := wire.ScanServer(wire.Apply(nil, m.Body, wire.Edit{At: m.Result, With: rest})); err == nil {
			m = now
		}
		opts.Log.Warn("a server says something of itself that is no UTF-8; it is left out", "server", spec.Name, "method", out.Method, "left out", strings.Join(left, ", "))
		return m
	}
	repaired, err := wire.Repair(m)
	if err != nil {
		return withoutText(m)
	}
	opts.Log.Info("an answer held bytes that are no UTF-8; they were replaced", "server", spec.Name, "method", out.Method)
	return repaired
}

// withoutText is the answer in place of m, which cannot be repaired.
func withoutText(m wire.Message) wire.Message {
	body := wire.ErrorBody(m.ID.In(m.Body), wire.CodeInternal, "the server's answer holds bytes that are no UTF-8 and cannot be repaired", nil)
	m, _ = wire.ScanServer(body) // it is made to be read
	return m
}

// illegible reports whether a notification or a request of the server holds
// bytes that are no UTF-8. Nothing but results is repaired: a notification is
// dropped, though it is a sign of life, and a request is refused.
func (f *inflight) illegible(m wire.Message, answer func([]byte)) bool {
	if m.Legible() {
		return false
	}
	if c := f.get(m.Params.ProgressToken.In(m.Body)); c != nil {
		c.touch()
	}
	if id := m.ID.In(m.Body); m.Kind == wire.RequestKind && utf8.Valid(id) {
		answer(wire.ErrorBody(id, wire.CodeParse, "the request holds bytes that are no UTF-8", nil))
	}
	return true
}
