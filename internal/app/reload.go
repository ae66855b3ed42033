package app

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolcrib/toolcrib/internal/auth"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/page"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/upstream"
)

// RenewTime is how long the secrets of all servers together may take to be
// looked up when a configuration is loaded again.
const RenewTime = 15 * time.Second

// renewAtOnce is how many servers have their secrets looked up at one time: each
// may run a program.
const renewAtOnce = 8

// reloading is what loading a configuration again needs.
type reloading struct {
	refused atomic.Pointer[Refusal]
	used    usedSecrets

	life     context.Context // ends when the crib is told to stop
	end      context.CancelFunc
	renewals sync.WaitGroup

	reload sync.Mutex // held while a configuration is loaded; guards closed and the start of renewals
	closed bool
}

func (r *reloading) init() {
	r.used.init()
	r.life, r.end = context.WithCancel(context.Background())
}

// close waits for what runs. Nothing is loaded from then on.
func (r *reloading) close() {
	r.end()
	r.reload.Lock()
	r.closed = true
	r.reload.Unlock()
	r.renewals.Wait()
}

// Refusal is a reload that was refused; what was loaded before is in use.
type Refusal struct {
	At  time.Time `json:"at"`
	Why string    `json:"why"`
}

// Reload reads configuration, definitions, tokens and secrets again and makes
// them those of the crib, whole or not at all: a fault in toolcrib.yaml, or one
// that would cost a server that is there now, leaves everything as it was. The
// address of a running crib stays as it is.
//
// It returns when the servers whose secrets have changed will be connected
// anew, for which it waits RenewTime at most.
func (a *App) Reload() error {
	st, err := a.take()
	if err != nil {
		return err
	}
	defer a.renewals.Done()
	a.renewChanged(st)
	return nil
}

// take loads a configuration and makes it the current one. Without an error it
// has added one to renewals.
func (a *App) take() (*state, error) {
	a.reload.Lock()
	defer a.reload.Unlock()
	if a.closed {
		return nil, crib.Errorf(crib.Unavailable, "the crib has ended; what was edited counts from its next start")
	}
	st, err := a.exchange()
	if err != nil {
		a.log.Error("reload refused; what was loaded before stays", "err", err)
		a.refused.Store(&Refusal{time.Now(), crib.SafeText(err)})
		return nil, err
	}
	a.refused.Store(nil)
	a.renewals.Add(1)
	return st, nil
}

func (a *App) exchange() (*state, error) {
	old := a.current.Load()
	st, err := a.load()
	if err != nil {
		return nil, err
	}
	if err := wouldLose(old, st); err != nil {
		return nil, err
	}
	guard, err := checks(st)
	if err != nil {
		return nil, err
	}
	gone, err := a.auth.Reload()
	if err != nil {
		return nil, err
	}
	if old.config.Anonymous && !st.config.Anonymous {
		gone = append(gone, auth.NoToken)
	}
	// While one is exchanged for the other, only what both allow passes.
	both := guard(*a.guarded.Load())
	a.guarded.Store(&both)
	a.auth.SetAnonymous(old.config.Anonymous && st.config.Anonymous)
	a.current.Store(st)
	a.cat.Apply(st.set.All())
	now := guard(a.routes())
	a.auth.SetAnonymous(st.config.Anonymous)
	a.guarded.Store(&now)
	for _, p := range gone {
		a.gw.Expel(p)
	}
	if st.config.Listen != old.config.Listen {
		a.log.Warn("the address in toolcrib.yaml is another one; it counts from the next start", "address", a.Addr(), "configured", st.config.Listen)
	}
	a.log.Info("reloaded", "servers", len(st.set.All()))
	return st, nil
}

// wouldLose reports the faults for which a server that is there now would be
// gone: a file that is half written must not take its server away.
func wouldLose(old, now *state) error {
	var lines []string
	for _, b := range now.set.Broken() {
		if _, there := old.set.Get(b.Name); !there {
			continue
		}
		for _, f := range b.Faults {
			if f.Severity == page.Error {
				lines = append(lines, f.String())
			}
		}
	}
	if lines == nil {
		return nil
	}
	return crib.Errorf(crib.Invalid, "%s", strings.Join(lines, "\n"))
}

