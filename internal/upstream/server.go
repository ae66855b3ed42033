package upstream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/upstream/gate"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Server is one MCP server and the legs to it that are open now. Legs are made
// when they are asked for, once for all that may share them.
type Server struct {
	spec Spec
	opts *Options
	gate *gate.Gate

	mu     sync.Mutex // guards eras, slots, closed, last
	eras   []wire.Era // that the server speaks; empty until known
	slots  map[slotKey]*slot
	deaths map[slotKey]int // legs in a row that ended before they were stable
	closed bool
	last   State
	work   sync.WaitGroup // connecting, and the watch over each leg
	life   context.Context
	end    context.CancelFunc
}

// slotKey tells who shares a leg. The era is "" while it is being found out.
type slotKey struct {
	era   wire.Era
	share Share
}

// Share names who shares a leg. The zero Share is everybody.
type Share struct {
	Owner string // the principal
	Name  string // which of the owner's legs
}

// slot is a leg, or the attempt to make one.
type slot struct {
	ready    chan struct{} // closed when leg or err is set
	leg      Leg
	err      error
	failures int
	retry    time.Time   // not before then
	live     func() bool // false when nobody is left who would use it; nil is true
	made     time.Time
	buried   bool // its leg ended, and that was noted
	stale    bool // Renew was called while the leg was made
}

// Want says which leg a caller needs.
type Want struct {
	Era     wire.Era // of the client; used where the server speaks both
	Share   Share    // callers with equal Share use one leg
	Declare Declaration
	// Refused is why there is no leg for who asks; nil makes one.
	Refused error
	// Live reports whether those who share the leg are still there; nil is
	// true. A leg of a session must not come up behind the session's end.
	Live func() bool
}

// Phase is what a server is doing.
type Phase string

// The phases of a server.
const (
	Idle     Phase = "idle" // not needed yet
	Starting Phase = "starting"
	Ready    Phase = "ready"
	Failed   Phase = "failed"
)

// State is a server's state for people to read.
type State struct {
	Phase     Phase
	Eras      []wire.Era
	Error     string   // why it failed the last time
	PID       int      // of the process, 0 if there is none
	Stderr    string   // last words of the process
	Noise     int      // lines on stdout that were no messages
	NoiseTail []string // the last of them
	Legs      int
	Open      int   // requests waiting for an answer
	Queued    int   // requests waiting for a place
	Held      int64 // bytes of requests and answers in memory
}

