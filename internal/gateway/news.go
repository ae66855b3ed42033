package gateway

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/internal/catalog"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/gateway/legacy"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// news carries what changed to all clients that want to know: to the streams
// of legacy sessions, and to the subscriptions of modern clients. Changes that
// come close together become one notification.
type news struct {
	mu      sync.Mutex // guards pending, subs, next
	pending map[catalog.Change]bool
	subs    map[int]*subscription
	next    int
	wake    chan struct{} // one change at least is pending
}

// subscription is a modern client's open subscriptions/listen.
type subscription struct {
	principal crib.Principal
	server    string // "" is the aggregate
	id        []byte // raw id of the request
	kinds     [len(catalog.Kinds)]bool
	resources map[legacy.Interest]string // → the URI the client used
	sink      Sink
	end       context.CancelFunc
}

func (n *news) init() {
	n.pending = make(map[catalog.Change]bool)
	n.subs = make(map[int]*subscription)
	n.wake = make(chan struct{}, 1)
}

// changed notes a change; it is told a little later, once.
func (n *news) changed(ch catalog.Change) {
	n.mu.Lock()
	n.pending[ch] = true
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// take returns the changes that are pending.
func (n *news) take() []catalog.Change {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make([]catalog.Change, 0, len(n.pending))
	for ch := range n.pending {
		out = append(out, ch)
	}
	clear(n.pending)
	return out
}

func (n *news) add(s *subscription) (remove func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id := n.next
	n.next++
	n.subs[id] = s
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.subs, id)
	}
}

func (n *news) all() []*subscription {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make([]*subscription, 0, len(n.subs))
	for _, s := range n.subs {
		out = append(out, s)
	}
	return out
}

