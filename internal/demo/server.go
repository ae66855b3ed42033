// Package demo is two small MCP servers to look at a crib with, without
// installing anything: a workshop that answers on stdio, and a notebook that
// answers over HTTP. Both speak both eras.
package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// listTTL is for how many milliseconds a modern client may keep a list. The
// lists never change.
const listTTL = 3_600_000

// version is that of the demonstration servers.
const version = "1.0.0"

// offer is what a server lists, in the form in which it is listed.
type offer struct {
	Tools     []json.RawMessage `json:"tools"`
	Prompts   []json.RawMessage `json:"prompts"`
	Resources []json.RawMessage `json:"resources"`
}

// tool executes a call. An error is for the caller to read: it becomes a result
// that says so.
type tool func(c *call) (output, error)

// call is a call of a tool.
type call struct {
	ctx      context.Context
	args     []byte                                    // a JSON object
	progress func(done, total float64, message string) // tells how far it is, if the caller wants to know
}

// output is what a tool returns: a text, and the same as data if the tool has
// an output schema.
type output struct {
	text string
	data any
}

// server is the protocol of a demonstration server, without a transport.
type server struct {
	name, title, instructions string

	offer   offer
	tools   map[string]tool
	prompt  func(name string, args map[string]string) (text string, err error)
	content func(uri string) (mime, text string, ok bool)
}

// newServer reads what a server lists. The definitions are part of the
// program, so a fault in them is one of the program.
func newServer(name, title, instructions string, definitions []byte) *server {
	s := &server{name: name, title: title, instructions: instructions}
	if err := json.Unmarshal(definitions, &s.offer); err != nil {
		panic(fmt.Sprintf("demo: definitions of %s: %v", name, err))
	}
	for _, list := range [][]json.RawMessage{s.offer.Tools, s.offer.Prompts, s.offer.Resources} {
		for i, raw := range list {
			var b bytes.Buffer
			if err := json.Compact(&b, raw); err != nil {
				panic(fmt.Sprintf("demo: definitions of %s: %v", name, err))
			}
			list[i] = b.Bytes()
		}
	}
	return s
}

// fault is a JSON-RPC error.
type fault struct {
	code int
	text string
	data []byte
}

func (f *fault) Error() string { return f.text }

// handle answers the request m of that era. notify sends a notification ahead
// of the answer; nil says that the transport cannot.
func (s *server) handle(ctx context.Context, era wire.Era, m wire.Message, notify func([]byte)) []byte {
	id := m.ID.In(m.Body)
	result, err := s.result(ctx, era, m, notify)
	var f *fault
	switch {
	case errors.As(err, &f):
		return wire.ErrorBody(id, f.code, f.text, f.data)
	case err != nil:
		return wire.ErrorBody(id, wire.CodeInternal, err.Error(), nil)
	}
	if era == wire.Modern {
		result["resultType"] = "complete"
		result["_meta"] = object{wire.MetaServerInfo: s.info()}
	}
	body, err := encode(result)
	if err != nil {
		return wire.ErrorBody(id, wire.CodeInternal, err.Error(), nil)
	}
	return wire.ResultBody(id, body)
}

type object = map[string]any

// encode is JSON as people would write it, with < and & as they are.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

func (s *server) result(ctx context.Context, era wire.Era, m wire.Message, notify func([]byte)) (object, error) {
	if era == wire.Modern {
		if err := checkMeta(m); err != nil {
			return nil, err
		}
	}
	switch m.Method {
	case "tools/list":
		return listed(era, "tools", s.offer.Tools), nil
	case "prompts/list":
		return listed(era, "prompts", s.offer.Prompts), nil
	case "resources/list":
		return listed(era, "resources", s.offer.Resources), nil
	case "resources/templates/list":
		return listed(era, "resourceTemplates", nil), nil
	case "tools/call":
		return s.callTool(ctx, m, notify)
	case "prompts/get":
		return s.getPrompt(m)
	case "resources/read":
		return s.readResource(era, m)
	}
	switch {
	case m.Method == "server/discover" && era == wire.Modern:
		hello := cached(era, s.hello())
		hello["supportedVersions"] = wire.SupportedVersions
		return hello, nil
	case m.Method == "initialize":
		asked, _ := m.Params.ProtocolVersion.Text(m.Body)
		hello := s.hello()
		hello["protocolVersion"] = wire.NegotiateLegacy(asked)
		hello["serverInfo"] = s.info()
		return hello, nil
	case m.Method == "ping" && era == wire.Legacy:
		return object{}, nil
	}
	return nil, &fault{code: wire.CodeMethodNotFound, text: "there is no method " + m.Method}
}

// eraOf tells the era of a message. named is the version that a header names,
// "" where there are none.
func eraOf(m wire.Message, named string) wire.Era {
	if v, ok := m.Meta.ProtocolVersion.Text(m.Body); ok {
		named = v
	} else if m.Meta.ProtocolVersion.OK() {
		named = "no string"
	}
	if m.Method == "initialize" || named == "" || wire.EraOf(named) == wire.Legacy {
		return wire.Legacy
	}
	return wire.Modern
}

