// Package legacy holds the sessions of clients that open one with initialize
// (2025-11-25 and before, Lifecycle): what such a client declared, what it has
// open, what it is asked, and what it wants to be told of.
package legacy

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// MaxSubscribed is how many resources a client is told of.
const MaxSubscribed = 1_000

// Outlet takes what is sent to a legacy client beside the answers to its
// requests. Push must not block.
type Outlet interface {
	Push(body []byte)
	Close()
}

// Session is what a legacy client opened with initialize. It belongs to the
// principal and to the endpoint that opened it, and ends by DELETE, after
// a time without a request, or with the crib.
type Session struct {
	ID        string
	Principal crib.Principal
	Server    string // whose endpoint; "" is the aggregate
	Version   string
	Client    upstream.Declaration // what it said of itself
	outlet    Outlet

	mu    sync.Mutex // guards all below
	last  time.Time  // of the last request
	level string     // from which on it wants log messages, "" until it says
	open  map[string]context.CancelFunc
	asked map[string]question
	next  int
	told  map[string]watched // by the URI the client used
	root  *string            // the folder it works in, "" if it has none; nil before it was asked
	ended bool
}

// question is a request of a server that the client has not answered.
type question struct {
	answered func(wire.Message)
	withdraw func()
}

// Interest names a resource of a server.
type Interest struct{ Server, URI string }

// watched is a resource that a client is told of.
type watched struct {
	Interest
	stop func()
}

// New makes the session that the message initialize opens, in a version.
func New(p crib.Principal, server, version string, initialize wire.Message, outlet Outlet) *Session {
	params, body := initialize.Params, initialize.Body
	return &Session{
		ID: rand.Text(), Principal: p, Server: server, Version: version,
		Client: upstream.Declaration{Info: bytes.Clone(params.ClientInfo.In(body)), Capabilities: bytes.Clone(params.Capabilities.In(body))},
		outlet: outlet,
		last:   time.Now(), open: make(map[string]context.CancelFunc), asked: make(map[string]question), told: make(map[string]watched),
	}
}

// Outlet is where what belongs to no request goes.
func (s *Session) Outlet() Outlet { return s.outlet }

// Share is who shares the legs of the session.
func (s *Session) Share() upstream.Share {
	return upstream.Share{Owner: s.Principal.String(), Name: sessionShare + s.ID}
}

// sessionShare begins the names of the legs of sessions. The others of a
// principal are named by what its clients can be asked, which is an object.
const sessionShare = "session "

// Of tells the session whose legs a share is, "" for any other share.
func Of(share upstream.Share) (id string) {
	id, of := strings.CutPrefix(share.Name, sessionShare)
	if !of {
		return ""
	}
	return id
}

// SharesWith reports whether a principal, in a session or without one, is among
// those who share a leg.
func SharesWith(share upstream.Share, p crib.Principal, s *Session) bool {
	if share.Owner != p.String() {
		return share == upstream.Share{}
	}
	id := Of(share)
	return id == "" || s != nil && s.ID == id
}

// Root is the folder that the client works in, "" if it has none that is of
// use; known is false before it was asked.
func (s *Session) Root() (dir string, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root == nil {
		return "", false
	}
	return *s.root, true
}

// SetRoot notes the folder that the client works in.
func (s *Session) SetRoot(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.root = &dir
}

// ForgetRoot has the client asked again.
func (s *Session) ForgetRoot() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.root = nil
}

// Live reports whether the session has not ended.
func (s *Session) Live() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended
}

