package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/internal/catalog"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Outlet takes what is sent to a legacy client beside the answers to its
// requests. Push must not block.
type Outlet interface {
	Push(body []byte)
	Close()
}

// Session is what a legacy client opened with initialize. It belongs to the
// principal and to the endpoint that opened it, and ends by DELETE, after
// SessionIdle without a request, or with the crib.
type Session struct {
	ID        string
	Principal crib.Principal
	Server    string // whose endpoint; "" is the aggregate
	Version   string

	info         []byte // raw clientInfo
	capabilities []byte // raw capabilities of the client
	outlet       Outlet

	mu    sync.Mutex // guards all below
	last  time.Time  // of the last request
	level string     // from which on it wants log messages, "" until it says
	open  map[string]context.CancelFunc
	asked map[string]question
	next  int
	told  map[string]watched // by the URI the client used
	ended bool
}

// question is a request of a server that the client has not answered.
type question struct {
	answered func(wire.Message)
	withdraw func()
}

// interest names a resource of a server.
type interest struct{ server, uri string }

// watched is a resource that a client is told of.
type watched struct {
	interest
	stop func()
}

func newSession(req *Request, version string, outlet Outlet) *Session {
	p, body := req.Message.Params, req.Message.Body
	return &Session{
		ID: rand.Text(), Principal: req.Principal, Server: req.Server, Version: version,
		info: bytes.Clone(p.ClientInfo.In(body)), capabilities: bytes.Clone(p.Capabilities.In(body)), outlet: outlet,
		last: time.Now(), open: make(map[string]context.CancelFunc), asked: make(map[string]question), told: make(map[string]watched),
	}
}

// Outlet is where what belongs to no request goes.
func (s *Session) Outlet() Outlet { return s.outlet }

// share is who shares the legs of the session.
func (s *Session) share() upstream.Share {
	return upstream.Share{Owner: s.Principal.String(), Name: sessionShare + s.ID}
}

// live reports whether the session has not ended.
func (s *Session) live() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended
}

// touch notes a sign of life of the client.
func (s *Session) touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Now()
}

// idleSince is when the session was last used; now, while requests are open.
func (s *Session) idleSince() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) > 0 {
		return time.Now()
	}
	return s.last
}

// begin opens a request. It reports false if one with this id is open.
func (s *Session) begin(id []byte, cancel context.CancelFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Now()
	if _, twice := s.open[string(id)]; twice || s.ended {
		return false
	}
	s.open[string(id)] = cancel
	return true
}

func (s *Session) finish(id []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Now()
	delete(s.open, string(id))
}

// cancel ends the request with this id, as it was spelled; 1 is not "1".
func (s *Session) cancel(id []byte) {
	s.mu.Lock()
	cancel := s.open[string(id)]
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

func (s *Session) setLevel(level string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.level = level
}

// wantedLevel is the level of the session, "" until it set one.
func (s *Session) wantedLevel() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.level
}

// wantsLog reports whether the session wants a log message: all until it set a
// level, and whatever is no log message.
func (s *Session) wantsLog(m wire.Message) bool {
	want := s.wantedLevel()
	if want == "" || m.Method != "notifications/message" {
		return true
	}
	level, _ := m.Params.Level.Text(m.Body)
	return slices.Index(levels, level) >= slices.Index(levels, want)
}

// logLevel is the raw level of the session, nil until it set one.
func (s *Session) logLevel() []byte {
	if level := s.wantedLevel(); level != "" {
		return wire.Quote(level)
	}
	return nil
}

// ask opens a question to the client and returns its raw id. answered is
// called with the client's response; withdraw if there will be none.
func (s *Session) ask(answered func(wire.Message), withdraw func()) (id string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return "", false
	}
	s.next++
	id = fmt.Sprintf(`"crib-%d"`, s.next)
	s.asked[id] = question{answered, withdraw}
	return id, true
}

// take closes a question.
func (s *Session) take(id string) (question, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, ok := s.asked[id]
	delete(s.asked, id)
	return q, ok
}

// forget closes a question that the server no longer asks.
func (s *Session) forget(id string) { s.take(id) }

// withdraw closes a question that will not be answered.
func (s *Session) withdraw(id string) {
	if q, ok := s.take(id); ok {
		q.withdraw()
	}
}

// Respond takes a client's response to a question. A response to nothing that
// was asked is dropped: the question may have been withdrawn.
func (s *Session) Respond(m wire.Message) {
	s.touch()
	if q, ok := s.take(string(m.ID.In(m.Body))); ok {
		q.answered(m)
	}
}

