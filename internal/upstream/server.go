package upstream

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Server is one MCP server and the legs to it that are open now. Legs are made
// when they are asked for, once for all that may share them.
type Server struct {
	spec Spec
	opts *Options

	mu     sync.Mutex // guards eras, slots, closed, last
	eras   []wire.Era // that the server speaks; empty until known
	slots  map[slotKey]*slot
	closed bool
	last   State
	work   sync.WaitGroup // connecting, and the watch over each leg
	life   context.Context
	end    context.CancelFunc
}

// slotKey tells who shares a leg. The era is "" while it is being found out.
type slotKey struct {
	era   wire.Era
	share string
}

// slot is a leg, or the attempt to make one.
type slot struct {
	ready    chan struct{} // closed when leg or err is set
	leg      Leg
	err      error
	failures int
	retry    time.Time // not before then
}

// Want says which leg a caller needs.
type Want struct {
	Era     wire.Era // of the client; used where the server speaks both
	Share   string   // callers with equal Share use one leg
	Declare Declaration
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
	Phase   Phase
	Eras    []wire.Era
	Error   string // why it failed the last time
	PID     int    // of the process, 0 if there is none
	Stderr  string // last words of the process
	Noise   int    // lines on stdout that were no messages
	Legs    int
	Open    int // requests waiting for an answer
	Changed time.Time
}

// New makes a Server. Nothing is connected yet.
func New(spec Spec, opts Options) *Server {
	opts = opts.withDefaults()
	s := &Server{spec: spec, opts: &opts, slots: make(map[slotKey]*slot), last: State{Phase: Idle}}
	s.eras = slices.Clone(spec.Eras)
	if spec.Era != "" {
		s.eras = []wire.Era{spec.Era}
	}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Name returns the server's name.
func (s *Server) Name() string { return s.spec.Name }

// Leg returns a leg that fits want, and makes it if there is none. ctx limits
// only how long the caller waits: a start that takes longer goes on for the
// next one.
func (s *Server) Leg(ctx context.Context, want Want) (Leg, error) {
	for {
		sl, probing, err := s.slot(want)
		if err != nil {
			return nil, err
		}
		select {
		case <-sl.ready:
		case <-ctx.Done():
			return nil, s.stillStarting()
		}
		if sl.err != nil {
			return nil, sl.err
		}
		select {
		case <-sl.leg.Done():
			continue // it ended since; its slot is gone or going
		default:
		}
		if probing && want.Share != "" || sl.leg.Hello().Era != s.EraFor(want.Era) {
			continue // what the server speaks is known now; this leg is not the one
		}
		return sl.leg, nil
	}
}

func (s *Server) stillStarting() error {
	st := s.State()
	if st.Stderr != "" {
		return unavailable(s.spec.Name, "is still starting; its last words: %s", st.Stderr)
	}
	return unavailable(s.spec.Name, "is still starting")
}

// EraFor is the era to use for a client of the given era, "" while unknown.
func (s *Server) EraFor(client wire.Era) wire.Era {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pick(client)
}

func (s *Server) pick(client wire.Era) wire.Era {
	switch {
	case len(s.eras) == 0:
		return ""
	case slices.Contains(s.eras, client):
		return client
	}
	return s.eras[0]
}

// slot finds the slot for want, or starts one. While it is not known what the
// server speaks there is only one slot, that finds out.
func (s *Server) slot(want Want) (sl *slot, probing bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false, unavailable(s.spec.Name, "was removed or switched off")
	}
	era := s.pick(want.Era)
	key := slotKey{era, want.Share}
	if era == "" {
		// Found out once, whoever asks, with nothing declared.
		key, want = slotKey{}, Want{Era: want.Era}
	}
	old := s.slots[key]
	failures := 0
	if old != nil {
		select {
		case <-old.ready:
		default:
			return old, era == "", nil
		}
		if old.err == nil && !ended(old.leg) {
			return old, era == "", nil
		}
		if old.err != nil {
			if time.Now().Before(old.retry) {
				return old, era == "", nil
			}
			failures = old.failures
		}
	}
	sl = &slot{ready: make(chan struct{}), failures: failures}
	s.slots[key] = sl
	s.last = State{Phase: Starting, Changed: time.Now()}
	s.work.Go(func() { s.connect(sl, key, era, want.Declare) })
	return sl, era == "", nil
}

