// Package bridge holds what crosses: the translations of messages between the
// eras, and the sealed state of a call that waits for its client's answer.
// It knows bytes only, no connections.
package bridge

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Limits of a call that is suspended for its client.
const (
	RoundTime = 10 * time.Minute // for the client to come back
	MaxRounds = 16               // of one call
	MaxState  = 4 << 20          // bytes of a state that a client sends

	MaxQuestions  = 64                    // of a server that are open at one time because of one call
	JoinQuestions = 20 * time.Millisecond // for further questions behind the first: they are put together
	FirstPause    = time.Second           // before a call is tried again whose server asks for nothing but that; doubles
	MaxPause      = 30 * time.Second
)

// State is what the crib must know again when a client retries a request with
// its answers. It travels through the client, sealed, so that nobody can
// change it, redeem another's, or use it for another request (2026-07-28,
// Multi Round-Trip Requests, Server Requirements).
type State struct {
	Principal string    `json:"p"`
	Server    string    `json:"s"`
	Method    string    `json:"m"`
	Name      string    `json:"n"` // or URI, as the server spells it
	Digest    []byte    `json:"d"` // of the arguments
	Round     int       `json:"r"`
	Expires   time.Time `json:"e"`
	Upstream  []byte    `json:"u"` // the server's own state, the JSON text as it came; nil if it gave none
	Dialogue  string    `json:"o"` // the request that a legacy server holds open meanwhile, "" if none does
	Links     bool      `json:"l"` // a legacy server does it when the links that it gave were visited

	nonce string // of the sealed form it was opened from
}

// Sealer seals states, and lets each of them be used once. Its key lives as
// long as it does, and so do the states: what was spent is known in memory
// only, and a state that outlived that could be used twice.
type Sealer struct {
	aead cipher.AEAD

	mu    sync.Mutex // guards spent
	spent map[string]time.Time
}

// NewSealer makes a Sealer with a key of its own.
func NewSealer() (*Sealer, error) {
	key := make([]byte, 32)
	rand.Read(key) //nolint:errcheck // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &Sealer{aead: aead, spent: make(map[string]time.Time)}, nil
}

// Seal returns s as text for requestState.
func (z *Sealer) Seal(s State) (string, error) {
	plain, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, z.aead.NonceSize(), z.aead.NonceSize()+len(plain)+z.aead.Overhead())
	rand.Read(nonce) //nolint:errcheck // never fails
	return base64.RawURLEncoding.EncodeToString(z.aead.Seal(nonce, nonce, plain, nil)), nil
}

// ErrState refuses a state.
var ErrState = crib.Errorf(crib.Invalid, "requestState is not one that the crib gave for this request, was used before, or is older than %s; send the request again without it", RoundTime)

// Open takes back a sealed state that was not spent, for the same request it
// was sealed for. The error is the same whatever does not fit.
func (z *Sealer) Open(text string, want State, now time.Time) (State, error) {
	if len(text) > MaxState {
		return State{}, ErrState
	}
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(sealed) < z.aead.NonceSize() {
		return State{}, ErrState
	}
	nonce, box := sealed[:z.aead.NonceSize()], sealed[z.aead.NonceSize():]
	plain, err := z.aead.Open(nil, nonce, box, nil)
	if err != nil {
		return State{}, ErrState
	}
	var s State
	if err := json.Unmarshal(plain, &s); err != nil {
		return State{}, ErrState
	}
	same := s.Principal == want.Principal && s.Server == want.Server && s.Method == want.Method && s.Name == want.Name && string(s.Digest) == string(want.Digest)
	s.nonce = string(nonce)
	if !same || !now.Before(s.Expires) || z.isSpent(s) {
		return State{}, ErrState
	}
	return s, nil
}

func (z *Sealer) isSpent(s State) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	_, spent := z.spent[s.nonce]
	return spent
}

// Spend uses up a state that was opened, before its request is sent. The error
// is that of Open if somebody else was faster.
func (z *Sealer) Spend(s State, now time.Time) error {
	z.mu.Lock()
	defer z.mu.Unlock()
	if _, spent := z.spent[s.nonce]; spent {
		return ErrState
	}
	for n, e := range z.spent {
		if now.After(e) {
			delete(z.spent, n)
		}
	}
	z.spent[s.nonce] = s.Expires
	return nil
}

// Restore takes Spend back, where nothing of the request was executed.
func (z *Sealer) Restore(s State) {
	z.mu.Lock()
	defer z.mu.Unlock()
	delete(z.spent, s.nonce)
}

// StateEdit puts the server's own state in the place of ours, or takes ours
// out where the server gave none.
func StateEdit(m wire.Message, s *State) wire.Edit {
	at := m.Params.RequestState
	if s.Upstream != nil {
		return wire.Edit{At: at, With: s.Upstream}
	}
	// Take the member out with one of the commas beside it.
	params := m.Params.All.In(m.Body)
	members := wire.Members(params)
	for i, mem := range members {
		if mem.Key != "requestState" {
			continue
		}
		from, to := mem.At.From, mem.At.To
		switch {
		case i+1 < len(members):
			to = members[i+1].At.From
		case i > 0:
			from = members[i-1].At.To
		}
		base := m.Params.All.From
		return wire.Edit{At: wire.Span{From: base + from, To: base + to}}
	}
	return wire.Edit{At: at, With: []byte("null")}
}
