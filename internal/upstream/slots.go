package upstream

import (
	"context"
	"slices"
	"time"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// rounds is how often Leg looks again when what it found is not what it needs:
// once when a probe was waited for, once when a leg ended meanwhile.
const rounds = 4

// Leg returns a leg that fits want, and makes it if there is none. ctx limits
// only how long the caller waits: a start that takes longer goes on for the
// next one.
func (s *Server) Leg(ctx context.Context, want Want) (Leg, error) {
	if leg := s.atHand(want); leg != nil {
		return leg, nil
	}
	for range rounds {
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
		if Ended(sl.leg) || sl.stale || probing && want.Share != (Share{}) || sl.leg.Hello().Era != s.EraFor(want.Era) {
			continue // more is known now than when this leg was asked for; it is not the one
		}
		return sl.leg, nil
	}
	return nil, unavailable(s.spec.Name, "does not stay connected")
}

// atHand is the leg for want if there is nothing to be found out or waited for,
// as for nearly every call; else nil.
func (s *Server) atHand(want Want) Leg {
	s.mu.Lock()
	defer s.mu.Unlock()
	era := s.pick(want.Era)
	sl := s.slots[slotKey{era, want.Share}]
	if s.closed || era == "" || sl == nil || want.Live != nil && !want.Live() {
		return nil
	}
	select {
	case <-sl.ready:
	default:
		return nil
	}
	if sl.err != nil || sl.stale || sl.leg.Retired() || Ended(sl.leg) || sl.leg.Hello().Era != era {
		return nil
	}
	return sl.leg
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
func (s *Server) slot(want Want) (_ *slot, probing bool, err error) {
	if want.Refused != nil {
		return nil, false, want.Refused
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || want.Live != nil && !want.Live() {
		return nil, false, unavailable(s.spec.Name, "was removed or switched off, or who asks is gone")
	}
	era := s.pick(want.Era)
	key := slotKey{era, want.Share}
	probing = era == ""
	if probing {
		// Found out once, whoever asks, with nothing declared.
		key, want = slotKey{}, Want{Era: want.Era}
	}
	if old := s.slots[key]; old != nil && old.leg != nil && Ended(old.leg) {
		s.bury(old, key, false)
	}
	old := s.slots[key]
	if old != nil && s.usable(old) {
		return old, probing, nil
	}
	sl := &slot{ready: make(chan struct{}), live: want.Live}
	if old != nil {
		sl.failures = old.failures
		if old.leg != nil && !Ended(old.leg) {
			s.work.Go(func() { retire(s.life, old.leg) })
		}
	}
	s.slots[key] = sl
	s.last = State{Phase: Starting}
	s.work.Go(func() { s.connect(sl, key, era, want.Declare) })
	return sl, probing, nil
}

// usable reports whether a slot answers for its key: it has a leg, or is about
// to, or has failed so short ago that it is not tried again. It is called with
// mu held.
func (s *Server) usable(sl *slot) bool {
	select {
	case <-sl.ready:
	default:
		return true
	}
	if sl.err != nil {
		return time.Now().Before(sl.retry)
	}
	return !Ended(sl.leg) && !sl.leg.Retired()
}
