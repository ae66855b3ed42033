package mcptest

import "time"

// Next returns the next event that carries data. It fails the test if the
// stream ends or none comes.
func (s *Stream) Next() Event {
	s.t.Helper()
	for {
		e, ok := s.Any()
		if !ok {
			s.t.Fatalf("the stream ended: %v; %s", s.ended, s.Reply.String())
		}
		if e.Data != "" {
			return e
		}
	}
}

// Any returns the next event, also one without data, and false when the stream
// has ended. It fails the test if neither happens.
func (s *Stream) Any() (Event, bool) {
	s.t.Helper()
	if s.events == nil {
		return Event{}, false
	}
	select {
	case e, ok := <-s.events:
		return e, ok
	case <-time.After(Patience):
		s.t.Fatal("no event came")
		return Event{}, false
	}
}

// Quiet reports whether no event with data came for the time given.
func (s *Stream) Quiet(d time.Duration) bool {
	after := time.After(d)
	for {
		select {
		case e, ok := <-s.events:
			if ok && e.Data != "" {
				s.t.Logf("unexpected event: %s", e.Data)
				return false
			}
			if !ok {
				return true
			}
		case <-after:
			return true
		}
	}
}

// Comments counts the comments that came.
func (s *Stream) Comments() int { return int(s.comments.Load()) }

// Close leaves the stream, as a client does that goes away.
func (s *Stream) Close() {
	s.cancel()
	if s.events == nil {
		return
	}
	for range s.events { // until its reader has ended
	}
}

// readAll reads the stream to its end.
func (s *Stream) readAll() *Reply {
	defer s.cancel()
	if s.events == nil {
		return &s.Reply
	}
	defer time.AfterFunc(s.timeout, s.cancel).Stop()
	s.Events = []Event{}
	for e := range s.events {
		s.Events = append(s.Events, e)
	}
	s.Err = s.ended
	return &s.Reply
}