func ended(l Leg) bool {
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
	ctx, cancel := context.WithTimeout(s.life, s.opts.StartTimeout)
	defer cancel()
	leg, eras, err := s.dial(ctx, era, declare)
	if err != nil && era != "" && s.spec.Era == "" && ctx.Err() == nil {
		// What was remembered of its era may be wrong: find out again.
		leg, eras, err = s.dial(ctx, "", declare)
	}
	if err != nil && ctx.Err() != nil && s.life.Err() == nil {
		err = unavailable(s.spec.Name, "did not start within %s: %s", s.opts.StartTimeout, crib.SafeText(err))
	}
	s.mu.Lock()
	if err == nil && s.closed {
		err = unavailable(s.spec.Name, "was removed or switched off")
	}
	if err != nil {
		sl.err = err
		sl.failures++
		sl.retry = time.Now().Add(min(firstBackoff<<min(sl.failures-1, 10), maxBackoff))
		s.last = State{Phase: Failed, Error: crib.SafeText(err), Changed: time.Now()}
		if s.spec.Era == "" {
			s.eras = nil
			delete(s.slots, key)
			s.slots[slotKey{}] = sl
		}
		s.mu.Unlock()
		close(sl.ready)
		s.opts.Log.Warn("a server could not be connected", "server", s.spec.Name, "err", err)
		if leg != nil {
			leg.Close()
		}
		return
	}
	s.learn(eras, leg.Hello().Era)
	sl.leg, sl.failures = leg, 0
	delete(s.slots, key)
	s.slots[slotKey{leg.Hello().Era, key.share}] = sl
	s.last = State{Phase: Ready, Changed: time.Now()}
	s.mu.Unlock()
	close(sl.ready)
	if s.opts.Events != nil {
		s.opts.Events.Connected(s.spec.Name, leg, key.share)
	}
	s.work.Go(func() { s.watch(leg) })
}

// learn notes the eras a server speaks. A leg made in a known era says nothing
// of the other one.
func (s *Server) learn(eras []wire.Era, era wire.Era) {
	switch {
	case s.spec.Era != "":
	case len(s.eras) == 0:
		s.eras = eras
	case !slices.Contains(s.eras, era):
		s.eras = []wire.Era{era}
	}
	if s.spec.URL == "" && len(s.eras) > 1 {
		s.eras = []wire.Era{era} // a process speaks one era
	}
}

// watch forgets a leg when it ends.
func (s *Server) watch(leg Leg) {
	<-leg.Done()
	leg.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, sl := range s.slots {
		if sl.leg == leg {
			delete(s.slots, key)
		}
	}
	if !s.closed && s.last.Phase == Ready && len(s.slots) == 0 {
		s.last = State{Phase: Idle, Changed: time.Now()}
		if p, ok := leg.(*stdioLeg); ok {
			s.last = State{Phase: Failed, Error: "server " + s.spec.Name + ": " + p.exited().Error(), Changed: time.Now()}
		}
	}
}

func (s *Server) dial(ctx context.Context, era wire.Era, declare Declaration) (Leg, []wire.Era, error) {
	if s.spec.Fake {
		return newFake(s.spec.Name), []wire.Era{wire.Modern}, nil
	}
	if s.spec.URL != "" {
		return connectHTTP(ctx, &s.spec, s.opts, era, declare)
	}
	select {
	case s.opts.Starting <- struct{}{}:
		defer func() { <-s.opts.Starting }()
	case <-ctx.Done():
		return nil, nil, unavailable(s.spec.Name, "waited for other servers to start")
	}
	return connectStdio(ctx, &s.spec, s.opts, era, declare)
}

// Drop closes the legs that are shared under the given name, such as those of
// a session that has ended.
func (s *Server) Drop(share string) {
	s.mu.Lock()
	var legs []Leg
	for key, sl := range s.slots {
		if key.share == share && sl.leg != nil {
			legs = append(legs, sl.leg)
			delete(s.slots, key)
		}
	}
	s.mu.Unlock()
	for _, leg := range legs {
		s.work.Go(leg.Close)
	}
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
	for _, sl := range s.slots {
		if sl.leg == nil {
			continue
		}
		st.Legs++
		st.Open += sl.leg.Open()
		if p, ok := sl.leg.(*stdioLeg); ok {
			st.PID = p.proc.Pid()
			st.Noise, _ = p.Noise()
			st.Stderr = p.lastWords()
		}
	}
	return st
}