// tellChanges runs until the gateway ends.
func (g *Gateway) tellChanges() {
	for {
		select {
		case <-g.life.Done():
			return
		case <-g.news.wake:
		}
		pause := time.NewTimer(joinChanges)
		select {
		case <-g.life.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		changes := g.news.take()
		for _, s := range g.sessions.All() {
			for _, method := range methodsOf(heardBy(changes, s.Principal, s), s.Server, nil) {
				s.Outlet().Push([]byte(`{"jsonrpc":"2.0","method":"` + method + `"}`))
			}
		}
		for _, s := range g.news.all() {
			for _, method := range methodsOf(heardBy(changes, s.principal, nil), s.server, &s.kinds) {
				s.sink.Send(s.notification(method, nil))
			}
		}
	}
}

// heardBy are the changes of lists that a principal gets, in a session or
// without one.
func heardBy(changes []catalog.Change, p crib.Principal, s *Session) []catalog.Change {
	foreign := func(ch catalog.Change) bool { return !legacy.SharesWith(ch.Share, p, s) }
	if !slices.ContainsFunc(changes, foreign) {
		return changes
	}
	return slices.DeleteFunc(slices.Clone(changes), foreign)
}

// methodsOf are the notifications that tell an endpoint of changes, each once.
// kinds are those that are wanted, all if nil.
func methodsOf(changes []catalog.Change, server string, kinds *[len(catalog.Kinds)]bool) []string {
	var out []string
	for _, k := range catalog.Kinds {
		for _, ch := range changes {
			concerns := ch.Kind == k && (server == "" || server == ch.Server) && (kinds == nil || kinds[k])
			if concerns && !slices.Contains(out, k.Changed()) {
				out = append(out, k.Changed())
			}
		}
	}
	return out
}

// notification is one on a subscription (2026-07-28, Subscriptions, Receiving
// Notifications). more are further members of params.
func (s *subscription) notification(method string, more []byte) []byte {
	return slices.Concat([]byte(`{"jsonrpc":"2.0","method":"`+method+`","params":{`), more,
		[]byte(`"_meta":{"`+wire.MetaSubscriptionID+`":`), s.id, []byte("}}}"))
}

// Told takes a notification of a server that belongs to no request and is not
// about its lists. share says who shares the connection it came on. A change
// of a resource goes to those who asked for it; anything else only to the one
// session whose own connection it is.
func (g *Gateway) Told(server string, share upstream.Share, m wire.Message) {
	if m.Method == "notifications/tasks/status" {
		g.toldOfTask(server, share, m)
		return
	}
	if m.Method != "notifications/resources/updated" {
		if s := g.sessions.Get(legacy.Of(share)); s != nil && s.WantsLog(m) {
			s.Outlet().Push(m.Body)
		}
		return
	}
	uri, ok := m.Params.URI.Text(m.Body)
	if !ok {
		return
	}
	of := legacy.Interest{Server: server, URI: uri}
	for _, s := range g.sessions.All() {
		if known, ok := s.URIFor(of); ok && legacy.SharesWith(share, s.Principal, s) {
			s.Outlet().Push(wire.Apply(nil, m.Body, wire.Edit{At: m.Params.URI, With: wire.Quote(known)}))
		}
	}
	for _, s := range g.news.all() {
		if known, ok := s.resources[of]; ok && legacy.SharesWith(share, s.principal, nil) {
			s.sink.Send(s.updated(m, known))
		}
	}
}

// updated is a server's notification of a change, with the client's name for
// the resource and for the subscription, and everything else as it came.
func (s *subscription) updated(m wire.Message, uri string) []byte {
	params := m.Params.All.In(m.Body)
	meta := wire.Get(params, "_meta")
	if meta == nil {
		meta = []byte("{}")
	}
	meta = wire.SetMembers(nil, meta, wire.Set{Key: wire.MetaSubscriptionID, Val: s.id})
	params = wire.SetMembers(nil, params, wire.Set{Key: "uri", Val: wire.Quote(uri)}, wire.Set{Key: "_meta", Val: meta})
	return wire.Apply(nil, m.Body, wire.Edit{At: m.Params.All, With: params})
}

// listen answers subscriptions/listen (2026-07-28, Subscriptions): it is
// acknowledged at once, and stays open until the client leaves or the crib
// ends.
func (g *Gateway) listen(ctx context.Context, req *Request, sink Sink) Answer {
	filter := req.Message.Params.Notifications.In(req.Message.Body)
	if len(filter) == 0 || filter[0] != '{' {
		return refuse(req, wire.CodeInvalidParams, "subscriptions/listen needs the object notifications", 0)
	}
	if !req.aggregate() {
		if _, err := g.cat.Server(req.Server); err != nil {
			return g.failure(req, err)
		}
	}
	s := &subscription{principal: req.Principal, server: req.Server, id: req.id(), resources: make(map[legacy.Interest]string), sink: sink}
	honoured := s.kindsOf(filter)
	wanted := g.resourcesOf(ctx, req, filter)
	uris := []byte{'['}
	for _, w := range wanted {
		s.resources[w.Interest] = w.known
		uris = appendItem(uris, wire.Quote(w.known))
	}
	if len(wanted) > 0 {
		honoured = append(honoured, wire.Set{Key: "resourceSubscriptions", Val: append(uris, ']')})
	}
	more := append([]byte(`"notifications":`), wire.SetMembers(nil, []byte("{}"), honoured...)...)
	sink.Send(s.notification("notifications/subscriptions/acknowledged", append(more, ',')))
	ctx, s.end = context.WithCancel(ctx)
	defer s.end()
	defer g.news.add(s)()
	defer g.watchAll(ctx, req, wanted)()
	select {
	case <-ctx.Done():
	case <-g.entrance.Streams():
	}
	result := slices.Concat([]byte(`{"resultType":"complete","_meta":{"`+wire.MetaSubscriptionID+`":`), req.id(), []byte("}}"))
	return Answer{Body: wire.ResultBody(req.id(), result)}
}

// kindsOf reads which lists a client wants to be told of.
func (s *subscription) kindsOf(filter []byte) []wire.Set {
	var honoured []wire.Set
	for _, f := range []struct {
		member string
		kinds  []catalog.Kind
	}{
		{"toolsListChanged", []catalog.Kind{catalog.Tools}},
		{"promptsListChanged", []catalog.Kind{catalog.Prompts}},
		{"resourcesListChanged", []catalog.Kind{catalog.Resources, catalog.Templates}},
	} {
		if string(wire.Get(filter, f.member)) != "true" {
			continue
		}
		for _, k := range f.kinds {
			s.kinds[k] = true
		}
		honoured = append(honoured, wire.Set{Key: f.member, Val: []byte("true")})
	}
	return honoured
}

// wantedResource is a resource that a client wants to be told of.
type wantedResource struct {
	legacy.Interest
	of    *catalog.Server
	known string // the URI the client used
}

// resourcesOf finds the resources of a filter that are somebody's. It does not
// wait for servers that are slow to say what they have: a subscription is
// acknowledged at once.
func (g *Gateway) resourcesOf(ctx context.Context, req *Request, filter []byte) []wantedResource {
	ctx, cancel := context.WithTimeout(ctx, catalog.Budget)
	defer cancel()
	list := wire.Get(filter, "resourceSubscriptions")
	var out []wantedResource
	for _, at := range wire.Elements(list) {
		uri := wire.Text(at.In(list))
		t, err := g.findResource(ctx, req, uri)
		if uri == "" || err != nil || len(out) >= MaxSubscribed || !t.server.Tells(g.want(req, t.server)) {
			continue
		}
		out = append(out, wantedResource{legacy.Interest{Server: t.server.Name(), URI: t.name}, t.server, uri})
	}
	return out
}

// watchAll asks the servers to tell of resources, without making the client
// wait, and returns what takes that back.
func (g *Gateway) watchAll(ctx context.Context, req *Request, wanted []wantedResource) (stop func()) {
	var mu sync.Mutex
	var stops []func()
	var asking sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	for _, w := range wanted {
		asking.Go(func() {
			stop, err := w.of.SubscribeResource(ctx, g.want(req, w.of), w.URI)
			if err != nil {
				g.log.Info("a server tells of no changes of a resource", "server", w.Server, "err", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			stops = append(stops, stop)
		})
	}
	return func() {
		cancel()
		asking.Wait()
		for _, stop := range stops {
			stop()
		}
	}
}