// Touch notes a sign of life of the client.
func (s *Session) Touch() {
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

// Begin opens a request. It reports false if one with this id is open.
func (s *Session) Begin(id []byte, cancel context.CancelFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Now()
	if _, twice := s.open[string(id)]; twice || s.ended {
		return false
	}
	s.open[string(id)] = cancel
	return true
}

// Finish closes a request.
func (s *Session) Finish(id []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Now()
	delete(s.open, string(id))
}

// Cancel ends the request with this id, as it was spelled; 1 is not "1".
func (s *Session) Cancel(id []byte) {
	s.mu.Lock()
	cancel := s.open[string(id)]
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// SetLevel notes from which level on the client wants log messages.
func (s *Session) SetLevel(level string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.level = level
}

// WantedLevel is the level of the session, "" until it set one.
func (s *Session) WantedLevel() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.level
}

// WantsLog reports whether the session wants a log message: all until it set a
// level, and whatever is no log message.
func (s *Session) WantsLog(m wire.Message) bool {
	want := s.WantedLevel()
	if want == "" || m.Method != "notifications/message" {
		return true
	}
	level, _ := m.Params.Level.Text(m.Body)
	return wire.Logged(level, want)
}

// LogLevel is the raw level of the session, nil until it set one.
func (s *Session) LogLevel() []byte {
	if level := s.WantedLevel(); level != "" {
		return wire.Quote(level)
	}
	return nil
}

// Ask opens a question to the client and returns its raw id. answered is
// called with the client's response; withdraw if there will be none.
func (s *Session) Ask(answered func(wire.Message), withdraw func()) (id string, ok bool) {
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

// Forget closes a question that is not asked any more, and reports whether it
// was open.
func (s *Session) Forget(id string) bool {
	_, open := s.take(id)
	return open
}

// Withdraw closes a question that will not be answered.
func (s *Session) Withdraw(id string) {
	if q, ok := s.take(id); ok {
		q.withdraw()
	}
}

// Respond takes a client's response to a question. A response to nothing that
// was asked is dropped: the question may have been withdrawn.
func (s *Session) Respond(m wire.Message) {
	s.Touch()
	if q, ok := s.take(string(m.ID.In(m.Body))); ok {
		q.answered(m)
	}
}

// Subscribe notes that the client wants to be told of uri.
func (s *Session) Subscribe(uri string, of Interest, stop func()) bool {
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

// Unsubscribe ends what Subscribe began.
func (s *Session) Unsubscribe(uri string) {
	s.mu.Lock()
	w, ok := s.told[uri]
	delete(s.told, uri)
	s.mu.Unlock()
	if ok {
		w.stop()
	}
}

// URIFor is the URI under which the client knows a resource it is told of.
func (s *Session) URIFor(of Interest) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uri, w := range s.told {
		if w.Interest == of {
			return uri, true
		}
	}
	return "", false
}

// End closes everything that the session holds.
func (s *Session) End() {
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

// Sessions are all legacy sessions.
type Sessions struct {
	idle time.Duration
	max  int

	mu   sync.Mutex // guards byID
	byID map[string]*Session
}

// NewSessions keeps at most so many sessions, each of them until nobody has
// used it for the time idle.
func NewSessions(idle time.Duration, most int) *Sessions {
	return &Sessions{idle: idle, max: most, byID: make(map[string]*Session)}
}

// Add stores s and returns the sessions that had to make room.
func (ss *Sessions) Add(s *Session) []*Session {
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
func (ss *Sessions) spare() *Session {
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

// Get finds a session by its id, nil if there is none.
func (ss *Sessions) Get(id string) *Session {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.byID[id]
}

// Remove takes a session out, nil if it is not there. Whoever takes it out ends
// it.
func (ss *Sessions) Remove(id string) *Session {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s := ss.byID[id]
	delete(ss.byID, id)
	return s
}

// All lists the sessions, in no order.
func (ss *Sessions) All() []*Session {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	out := make([]*Session, 0, len(ss.byID))
	for _, s := range ss.byID {
		out = append(out, s)
	}
	return out
}

// Expire ends sessions that nobody uses, whether or not a stream of theirs
// hangs half open.
func (ss *Sessions) Expire(life context.Context, end func(*Session)) {
	tick := time.NewTicker(max(ss.idle/20, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-life.Done():
			return
		case <-tick.C:
		}
		for _, s := range ss.All() {
			if time.Since(s.idleSince()) >= ss.idle && ss.Remove(s.ID) != nil {
				end(s)
			}
		}
	}
}

// CloseAll ends all sessions.
func (ss *Sessions) CloseAll() {
	for _, s := range ss.All() {
		if ss.Remove(s.ID) != nil {
			s.End()
		}
	}
}
