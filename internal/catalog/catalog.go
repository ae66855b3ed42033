package catalog

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/upstream/gate"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Limits and times.
const (
	MaxPages  = 100                    // of one list of one server
	LegacyTTL = 60 * time.Second       // of a list from a server that does not tell of changes
	Budget    = 250 * time.Millisecond // for waiting on servers whose last list is known, or that others can stand in for
	FirstWait = 10 * time.Second       // for a first item where there is nothing at all to show
	relistAge = 5 * time.Second        // a list is asked for again for an unknown name if it is older
)

// Store keeps the last lists of servers between runs. A document that is not
// there loads as nil.
type Store interface {
	Load(server string) ([]byte, error)
	Save(server string, doc []byte) error
	Delete(server string) error
}

// Options build a Catalog.
type Options struct {
	Store Store
	// Connect resolves the secrets of a definition, each time it is connected.
	Connect func(ctx context.Context, def *servers.Definition) (upstream.Credentials, error)
	// Upstream are the options of every leg; Events is set by the catalog.
	Upstream upstream.Options
	// Other receives notifications of servers that are not about lists, and who
	// shares the leg they came on.
	Other func(server string, share upstream.Share, m wire.Message)
	Dir   string // where commands start; folders of definitions are relative to it
	Fake  bool   // every server is one echo tool, and nothing is connected to
	Log   *slog.Logger
	// Budget and FirstWait shorten the waits of those names in tests.
	Budget    time.Duration
	FirstWait time.Duration
}

// Catalog is all servers of the crib and what they offer.
type Catalog struct {
	opts     Options
	snapshot atomic.Pointer[snapshot]
	applyMu  sync.Mutex // held while definitions are exchanged
	life     context.Context
	end      context.CancelFunc
	work     sync.WaitGroup

	mu   sync.Mutex // guards subs
	subs map[int]func(Change)
	next int
}

// snapshot is the set of servers at one moment. It is not changed.
type snapshot struct {
	byName map[string]*Server
	names  []string // in order

	byProject bool // one of them at least starts in its client's folder
}

// Change tells that a list of a server is another one now.
type Change struct {
	Server string
	Kind   Kind
	Share  upstream.Share // whose list it is
}

// New makes a Catalog without servers; see Apply.
func New(opts Options) *Catalog {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Budget == 0 {
		opts.Budget = Budget
	}
	if opts.FirstWait == 0 {
		opts.FirstWait = FirstWait
	}
	if opts.Upstream.Starting == nil {
		opts.Upstream.Starting = make(chan struct{}, upstream.MaxStarting)
	}
	if opts.Upstream.Total == nil {
		opts.Upstream.Total = new(gate.Total)
	}
	c := &Catalog{opts: opts, subs: make(map[int]func(Change))}
	c.snapshot.Store(&snapshot{byName: map[string]*Server{}})
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

// Apply makes defs the servers of the crib. A server whose way of being
// reached did not change keeps its connections. The others make place for new
// ones: at once for new requests, when they have ended for those that are
// open. One that is gone or switched off is cut off at once.
func (c *Catalog) Apply(defs []servers.Definition) {
	c.applyMu.Lock()
	defer c.applyMu.Unlock()
	if c.life.Err() != nil {
		return
	}
	old := c.snapshot.Load()
	now := &snapshot{byName: make(map[string]*Server, len(defs))}
	defined := make(map[string]bool, len(defs))
	for _, def := range defs {
		defined[def.Name] = true
		if !def.Enabled {
			continue
		}
		now.byProject = now.byProject || def.Dialogue.Share == servers.ShareProject
		if prev := old.byName[def.Name]; prev != nil && prev.Def().Fingerprint() == def.Fingerprint() {
			prev.redefine(&def)
			now.byName[def.Name] = prev
			continue
		}
		now.byName[def.Name] = c.newServer(&def)
	}
	now.names = slices.Sorted(maps.Keys(now.byName))
	c.snapshot.Store(now)
	for name, prev := range old.byName {
		switch now.byName[name] {
		case prev:
		case nil:
			c.work.Go(func() { prev.close(); c.forget(name, defined[name]) })
		default:
			c.work.Go(prev.finish)
		}
	}
	for _, name := range union(old, now) {
		if old.byName[name] != now.byName[name] {
			for _, k := range Kinds {
				c.announce(Change{Server: name, Kind: k})
			}
		}
	}
}

// forget takes the last lists of a server out of the store that is not defined
// any more.
func (c *Catalog) forget(name string, defined bool) {
	if defined {
		return
	}
	if err := c.opts.Store.Delete(name); err != nil {
		c.opts.Log.Warn("the last lists of a server cannot be removed", "server", name, "err", err)
	}
}

func union(a, b *snapshot) []string {
	all := maps.Clone(a.byName)
	maps.Copy(all, b.byName)
	return slices.Sorted(maps.Keys(all))
}

// Server finds a server that is switched on.
func (c *Catalog) Server(name string) (*Server, error) {
	if s := c.snapshot.Load().byName[name]; s != nil {
		return s, nil
	}
	return nil, crib.Errorf(crib.NotFound, "there is no server %q", name)
}

// Servers lists the servers that are switched on, in order of their names.
func (c *Catalog) Servers() []*Server {
	snap := c.snapshot.Load()
	out := make([]*Server, len(snap.names))
	for i, name := range snap.names {
		out[i] = snap.byName[name]
	}
	return out
}

// AnyByProject reports whether a server starts in the folder of its client.
func (c *Catalog) AnyByProject() bool { return c.snapshot.Load().byProject }

// Subscribe calls f with each change from now on, until the function it
// returns is called. f must not block.
func (c *Catalog) Subscribe(f func(Change)) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.next
	c.next++
	c.subs[id] = f
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.subs, id)
	}
}

