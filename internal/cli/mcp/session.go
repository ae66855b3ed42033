package mcp

import (
	"context"
	"io"
	"net/http"
	"slices"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Session is a session of the older protocol versions (2025-11-25, Transports,
// Session Management).
type Session struct {
	client *Client
	path   string
	header http.Header // of every request, with the session's id once it is known
}

// Open opens a session and returns the version that was agreed on. End ends
// it.
func (c *Client) Open(ctx context.Context, path string) (*Session, string, error) {
	s := &Session{client: c, path: path, header: http.Header{}}
	params := slices.Concat([]byte(`{"protocolVersion":"`+wire.NewestLegacy+`","capabilities":{},"clientInfo":`), c.info(), []byte("}"))
	m, err := s.request(ctx, "initialize", params)
	if err != nil {
		return nil, "", err
	}
	hello, err := Result(m)
	if err != nil {
		return nil, "", err
	}
	version, _ := wire.GetText(hello, "protocolVersion")
	s.header.Set(wire.HeaderProtocolVersion, version)
	return s, version, s.send(ctx, http.MethodPost, c.body("notifications/initialized", nil))
}

// Call calls the tool name.
func (s *Session) Call(ctx context.Context, name string, arguments []byte) (wire.Message, error) {
	return s.request(ctx, "tools/call", callParams(name, arguments))
}

// End ends the session.
func (s *Session) End(ctx context.Context) error { return s.send(ctx, http.MethodDelete, nil) }

func (s *Session) request(ctx context.Context, method string, params []byte) (wire.Message, error) {
	body := s.client.body(method, params)
	m, err := wire.Scan(body)
	if err != nil {
		return m, err
	}
	resp, err := s.client.do(ctx, http.MethodPost, s.path, body, s.header)
	if err != nil {
		return wire.Message{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	if id := resp.Header.Get(wire.HeaderSession); id != "" {
		s.header.Set(wire.HeaderSession, id)
	}
	return readAnswer(resp, m.ID.In(m.Body))
}

// send sends what has no answer but that it was taken.
func (s *Session) send(ctx context.Context, verb string, body []byte) error {
	resp, err := s.client.do(ctx, verb, s.path, body, s.header)
	if err != nil {
		return err
	}
	defer resp.Body.Close()        //nolint:errcheck // nothing is in it
	io.Copy(io.Discard, resp.Body) //nolint:errcheck // likewise
	if resp.StatusCode >= http.StatusBadRequest {
		return crib.Errorf(crib.Internal, "the crib answered HTTP %d", resp.StatusCode)
	}
	return nil
}