// New makes a Server. Nothing is connected yet.
func New(spec Spec, opts Options) *Server {
	opts = opts.withDefaults()
	spec.older = new(atomic.Bool)
	s := &Server{spec: spec, opts: &opts, slots: make(map[slotKey]*slot), deaths: make(map[slotKey]int), last: State{Phase: Idle}}
	s.gate = gate.New(spec.Name, opts.Total)
	s.eras = slices.Clone(spec.Eras)
	if spec.Era != "" {
		s.eras = []wire.Era{spec.Era}
	}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Admit lets in a request of size bytes, or tells why the server takes none
// now: Busy where it would be over a limit, Unavailable where the server failed
// too often to be asked again at once. Nothing was sent then. The ticket must be
// ended.
func (s *Server) Admit(ctx context.Context, size int) (*gate.Ticket, error) {
	return s.gate.Admit(ctx, size)
}

// Report tells the gate how a request ended that a leg was given. A refusal to
// connect says that the server is away, which costs nobody anything to find
// out; a refusal by the server can be about that one request; and what a client
// or a limit of the crib ended says nothing.
func (s *Server) Report(t *gate.Ticket, err error) {
	if err == nil {
		t.Report(gate.Well, "")
		return
	}
	if _, refused := errors.AsType[*refusedError](err); refused || Answered(err) {
		t.Report(gate.Nothing, "")
		return
	}
	switch crib.CodeOf(err) {
	case crib.Timeout:
		t.Report(gate.Ill, "did not answer in time")
	case crib.Unknown:
		t.Report(gate.Ill, "broke off")
	case crib.Unavailable:
		t.Report(gate.Ill, "could not be reached or gave no answer")
	}
}

// Name returns the server's name.
func (s *Server) Name() string { return s.spec.Name }

// retire closes a leg when its requests have ended, after Drain, or when ctx
// ends.
func retire(ctx context.Context, l Leg) {
	patience := time.NewTimer(Drain)
	defer patience.Stop()
	select {
	case <-l.Quiet():
	case <-l.Done():
	case <-patience.C:
	case <-ctx.Done():
	}
	l.Close()
}

// Ended reports whether a leg can no longer be used.
func Ended(l Leg) bool {
	select {
	case <-l.Done():
		return true
	default:
		return false
	}
}

// connect fills a slot. It is not the caller's to cancel: a first start may
// install the server, and giving up half way would never get further.
func (s *Server) connect(sl *slot, key slotKey, era wire.Era, declare Declaration) {
	leg, eras, err := s.dial(era, declare)
	if err != nil && era != "" && s.spec.Era == "" && s.life.Err() == nil {
		// What was remembered of its era may be wrong: find out again.
		if leg, eras, err = s.dial("", declare); err == nil {
			eras = []wire.Era{leg.Hello().Era} // the other one was just seen to fail
		}
	}
	s.mu.Lock()
	if err == nil && (s.closed || s.slots[key] != sl || sl.live != nil && !sl.live()) {
		err = unavailable(s.spec.Name, "was removed or switched off, or who asked is gone")
	}
	if err != nil {
		s.failed(sl, key, err)
		s.mu.Unlock()
		close(sl.ready)
		if sl.failures&(sl.failures-1) == 0 { // 1, 2, 4…: calls may try several times a second
			s.opts.Log.Warn("a server could not be connected", "server", s.spec.Name, "failures", sl.failures, "err", err)
		}
		if leg != nil {
			leg.Close()
		}
		return
	}
	s.learn(eras, leg.Hello().Era, era)
	sl.leg, sl.failures, sl.made = leg, 0, time.Now()
	if sl.stale {
		leg.Retire()
	}
	delete(s.slots, key)
	key.era = leg.Hello().Era
	if other := s.slots[key]; other != nil && other.leg != nil && s.usable(other) {
		sl.leg = other.leg // made meanwhile by another way of asking
		s.mu.Unlock()
		close(sl.ready)
		leg.Close()
		return
	}
	s.slots[key] = sl
	s.last = State{Phase: Ready}
	s.mu.Unlock()
	close(sl.ready)
	s.opts.Log.Info("connected", "server", s.spec.Name, "version", leg.Hello().Version)
	if s.opts.Events != nil {
		s.opts.Events.Connected(s.spec.Name, leg, key.share)
	}
	s.work.Go(func() { s.watch(leg, key, sl) })
}

// refusedRetry is between attempts to connect that are refused at once: the
// server is there as soon as it listens.
const refusedRetry = 250 * time.Millisecond

// failed notes that a connection was not made. Nobody else loses one because
// of it. It is called with mu held.
func (s *Server) failed(sl *slot, key slotKey, err error) {
	sl.err = err
	sl.failures++
	sl.retry = time.Now().Add(backoff(sl.failures))
	if _, refused := errors.AsType[*refusedError](err); refused {
		sl.retry = time.Now().Add(refusedRetry)
	}
	if sl.stale {
		sl.retry = time.Time{}
	}
	s.last = State{Phase: Failed, Error: crib.SafeText(err)}
	if s.slots[key] != sl {
		return
	}
	for _, other := range s.slots {
		if other.leg != nil && !Ended(other.leg) {
			return
		}
	}
	if s.spec.Era == "" && key.era != "" {
		// Nothing is left that proves what the server speaks.
		s.eras = nil
		delete(s.slots, key)
		s.slots[slotKey{}] = sl
	}
}

// backoff is how long to wait after so many failures in a row.
func backoff(failures int) time.Duration {
	if failures < 1 {
		return 0
	}
	return min(FirstBackoff<<min(failures-1, 10), MaxBackoff)
}

// learn notes the eras a server speaks. A leg made in an era that was asked
// for says nothing of the other one.
func (s *Server) learn(eras []wire.Era, era, asked wire.Era) {
	switch {
	case s.spec.Era != "":
		return
	case s.spec.URL == "":
		s.eras = []wire.Era{era} // a process speaks one era
	case len(s.eras) == 0 || era != asked:
		s.eras = eras
	}
}

// watch forgets a leg when it ends. One that ended soon after it was made is a
// failure: the first may be started again at once, the next ones wait.
func (s *Server) watch(leg Leg, key slotKey, sl *slot) {
	silent := s.guard(leg)
	leg.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bury(sl, key, silent)
}

// bury takes a leg that ended out of its slot, once. It is called with mu held,
// by whoever sees it first.
func (s *Server) bury(sl *slot, key slotKey, silent bool) {
	if sl.buried {
		return
	}
	sl.buried = true
	leg := sl.leg
	if time.Since(sl.made) >= stableAfter || leg.Retired() {
		delete(s.deaths, key)
	} else {
		s.deaths[key]++
	}
	if s.slots[key] != sl {
		return
	}
	delete(s.slots, key)
	if s.closed {
		return
	}
	why := unavailable(s.spec.Name, "ended soon after it was started")
	if silent {
		why = unavailable(s.spec.Name, "does not answer any more")
	}
	p, isProcess := leg.(*stdioLeg)
	if isProcess {
		why = unavailable(s.spec.Name, "%s", p.exited())
	}
	s.opts.Log.Warn("a connection ended", "server", s.spec.Name, "why", why.Msg)
	if n := s.deaths[key]; n > 1 {
		dead := &slot{ready: make(chan struct{}), err: why, failures: n - 1, retry: time.Now().Add(backoff(n - 1))}
		close(dead.ready)
		s.slots[key] = dead
	}
	if s.last.Phase == Ready && (isProcess || silent) {
		s.last = State{Phase: Failed, Error: why.Msg}
	} else if s.last.Phase == Ready && len(s.slots) == 0 {
		s.last = State{Phase: Idle}
	}
}

// guard waits for the end of a leg. A leg that is not in use is asked now and
// then whether its server is still there; one with an open request is not: a
// server may do one thing at a time. It reports whether the server was silent.
func (s *Server) guard(leg Leg) (silent bool) {
	tick := time.NewTicker(s.opts.Liveness)
	defer tick.Stop()
	for {
		select {
		case <-leg.Done():
			return false
		case <-tick.C:
		}
		if leg.Open() > 0 || s.answers(leg) || leg.Open() > 0 {
			continue
		}
		leg.Retire()
		return true
	}
}

// answers asks a server for a sign of life: by ping, or where the protocol has
// none by what every server must answer. Any answer is one.
func (s *Server) answers(leg Leg) bool {
	methods := []string{"ping"}
	if leg.Hello().Era == wire.Modern {
		methods = []string{"server/discover", "tools/list"}
	}
	for _, method := range methods {
		out := NewRequest(leg, s.opts.Version, method, "")
		out.Timeout = s.opts.ProbeTimeout
		reply, err := leg.Do(s.life, out, Nobody{})
		if err == nil && method == "server/discover" && judge(s.spec.Name, reply.Message).hello == nil {
			return false // somebody answers, but it is not the server that it was
		}
		if err == nil {
			return true
		}
	}
	return s.life.Err() != nil
}

// dial makes a leg, within the time to start once it is its turn.
func (s *Server) dial(era wire.Era, declare Declaration) (Leg, []wire.Era, error) {
	if s.spec.Fake {
		return newFake(s.spec.Name), []wire.Era{wire.Modern}, nil
	}
	release := func() {}
	if s.spec.URL == "" {
		select {
		case s.opts.Starting <- struct{}{}:
			release = sync.OnceFunc(func() { <-s.opts.Starting })
			defer release()
		case <-s.life.Done():
			return nil, nil, unavailable(s.spec.Name, "was removed or switched off")
		}
	}
	ctx, cancel := context.WithTimeout(s.life, s.opts.StartTimeout)
	defer cancel()
	var leg Leg
	var eras []wire.Era
	var err error
	if s.spec.URL != "" {
		leg, eras, err = connectHTTP(ctx, &s.spec, s.opts, era, declare)
	} else {
		leg, eras, err = connectStdio(ctx, &s.spec, s.opts, era, declare, release)
	}
	if err != nil && ctx.Err() != nil && s.life.Err() == nil {
		err = unavailable(s.spec.Name, "did not start within %s: %s", s.opts.StartTimeout, crib.SafeText(err))
	}
	return leg, eras, err
}

// Drop closes the legs of a share, such as those of a session that has ended. One that is being made is closed when it is there.
func (s *Server) Drop(share Share) { s.drop(func(of Share) bool { return of == share }) }

// Expel closes the legs of an owner, like Drop.
func (s *Server) Expel(owner string) { s.drop(func(of Share) bool { return of.Owner == owner }) }

func (s *Server) drop(those func(Share) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	var legs []Leg
	for key, sl := range s.slots {
		if !those(key.share) {
			continue
		}
		if sl.leg != nil {
			legs = append(legs, sl.leg)
		}
		delete(s.slots, key)
		delete(s.deaths, key)
	}
	for _, leg := range legs {
		s.work.Go(leg.Close)
	}
}

// Renew has whoever asks for a leg from now on get a new one, which resolves
// its secrets anew, also where an attempt has just failed. What is open on the
// old ones goes on.
func (s *Server) Renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sl := range s.slots {
		switch {
		case sl.leg != nil:
			sl.leg.Retire()
		case sl.err != nil:
			sl.retry = time.Time{}
		default:
			sl.stale = true
		}
	}
}