// usedSecrets tells whether the secrets of a server are others than those that
// its connections were made with, without keeping any.
type usedSecrets struct {
	key []byte // random, of this process alone

	mu   sync.Mutex // guards seen
	seen map[string][sha256.Size]byte
}

func (u *usedSecrets) init() {
	u.key = make([]byte, sha256.Size)
	rand.Read(u.key) //nolint:errcheck // it does not return an error
	u.seen = make(map[string][sha256.Size]byte)
}

func (u *usedSecrets) digest(c upstream.Credentials) (sum [sha256.Size]byte) {
	h := hmac.New(sha256.New, u.key)
	add := func(s string) {
		var length [8]byte
		for i := range length {
			length[i] = byte(len(s) >> (8 * i))
		}
		h.Write(length[:])
		h.Write([]byte(s))
	}
	for _, env := range c.Env {
		add(env)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Header)) {
		add(name)
		for _, v := range c.Header[name] {
			add(v)
		}
	}
	h.Sum(sum[:0])
	return sum
}

func (u *usedSecrets) note(server string, c upstream.Credentials) {
	sum := u.digest(c)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seen[server] = sum
}

// same reports whether a server was connected with the secrets c the last time,
// and whether it was at all.
func (u *usedSecrets) same(server string, c upstream.Credentials) (same, connected bool) {
	sum := u.digest(c)
	u.mu.Lock()
	defer u.mu.Unlock()
	was, connected := u.seen[server]
	return was == sum, connected
}

// renewChanged gives the servers new connections whose secrets have changed.
// What is open on the old ones goes on. It takes RenewTime at most, and ends
// when the crib is told to stop.
func (a *App) renewChanged(st *state) {
	limit := a.opts.RenewTime
	if limit == 0 {
		limit = RenewTime
	}
	ctx, cancel := context.WithTimeout(a.life, limit)
	defer cancel()
	var each errgroup.Group
	each.SetLimit(renewAtOnce)
	for _, def := range st.set.All() {
		if def.Enabled && len(def.Refs()) > 0 {
			each.Go(func() error { a.renewIfChanged(ctx, st, &def); return nil })
		}
	}
	each.Wait() //nolint:errcheck // each tells its own
}

// renewIfChanged gives one server a new connection if its secrets have changed.
func (a *App) renewIfChanged(ctx context.Context, st *state, def *servers.Definition) {
	creds, err := resolve(ctx, st, def)
	if a.life.Err() != nil || a.current.Load() != st {
		return // nobody needs it any more, or a later reload sees to it
	}
	if err != nil {
		a.log.Warn("the secrets of a server cannot be looked up; its connections stay as they are", "server", def.Name, "err", err)
		return
	}
	same, connected := a.used.same(def.Name, creds)
	if connected && same {
		return
	}
	srv, err := a.cat.Server(def.Name)
	if err != nil {
		return // it was switched off meanwhile
	}
	if connected {
		a.log.Info("a secret has changed; the server is connected anew", "server", def.Name)
	}
	srv.Up().Renew() // where there is no connection, the attempt that lacked a secret need not rest
}

// credentials resolves the secrets of a definition, at connect time. The
// stores tell the redactor of each one.
func (a *App) credentials(ctx context.Context, def *servers.Definition) (upstream.Credentials, error) {
	creds, err := resolve(ctx, a.current.Load(), def)
	if err == nil {
		a.used.note(def.Name, creds)
	}
	return creds, err
}

func resolve(ctx context.Context, st *state, def *servers.Definition) (upstream.Credentials, error) {
	creds := upstream.Credentials{Header: make(http.Header)}
	headers, err := def.ResolveHeaders(ctx, st.stores)
	if err != nil {
		return creds, err
	}
	for _, h := range headers {
		creds.Header.Set(h.Name, h.Value.Reveal())
	}
	env, err := def.ResolveEnv(ctx, st.stores)
	if err != nil {
		return creds, err
	}
	for _, e := range env {
		creds.Env = append(creds.Env, e.Name+"="+e.Value.Reveal())
	}
	return creds, nil
}
