package mcphttp

import (
	"bytes"
	"net/http"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/gateway"
	"github.com/toolcrib/toolcrib/internal/web"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// listTools answers GET /v1/tools: an array of {name, description,
// parameters}, for clients that call tools without MCP.
func (d *Door) listTools(w http.ResponseWriter, r *http.Request, p crib.Principal) {
	if d.gw.Stopping() {
		stopping(w)
		return
	}
	out := []byte{'['}
	for i, t := range d.gw.Tools(r.Context(), p) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, `{"name":`...)
		out = wire.AppendString(out, t.Name)
		out = append(out, `,"description":`...)
		out = wire.AppendString(out, t.Description)
		out = append(out, `,"parameters":`...)
		out = append(out, t.Parameters...)
		out = append(out, '}')
	}
	writeAnswer(w, gateway.Answer{Body: append(out, ']')})
}

// nowhere drops what comes before an answer.
type nowhere struct{}

func (nowhere) Send([]byte) {}

// callTool answers POST /v1/tools/{name}: the body is the arguments, the
// answer the result of the call. It is the same call as over MCP.
func (d *Door) callTool(w http.ResponseWriter, r *http.Request, p crib.Principal) {
	read, ok := d.body(w, r, func(err error) {
		plainError(w, web.Status(err), wire.CodeInvalidRequest, crib.SafeText(err))
	})
	if !ok {
		return
	}
	defer d.letGo(read)
	args := bytes.TrimSpace(read)
	if len(args) == 0 {
		args = []byte("{}")
	}
	if !wire.IsObject(args) { // alone: it is put into a message, and must not end before it does
		plainError(w, http.StatusBadRequest, wire.CodeInvalidParams, "the body must be a JSON object: the arguments of the tool")
		return
	}
	body := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":`)
	body = wire.AppendString(body, r.PathValue("name"))
	body = append(body, `,"_meta":{"`+wire.MetaProtocolVersion+`":"`+wire.NewestModern+`","`+wire.MetaClientCapabilities+`":{}},"arguments":`...)
	body = append(append(body, args...), "}}"...)
	m, err := wire.Scan(body)
	if err != nil {
		plainError(w, http.StatusBadRequest, wire.CodeParse, err.Error())
		return
	}
	answer := d.gw.Handle(r.Context(), &gateway.Request{Principal: p, Era: wire.Modern, Message: m}, nowhere{})
	got, err := wire.ScanServer(answer.Body)
	if err != nil {
		plainError(w, http.StatusInternalServerError, wire.CodeInternal, "the crib met an internal fault; its log says which")
		return
	}
	if got.Error.OK() {
		e := wire.ReadError(got.Error.In(got.Body))
		status := answer.Status
		switch {
		case status >= 400:
		case e.Code == wire.CodeInvalidParams:
			status = http.StatusNotFound
		default:
			status = http.StatusBadGateway
		}
		writeAnswer(w, gateway.Answer{Status: status, RetryAfter: answer.RetryAfter, Body: append(append([]byte(`{"error":`), got.Error.In(got.Body)...), '}')})
		return
	}
	writeAnswer(w, gateway.Answer{Body: got.Result.In(got.Body)})
}

func plainError(w http.ResponseWriter, status, code int, text string) {
	body := wire.ErrorBody(nil, code, text, nil)
	writeAnswer(w, gateway.Answer{Status: status, Body: append(append([]byte(`{"error":`), wire.Get(body, "error")...), '}')})
}
