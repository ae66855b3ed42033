// Package auth knows who is calling. A caller shows a bearer token in the
// Authorization header and nowhere else: never in a URL, which ends up in
// logs, and never in arguments, which a model writes.
package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
)

const (
	// prefix marks a token of the crib, so that scanners for leaked secrets
	// and people can tell what they found.
	prefix = "tcb_"

	// secretBytes is the length of the random part: 256 bits, which no one can
	// guess or search, so that one SHA-256 is as good as a slow hash.
	secretBytes = 32

	// tokenLen is the length of a printed token in bytes.
	tokenLen = len(prefix) + (secretBytes*8+5)/6

	// MaxName is the greatest length of a token's name in bytes.
	MaxName = 63
)

// Token is a token as it is kept: without the text that its client holds.
type Token struct {
	Name    string
	Hash    [sha256.Size]byte // SHA-256 of the printed token
	Created time.Time
}

// Store keeps tokens. Package store implements it.
type Store interface {
	// Tokens returns all tokens; none is no error.
	Tokens() ([]Token, error)

	// Update replaces the tokens by what change makes of them. No other Update,
	// of this process or another, comes between reading and writing. An error
	// of change leaves everything as it was and is returned.
	Update(change func([]Token) ([]Token, error)) error
}

// Options of a Registry.
type Options struct {
	Store Store // required

	// Anonymous lets a caller of this machine in without a token, as a
	// principal of its own.
	Anonymous bool

	// Now is the clock for Created; nil means time.Now.
	Now func() time.Time
}

// Registry tells callers apart by their tokens. It is safe for concurrent use.
type Registry struct {
	store     Store
	anonymous atomic.Bool
	now       func() time.Time

	mu      sync.Mutex // orders changes of the store with those of current
	current atomic.Pointer[snapshot]
}

// snapshot is an immutable view of the tokens.
//
// Looking a hash up in a map takes a time that depends on the hash only. It
// tells nothing of a token: nobody can choose a text by the SHA-256 it has.
type snapshot struct {
	byHash map[[sha256.Size]byte]crib.Principal
	tokens []Token
}

func newSnapshot(tokens []Token) *snapshot {
	s := &snapshot{byHash: make(map[[sha256.Size]byte]crib.Principal, len(tokens)), tokens: tokens}
	for _, t := range tokens {
		s.byHash[t.Hash] = crib.Principal{Kind: crib.Token, ID: t.Name}
	}
	return s
}

// New returns a registry of the tokens in the store.
func New(o Options) (*Registry, error) {
	if o.Store == nil {
		return nil, crib.Errorf(crib.Internal, "auth: no store")
	}
	r := &Registry{store: o.Store, now: o.Now}
	r.anonymous.Store(o.Anonymous)
	if r.now == nil {
		r.now = time.Now
	}
	if _, err := r.Reload(); err != nil {
		return nil, err
	}
	return r, nil
}

// NoToken is who calls without a token, where that is allowed.
var NoToken = crib.Principal{Kind: crib.Anonymous, ID: string(crib.Anonymous)}

// SetAnonymous lets callers of this machine in without a token, or no longer.
func (r *Registry) SetAnonymous(on bool) { r.anonymous.Store(on) }

// Reload reads the store again, after another process changed it. It returns
// whose tokens are valid no longer, also where they have new ones. On an error
// the tokens known before stay valid.
func (r *Registry) Reload() (gone []crib.Principal, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	tokens, err := r.store.Tokens()
	if err != nil {
		return nil, fmt.Errorf("read tokens: %w", err)
	}
	now := newSnapshot(tokens)
	if before := r.current.Swap(now); before != nil {
		for hash, p := range before.byHash {
			if _, valid := now.byHash[hash]; !valid {
				gone = append(gone, p)
			}
		}
	}
	return gone, nil
}

// Create makes a token and returns its text, which is kept nowhere here. A
// token that had the name stops working.
func (r *Registry) Create(name string) (string, error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	secret := make([]byte, secretBytes)
	if _, err := rand.Read(secret); err != nil { // it does not return one
		return "", fmt.Errorf("make token: %w", err)
	}
	text := prefix + base64.RawURLEncoding.EncodeToString(secret)
	made := Token{Name: name, Hash: sha256.Sum256([]byte(text)), Created: r.now()}
	err := r.update(func(tokens []Token) ([]Token, error) {
		return append(without(tokens, name), made), nil
	})
	if err != nil {
		return "", fmt.Errorf("create token %s: %w", name, err)
	}
	return text, nil
}

