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

// spliceResult makes the URIs in a result lead through the crib: of resource
// links, embedded resources and the contents that were read. Text is never
// touched.
func spliceResult(server, method string, result []byte) []wire.Edit {
	var edits []wire.Edit
	add := func(base int, raw []byte) {
		for _, m := range wire.Members(raw) {
			if uri, ok := m.Val.Text(raw); ok && m.Key == "uri" {
				at := wire.Span{From: base + m.Val.From, To: base + m.Val.To}
				edits = append(edits, wire.Edit{At: at, With: wire.Quote(catalog.PublicURI(server, uri))})
			}
		}
	}
	block := func(base int, raw []byte) {
		switch kind, _ := wire.GetText(raw, "type"); kind {
		case "resource_link":
			add(base, raw)
		case "resource":
			for _, m := range wire.Members(raw) {
				if m.Key == "resource" {
					add(base+m.Val.From, m.Val.In(raw))
				}
			}
		}
	}
	for _, m := range wire.Members(result) {
		raw, base := m.Val.In(result), m.Val.From
		switch {
		case method == "tools/call" && m.Key == "content":
			each(raw, base, block)
		case method == "resources/read" && m.Key == "contents":
			each(raw, base, add)
		case method == "prompts/get" && m.Key == "messages":
			each(raw, base, func(base int, message []byte) {
				for _, c := range wire.Members(message) {
					if c.Key == "content" {
						block(base+c.Val.From, c.Val.In(message))
						each(c.Val.In(message), base+c.Val.From, block)
					}
				}
			})
		}
	}
	return edits
}

func each(array []byte, base int, f func(int, []byte)) {
	for _, at := range wire.Elements(array) {
		f(base+at.From, at.In(array))
	}
}
