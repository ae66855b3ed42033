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

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/page"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/upstream"
)

// secretTime is how long the secrets of one server may take to be looked up
// when a configuration is loaded again.
const secretTime = 15 * time.Second

// reloading is what loading a configuration again needs.
type reloading struct {
	reload  sync.Mutex // held while a configuration is loaded
	refused atomic.Pointer[Refusal]
	used    usedSecrets
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
func (a *App) Reload() error {
	a.reload.Lock()
	defer a.reload.Unlock()
	if err := a.reloadAll(); err != nil {
		a.log.Error("reload refused; what was loaded before stays", "err", err)
		a.refused.Store(&Refusal{time.Now(), crib.SafeText(err)})
		return err
	}
	a.refused.Store(nil)
	return nil
}

func (a *App) reloadAll() error {
	old := a.current.Load()
	st, err := a.load()
	if err != nil {
		return err
	}
	if err := wouldLose(old, st); err != nil {
		return err
	}
	guard, err := checks(st)
	if err != nil {
		return err
	}
	if err := a.auth.Reload(); err != nil {
		return err
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
	if st.config.Listen != old.config.Listen {
		a.log.Warn("the address in toolcrib.yaml is another one; it counts from the next start", "address", a.Addr(), "configured", st.config.Listen)
	}
	a.renewChanged(st)
	a.log.Info("reloaded", "servers", len(st.set.All()))
	return nil
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

// changed reports whether a server was connected with other secrets than c.
func (u *usedSecrets) changed(server string, c upstream.Credentials) bool {
	sum := u.digest(c)
	u.mu.Lock()
	defer u.mu.Unlock()
	was, connected := u.seen[server]
	return connected && was != sum
}

// renewChanged gives the servers new connections whose secrets have changed.
// What is open on the old ones goes on.
func (a *App) renewChanged(st *state) {
	for _, def := range st.set.All() {
		if !def.Enabled || len(def.Refs()) == 0 {
			continue
		}
		srv, err := a.cat.Server(def.Name)
		if err != nil {
			continue // it was switched off meanwhile
		}
		ctx, cancel := context.WithTimeout(context.Background(), secretTime)
		creds, err := resolve(ctx, st, &def)
		cancel()
		if err != nil {
			a.log.Warn("the secrets of a server cannot be looked up; its connections stay as they are", "server", def.Name, "err", err)
			continue
		}
		if a.used.changed(def.Name, creds) {
			a.log.Info("a secret has changed; the server is connected anew", "server", def.Name)
			srv.Up().Renew()
		}
	}
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
