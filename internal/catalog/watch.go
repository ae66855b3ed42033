package catalog

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Times of watching a modern server.
const (
	firstRewatch = time.Second
	maxRewatch   = time.Minute
	listenGrace  = time.Second // for it to say that it tells of changes, before its lists are asked for without that
)

// watch is what the crib wants to be told of a server beside its lists.
type watch struct {
	mu      sync.Mutex // guards wanted, changed
	wanted  map[resource]*wanted
	changed chan struct{} // closed and replaced when something is wanted more or less
}

// resource is a resource on the legs of a share.
type resource struct {
	share upstream.Share
	uri   string
}

// wanted is a resource that somebody wants to be told of.
type wanted struct {
	count int
	told  chan struct{} // closed when a legacy server was told
	err   error         // why it was not; set before told is closed
}

func (w *watch) init() {
	w.wanted = make(map[resource]*wanted)
	w.changed = make(chan struct{})
}

func (w *watch) add(r resource) *wanted {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.wanted[r]
	if x == nil {
		x = &wanted{told: make(chan struct{})}
		w.wanted[r] = x
		w.signal()
	}
	x.count++
	return x
}

func (w *watch) remove(r resource, x *wanted) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if x.count--; x.count == 0 {
		delete(w.wanted, r)
		w.signal()
	}
}

// poke makes the legs look again.
func (w *watch) poke() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.signal()
}

func (w *watch) signal() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// now returns what is wanted on the legs of a share, by URI.
func (w *watch) now(share upstream.Share) (map[string]*wanted, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make(map[string]*wanted)
	for r, x := range w.wanted {
		if r.share == share {
			out[r.uri] = x
		}
	}
	return out, w.changed
}

// Tells reports whether the server says that it tells of changes of
// resources, and true where it has not said anything yet.
func (s *Server) Tells(want upstream.Want) bool {
	h := s.Hello(want)
	return h == nil || string(wire.GetPath(h.Capabilities(), "resources", "subscribe")) == "true"
}

