package gateway

import (
	"context"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// vendor carries what the core protocol does not know: the methods that a
// server's page lets through, gated like calls.
func (g *Gateway) vendor(ctx context.Context, req *Request, sink Sink) Answer {
	if req.aggregate() {
		return methodNotFound(req)
	}
	srv, err := g.cat.Server(req.Server)
	if err != nil {
		return g.failure(req, err)
	}
	method, def := req.Message.Method, srv.Def() // once: a reload may exchange it at any moment
	if !def.PassesMethod(method) {
		return methodNotFound(req)
	}
	if d := decide(req.Principal, def, method, true); !d.Allowed() {
		return g.failure(req, crib.Errorf(crib.Denied, "%s is not allowed: %s", method, d.Reason))
	}
	return g.pass(ctx, req, &target{server: srv}, method, sink)
}

// pass sends a request whose target was found, and answers it. It is recorded
// under a name.
func (g *Gateway) pass(ctx context.Context, req *Request, t *target, name string, sink Sink) Answer {
	began := time.Now()
	reply, err := g.send(ctx, req, t, sink)
	g.record(req, &target{server: t.server, name: name}, reply, err, time.Since(began))
	if err != nil {
		return g.failure(req, err)
	}
	return g.answer(req, t, reply)
}
