package catalog

import (
	"time"

	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// place is where a server said something: in an era, to those who share a leg.
// What it said last to any leg of an owner stands under the owner alone, for
// those legs of theirs to which it said nothing yet.
type place struct {
	era   wire.Era
	share upstream.Share
}

// known is what a server said in one place.
type known struct {
	hello *wire.Hello
	lists [kinds]*List
	said  [kinds]bool          // in this run, and not taken back since
	asked [kinds]time.Time     // when it was asked last
	calm  [kinds]time.Duration // before it is asked again because it tells of a change
	due   [kinds]bool          // it will be asked when it was calm for long enough
	// silent are legs that cannot tell of changes, with the session in which
	// they cannot: the next one may.
	silent map[upstream.Leg]*wire.Hello
}

// era is the era in which a client of the given era is served, among those
// that something is known of. It is called with mu held.
func (s *Server) era(client wire.Era) wire.Era {
	if s.up != nil {
		if e := s.up.EraFor(client); e != "" {
			return e
		}
	}
	for _, e := range []wire.Era{client, wire.Modern, wire.Legacy} {
		for at := range s.known {
			if at.era == e {
				return e
			}
		}
	}
	return client
}

// at is where the server says something to those that want a leg. It is called
// with mu held.
func (s *Server) at(want upstream.Want) place { return place{s.era(want.Era), want.Share} }

// ownerOf is the place of what was said last to any leg of the owner.
func ownerOf(at place) place {
	at.share.Name = ""
	return at
}

// list is the last list of a kind, nil if there is none.
func (s *Server) list(want upstream.Want, k Kind) *List {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastList(s.at(want), k)
}

// lastList is list with mu held.
func (s *Server) lastList(at place, k Kind) *List {
	for _, p := range [...]place{at, ownerOf(at)} {
		if kn := s.known[p]; kn != nil && kn.lists[k] != nil {
			return kn.lists[k]
		}
	}
	return nil
}

// Last is the last list of a kind that the server gave to anybody, nil if none
// is known. It is for operators: it may be one that a client got for itself.
func (s *Server) Last(k Kind) *List {
	s.mu.Lock()
	defer s.mu.Unlock()
	var last *List
	for _, kn := range s.known {
		if l := kn.lists[k]; l != nil && (last == nil || l.Era == last.Era && l.Fetched.After(last.Fetched) || l.Era != last.Era && l.Era == wire.Modern) {
			last = l
		}
	}
	return last
}

// current reports whether the last list of a kind need not be asked for again.
func (s *Server) current(want upstream.Want, k Kind) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isCurrent(want, k)
}

// isCurrent is current with mu held.
func (s *Server) isCurrent(want upstream.Want, k Kind) bool {
	kn := s.known[s.at(want)]
	return kn != nil && kn.said[k] && kn.lists[k].Fresh(time.Now())
}

// Hello is what the server said of itself the last time to those that want a
// leg, nil if nothing is known.
func (s *Server) Hello(want upstream.Want) *wire.Hello {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(want)
	for _, p := range [...]place{at, ownerOf(at)} {
		if kn := s.known[p]; kn != nil {
			return kn.hello
		}
	}
	return nil
}

// Expel ends what is an owner's alone.
func (s *Server) Expel(owner string) {
	s.up.Expel(owner)
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := range s.known {
		if at.share.Owner == owner {
			delete(s.known, at)
		}
	}
}

// Drop ends what is of a share alone, such as a session that has ended.
func (s *Server) Drop(share upstream.Share) {
	s.up.Drop(share)
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := range s.known {
		if at.share == share {
			delete(s.known, at)
		}
	}
}

// keep stores a list that was fetched in the session hello of a leg of share and
// read under def, and tells of it if it is another one.
func (s *Server) keep(leg upstream.Leg, share upstream.Share, hello *wire.Hello, def *servers.Definition, k Kind, l *List) {
	at := place{hello.Era, share}
	s.mu.Lock()
	if now := s.Def(); now != def {
		l = l.under(k, now) // redefine rebuilt what was kept before this
	}
	old := s.lastList(at, k)
	same := sameItems(old, l) || old == nil && len(l.Items) == 0 && len(l.Problems) == 0
	if upstream.Ended(leg) && share != (upstream.Share{}) {
		s.mu.Unlock()
		return // Drop may have been here
	}
	kn := s.knownAt(at, hello)
	kn.hello, kn.said[k], kn.lists[k], kn.asked[k] = hello, true, l, time.Now()
	if kn.silent[leg] == hello && l.TTL < 0 {
		l.TTL = LegacyTTL
	}
	if same {
		kn.calm[k] = min(max(2*kn.calm[k], firstCalm), maxCalm)
	} else {
		kn.calm[k] = 0
	}
	if owner := ownerOf(at); owner != at {
		last := s.knownAt(owner, hello)
		last.hello, last.lists[k] = hello, l
	}
	s.mu.Unlock()
	for _, p := range l.Problems {
		if !same {
			s.c.opts.Log.Warn("left out", "server", s.Name(), "item", p.ID, "why", p.Why, "everywhere", p.Every)
		}
	}
	if same {
		return
	}
	if share == (upstream.Share{}) {
		s.save()
	}
	s.c.announce(Change{s.Name(), k, share})
}

// knownAt is what is known at a place, from now on at least hello. It is called
// with mu held.
func (s *Server) knownAt(at place, hello *wire.Hello) *known {
	kn := s.known[at]
	if kn == nil {
		kn = &known{hello: hello}
		s.known[at] = kn
	}
	return kn
}