// SubscribeResource asks the server to tell when a resource changes, once for
// all who want to know. The function it returns takes that back.
func (s *Server) SubscribeResource(ctx context.Context, want upstream.Want, uri string) (stop func(), err error) {
	leg, err := s.up.Leg(ctx, want)
	if err != nil {
		return nil, err
	}
	if !s.Tells(want) {
		return nil, crib.Errorf(crib.Unsupported, "server %s does not tell of changes of resources", s.Name())
	}
	r := resource{want.Share, uri}
	x := s.watch.add(r)
	stop = sync.OnceFunc(func() { s.watch.remove(r, x) })
	if leg.Hello().Era == wire.Modern {
		return stop, nil
	}
	select {
	case <-x.told:
		err = x.err
	case <-leg.Done():
		err = crib.Errorf(crib.Unavailable, "server %s: the connection broke", s.Name())
	case <-ctx.Done():
		err = crib.Errorf(crib.Cancelled, "the subscription was cancelled")
	}
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// follow tells a legacy server what is wanted, one message after the other, so
// that what it knows last is what is wanted.
func (s *Server) follow(leg upstream.Leg, share upstream.Share) {
	told := make(map[string]*wanted)
	session := leg.Hello()
	for {
		now, changed := s.watch.now(share)
		if h := leg.Hello(); h != session {
			session = h
			clear(told)
		}
		for uri, x := range told {
			if now[uri] == nil {
				s.legacySubscribe(leg, "resources/unsubscribe", uri) //nolint:errcheck // what it tells all the same reaches nobody
				delete(told, uri)
			} else if now[uri] != x {
				told[uri] = now[uri]
				now[uri].settle(nil)
			}
		}
		for uri, x := range now {
			if told[uri] == nil {
				err := s.legacySubscribe(leg, "resources/subscribe", uri)
				x.settle(err)
				if err == nil {
					told[uri] = x
				}
			}
		}
		select {
		case <-changed:
		case <-leg.Done():
			return
		case <-s.life.Done():
			return
		}
	}
}

// settle says once how telling the server went. It is called by one goroutine
// at a time for each leg; a second leg of the same share changes nothing.
func (x *wanted) settle(err error) {
	select {
	case <-x.told:
	default:
		x.err = err
		close(x.told)
	}
}

func (s *Server) legacySubscribe(leg upstream.Leg, method, uri string) error {
	out := upstream.NewRequest(leg, s.c.opts.Upstream.Version, method, `"uri":`+string(wire.Quote(uri)))
	reply, err := leg.Do(s.life, out, upstream.Nobody{})
	if err != nil {
		return err
	}
	if reply.Message.Error.OK() {
		e := wire.ReadError(reply.Message.Error.In(reply.Message.Body))
		return crib.Errorf(crib.Unsupported, "server %s: %s", s.Name(), e.Message)
	}
	return nil
}

// events are what the legs of one server tell.
type events struct{ s *Server }

// Connected asks for the lists of a new leg, and follows it.
func (e events) Connected(_ string, leg upstream.Leg, share upstream.Share) {
	s := e.s
	s.mu.Lock()
	if s.life.Err() == nil {
		s.shares[leg] = share
	}
	s.mu.Unlock()
	l := &listener{s: s, leg: leg}
	if leg.Hello().Era == wire.Legacy || listenFilter(leg.Hello().Capabilities(), nil) == nil {
		l.ask() // else when it tells of changes: of one before that nobody would hear
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		return
	}
	s.work.Go(func() {
		if leg.Hello().Era == wire.Modern {
			s.listen(l, share)
		} else {
			s.follow(leg, share)
		}
		<-leg.Done()
		s.gone(leg)
	})
}

// Renewed asks for the lists of a new session, which knows of no subscriptions.
func (e events) Renewed(_ string, leg upstream.Leg) {
	e.s.reask(leg, false)
	e.s.watch.poke()
}

// reask asks for all lists at once: the server may be another one than before.
func (s *Server) reask(leg upstream.Leg, isNew bool) {
	s.mu.Lock()
	if kn := s.known[place{leg.Hello().Era, s.shares[leg]}]; kn != nil {
		kn.calm = [kinds]time.Duration{}
	}
	s.mu.Unlock()
	s.refetchAll(leg, isNew)
}

// gone takes back what a leg said when there is no other one that would tell
// of a change.
func (s *Server) gone(leg upstream.Leg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := place{leg.Hello().Era, s.shares[leg]}
	delete(s.shares, leg)
	kn := s.known[at]
	if kn == nil {
		return
	}
	delete(kn.silent, leg)
	for other, share := range s.shares {
		if (place{other.Hello().Era, share}) == at {
			return
		}
	}
	kn.said = [kinds]bool{}
}

// Silent makes lists age that were good until the server told of a change.
func (e events) Silent(_ string, leg upstream.Leg) {
	s := e.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if upstream.Ended(leg) {
		return // gone was here, or will be
	}
	hello := leg.Hello()
	kn := s.knownAt(place{hello.Era, s.shares[leg]}, hello)
	if kn.silent == nil {
		kn.silent = make(map[upstream.Leg]*wire.Hello)
	}
	kn.silent[leg] = hello
	for k, l := range kn.lists {
		if l != nil && l.TTL < 0 {
			aged := *l
			aged.TTL = LegacyTTL
			kn.lists[k] = &aged
		}
	}
}

// refetchAll asks for every list that the server says it has.
func (s *Server) refetchAll(leg upstream.Leg, isNew bool) {
	caps := leg.Hello().Capabilities()
	for _, k := range Kinds {
		if k == Tools || wire.Get(caps, kindFacts[k].capability) != nil {
			s.refetch(leg, k, isNew)
		}
	}
}

// Notification takes what belongs to no open request.
func (e events) Notification(_ string, leg upstream.Leg, m wire.Message) {
	s := e.s
	asked := false
	for _, k := range Kinds {
		if m.Method == k.Changed() {
			asked = true
			s.refetch(leg, k, false)
		}
	}
	if asked || s.c.opts.Other == nil {
		return
	}
	s.mu.Lock()
	share, known := s.shares[leg]
	s.mu.Unlock()
	if known {
		s.c.opts.Other(s.Name(), share, m)
	}
}

// listen keeps a subscription open on a modern leg, for what the server says
// it tells and for the resources that somebody wants to know of.
func (s *Server) listen(l *listener, share upstream.Share) {
	leg, wait := l.leg, firstRewatch
	s.work.Go(func() {
		if pause(s.life, leg.Done(), listenGrace) {
			l.ask()
		}
	})
	for s.life.Err() == nil {
		wanted, changed := s.watch.now(share)
		filter := listenFilter(leg.Hello().Capabilities(), slices.Sorted(maps.Keys(wanted)))
		ctx, cancel := context.WithCancel(s.life)
		began := time.Now()
		ended := make(chan bool, 1)
		if filter == nil {
			ended = nil
		} else {
			go func() { ended <- s.listenOnce(ctx, l, filter) }()
		}
		select {
		case <-changed:
			cancel()
			if ended != nil {
				<-ended
			}
			continue
		case <-leg.Done():
			cancel()
			if ended != nil {
				<-ended
			}
			return
		case reopen := <-ended:
			cancel()
			l.ask()
			if !reopen {
				ended = nil
				select {
				case <-changed:
					continue
				case <-leg.Done():
					return
				}
			}
		}
		if time.Since(began) > maxRewatch {
			wait = firstRewatch
		}
		if !pause(s.life, leg.Done(), wait) {
			return
		}
		wait = min(2*wait, maxRewatch)
	}
}

func pause(ctx context.Context, done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-done:
	case <-ctx.Done():
	}
	return false
}