// Revoke removes the token of that name. One that is not there is a NotFound
// error.
func (r *Registry) Revoke(name string) error {
	err := r.update(func(tokens []Token) ([]Token, error) {
		left := without(tokens, name)
		if len(left) == len(tokens) {
			return nil, crib.Errorf(crib.NotFound, "there is no token named %q", name)
		}
		return left, nil
	})
	if err != nil {
		return fmt.Errorf("revoke token %s: %w", name, err)
	}
	return nil
}

// update changes the store and takes over what it then holds.
func (r *Registry) update(change func([]Token) ([]Token, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var after []Token
	err := r.store.Update(func(tokens []Token) ([]Token, error) {
		changed, err := change(tokens)
		after = changed
		return changed, err
	})
	if err != nil {
		return err
	}
	r.current.Store(newSnapshot(slices.Clone(after)))
	return nil
}

func without(tokens []Token, name string) []Token {
	return slices.DeleteFunc(slices.Clone(tokens), func(t Token) bool { return t.Name == name })
}

// Info is what may be shown of a token.
type Info struct {
	Name    string
	Created time.Time
}

// List returns the tokens, sorted by name.
func (r *Registry) List() []Info {
	tokens := r.current.Load().tokens
	out := make([]Info, 0, len(tokens))
	for _, t := range tokens {
		out = append(out, Info{Name: t.Name, Created: t.Created})
	}
	slices.SortFunc(out, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Lookup returns the name of the token with this text.
func (r *Registry) Lookup(text string) (string, bool) {
	p, ok := r.current.Load().find(text)
	return p.ID, ok
}

func (s *snapshot) find(text string) (crib.Principal, bool) {
	if len(text) != tokenLen {
		return crib.Principal{}, false
	}
	var buf [tokenLen]byte // on the stack: this runs for every call
	copy(buf[:], text)
	p, ok := s.byHash[sha256.Sum256(buf[:])]
	return p, ok
}

// Identify says who sent r, by its Authorization header alone. Its error is
// what Challenge wants.
//
// A token that is not known is refused even where anonymous callers are let
// in: whoever shows one means to be somebody.
func (r *Registry) Identify(req *http.Request) (crib.Principal, error) {
	known := r.current.Load()
	sent := req.Header["Authorization"]
	switch {
	case len(sent) > 1:
		return crib.Principal{}, refuse(invalidRequest, "the request has more than one Authorization header; send one")
	case len(sent) == 1:
		return known.bearer(sent[0])
	case !r.anonymous.Load():
		return crib.Principal{}, refuse(noCredential, "%s", known.howToEnter())
	case !fromHere(req):
		return crib.Principal{}, refuse(noCredential, "callers from another machine need a token, even where auth.anonymous is on; %s", addClient)
	}
	return NoToken, nil
}

// bearer reads the header's value (RFC 6750 section 2.1). The name of the
// scheme is matched without regard to case (RFC 9110 section 11.1).
func (s *snapshot) bearer(header string) (crib.Principal, error) {
	scheme, text, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return crib.Principal{}, refuse(invalidRequest, "the Authorization header is not of the scheme Bearer; send \"Authorization: Bearer tcb_…\"")
	}
	p, ok := s.find(strings.TrimLeft(text, " "))
	if !ok {
		return crib.Principal{}, refuse(invalidToken, "the token is not known here; it was replaced, revoked or is of another crib; %s", s.howToEnter())
	}
	return p, nil
}

const addClient = "`toolcrib client add CLIENT` gives a client a token of its own"

func (s *snapshot) howToEnter() string {
	if len(s.tokens) == 0 {
		return "this crib has no tokens yet; " + addClient
	}
	return "a bearer token is needed; " + addClient
}

// fromHere reports whether the connection comes from this machine. Nothing in
// the request itself is asked.
func fromHere(r *http.Request) bool {
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(*net.UnixAddr); ok && a != nil {
		return true
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && from.Addr().Unmap().IsLoopback()
}

var validName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

func checkName(name string) error {
	if len(name) > MaxName || !validName.MatchString(name) {
		return crib.Errorf(crib.Invalid, "token name %q: use at most %d lower-case letters, digits and single dashes between them, such as client-codex", name, MaxName)
	}
	return nil
}
