package catalog

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolcrib/toolcrib/internal/child"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Server is one server: its definition, its legs, and the last lists it gave
// in each era it speaks.
type Server struct {
	c   *Catalog
	up  *upstream.Server
	def atomic.Pointer[servers.Definition]

	saving sync.Mutex // held from building a document until it is written

	mu      sync.Mutex // guards all below
	known   map[place]*known
	fetches map[fetchKey]*fetch
	tries   map[fetchKey]*try
	wanted  time.Time                       // when somebody asked for something last
	shares  map[upstream.Leg]upstream.Share // who shares a leg
	life    context.Context
	end     context.CancelFunc
	work    sync.WaitGroup
	watch   watch
}

type fetchKey struct {
	place // the era is that of the client that asks
	kind  Kind
}

func keyOf(want upstream.Want, k Kind) fetchKey {
	return fetchKey{place{want.Era, want.Share}, k}
}

// fetch is one list being asked for, for all who wait for it.
type fetch struct {
	done  chan struct{}
	err   error        // set before done is closed
	leg   upstream.Leg // it is asked on, nil before that is known; guarded by Server.mu
	again upstream.Leg // something changed since it was asked for; guarded by Server.mu
}

func (c *Catalog) newServer(def *servers.Definition) *Server {
	s := &Server{c: c, known: make(map[place]*known), fetches: make(map[fetchKey]*fetch), tries: make(map[fetchKey]*try), shares: make(map[upstream.Leg]upstream.Share)}
	s.def.Store(def)
	s.life, s.end = context.WithCancel(c.life)
	s.watch.init()
	eras := s.load()
	opts := c.opts.Upstream
	opts.Events = events{s}
	s.up = upstream.New(upstream.Spec{
		Name:    def.Name,
		URL:     def.Transport.URL,
		Command: def.Transport.Command,
		Dir:     folder(c.opts.Dir, def.Transport.Dir),
		Inherit: child.Inherit{None: def.Inherit.None, Names: def.Inherit.Names},
		Era:     def.Era,
		Timeout: def.Timeout,
		Fake:    c.opts.Fake,
		Connect: func(ctx context.Context) (upstream.Credentials, error) { return c.opts.Connect(ctx, s.Def()) },
		Eras:    eras,
	}, opts)
	return s
}

// folder is where a command starts: in dir, or in own below it.
func folder(dir, own string) string {
	if filepath.IsAbs(own) || own == "~" || strings.HasPrefix(own, "~/") {
		return own
	}
	return filepath.Join(dir, own)
}

// Def is the server's definition.
func (s *Server) Def() *servers.Definition { return s.def.Load() }

// Name is the server's name.
func (s *Server) Name() string { return s.Def().Name }

// Gone reports whether the server was removed or switched off while the crib
// goes on.
func (s *Server) Gone() bool {
	return s.c.snapshot.Load().byName[s.Name()] == nil && s.c.life.Err() == nil
}

// Up is the way to the server's legs.
func (s *Server) Up() *upstream.Server { return s.up }

// redefine exchanges a definition that reaches the server in the same way.
func (s *Server) redefine(def *servers.Definition) {
	old := s.def.Swap(def)
	s.mu.Lock()
	var changed []Kind
	if !slices.Equal(old.Gates, def.Gates) {
		changed = append(changed, Tools) // who may call what is another thing now
	}
	anew := make(map[*List]*List) // places may have one list
	for _, kn := range s.known {
		for k, l := range kn.lists {
			if l == nil {
				continue
			}
			if anew[l] == nil {
				anew[l] = l.under(Kind(k), def)
			}
			kn.lists[k] = anew[l]
			if !sameItems(l, anew[l]) {
				changed = append(changed, Kind(k))
			}
		}
	}
	s.mu.Unlock()
	for _, k := range changed {
		s.c.announce(Change{Server: def.Name, Kind: k})
	}
}

// close cuts the server off.
func (s *Server) close() {
	s.stop()
	s.up.Close()
	s.work.Wait()
}

// finish lets what is open on the server end first.
func (s *Server) finish() {
	s.stop()
	s.up.Finish(s.c.life)
	s.work.Wait()
}

func (s *Server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end() // under mu: nothing is started behind it
}