// listenFilter is the params member notifications of subscriptions/listen
// (2026-07-28, Subscriptions, Notification Filter), nil if there is nothing to
// listen for.
func listenFilter(capabilities []byte, uris []string) []byte {
	var sets []wire.Set
	for _, f := range []struct{ capability, member string }{
		{"tools", "toolsListChanged"}, {"prompts", "promptsListChanged"}, {"resources", "resourcesListChanged"},
	} {
		if string(wire.GetPath(capabilities, f.capability, "listChanged")) == "true" {
			sets = append(sets, wire.Set{Key: f.member, Val: []byte("true")})
		}
	}
	if len(uris) > 0 {
		list := []byte{'['}
		for i, uri := range uris {
			if i > 0 {
				list = append(list, ',')
			}
			list = wire.AppendString(list, uri)
		}
		sets = append(sets, wire.Set{Key: "resourceSubscriptions", Val: append(list, ']')})
	}
	if len(sets) == 0 {
		return nil
	}
	return wire.SetMembers(nil, []byte("{}"), sets...)
}

// listenOnce holds one subscription and reports whether to open it again.
func (s *Server) listenOnce(ctx context.Context, l *listener, filter []byte) bool {
	out := upstream.NewRequest(l.leg, s.c.opts.Upstream.Version, "subscriptions/listen", string(slices.Concat([]byte(`"notifications":`), filter)))
	out.Forever = true
	reply, err := l.leg.Do(ctx, out, l)
	if err != nil {
		return ctx.Err() == nil
	}
	if reply.Message.Error.OK() {
		e := wire.ReadError(reply.Message.Error.In(reply.Message.Body))
		s.c.opts.Log.Info("a server takes no subscription; its lists are asked for by their age", "server", s.Name(), "err", e.Message)
		return false
	}
	return true
}

// listener takes what arrives on a subscription.
type listener struct {
	s     *Server
	leg   upstream.Leg
	first sync.Once // the lists are asked for, of a leg that is new
}

// ask has the lists of a new leg asked for, if that was not done.
func (l *listener) ask() { l.first.Do(func() { l.s.reask(l.leg, true) }) }

// acknowledged has the lists asked for: of what changed before it, nobody was
// told.
func (l *listener) acknowledged() {
	l.first.Do(func() {})
	l.s.reask(l.leg, false)
}

func (l *listener) Notification(m wire.Message) {
	if m.Method == "notifications/subscriptions/acknowledged" {
		l.acknowledged()
		return
	}
	// The subscription is the crib's own: its id means nothing to a client.
	if m.Meta.SubscriptionID.OK() {
		meta := wire.SetMembers(nil, m.Params.Meta.In(m.Body), wire.Set{Key: wire.MetaSubscriptionID})
		var body []byte
		if bytes.Equal(meta, []byte("{}")) {
			params := wire.SetMembers(nil, m.Params.All.In(m.Body), wire.Set{Key: "_meta"})
			body = wire.Apply(nil, m.Body, wire.Edit{At: m.Params.All, With: params})
		} else {
			body = wire.Apply(nil, m.Body, wire.Edit{At: m.Params.Meta, With: meta})
		}
		var err error
		if m, err = wire.ScanServer(body); err != nil {
			return
		}
	}
	events{l.s}.Notification(l.s.Name(), l.leg, m)
}

func (l *listener) Request(m wire.Message, answer func([]byte)) { answer(upstream.Decline(m)) }
