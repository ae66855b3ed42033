package mcptest

import (
	"encoding/json"
	"strings"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// garbled answers with a JSON string of whatever bytes the test gives, in
// base64, for they need not be text, as often as {"repeat":N} says. {"at":…} says
// where the string stands.
func garbled(s *Server, x *exchange, _ toolArgs) answer {
	var args struct {
		At     string `json:"at"`
		Bytes  []byte `json:"bytes"`
		Repeat int    `json:"repeat"`
	}
	if err := json.Unmarshal(x.par.Arguments, &args); err != nil {
		return refuse(wire.CodeInvalidParams, "garbled: %v", err)
	}
	text := `"` + strings.Repeat(string(args.Bytes), max(args.Repeat, 1)) + `"`
	switch args.At {
	case "structured":
		return answer{ownMeta: true, result: `{"content":[{"type":"text","text":"beside"}],"structuredContent":{"t":` + text + `},"_meta":{"x-m":"keep"}}`}
	case "error":
		a := refuse(-32099, "custom")
		a.data = `{"t":` + text + `}`
		return a
	case "progress":
		x.send(notification("notifications/progress", `{"progressToken":`+or(x.par.Meta[wire.MetaProgressToken], "null")+`,"progress":1,"message":`+text+`}`))
		return ok(textResult("told"))
	case "question": // legacy only
		m, err := x.conn.ask(x.ctx, s.requestID(), "elicitation/create", `{"message":`+text+`,"requestedSchema":{"type":"object","properties":{}}}`, x.send)
		if err != nil {
			return answer{}
		}
		return ok(textResult(string(m.raw)))
	}
	return ok(`{"content":[{"type":"text","text":` + text + `}]}`)
}
