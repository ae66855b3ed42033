package mcptest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// The tools are not sorted, and the first one has every known field and some
// that nobody knows, so that an order or a byte that changed shows.
const echoTool = `{"name":"echo","title":"Echo","description":"Says <b>it</b> & nothing else, ` + "\u2028" + `exactly.",` +
	`"inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"n":{"type":"integer","maximum":9007199254740993},"r":{"const":1.0}},"x-vendor":{"k":1e2}},` +
	`"outputSchema":{"type":"object"},"annotations":{"title":"t","readOnlyHint":true,"x-custom":"keep"},"execution":{"taskSupport":"optional"},` +
	`"icons":[{"src":"https://x.test/i.png","mimeType":"image/png","sizes":["48x48"],"theme":"dark"}],"_meta":{"com.x/t":[1,2]},"x-future":{"a":[1]}}`

const headedTool = `{"name":"headed","description":"Mirrors two arguments in headers.","inputSchema":{"type":"object","properties":` +
	`{"region":{"type":"string","x-mcp-header":"Region"},"count":{"type":"integer","x-mcp-header":"Count"},"other":{"type":"string"}}}}`

const linkTool = `{"name":"link","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://panel/main","x-ui":"keep"}}}`

var plainTools = []string{"slow", "raw", "env", "log", "notify", "elicit", "sample", "roots", "request", "fail", "rpcerror",
	"cancelled", "touch", "big", "endless", "partial", "die"}

// toolList is the raw array of tools, in the order in which it is listed.
func toolList(dup bool) string {
	tools := []string{echoTool, headedTool, linkTool}
	for _, name := range plainTools {
		tools = append(tools, `{"name":`+quote(name)+`,"inputSchema":{"type":"object"}}`)
	}
	if dup {
		tools = append(tools, echoTool)
	}
	return "[" + strings.Join(tools, ",") + "]"
}

const extraTool = `{"name":"extra","description":"Came later.","inputSchema":{"type":"object"}}`

const prompts = `[{"name":"greet","title":"Greeting","description":"Greets <someone>.","arguments":[{"name":"name","required":true,"x-arg":"keep"}],"x-p":"keep"},` +
	`{"name":"plain"}]`

const resources = `[{"uri":"text://hello","name":"hello","mimeType":"text/plain","size":0,"annotations":{"priority":0.50,"x-a":1},"x-r":"keep"},` +
	`{"uri":"https://example.test/doc","name":"doc"},{"uri":"ui://panel/main","name":"panel","mimeType":"text/html;profile=mcp-app"},{"uri":"data://blob","name":"blob"}]`

const templates = `[{"uriTemplate":"text://{name}","name":"texts","x-t":"keep"},{"uriTemplate":"https://example.test/{path}","name":"docs"}]`

func (s *Server) listTools(x *exchange) answer {
	s.mu.Lock()
	tools := s.tools
	s.mu.Unlock()
	return s.page(x, "tools", tools)
}

func list(member, raw string) handler {
	return func(s *Server, x *exchange) answer { return s.page(x, member, raw) }
}

// page answers one page of the raw array items.
func (s *Server) page(x *exchange, member, items string) answer {
	if s.opts.CursorLoop {
		return listed(`{"` + member + `":` + items + `,"nextCursor":"again"}`)
	}
	if s.opts.PageSize <= 0 {
		if x.par.Cursor != nil {
			return refuse(wire.CodeInvalidParams, "no such cursor")
		}
		return listed(`{"` + member + `":` + items + `,"x-top":"keep"}`)
	}
	var all []json.RawMessage
	if err := json.Unmarshal([]byte(items), &all); err != nil {
		return refuse(wire.CodeInternal, "the items to list are no array")
	}
	from := 0
	if x.par.Cursor != nil {
		n, err := strconv.Atoi(strings.TrimPrefix(*x.par.Cursor, "page<&>"))
		if err != nil || n < 0 || n >= len(all) {
			return refuse(wire.CodeInvalidParams, "no such cursor")
		}
		from = n
	}
	to := min(from+s.opts.PageSize, len(all))
	next := ""
	if to < len(all) {
		next = `,"nextCursor":` + quote(fmt.Sprintf("page<&>%d", to))
	}
	return listed(`{"` + member + `":` + joinRaw(all[from:to]) + next + `}`)
}

func joinRaw(items []json.RawMessage) string {
	parts := make([]string, len(items))
	for i, raw := range items {
		parts[i] = string(raw)
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func (s *Server) getPrompt(x *exchange) answer {
	args := or(x.par.Arguments, "{}")
	switch {
	case x.par.Name == "plain":
	case x.par.Name != "greet":
		return refuse(wire.CodeInvalidParams, "no prompt %q", x.par.Name)
	case !has(x.par.Arguments, "name"):
		return refuse(wire.CodeInvalidParams, "greet needs the argument name")
	case has(x.par.Arguments, "ask"):
		return s.ask(x, toolArgs{}, form, func(raw string) string {
			return `{"messages":[{"role":"user","content":{"type":"text","text":` + quote(raw) + `}}]}`
		})
	}
	return ok(`{"description":"d","messages":[{"role":"user","content":{"type":"text","text":` + quote(args) + `,"x-c":"keep"},"x-m":"keep"},` +
		`{"role":"user","content":{"type":"resource_link","uri":"text://hello","name":"hello"}}],"x-top":"keep"}`)
}

func (s *Server) readResource(x *exchange) answer {
	uri := x.par.URI
	contents := ""
	switch {
	case uri == "text://ask":
		return s.ask(x, toolArgs{}, form, func(raw string) string {
			return `{"contents":[{"uri":"text://ask","text":` + quote(raw) + `}]}`
		})
	case uri == "data://blob":
		contents = `"blob":` + quote(base64.StdEncoding.EncodeToString([]byte("blob")))
	case uri == "ui://panel/main":
		contents = `"mimeType":"text/html;profile=mcp-app","text":"<p>panel</p>"`
	case strings.HasPrefix(uri, "text://") || strings.HasPrefix(uri, "https://example.test/"):
		contents = `"text":` + quote("text of "+uri)
	default:
		code := wire.CodeResourceNotFound
		if x.era == wire.Modern {
			code = wire.CodeInvalidParams
		}
		a := refuse(code, "no resource %q", uri)
		a.data = `{"uri":` + quote(uri) + `}`
		return a
	}
	return listed(`{"contents":[{"uri":` + quote(uri) + `,` + contents + `,"x-r":"keep"}],"x-top":"keep"}`)
}

func (s *Server) complete(x *exchange) answer {
	if len(x.par.Ref) == 0 {
		return refuse(wire.CodeInvalidParams, "no ref")
	}
	values := slices.DeleteFunc([]string{"alpha", "beta"}, func(v string) bool {
		return !strings.HasPrefix(v, x.par.Argument.Value)
	})
	return ok(`{"completion":{"values":` + quoteAll(values) + `,"total":` + strconv.Itoa(len(values)) +
		`,"hasMore":false},"x-ref":` + string(x.par.Ref) + `}`)
}
