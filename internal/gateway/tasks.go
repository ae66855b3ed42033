package gateway

import (
	"context"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/internal/bridge"
	"github.com/toolcrib/toolcrib/internal/catalog"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/gateway/legacy"
	"github.com/toolcrib/toolcrib/internal/gateway/task"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// keepTask notes the task that a server gave in answer to a call.
func (g *Gateway) keepTask(req *Request, t *target, raw []byte, crossing bool) error {
	name := t.server.Name()
	id, ok := wire.GetText(raw, "taskId")
	switch {
	case crossing:
		return crib.Errorf(crib.Unsupported, "server %s answers with a task, which works only with clients that speak its version of the protocol", name)
	case !ok || id == "" || !wire.IsObject(raw):
		return crib.Errorf(crib.Unavailable, "server %s answers with a task that has no id", name)
	}
	now := time.Now()
	known := task.Task{Server: name, Began: now, Expires: now.Add(task.Time(raw))}
	if req.Session != nil {
		known.Session = req.Session.ID
	}
	if !g.tasks.Add(req.Principal, id, known) {
		return crib.Errorf(crib.Unavailable, "server %s answers with a task of an id that is in use", name)
	}
	return nil
}

// aboutTask answers the requests about tasks, between sides of the same era.
func (g *Gateway) aboutTask(ctx context.Context, req *Request, sink Sink) Answer {
	method := req.Message.Method
	if method == "tasks/list" {
		return g.listTasks(ctx, req, sink)
	}
	id, ok := req.Message.Params.TaskID.Text(req.Message.Body)
	if !ok || id == "" {
		return refuse(req, wire.CodeInvalidParams, method+" needs a taskId", 0)
	}
	known, ok := g.tasks.Get(req.Principal, id, time.Now())
	if !ok || !req.aggregate() && known.Server != req.Server {
		return refuse(req, wire.CodeInvalidParams, "Task not found: "+id, 0)
	}
	srv, err := g.cat.Server(known.Server)
	if err != nil {
		return g.failure(req, err)
	}
	if g.crosses(req, srv) {
		return methodNotFound(req)
	}
	return g.pass(ctx, req, &target{server: srv, name: id}, method, sink)
}

// crosses reports whether req and the server, as far as it is known, are of
// different eras.
func (g *Gateway) crosses(req *Request, srv *catalog.Server) bool {
	era := srv.Up().EraFor(req.Era)
	return era != "" && bridge.Crossing(req.Era, era)
}

// listTasks answers tasks/list of a legacy client on a server's own endpoint:
// with those of its principal among what the server lists.
func (g *Gateway) listTasks(ctx context.Context, req *Request, sink Sink) Answer {
	if req.aggregate() || req.Era == wire.Modern {
		return methodNotFound(req)
	}
	srv, err := g.cat.Server(req.Server)
	if err != nil {
		return g.failure(req, err)
	}
	if g.crosses(req, srv) {
		return methodNotFound(req)
	}
	return g.pass(ctx, req, &target{server: srv}, req.Message.Method, sink)
}

// ownTasks leaves in the result of tasks/list what is the principal's.
func (g *Gateway) ownTasks(p crib.Principal, server string, result []byte) []byte {
	list := wire.Get(result, "tasks")
	own := []byte{'['}
	for _, at := range wire.Elements(list) {
		id, _ := wire.GetText(at.In(list), "taskId")
		if known, ok := g.tasks.Get(p, id, time.Now()); ok && known.Server == server {
			own = appendItem(own, at.In(list))
		}
	}
	return wire.SetMembers(nil, result, wire.Set{Key: "tasks", Val: append(own, ']')})
}

// ofTask makes what a server says of tasks the crib's.
func (g *Gateway) ofTask(req *Request, t *target, result []byte) ([]byte, error) {
	switch {
	case req.Message.Method == "tasks/list":
		return g.ownTasks(req.Principal, t.server.Name(), result), nil
	case req.Era == wire.Modern:
		return g.taskState(req, t, result)
	case req.Message.Method == "tasks/result" && req.aggregate():
		return wire.Apply(nil, result, catalog.SpliceResult(t.server.Name(), "tools/call", result)...), nil
	}
	return result, nil
}

// taskState makes what a modern server says of a task the crib's: what it asks
// is only what may be asked, and what it brought leads through the crib.
func (g *Gateway) taskState(req *Request, t *target, result []byte) ([]byte, error) {
	if asked := wire.Get(result, "inputRequests"); asked != nil {
		if err := t.mayAskThese(req, bridge.Questions(result)); err != nil {
			return nil, err
		}
		if req.aggregate() {
			asked = wire.Apply(nil, asked, bridge.SignedAll(t.server.Name(), asked)...)
			result = wire.SetMembers(nil, result, wire.Set{Key: "inputRequests", Val: asked})
		}
	}
	if brought := wire.Get(result, "result"); brought != nil && req.aggregate() {
		brought = wire.Apply(nil, brought, catalog.SpliceResult(t.server.Name(), "tools/call", brought)...)
		result = wire.SetMembers(nil, result, wire.Set{Key: "result", Val: brought})
	}
	return result, nil
}

// toldOfTask brings a legacy server's news of a task to the session that called.
func (g *Gateway) toldOfTask(server string, share upstream.Share, m wire.Message) {
	id, ok := m.Params.TaskID.Text(m.Body)
	if !ok {
		return
	}
	p, session, ok := g.tasks.Caller(server, id)
	if !ok {
		return
	}
	if s := g.sessions.Get(session); s != nil && s.Principal == p && legacy.SharesWith(share, p, s) {
		s.Outlet().Push(m.Body)
	}
}

// isTask reports whether a method is about tasks.
func isTask(method string) bool { return strings.HasPrefix(method, "tasks/") }
