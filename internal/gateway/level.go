package gateway

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/toolcrib/toolcrib/internal/catalog"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// moreVerbose returns the more verbose of two levels; "" is none.
func moreVerbose(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "" || slices.Index(wire.LogLevels, a) <= slices.Index(wire.LogLevels, b):
		return a
	}
	return b
}

// logLevels knows from which level on each legacy server was asked to log. A
// server that several clients share logs for the most curious of them; each
// gets what it asked for.
type logLevels struct {
	mu   sync.Mutex             // guards all below
	most string                 // of all sessions
	told map[*wire.Hello]string // by what the server said when it was connected: a new connection knows nothing
}

func (l *logLevels) init() { l.told = make(map[*wire.Hello]string) }

// recount takes the most verbose level of the sessions.
func (l *logLevels) recount(all []*Session) {
	most := ""
	for _, s := range all {
		most = moreVerbose(most, s.WantedLevel())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most = most
}

// due returns the level that a server has to be told, "" if it knows.
func (l *logLevels) due(h *wire.Hello, own string, shared bool) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	told := l.told[h]
	if shared {
		if want := moreVerbose(own, l.most); want != "" && moreVerbose(told, want) != told {
			return want
		}
		return ""
	}
	if own != told {
		return own
	}
	return ""
}

// note keeps what a server was told, for as long as its leg lives.
func (l *logLevels) note(h *wire.Hello, level string, leg upstream.Leg, life context.Context, work *sync.WaitGroup) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.told[h]; !known {
		work.Go(func() {
			select {
			case <-leg.Done():
			case <-life.Done():
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.told, h)
		})
	}
	l.told[h] = level
}

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
	g.levels.recount(g.sessions.All())
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
	due := g.levels.due(h, own, srv.Def().Dialogue.Share != servers.ShareSession)
	if due == "" || !slices.Contains(wire.LogLevels, due) {
		return
	}
	g.levels.note(h, due, leg, g.life, &g.work)
	out := upstream.NewRequest(leg, g.version, "logging/setLevel", `"level":"`+due+`"`)
	if _, err := leg.Do(ctx, out, upstream.Nobody{}); err != nil {
		g.log.Info("a server was not told from which level on to log", "server", srv.Name(), "err", err)
	}
}