// subscribed notes that the client wants to be told of uri.
func (s *Session) subscribed(uri string, of interest, stop func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || len(s.told) >= MaxSubscribed {
		return false
	}
	if old, twice := s.told[uri]; twice {
		defer old.stop()
	}
	s.told[uri] = watched{of, stop}
	return true
}

func (s *Session) unsubscribe(uri string) {
	s.mu.Lock()
	w, ok := s.told[uri]
	delete(s.told, uri)
	s.mu.Unlock()
	if ok {
		w.stop()
	}
}

// uriFor is the URI under which the client knows a resource it is told of.
func (s *Session) uriFor(of interest) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uri, w := range s.told {
		if w.interest == of {
			return uri, true
		}
	}
	return "", false
}

// end closes everything that the session holds.
func (s *Session) end() {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	s.ended = true
	open, asked, told := s.open, s.asked, s.told
	s.open, s.asked, s.told = map[string]context.CancelFunc{}, map[string]question{}, map[string]watched{}
	s.mu.Unlock()
	for _, cancel := range open {
		cancel()
	}
	for _, q := range asked {
		q.withdraw()
	}
	for _, w := range told {
		w.stop()
	}
	s.outlet.Close()
}

// sessions are all legacy sessions.
type sessions struct {
	idle time.Duration
	max  int

	mu   sync.Mutex // guards byID
	byID map[string]*Session
}

func (ss *sessions) init(idle time.Duration, most int) {
	ss.idle, ss.max = idle, most
	ss.byID = make(map[string]*Session)
}

// add stores s and returns the sessions that had to make room.
func (ss *sessions) add(s *Session) []*Session {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	var out []*Session
	for len(ss.byID) >= ss.max {
		spare := ss.spare()
		delete(ss.byID, spare.ID)
		out = append(out, spare)
	}
	ss.byID[s.ID] = s
	return out
}

// spare is the session that makes room: of whoever has most of them the one
// that is idle for longest, so that nobody pays for another's many. The caller
// holds mu.
func (ss *sessions) spare() *Session {
	has, most := make(map[crib.Principal]int), 0
	for _, s := range ss.byID {
		has[s.Principal]++
		most = max(most, has[s.Principal])
	}
	var spare *Session
	var since time.Time
	for _, s := range ss.byID {
		if has[s.Principal] < most {
			continue
		}
		if at := s.idleSince(); spare == nil || at.Before(since) {
			spare, since = s, at
		}
	}
	return spare
}

func (ss *sessions) get(id string) *Session {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.byID[id]
}

func (ss *sessions) remove(id string) *Session {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s := ss.byID[id]
	delete(ss.byID, id)
	return s
}

func (ss *sessions) all() []*Session {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	out := make([]*Session, 0, len(ss.byID))
	for _, s := range ss.byID {
		out = append(out, s)
	}
	return out
}

// Session finds a session for the principal that opened it, at the endpoint it
// was opened at. Anybody else's looks as if there were none.
func (g *Gateway) Session(p crib.Principal, server, id string) (*Session, error) {
	s := g.sessions.get(id)
	if s == nil || s.Principal != p || s.Server != server {
		return nil, crib.Errorf(crib.NotFound, "this session is not known; send initialize again")
	}
	s.touch()
	return s, nil
}

// Sessions is the number of open legacy sessions.
func (g *Gateway) Sessions() int { return len(g.sessions.all()) }

// EndSession ends a session for its client.
func (g *Gateway) EndSession(s *Session) {
	if g.sessions.remove(s.ID) != nil {
		g.endSession(s)
	}
}

func (g *Gateway) endSession(s *Session) {
	s.end()
	if s.wantedLevel() != "" {
		g.levels.recount(g.sessions.all())
	}
	for _, srv := range g.cat.Servers() {
		srv.Drop(s.share())
	}
}

// expire ends sessions that nobody uses, whether or not a stream of theirs
// hangs half open.
func (ss *sessions) expire(life context.Context, end func(*Session)) {
	tick := time.NewTicker(max(ss.idle/20, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-life.Done():
			return
		case <-tick.C:
		}
		for _, s := range ss.all() {
			if time.Since(s.idleSince()) >= ss.idle && ss.remove(s.ID) != nil {
				end(s)
			}
		}
	}
}

func (ss *sessions) closeAll() {
	for _, s := range ss.all() {
		if ss.remove(s.ID) != nil {
			s.end()
		}
	}
}

// tellRootsChanged passes on to the servers of a session that the client's
// roots changed.
func (g *Gateway) tellRootsChanged(req *Request) {
	body := []byte(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	for _, srv := range g.cat.Servers() {
		if srv.Def().Dialogue.Share == servers.ShareServer || !slices.Contains(srv.Def().Dialogue.May, servers.MayRoots) || srv.Up().State().Legs == 0 {
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