// checkMeta checks what a modern request must say of itself (2026-07-28,
// Overview, _meta).
func checkMeta(m wire.Message) error {
	asked, ok := m.Meta.ProtocolVersion.Text(m.Body)
	if !ok {
		return &fault{code: wire.CodeInvalidParams, text: "_meta must hold " + wire.MetaProtocolVersion + ", a string"}
	}
	if wire.EraOf(asked) != wire.Modern {
		data, err := encode(object{"supported": wire.SupportedVersions, "requested": asked})
		if err != nil {
			return err
		}
		return &fault{code: wire.CodeUnsupportedVersion, text: "Unsupported protocol version", data: data}
	}
	if caps := m.Meta.ClientCapabilities.In(m.Body); len(caps) == 0 || caps[0] != '{' {
		return &fault{code: wire.CodeInvalidParams, text: "_meta must hold " + wire.MetaClientCapabilities + ", an object"}
	}
	return nil
}

func (s *server) info() object {
	return object{"name": "toolcrib-" + s.name, "title": s.title, "version": version}
}

// hello is what a server says of itself in both eras.
func (s *server) hello() object {
	capabilities := object{"tools": object{}}
	if s.offer.Prompts != nil {
		capabilities["prompts"] = object{}
	}
	if s.offer.Resources != nil {
		capabilities["resources"] = object{}
	}
	return object{"capabilities": capabilities, "instructions": s.instructions}
}

func listed(era wire.Era, member string, items []json.RawMessage) object {
	if items == nil {
		items = []json.RawMessage{}
	}
	return cached(era, object{member: items})
}

// cached says for how long a modern client may keep o (2026-07-28, Caching).
func cached(era wire.Era, o object) object {
	if era == wire.Modern {
		o["ttlMs"], o["cacheScope"] = listTTL, "public"
	}
	return o
}

func (s *server) callTool(ctx context.Context, m wire.Message, notify func([]byte)) (object, error) {
	name, _ := m.Params.Name.Text(m.Body)
	run := s.tools[name]
	if run == nil {
		return nil, &fault{code: wire.CodeInvalidParams, text: "Unknown tool: " + name}
	}
	args := m.Params.Arguments.In(m.Body)
	if args == nil {
		args = []byte("{}")
	}
	out, err := run(&call{ctx: ctx, args: args, progress: progressTo(m, notify)})
	if err != nil {
		return object{"content": textContent(err.Error()), "isError": true}, nil
	}
	result := object{"content": textContent(out.text)}
	if out.data != nil {
		result["structuredContent"] = out.data
	}
	return result, nil
}

func textContent(text string) []object {
	return []object{{"type": "text", "text": text}}
}

// progressTo tells the client of the request m, if it asked for it, how far
// the request is.
func progressTo(m wire.Message, notify func([]byte)) func(done, total float64, message string) {
	token := m.Meta.ProgressToken.In(m.Body)
	if token == nil || notify == nil {
		return func(float64, float64, string) {}
	}
	return func(done, total float64, message string) {
		body, err := encode(object{"jsonrpc": "2.0", "method": "notifications/progress", "params": object{
			"progressToken": json.RawMessage(token), "progress": done, "total": total, "message": message,
		}})
		if err == nil {
			notify(body)
		}
	}
}

func (s *server) getPrompt(m wire.Message) (object, error) {
	name, _ := m.Params.Name.Text(m.Body)
	if s.prompt == nil || !slices.ContainsFunc(s.offer.Prompts, func(p json.RawMessage) bool { return named(p, name) }) {
		return nil, &fault{code: wire.CodeInvalidParams, text: "Unknown prompt: " + name}
	}
	var args map[string]string
	if raw := m.Params.Arguments.In(m.Body); raw != nil {
		if err := json.Unmarshal(raw, &args); err != nil {
			return nil, &fault{code: wire.CodeInvalidParams, text: "the arguments of a prompt are strings"}
		}
	}
	text, err := s.prompt(name, args)
	if err != nil {
		return nil, &fault{code: wire.CodeInvalidParams, text: err.Error()}
	}
	return object{"messages": []object{{"role": "user", "content": object{"type": "text", "text": text}}}}, nil
}

func named(definition json.RawMessage, name string) bool {
	text, ok := wire.GetText(definition, "name")
	return ok && text == name
}

func (s *server) readResource(era wire.Era, m wire.Message) (object, error) {
	uri, _ := m.Params.URI.Text(m.Body)
	if s.content != nil {
		if mime, text, ok := s.content(uri); ok {
			return cached(era, object{"contents": []object{{"uri": uri, "mimeType": mime, "text": text}}}), nil
		}
	}
	code := wire.CodeInvalidParams
	if era == wire.Legacy {
		code = wire.CodeResourceNotFound
	}
	return nil, &fault{code: code, text: "Resource not found: " + uri}
}

// arguments reads the arguments of a call into v, whose fields have its
// defaults. It tells a caller who got one wrong which.
func (c *call) arguments(v any) error {
	dec := json.NewDecoder(bytes.NewReader(c.args))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &typ) && typ.Field != "":
		return fmt.Errorf("%s must not be a %s", typ.Field, typ.Value)
	case err != nil:
		return fmt.Errorf("the arguments cannot be read: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// between says what is wrong with a number that must lie between low and high.
func between[T int | float64](name string, value, low, high T) error {
	if value >= low && value <= high { // false for what is no number, too
		return nil
	}
	return fmt.Errorf("%s must be between %v and %v", name, low, high)
}
