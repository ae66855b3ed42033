package mcptest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// Client is a raw HTTP client of an MCP endpoint. It speaks both eras and
// sends what it is given, byte for byte.
//
// Requests do not fail the test: a Reply says what went wrong. They may run
// side by side; the fields may not be changed meanwhile.
type Client struct {
	// URL is the address of the endpoint.
	URL string
	// Header goes with every request.
	Header http.Header
	// Session and Version are those of the legacy session; Initialize sets
	// them.
	Session, Version string
	// Capabilities is what the client declares, as raw JSON.
	Capabilities string
	// Meta are raw members, such as `"progressToken":1`, that every params gets
	// in its _meta.
	Meta string
	// Timeout is how long an answer may take, or the header of a stream.
	Timeout time.Duration

	t      testing.TB
	http   *http.Client
	lastID atomic.Int64
}

// NewClient makes a client that declares elicitation, sampling and roots.
func NewClient(t testing.TB, url string) *Client {
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &Client{
		URL:          url,
		Header:       http.Header{},
		Version:      wire.NewestLegacy,
		Timeout:      Patience,
		Capabilities: `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{"listChanged":true}}`,
		t:            t,
		http: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

const clientInfo = `{"name":"mcptest-client","version":"1","x-ci":"keep"}`

// Initialize opens a legacy session with this version ("" is the newest) and
// tells that it is ready.
func (c *Client) Initialize(version string, headers ...string) *Reply {
	if version == "" {
		version = wire.NewestLegacy
	}
	c.Session, c.Version = "", ""
	r := c.Post(wire.Legacy, "initialize",
		`{"protocolVersion":`+quote(version)+`,"capabilities":`+c.Capabilities+`,"clientInfo":`+clientInfo+`}`, headers...)
	c.Session = r.Header.Get(wire.HeaderSession)
	c.Version = text(member(r.Result(), "protocolVersion"))
	if c.Version != "" {
		c.Post(wire.Legacy, "notifications/initialized", "", headers...)
	}
	return r
}

// Post sends a request, or a notification if the method is one, and reads the
// whole answer. params is a raw object, "" for none; a modern request gets the
// reserved _meta. The usual headers are set; headers, as "Name: value",
// replace them, and "Name:" takes one away.
func (c *Client) Post(era wire.Era, method, params string, headers ...string) *Reply {
	s := c.Open(era, method, params, headers...)
	return s.readAll()
}

// Open is Post for an answer that is read event by event. The Stream must be
// closed.
func (c *Client) Open(era wire.Era, method, params string, headers ...string) *Stream {
	id := fmt.Sprint(c.lastID.Add(1))
	return c.OpenID(era, id, method, params, headers...)
}

// OpenID is Open with a raw id of the caller's choice.
func (c *Client) OpenID(era wire.Era, id, method, params string, headers ...string) *Stream {
	params = c.complete(era, params)
	body := `{"jsonrpc":"2.0","id":` + id + `,"method":` + quote(method)
	if strings.HasPrefix(method, "notifications/") {
		id, body = "", `{"jsonrpc":"2.0","method":`+quote(method)
	}
	if params != "" {
		body += `,"params":` + params
	}
	s := c.OpenRaw(http.MethodPost, body+"}", append(c.usual(era, method, params), headers...)...)
	s.id = id
	return s
}

// Respond answers a request of the server in the legacy session. id and result
// are raw.
func (c *Client) Respond(id, result string) *Reply {
	return c.Raw(http.MethodPost, `{"jsonrpc":"2.0","id":`+id+`,"result":`+result+`}`, c.usual(wire.Legacy, "", "")...)
}

// Get opens the channel of the legacy session, or resumes a stream when headers
// name a Last-Event-ID. The Stream must be closed.
func (c *Client) Get(headers ...string) *Stream {
	return c.OpenRaw(http.MethodGet, "", append(append(c.usual(wire.Legacy, "", ""), "Accept: text/event-stream"), headers...)...)
}

// Delete ends the legacy session.
func (c *Client) Delete(headers ...string) *Reply {
	return c.Raw(http.MethodDelete, "", append(c.usual(wire.Legacy, "", ""), headers...)...)
}

// Raw sends exactly this body with exactly these headers (and those of Header).
func (c *Client) Raw(httpMethod, body string, headers ...string) *Reply {
	return c.OpenRaw(httpMethod, body, headers...).readAll()
}

// OpenRaw is Raw for an answer that is read event by event.
func (c *Client) OpenRaw(httpMethod, body string, headers ...string) *Stream {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Stream{t: c.t, cancel: cancel, timeout: c.Timeout, Reply: Reply{Header: http.Header{}}}
	defer time.AfterFunc(c.Timeout, cancel).Stop()
	rq, err := http.NewRequestWithContext(ctx, httpMethod, c.URL, strings.NewReader(body))
	if err != nil {
		cancel()
		s.Err = err
		return s
	}
	if body == "" {
		rq.Body, rq.ContentLength = http.NoBody, 0
	}
	rq.Header = c.Header.Clone()
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ":")
		setHeader(rq, name, strings.TrimSpace(value))
	}
	rs, err := c.http.Do(rq)
	if err != nil {
		cancel()
		s.Err = err
		return s
	}
	s.Status, s.Header = rs.StatusCode, rs.Header
	s.begin(rs.Body)
	return s
}

func setHeader(rq *http.Request, name, value string) {
	switch {
	case value == "":
		rq.Header.Del(name)
	case strings.EqualFold(name, "Host"):
		rq.Host = value
	default:
		rq.Header.Set(name, value)
	}
}