func (c *Catalog) announce(ch Change) {
	c.mu.Lock()
	fs := slices.Collect(maps.Values(c.subs))
	c.mu.Unlock()
	for _, f := range fs {
		f(ch)
	}
}

// Warm starts connecting to every server whose lists are not known from this
// run, and does not wait.
func (c *Catalog) Warm(want func(*Server) upstream.Want) {
	for _, s := range c.Servers() {
		if w := want(s); !s.current(w, Tools) {
			s.refresh(w, Tools)
		}
	}
}

// Close ends all connections and waits for them.
func (c *Catalog) Close() {
	c.applyMu.Lock()
	c.end()
	c.applyMu.Unlock()
	for _, s := range c.Servers() {
		c.work.Go(s.close)
	}
	c.work.Wait()
}

// Listed is one server's part of an aggregate list.
type Listed struct {
	Server *Server
	List   *List // nil where nothing is known
	Stale  bool  // the server could not be asked; List is the last it gave
	Err    error // why it could not be asked
}

// Lists returns the lists of all servers, in order of their names. It waits a
// short while for those that have to be asked: a server that hangs costs only
// its own items, and those only if they were never known. Where there would
// be nothing to show at all, it waits longer for the first.
func (c *Catalog) Lists(ctx context.Context, want func(*Server) upstream.Want, k Kind) []Listed {
	all := c.Servers()
	out := make([]Listed, len(all))
	waits := make([]*fetch, len(all))
	have, missing := false, false
	for i, s := range all {
		w := want(s)
		out[i].Server, out[i].List = s, s.list(w, k)
		if !s.current(w, k) {
			waits[i] = s.refresh(w, k)
			missing = true
		}
		have = have || out[i].List != nil && len(out[i].List.Items) > 0
	}
	if !missing {
		return out
	}
	limit := time.NewTimer(c.opts.Budget)
	defer limit.Stop()
	patient := time.NewTimer(c.opts.FirstWait)
	defer patient.Stop()
	c.await(ctx, waits, out, limit.C, patient.C, have, want, k)
	return out
}

// await waits for fetches until the budget is spent; without anything to show,
// until the first fetch that brings something, and the budget behind it.
func (c *Catalog) await(ctx context.Context, waits []*fetch, out []Listed, limit, patient <-chan time.Time, have bool, want func(*Server) upstream.Want, k Kind) {
	spent := false
	arrived := make(chan int, len(waits))
	open := 0
	stop := make(chan struct{})
	defer close(stop)
	for i, f := range waits {
		if f == nil {
			continue
		}
		open++
		go func() {
			select {
			case <-f.done:
				arrived <- i
			case <-stop:
			}
		}()
	}
	for open > 0 && !(spent && have) {
		select {
		case i := <-arrived:
			open--
			out[i].List, out[i].Err = out[i].Server.list(want(out[i].Server), k), waits[i].err
			if !have && out[i].List != nil && len(out[i].List.Items) > 0 {
				have, spent = true, false
				limit = time.After(c.opts.Budget)
			}
			waits[i] = nil
		case <-limit:
			spent = true
		case <-patient:
			have, spent = true, true
		case <-ctx.Done():
			have, spent = true, true
		}
	}
	for i := range out {
		out[i].Stale = waits[i] != nil || out[i].Err != nil
	}
}

// FindPublic finds an item of the aggregate by its public name.
func (c *Catalog) FindPublic(ctx context.Context, want func(*Server) upstream.Want, k Kind, public string) (*Server, *Item, error) {
	s, err := c.Server(serverOfName(public))
	if err != nil {
		return nil, nil, err
	}
	item, err := s.find(ctx, want(s), k, func(l *List) *Item { return l.getPublic(public) })
	if err != nil {
		return nil, nil, err
	}
	return s, item, nil
}

// OwnerOf tells which server lists the resource uri, nil if none does. Of
// several it is the first by name.
func (c *Catalog) OwnerOf(ctx context.Context, want func(*Server) upstream.Want, uri string) *Server {
	for _, got := range c.Lists(ctx, want, Resources) {
		if got.List.Get(uri) != nil {
			return got.Server
		}
	}
	return nil
}
