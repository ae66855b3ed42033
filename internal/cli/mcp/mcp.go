// Package mcp is an ordinary MCP client of a crib, in both families of protocol
// versions. It carries bytes, so that what a command prints is what the server
// said.
package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// maxAnswer is the greatest answer, in bytes, that is read: what a server may
// send, and room for what the crib adds.
const maxAnswer = 32 << 20

// Client sends requests to a crib.
type Client struct {
	Base    string // http://host:port, without a path
	Host    string // for the Host header, "" is that of Base
	Token   string // "" is none
	Version string // of this program
	HTTP    *http.Client

	last atomic.Int64
}

// Endpoint is the path of all servers, or of one.
func Endpoint(server string) string {
	if server == "" {
		return "/v1/mcp"
	}
	return "/v1/mcp/" + server
}

func (c *Client) info() []byte {
	return slices.Concat([]byte(`{"name":"toolcrib-cli","version":`), wire.Quote(c.Version), []byte("}"))
}

// Modern sends a request of protocol version 2026-07-28. params is a raw
// object; extra headers mirror arguments.
func (c *Client) Modern(ctx context.Context, path, method string, params []byte, extra http.Header) (wire.Message, error) {
	meta := slices.Concat([]byte(`{"`+wire.MetaProtocolVersion+`":"`+wire.NewestModern+`","`+wire.MetaClientInfo+`":`), c.info(),
		[]byte(`,"`+wire.MetaClientCapabilities+`":{}}`))
	body := c.body(method, wire.SetMembers(nil, params, wire.Set{Key: "_meta", Val: meta}))
	m, err := wire.Scan(body)
	if err != nil {
		return m, crib.Errorf(crib.Invalid, "the arguments cannot be sent: %v", err)
	}
	h := http.Header{wire.HeaderProtocolVersion: {wire.NewestModern}, wire.HeaderMethod: {method}}
	if name, ok := wire.MirrorName(&m); ok {
		h[wire.HeaderName] = []string{wire.EncodeHeader(name)}
	}
	for name, values := range extra {
		h[name] = values
	}
	resp, err := c.do(ctx, http.MethodPost, path, body, h)
	if err != nil {
		return wire.Message{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	return readAnswer(resp, m.ID.In(m.Body))
}

// body is a request, or a notification, with params as given.
func (c *Client) body(method string, params []byte) []byte {
	id := ""
	if !strings.HasPrefix(method, "notifications/") {
		id = `"id":` + strconv.FormatInt(c.last.Add(1), 10) + ","
	}
	out := []byte(`{"jsonrpc":"2.0",` + id + `"method":"` + method + `"`)
	if params != nil {
		out = append(append(out, `,"params":`...), params...)
	}
	return append(out, '}')
}

// do sends body. The error is Unavailable if nobody listens, so that nothing
// was sent.
func (c *Client) do(ctx context.Context, verb, path string, body []byte, h http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, verb, c.Base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header, req.Host = h.Clone(), c.Host
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "dial" {
			return nil, crib.Errorf(crib.Unavailable, "the crib at %s cannot be reached: %v", c.Base, op.Err)
		}
		return nil, errLost
	}
	return resp, nil
}

// errLost is the end of a connection before the answer.
var errLost = crib.Errorf(crib.Unknown, "the connection to the crib was lost; it is not known whether the call was executed")

// readAnswer reads the response to the request id, which comes alone or at the
// end of a stream.
func readAnswer(resp *http.Response, id []byte) (wire.Message, error) {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind == "text/event-stream" {
		return readStream(resp.Body, id)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return wire.Message{}, fmt.Errorf("read the crib's answer: %w", err)
	}
	if len(body) > maxAnswer {
		return wire.Message{}, crib.Errorf(crib.TooLarge, "the answer is larger than %d bytes", maxAnswer)
	}
	m, err := wire.ScanServer(body)
	if err != nil || m.Kind != wire.ResponseKind {
		return m, crib.Errorf(crib.Internal, "the crib answered HTTP %d and no MCP message", resp.StatusCode)
	}
	return m, nil
}

func readStream(from io.Reader, id []byte) (wire.Message, error) {
	events := wire.NewEventReader(from, maxAnswer)
	for {
		ev, err := events.Next()
		if err != nil {
			return wire.Message{}, errLost
		}
		m, err := wire.ScanServer(ev.Data)
		if err == nil && m.Kind == wire.ResponseKind && bytes.Equal(m.ID.In(m.Body), id) {
			return m, nil
		}
	}
}

// Result returns the result of a response, or its error.
func Result(m wire.Message) ([]byte, error) {
	if m.Error.OK() {
		return nil, rpcError(wire.ReadError(m.Error.In(m.Body)))
	}
	return m.Result.In(m.Body), nil
}

// rpcError is a JSON-RPC error as an error of ours. The crib says beside its own
// which of its codes they have.
func rpcError(e wire.RPCError) error {
	if code, ok := wire.GetText(e.Data, wire.MetaCode); ok && wire.IsObject(e.Data) {
		return crib.Errorf(crib.Code(code), "%s", e.Message)
	}
	code := crib.Internal
	switch e.Code {
	case wire.CodeInvalidParams, wire.CodeInvalidRequest, wire.CodeMethodNotFound, wire.CodeParse, wire.CodeHeaderMismatch:
		code = crib.Invalid
	}
	return crib.Errorf(code, "%s", e.Message)
}