// List returns a list of the server: the last one if that is fresh; else it
// asks, and falls back on the last one when the server cannot be asked within
// the budget. Without a last one it waits as long as ctx allows.
func (s *Server) List(ctx context.Context, want upstream.Want, k Kind) (Listed, error) {
	out := Listed{Server: s, List: s.list(want, k)}
	if s.current(want, k) {
		return out, nil
	}
	f := s.refresh(want, k)
	var limit <-chan time.Time
	if out.List != nil {
		t := time.NewTimer(s.c.opts.Budget)
		defer t.Stop()
		limit = t.C
	}
	select {
	case <-f.done:
		out.Err = f.err
	case <-limit:
		out.Stale = true
		return out, nil
	case <-ctx.Done():
		return out, crib.Errorf(crib.Unavailable, "server %s is still starting", s.Name())
	}
	if l := s.list(want, k); l != nil {
		out.List, out.Stale = l, f.err != nil
		return out, nil
	}
	if f.err == nil {
		f.err = crib.Errorf(crib.Unavailable, "server %s gave no list", s.Name())
	}
	return out, f.err
}

// Find returns an item by the server's own name for it. A name that is not in
// the last list is asked for once more: servers add tools without telling.
func (s *Server) Find(ctx context.Context, want upstream.Want, k Kind, id string) (*Item, error) {
	return s.find(ctx, want, k, func(l *List) *Item { return l.Get(id) })
}

func (s *Server) find(ctx context.Context, want upstream.Want, k Kind, in func(*List) *Item) (*Item, error) {
	l := s.list(want, k)
	if it := in(l); it != nil {
		return it, nil
	}
	// Also of a server that cannot be asked: what was never there and what is
	// denied look alike.
	notFound := crib.Errorf(crib.NotFound, "server %s has nothing of that name", s.Name())
	if l != nil && time.Since(l.Fetched) <= relistAge && s.current(want, k) {
		return nil, notFound
	}
	f := s.refresh(want, k)
	select {
	case <-f.done:
	case <-ctx.Done():
		return nil, crib.Errorf(crib.Unavailable, "server %s is still starting", s.Name())
	}
	if it := in(s.list(want, k)); it != nil {
		return it, nil
	}
	if f.err != nil && l == nil {
		return nil, f.err
	}
	return nil, notFound
}

// Relist asks for a list again, for callers who were told that what they know
// is out of date, and waits.
func (s *Server) Relist(ctx context.Context, want upstream.Want, k Kind) error {
	f := s.refresh(want, k)
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refresh asks the server for a list because somebody wants it, once for all
// who wait.
func (s *Server) refresh(want upstream.Want, k Kind) *fetch {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = time.Now()
	return s.ask(want, k)
}

// ask asks the server for a list. It is called with mu held.
func (s *Server) ask(want upstream.Want, k Kind) *fetch {
	key := keyOf(want, k)
	if f := s.fetches[key]; f != nil {
		return f
	}
	f := &fetch{done: make(chan struct{})}
	if s.life.Err() != nil {
		f.err = crib.Errorf(crib.Unavailable, "server %s was removed or switched off", s.Name())
		close(f.done)
		return f
	}
	s.start(key, f, want, func() (upstream.Leg, error) { return s.up.Leg(s.life, want) })
	return f
}

// start runs a fetch; if it fails, the list is asked for again with want. It is
// called with mu held.
func (s *Server) start(key fetchKey, f *fetch, want upstream.Want, leg func() (upstream.Leg, error)) {
	s.fetches[key] = f
	s.work.Go(func() {
		l, err := leg()
		if err == nil {
			s.mu.Lock()
			f.leg = l
			s.mu.Unlock()
			err = s.fetchList(l, key.share, key.kind)
		}
		s.mu.Lock()
		f.err = err
		delete(s.fetches, key)
		again := f.again
		s.ended(want, key.kind, err)
		s.mu.Unlock()
		close(f.done)
		if again != nil {
			s.refetch(again, key.kind, false)
		}
	})
}

// Pauses before a list is asked for again because its server tells of a
// change: none where the last telling was true, longer and longer where the
// list turned out to be the same. Some servers tell each time they are asked.
const (
	firstCalm = time.Second
	maxCalm   = time.Minute
)

// refetch asks for a list over a leg that told of a change, or that is new.
func (s *Server) refetch(leg upstream.Leg, k Kind, isNew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		return
	}
	want := upstream.Want{Era: leg.Hello().Era, Share: s.shares[leg]}
	key := keyOf(want, k)
	if f := s.fetches[key]; f != nil {
		if !isNew || f.leg != nil && f.leg != leg {
			f.again = leg
		}
		return // else it is being asked on this very leg, or will be
	}
	if kn := s.known[key.place]; kn != nil {
		if wait := time.Until(kn.asked[k].Add(kn.calm[k])); wait > 0 {
			s.later(kn, leg, k, wait)
			return
		}
		kn.said[k] = false
	}
	if want.Share != (upstream.Share{}) {
		want.Live = func() bool { return !upstream.Ended(leg) } // another one is for its callers to open
	}
	s.start(key, &fetch{done: make(chan struct{})}, want, func() (upstream.Leg, error) { return leg, nil })
}

