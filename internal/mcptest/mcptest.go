// Package mcptest holds scriptable peers for tests: an MCP server over stdio
// that lives inside the test binary, the same server over HTTP, a raw HTTP
// client and a raw stdio client.
//
// The peers write their JSON by hand and read it with encoding/json, so that a
// fault of the relay's own reader and writer shows, and so that odd bytes are
// possible. They share the protocol (see Server); what differs is the carrier.
//
// The tools that every peer serves:
//
//	echo       answers the raw arguments, as text and as structuredContent
//	raw        answers the raw params as text
//	env        answers {"env":[names],"argv":[…],"dir":…,"pid":…}
//	headed     has x-mcp-header arguments, region (string) and count (integer); answers like echo
//	slow       waits until the file {"release":PATH} exists or it is cancelled, which it
//	           writes to the file {"noted":PATH};
//	           sends {"ticks":N} progress notifications (2 if absent) first
//	log        sends notifications/message with {"level":…,"data":…}
//	notify     sends any notification: {"method":…,"params":…}; with {"lines":PATH} each message
//	           that a line of the file is, when it is written, until "answer RESULT"; see Dictate
//	elicit     asks the user: {"count":N,"rounds":N,"mode":"url"}; answers {"k1":RESULT,…}
//	sample     asks for a completion, in the same way
//	roots      asks for the roots, in the same way
//	request    legacy only: sends any request {"method":…,"params":…} and answers the raw response
//	fail       answers isError
//	rpcerror   answers a JSON-RPC error -32099 with data
//	cancelled  answers the ids of the requests that the client cancelled
//	touch      {"uri":U} sends resources/updated to subscribers; {"list":"tools"} sends list_changed
//	link       answers a resource link and an embedded resource
//	big        answers a text of {"bytes":N}
//	later      answers with a task, or refuses a client that can follow none; it is listed
//	           with Options.Tasks only
//	either     answers with a task, or at once where the client can follow none; likewise
//	garbled    answers {"bytes":BASE64} as the raw inside of a string: in the text, or {"at":…}
//	           "structured", "error", "progress" or "question"; it is not listed by itself
//	stray      answers {"say":TEXT}, twice, behind answers to nobody; with {"release":PATH} when
//	           the file exists, even if it is cancelled; it is not listed by itself
//	endless    stdio only: writes a line of {"bytes":N} bytes, or one without end
//	partial    stdio only: writes half a reply and exits
//	die        kills the process, or over HTTP the connection, in the middle of the call
//
// The prompt greet with the argument ask, and the resource text://ask, ask the user
// like elicit and answer what came as text.
package mcptest

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// message is one JSON-RPC message as it was read.
type message struct {
	raw    []byte
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// params are the members of params that the peers look at.
type params struct {
	Name            string                     `json:"name"`
	URI             string                     `json:"uri"`
	Arguments       json.RawMessage            `json:"arguments"`
	Meta            map[string]json.RawMessage `json:"_meta"`
	Cursor          *string                    `json:"cursor"`
	Level           string                     `json:"level"`
	RequestID       json.RawMessage            `json:"requestId"`
	RequestState    string                     `json:"requestState"`
	InputResponses  json.RawMessage            `json:"inputResponses"`
	ProtocolVersion string                     `json:"protocolVersion"`
	Capabilities    json.RawMessage            `json:"capabilities"`
	TaskID          string                     `json:"taskId"`
	Ref             json.RawMessage            `json:"ref"`
	Argument        struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"argument"`
	Notifications *filter `json:"notifications"`
}

// filter is what a subscriptions/listen asks for.
type filter struct {
	Tools     bool     `json:"toolsListChanged"`
	Prompts   bool     `json:"promptsListChanged"`
	Resources bool     `json:"resourcesListChanged"`
	URIs      []string `json:"resourceSubscriptions"`
}

func readMessage(raw []byte) (message, params, error) {
	m := message{raw: raw}
	var p params
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, p, err
	}
	if len(m.Params) > 0 {
		if err := json.Unmarshal(m.Params, &p); err != nil {
			return m, p, err
		}
	}
	return m, p, nil
}

func (m message) isRequest() bool  { return m.Method != "" && len(m.ID) > 0 }
func (m message) isResponse() bool { return m.Method == "" && len(m.ID) > 0 }

// version returns the protocol version that the reserved _meta names.
func (p params) version() string { return text(p.Meta[wire.MetaProtocolVersion]) }

// text returns the text of a JSON string, "" if raw is none.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// has reports whether the object raw has the member key.
func has(raw json.RawMessage, key string) bool {
	var o map[string]json.RawMessage
	return json.Unmarshal(raw, &o) == nil && o[key] != nil
}

// quote returns s as a JSON string, with no more escapes than JSON asks for.
func quote(s string) string { return string(wire.Quote(s)) }

// quoteAll returns list as a JSON array of strings.
func quoteAll(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = quote(s)
	}
	return "[" + strings.Join(quoted, ",") + "]"
}

// or returns raw, or otherwise if it is empty.
func or(raw []byte, otherwise string) string {
	if len(bytes.TrimSpace(raw)) == 0 {
		return otherwise
	}
	return string(raw)
}

func textResult(s string) string {
	return `{"content":[{"type":"text","text":` + quote(s) + `}]}`
}

func structuredResult(raw string) string {
	return `{"content":[{"type":"text","text":` + quote(raw) + `}],"structuredContent":` + raw + `}`
}

func notification(method, params string) []byte {
	return []byte(`{"jsonrpc":"2.0","method":` + quote(method) + `,"params":` + params + `}`)
}
