package cli

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// callModern shows a call as the newest protocol version makes it: one
// request that needs nothing before it.
func (d *demonstration) callModern(ctx context.Context) error {
	const name, arguments = demoStdio + "__bolt_size", `{"thread":"M6"}`
	d.title("A call with protocol version %s, to a server that is a command", wire.NewestModern)
	d.sent("tools/call " + name + " " + arguments)
	m, err := callTool(ctx, d.mcp, calledTool{endpoint(""), name, name}, []byte(arguments))
	if err != nil {
		return err
	}
	return d.answer(m)
}

// callLegacy shows a call as all older protocol versions make it: in a session
// that initialize opens.
func (d *demonstration) callLegacy(ctx context.Context) error {
	const name, arguments = demoHTTP + "__add_note", `{"title":"Sharpen the drills","text":"Before Monday."}`
	d.title("A call with protocol version %s, to a server over HTTP", wire.NewestLegacy)
	s := legacySession{client: d.mcp, header: http.Header{}}
	d.sent("initialize")
	m, err := s.request(ctx, "initialize", slices.Concat([]byte(`{"protocolVersion":"`+wire.NewestLegacy+`","capabilities":{},"clientInfo":`), d.mcp.info(), []byte("}")))
	if err != nil {
		return err
	}
	hello, err := result(m)
	if err != nil {
		return err
	}
	version, _ := wire.GetText(hello, "protocolVersion")
	s.header.Set(wire.HeaderProtocolVersion, version)
	d.got("version " + version + ", a session")
	if err := s.notify(ctx, "notifications/initialized"); err != nil {
		return err
	}
	d.sent("tools/call " + name + " " + arguments)
	m, err = s.request(ctx, "tools/call", slices.Concat([]byte(`{"name":`), wire.Quote(name), []byte(`,"arguments":`+arguments+`}`)))
	if err != nil {
		return err
	}
	if err := d.answer(m); err != nil {
		return err
	}
	return s.end(ctx)
}

// answer shows the answer to a call.
func (d *demonstration) answer(m wire.Message) error {
	res, err := result(m)
	if err != nil {
		return err
	}
	text := strings.Join(contentTexts(res), " ")
	if string(wire.Get(res, "isError")) == "true" {
		return crib.Errorf(crib.Internal, "the tool answered with an error: %s", text)
	}
	d.got(text)
	return nil
}

// legacySession is a session of the older protocol versions (2025-11-25,
// Transports, Session Management).
type legacySession struct {
	client *mcpClient
	header http.Header // of every request, with the session's id once it is known
}

func (s *legacySession) request(ctx context.Context, method string, params []byte) (wire.Message, error) {
	body := s.client.body(method, params)
	m, err := wire.Scan(body)
	if err != nil {
		return m, err
	}
	resp, err := s.client.post(ctx, endpoint(""), body, s.header)
	if err != nil {
		return wire.Message{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	if id := resp.Header.Get(wire.HeaderSession); id != "" {
		s.header.Set(wire.HeaderSession, id)
	}
	return readAnswer(resp, m.ID.In(m.Body))
}

func (s *legacySession) notify(ctx context.Context, method string) error {
	return s.send(ctx, http.MethodPost, s.client.body(method, nil))
}

func (s *legacySession) end(ctx context.Context) error {
	return s.send(ctx, http.MethodDelete, nil)
}

// send sends what has no answer but that it was taken.
func (s *legacySession) send(ctx context.Context, verb string, body []byte) error {
	resp, err := s.client.do(ctx, verb, endpoint(""), body, s.header)
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
