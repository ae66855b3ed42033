package gateway

import (
	"context"
	"time"

	"github.com/toolcrib/toolcrib/internal/catalog"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// relay carries prompts/get, resources/read and completion/complete: found,
// sent and answered like a call, without a gate.
func (g *Gateway) relay(ctx context.Context, req *Request, sink Sink) Answer {
	t, err := g.find(ctx, req)
	if err != nil {
		return g.failure(req, err)
	}
	if err := g.resume(req, t); err != nil {
		return g.failure(req, err)
	}
	began := time.Now()
	reply, err := g.carry(ctx, req, t, sink)
	if t.dialogue == nil { // it records its own end
		g.record(req, t, reply, err, time.Since(began))
	}
	if err != nil {
		return g.failure(req, err)
	}
	return g.answer(req, t, reply)
}

// find tells which server a request that is no call is for, and what it names
// there.
func (g *Gateway) find(ctx context.Context, req *Request) (*target, error) {
	m := req.Message
	at, prompt := publicAt(m), m.Method == "prompts/get"
	if m.Method == "completion/complete" {
		at, prompt = refAt(m)
	}
	public, ok := at.Text(m.Body)
	if !ok || public == "" {
		return nil, crib.Errorf(crib.Invalid, "%s needs a name or a URI", m.Method)
	}
	if !req.aggregate() {
		srv, err := g.cat.Server(req.Server)
		if err != nil {
			return nil, err
		}
		t := &target{server: srv, name: public}
		if m.Method == "completion/complete" {
			t.name = "" // it has no Mcp-Name
		}
		return t, nil
	}
	t, err := g.findPublic(ctx, req, public, prompt)
	if err != nil {
		return nil, err
	}
	t.at = at
	return t, nil
}

func (g *Gateway) findPublic(ctx context.Context, req *Request, public string, prompt bool) (*target, error) {
	want := g.wantOf(req)
	if prompt {
		srv, item, err := g.cat.FindPublic(ctx, want, catalog.Prompts, public)
		if crib.CodeOf(err) == crib.NotFound {
			return nil, crib.Errorf(crib.NotFound, "Unknown prompt: %s", public)
		}
		if err != nil {
			return nil, err
		}
		return &target{server: srv, name: item.ID}, nil
	}
	name, uri, ok := catalog.OwnURI(public)
	if ok && name == "" {
		// An https URI is nobody's by its looks: the lists know whose it is.
		if srv := g.cat.OwnerOf(ctx, want, uri); srv != nil {
			return &target{server: srv, name: uri}, nil
		}
		ok = false
	}
	if !ok {
		return nil, crib.Errorf(crib.NotFound, "Resource not found: %s", public)
	}
	srv, err := g.cat.Server(name)
	if err != nil {
		return nil, crib.Errorf(crib.NotFound, "Resource not found: %s", public)
	}
	return &target{server: srv, name: uri}, nil
}

// refAt finds the name or URI in the ref of a completion, and whether it is
// that of a prompt.
func refAt(m wire.Message) (wire.Span, bool) {
	ref := m.Params.Ref
	raw := ref.In(m.Body)
	kind, _ := wire.GetText(raw, "type")
	key := map[string]string{"ref/prompt": "name", "ref/resource": "uri"}[kind]
	for _, mem := range wire.Members(raw) {
		if mem.Key == key {
			return wire.Span{From: ref.From + mem.Val.From, To: ref.From + mem.Val.To}, kind == "ref/prompt"
		}
	}
	return wire.Span{}, false
}
