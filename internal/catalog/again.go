package catalog

import (
	"time"

	"github.com/toolcrib/toolcrib/internal/upstream"
)

// Pauses before a list that could not be had is asked for again, so that those
// who only listen hear that a server is back. Connecting has pauses of its
// own, which hold: a command is not started more often for this.
const (
	firstAgain = time.Second // doubles
	maxAgain   = time.Minute
	// wantedFor is how long after somebody asked the server for any list it is
	// asked again: a server that nobody uses is left alone.
	wantedFor = time.Hour
)

// try is a list that is asked for again and again.
type try struct{ failed bool } // the last time; guarded by Server.mu

// ended takes note of how a fetch for want went: what was known before one
// that failed is kept, and is stale. It is called with mu held.
func (s *Server) ended(want upstream.Want, k Kind, err error) {
	if kn := s.known[s.at(want)]; err != nil && kn != nil {
		kn.said[k] = false
	}
	key := keyOf(want, k)
	t := s.tries[key]
	switch {
	case t != nil:
		t.failed = err != nil
	case err != nil && s.life.Err() == nil:
		t = &try{failed: true}
		s.tries[key] = t
		s.work.Go(func() { s.askAgain(want, k, t) })
	}
}

// askAgain asks for a list until it came, in one way or another, or nobody
// wants it any more.
func (s *Server) askAgain(want upstream.Want, k Kind, t *try) {
	for wait := firstAgain; ; wait = min(2*wait, maxAgain) {
		waited := pause(s.life, nil, wait)
		s.mu.Lock()
		if !waited || !t.failed || s.isCurrent(want, k) || !s.isWanted(want) {
			delete(s.tries, keyOf(want, k))
			s.mu.Unlock()
			return
		}
		f := s.ask(want, k)
		s.mu.Unlock()
		<-f.done // it ends with the server's life
	}
}

// isWanted reports whether somebody may be waiting for what the server lists.
// It is called with mu held.
func (s *Server) isWanted(want upstream.Want) bool {
	return time.Since(s.wanted) < wantedFor && (want.Live == nil || want.Live())
}
