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
)

// watch is what the crib wants to be told of a server beside its lists.
type watch struct {
	mu      sync.Mutex // guards uris, changed
	uris    map[string]int
	changed chan struct{} // closed and replaced when the set of uris changes
}

func (w *watch) init() {
	w.uris = make(map[string]int)
	w.changed = make(chan struct{})
}

// add counts n more (or less) who want to be told of uri, and reports whether
// that changed the set.
func (w *watch) add(uri string, n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.uris[uri]
	if w.uris[uri] += n; w.uris[uri] <= 0 {
		delete(w.uris, uri)
	}
	if (before > 0) == (w.uris[uri] > 0) {
		return false
	}
	close(w.changed)
	w.changed = make(chan struct{})
	return true
}

func (w *watch) now() ([]string, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.uris)), w.changed
}

// SubscribeResource asks the server to tell when a resource changes, once for
// all who want to know. The function it returns takes that back.
func (s *Server) SubscribeResource(ctx context.Context, want upstream.Want, uri string) (stop func(), err error) {
	leg, err := s.up.Leg(ctx, want)
	if err != nil {
		return nil, err
	}
	if s.watch.add(uri, 1) && leg.Hello().Era == wire.Legacy {
		if err := s.legacySubscribe(ctx, leg, "resources/subscribe", uri); err != nil {
			s.watch.add(uri, -1)
			return nil, err
		}
	}
	var once sync.Once
	return func() {
		once.Do(func() {
			if !s.watch.add(uri, -1) || leg.Hello().Era != wire.Legacy {
				return
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.life.Err() == nil {
				s.work.Go(func() {
					s.legacySubscribe(s.life, leg, "resources/unsubscribe", uri) //nolint:errcheck // a leg that is gone tells of nothing
				})
			}
		})
	}, nil
}

func (s *Server) legacySubscribe(ctx context.Context, leg upstream.Leg, method, uri string) error {
	out := upstream.NewRequest(leg, s.c.opts.Upstream.Version, method, `"uri":`+string(wire.Quote(uri)))
	reply, err := leg.Do(ctx, out, upstream.Nobody{})
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

// Connected asks for the lists of a new leg: the server may be another one
// than before.
func (e events) Connected(_ string, leg upstream.Leg, _ []wire.Era) {
	s := e.s
	caps := leg.Hello().Capabilities()
	for _, k := range Kinds {
		if k == Tools || wire.Get(caps, kindFacts[k].capability) != nil {
			s.refetch(leg, k)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		return
	}
	if leg.Hello().Era == wire.Modern {
		s.work.Go(func() { s.listen(leg) })
		return
	}
	uris, _ := s.watch.now()
	s.work.Go(func() {
		for _, uri := range uris {
			if err := s.legacySubscribe(s.life, leg, "resources/subscribe", uri); err != nil {
				s.c.opts.Log.Warn("a subscription was not renewed", "server", s.Name(), "err", err)
			}
		}
	})
}

// Notification takes what belongs to no open request.
func (e events) Notification(_ string, leg upstream.Leg, m wire.Message) {
	s := e.s
	asked := false
	for _, k := range Kinds {
		if m.Method == k.Changed() {
			asked = true
			s.refetch(leg, k)
		}
	}
	if !asked && s.c.opts.Other != nil {
		s.c.opts.Other(s.Name(), m)
	}
}

// listen keeps a subscription open on a modern leg, for what the server says
// it tells and for the resources that somebody wants to know of.
func (s *Server) listen(leg upstream.Leg) {
	wait := firstRewatch
	for s.life.Err() == nil {
		uris, changed := s.watch.now()
		filter := listenFilter(leg.Hello().Capabilities(), uris)
		ctx, cancel := context.WithCancel(s.life)
		began := time.Now()
		ended := make(chan bool, 1)
		if filter == nil {
			ended = nil
		} else {
			go func() { ended <- s.listenOnce(ctx, leg, filter) }()
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
		case again := <-ended:
			cancel()
			if !again {
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
func (s *Server) listenOnce(ctx context.Context, leg upstream.Leg, filter []byte) bool {
	out := upstream.NewRequest(leg, s.c.opts.Upstream.Version, "subscriptions/listen", string(slices.Concat([]byte(`"notifications":`), filter)))
	out.Forever = true
	reply, err := leg.Do(ctx, out, listener{s, leg})
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
	s   *Server
	leg upstream.Leg
}

func (l listener) Notification(m wire.Message) {
	if m.Method == "notifications/subscriptions/acknowledged" {
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

func (l listener) Request(m wire.Message, answer func([]byte)) { answer(upstream.Decline(m)) }