// later asks for a list after a while, once however often it is told to. It is
// called with mu held.
func (s *Server) later(kn *known, leg upstream.Leg, k Kind, wait time.Duration) {
	if kn.due[k] {
		return
	}
	kn.due[k] = true
	s.work.Go(func() {
		still := pause(s.life, leg.Done(), wait)
		s.mu.Lock()
		kn.due[k] = false
		s.mu.Unlock()
		if still {
			s.refetch(leg, k, false)
		}
	})
}

// fetchList asks for all pages of a list over a leg of share and keeps them.
func (s *Server) fetchList(leg upstream.Leg, share upstream.Share, k Kind) error {
	hello, def := leg.Hello(), s.Def()
	l := &List{TTL: -1, Fetched: time.Now()}
	pages := [][]byte{}
	if k == Tools || wire.Get(hello.Capabilities(), kindFacts[k].capability) != nil {
		var err error
		if pages, err = s.pages(leg, k); err != nil {
			return err
		}
		l = build(k, def, hello.Era, pages)
		l.Fetched = time.Now()
		l.TTL = timeToLive(hello, k, pages)
	}
	if l.byID == nil {
		l.byID = map[string]*Item{}
	}
	l.Era = hello.Era
	s.keep(leg, share, hello, def, k, l)
	return nil
}

// pages drains a list: at most MaxPages, and no cursor twice.
func (s *Server) pages(leg upstream.Leg, k Kind) ([][]byte, error) {
	var pages [][]byte
	params := ""
	seen := map[string]bool{}
	for len(pages) < MaxPages {
		out := upstream.NewRequest(leg, s.c.opts.Upstream.Version, k.Method(), params)
		reply, err := leg.Do(s.life, out, upstream.Nobody{})
		if err != nil {
			return nil, err
		}
		if reply.Message.Error.OK() {
			e := wire.ReadError(reply.Message.Error.In(reply.Message.Body))
			if e.Code == wire.CodeMethodNotFound {
				return pages, nil
			}
			return nil, crib.Errorf(crib.Unavailable, "server %s refuses %s: %s (%d)", s.Name(), k.Method(), e.Message, e.Code)
		}
		page := bytes.Clone(reply.Message.Result.In(reply.Message.Body))
		pages = append(pages, page)
		cursor := wire.Get(page, "nextCursor")
		if len(wire.Text(cursor)) == 0 || seen[string(cursor)] {
			return pages, nil
		}
		seen[string(cursor)] = true
		params = `"cursor":` + string(cursor)
	}
	s.c.opts.Log.Warn("a server's list has too many pages; the rest is left out", "server", s.Name(), "list", k.Method(), "pages", MaxPages)
	return pages, nil
}

// timeToLive is how long a list may be used without asking again: what a
// modern server says (2026-07-28, Caching), and for a legacy one until it
// tells of a change, where it does.
func timeToLive(hello *wire.Hello, k Kind, pages [][]byte) time.Duration {
	if hello.Era == wire.Legacy {
		if string(wire.GetPath(hello.Capabilities(), kindFacts[k].capability, "listChanged")) == "true" {
			return -1
		}
		return LegacyTTL
	}
	ttl := time.Duration(-1)
	for _, p := range pages {
		ms, err := strconv.ParseInt(string(wire.Get(p, "ttlMs")), 10, 64)
		if err != nil || ms < 0 {
			ms = 0
		}
		d := time.Duration(min(ms, int64(24*time.Hour/time.Millisecond))) * time.Millisecond
		if ttl < 0 || d < ttl {
			ttl = d
		}
	}
	return ttl
}

func sameItems(a, b *List) bool {
	if a == nil || b == nil || len(a.Items) != len(b.Items) || len(a.Problems) != len(b.Problems) {
		return false
	}
	for i := range a.Items {
		if !bytes.Equal(a.Items[i].Own, b.Items[i].Own) {
			return false
		}
	}
	return true
}

// Problems lists what is left out of the server's lists, and why.
func (s *Server) Problems() []Problem {
	var out []Problem
	for _, k := range Kinds {
		if l := s.Last(k); l != nil {
			out = append(out, l.Problems...)
		}
	}
	return out
}
