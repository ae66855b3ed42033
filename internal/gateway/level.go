package gateway

import (
	"context"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/catalog"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// setLevel notes from which level on a session wants log messages, and tells
// the servers that run and log. Those that start later are told before their
// next request.
func (g *Gateway) setLevel(ctx context.Context, req *Request) Answer {
	level, ok := req.Message.Params.Level.Text(req.Message.Body)
	if !ok || !slices.Contains(wire.LogLevels, level) {
		return refuse(req, wire.CodeInvalidParams, "the level must be one of "+strings.Join(wire.LogLevels, ", "), 0)
	}
	tell := g.cat.Servers()
	if !req.aggregate() {
		srv, err := g.cat.Server(req.Server)
		if err != nil {
			return g.failure(req, err)
		}
		if h := srv.Hello(g.want(req, srv)); h != nil && wire.Get(h.Capabilities(), "logging") == nil {
			return methodNotFound(req)
		}
		tell = []*catalog.Server{srv}
	}
	req.Session.SetLevel(level)
	g.levels.Recount(g.sessions.All())
	for _, srv := range tell {
		if srv.Up().State().Legs == 0 {
			continue
		}
		leg, err := srv.Up().Leg(ctx, g.want(req, srv))
		if err != nil {
			continue
		}
		if req.aggregate() {
			g.work.Go(func() { g.tellLevel(g.life, req, srv, leg) })
			continue
		}
		g.tellLevel(ctx, req, srv, leg)
	}
	return Answer{Body: wire.ResultBody(req.id(), []byte("{}"))}
}

// tellLevel tells a legacy server from which level on to log, if that is not
// what it knows. A server that does not follow logs as it did.
func (g *Gateway) tellLevel(ctx context.Context, req *Request, srv *catalog.Server, leg upstream.Leg) {
	h := leg.Hello()
	if h.Era != wire.Legacy || !h.Logs() {
		return
	}
	own := wire.Text(req.Message.Meta.LogLevel.In(req.Message.Body))
	if req.Session != nil {
		own = req.Session.WantedLevel()
	}
	due := g.levels.Due(h, own, srv.Def().Dialogue.Share != servers.ShareSession)
	if due == "" || !slices.Contains(wire.LogLevels, due) {
		return
	}
	if g.levels.Note(h, due) {
		g.work.Go(func() {
			select {
			case <-leg.Done():
			case <-g.life.Done():
			}
			g.levels.Forget(h)
		})
	}
	out := upstream.NewRequest(leg, g.version, "logging/setLevel", `"level":"`+due+`"`)
	if _, err := leg.Do(ctx, out, upstream.Nobody{}); err != nil {
		g.log.Info("a server was not told from which level on to log", "server", srv.Name(), "err", err)
	}
}