// usual are the headers that a well-behaved client of the era sends.
func (c *Client) usual(era wire.Era, method, params string) []string {
	headers := []string{"Content-Type: application/json", "Accept: application/json, text/event-stream"}
	if era == wire.Legacy {
		if c.Session != "" {
			headers = append(headers, wire.HeaderSession+": "+c.Session)
		}
		if method != "initialize" && c.Version != "" {
			headers = append(headers, wire.HeaderProtocolVersion+": "+c.Version)
		}
		return headers
	}
	headers = append(headers, wire.HeaderProtocolVersion+": "+wire.NewestModern, wire.HeaderMethod+": "+method)
	name := "name"
	switch method {
	case "resources/read":
		name = "uri"
	case "tasks/get", "tasks/update", "tasks/cancel":
		name = "taskId"
	case "tools/call", "prompts/get":
	default:
		return headers
	}
	if v := text(member(params, name)); v != "" {
		headers = append(headers, wire.HeaderName+": "+wire.EncodeHeader(v))
	}
	return headers
}

// complete adds to params the _meta of the client and, in the modern era, the
// reserved members that are not there yet.
func (c *Client) complete(era wire.Era, params string) string {
	var more []string
	given := member(params, "_meta")
	add := func(key, value string) {
		if member(string(given), key) == nil {
			more = append(more, quote(key)+":"+value)
		}
	}
	if era == wire.Modern {
		add(wire.MetaProtocolVersion, quote(wire.NewestModern))
		add(wire.MetaClientInfo, clientInfo)
		add(wire.MetaClientCapabilities, c.Capabilities)
	}
	if c.Meta != "" {
		more = append(more, c.Meta)
	}
	if len(more) == 0 {
		return params
	}
	added := strings.Join(more, ",")
	for _, m := range wire.Members([]byte(params)) {
		if m.Key == "_meta" {
			return params[:m.Val.From] + insertMembers(string(given), added) + params[m.Val.To:]
		}
	}
	return insertMembers(or([]byte(params), "{}"), `"_meta":{`+added+`}`)
}

// insertMembers puts raw members at the start of a raw object.
func insertMembers(object, members string) string {
	inner := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(object), "{"))
	if inner != "}" {
		members += ","
	}
	return "{" + members + inner
}

// member returns the raw value of a member of the raw object, nil if there is
// none.
func member(object, key string) json.RawMessage {
	var o map[string]json.RawMessage
	if json.Unmarshal([]byte(object), &o) != nil {
		return nil
	}
	return o[key]
}

// Reply is an answer that was read whole.
type Reply struct {
	Err    error // the exchange itself went wrong, perhaps in the middle of the body
	Status int
	Header http.Header
	Body   []byte  // as it came; empty for an event stream
	Events []Event // of an event stream

	id string // the raw id of the request
}

// Message returns the JSON-RPC response with the id of the request, "" if none
// came.
func (r *Reply) Message() string {
	for _, raw := range r.messages() {
		if m, _, err := readMessage([]byte(raw)); err == nil && m.isResponse() && (r.id == "" || string(m.ID) == r.id) {
			return raw
		}
	}
	return ""
}

// Others returns the messages that are not the response, in order:
// notifications and requests of the server.
func (r *Reply) Others() []string {
	var out []string
	for _, raw := range r.messages() {
		if m, _, err := readMessage([]byte(raw)); err == nil && m.Method != "" {
			out = append(out, raw)
		}
	}
	return out
}

func (r *Reply) messages() []string {
	if r.Events == nil {
		return []string{string(r.Body)}
	}
	out := make([]string, len(r.Events))
	for i, e := range r.Events {
		out[i] = e.Data
	}
	return out
}

// Result returns the raw result, "" if there is none.
func (r *Reply) Result() string { return string(member(r.Message(), "result")) }

// RPCError returns the JSON-RPC error; its Code is 0 if there is none. An error
// with the id null counts.
func (r *Reply) RPCError() wire.RPCError {
	message := r.Message()
	if message == "" && r.Events == nil {
		message = string(r.Body)
	}
	raw := member(message, "error")
	if raw == nil {
		return wire.RPCError{}
	}
	return wire.ReadError(raw)
}

// Text returns the text of the first content block of the result of a tool.
func (r *Reply) Text() string {
	var result struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	if json.Unmarshal([]byte(r.Result()), &result) != nil || len(result.Content) == 0 {
		return ""
	}
	return result.Content[0].Text
}

// String shows the reply in a failure message.
func (r *Reply) String() string {
	if r.Err != nil {
		return fmt.Sprintf("HTTP %d, %v", r.Status, r.Err)
	}
	return fmt.Sprintf("HTTP %d %s %s", r.Status, r.Header.Get("Content-Type"), bytes.TrimSpace([]byte(strings.Join(r.messages(), "\n"))))
}

func isEventStream(h http.Header) bool {
	mediaType, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && mediaType == "text/event-stream"
}

// Stream is an answer that is read while it comes. Status, Header and Err are
// set at once; Body is too unless the answer is an event stream.
type Stream struct {
	Reply

	t        testing.TB
	cancel   context.CancelFunc
	timeout  time.Duration
	events   chan Event // nil if the answer is no event stream
	comments atomic.Int64
	ended    error // set before events is closed
}

func (s *Stream) begin(body io.ReadCloser) {
	if !isEventStream(s.Header) {
		defer s.cancel()
		defer body.Close()
		s.Body, s.Err = io.ReadAll(body)
		return
	}
	s.events = make(chan Event, 1000)
	go func() {
		defer close(s.events)
		defer body.Close()
		s.ended = readEvents(body, func(e Event) { s.events <- e }, func(string) { s.comments.Add(1) })
	}()
}
