package gateway

import (
	"slices"

	"github.com/toolcrib/toolcrib/internal/catalog"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/gateway/legacy"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Session is that of a legacy client.
type Session = legacy.Session

// Outlet takes what is sent to a legacy client beside the answers to its
// requests.
type Outlet = legacy.Outlet

// Session finds a session for the principal that opened it, at the endpoint it
// was opened at. Anybody else's looks as if there were none.
func (g *Gateway) Session(p crib.Principal, server, id string) (*Session, error) {
	s := g.sessions.Get(id)
	if s == nil || s.Principal != p || s.Server != server {
		return nil, crib.Errorf(crib.NotFound, "this session is not known; send initialize again")
	}
	s.Touch()
	return s, nil
}

// Sessions is the number of open legacy sessions.
func (g *Gateway) Sessions() int { return len(g.sessions.All()) }

// EndSession ends a session for its client.
func (g *Gateway) EndSession(s *Session) {
	if g.sessions.Remove(s.ID) != nil {
		g.endSession(s)
	}
}

// Expel ends everything of a principal whose credential is valid no longer: its
// sessions with their requests, its subscriptions, its requests that wait for
// answers, and its connections to servers.
func (g *Gateway) Expel(p crib.Principal) {
	for _, s := range g.sessions.All() {
		if s.Principal == p {
			g.EndSession(s)
		}
	}
	for _, s := range g.news.all() {
		if s.principal == p {
			s.end()
		}
	}
	for _, id := range g.dialogues.of(p) {
		if d := g.resumed(id); d != nil {
			d.end(errExpelled)
		}
	}
	for _, srv := range g.cat.Servers() {
		srv.Expel(p.String())
	}
}

var errExpelled = crib.Errorf(crib.Cancelled, "the credential of this client is valid no longer")

func (g *Gateway) endSession(s *Session) {
	s.End()
	if s.WantedLevel() != "" {
		g.levels.Recount(g.sessions.All())
	}
	for _, srv := range g.cat.Servers() {
		srv.Drop(s.Share())
	}
}

// tellRootsChanged passes on to the servers of a session that the client's
// roots changed.
func (g *Gateway) tellRootsChanged(req *Request) {
	body := []byte(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	for _, srv := range g.cat.Servers() {
		share := srv.Def().Dialogue.Share // of a project there is another connection from now on
		if share == servers.ShareServer || share == servers.ShareProject || !slices.Contains(srv.Def().Dialogue.May, servers.MayRoots) || srv.Up().State().Legs == 0 {
			continue
		}
		g.tell(req, srv, body)
	}
}

func (g *Gateway) tell(req *Request, srv *catalog.Server, body []byte) {
	g.work.Go(func() {
		leg, err := srv.Up().Leg(g.life, g.want(req, srv))
		if err != nil || leg.Hello().Era != wire.Legacy {
			return
		}
		leg.Notify(g.life, body) //nolint:errcheck // a server that is gone asks again
	})
}
