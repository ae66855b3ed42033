package cli

import (
	"context"
	"strings"

	"github.com/toolcrib/toolcrib/internal/cli/mcp"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// callModern shows a call as the newest protocol version makes it: one
// request that needs nothing before it.
func (d *demonstration) callModern(ctx context.Context) error {
	const name, arguments = demoStdio + "__bolt_size", `{"thread":"M6"}`
	d.title("A call with protocol version %s, to a server that is a command", wire.NewestModern)
	d.sent("tools/call " + name + " " + arguments)
	m, err := d.mcp.Call(ctx, mcp.Endpoint(""), name, []byte(arguments))
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
	d.sent("initialize")
	s, version, err := d.mcp.Open(ctx, mcp.Endpoint(""))
	if err != nil {
		return err
	}
	d.got("version " + version + ", a session")
	d.sent("tools/call " + name + " " + arguments)
	m, err := s.Call(ctx, name, []byte(arguments))
	if err != nil {
		return err
	}
	if err := d.answer(m); err != nil {
		return err
	}
	return s.End(ctx)
}

// answer shows the answer to a call.
func (d *demonstration) answer(m wire.Message) error {
	res, err := mcp.Result(m)
	if err != nil {
		return err
	}
	said := strings.Join(mcp.Texts(res), " ")
	if mcp.IsError(res) {
		return crib.Errorf(crib.Internal, "the tool answered with an error: %s", said)
	}
	d.got(said)
	return nil
}