// Finish takes no new requests, lets those that are open end, for Drain at
// most and not behind the end of ctx, and closes.
func (s *Server) Finish(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	var legs []Leg
	for _, sl := range s.slots {
		if sl.leg != nil {
			legs = append(legs, sl.leg)
		}
	}
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, leg := range legs {
		wg.Go(func() { retire(ctx, leg) })
	}
	wg.Wait()
	s.Close()
}

// Close ends all legs and waits for them.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	var legs []Leg
	for _, sl := range s.slots {
		if sl.leg != nil {
			legs = append(legs, sl.leg)
		}
	}
	s.mu.Unlock()
	s.end()
	var wg sync.WaitGroup
	for _, leg := range legs {
		wg.Go(leg.Close)
	}
	wg.Wait()
	s.work.Wait()
}

// State tells what the server is doing.
func (s *Server) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.last
	st.Eras = slices.Clone(s.eras)
	st.Queued, st.Held = s.gate.Queued(), s.gate.Held()
	if why := s.gate.Shut(); why != "" {
		st.Phase, st.Error = Failed, why
	}
	for _, sl := range s.slots {
		if sl.leg == nil {
			continue
		}
		st.Legs++
		st.Open += sl.leg.Open()
		if p, ok := sl.leg.(*stdioLeg); ok {
			st.PID = p.proc.Pid()
			st.Noise, st.NoiseTail = p.Noise()
			st.Stderr = p.lastWords()
		}
	}
	return st
}
