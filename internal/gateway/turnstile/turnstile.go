// Package turnstile lets requests in, and knows when all have left.
package turnstile

import (
	"context"
	"sync"
)

// Turnstile counts the requests that are open, and lets in nothing new once the
// crib is stopping.
type Turnstile struct {
	mu       sync.Mutex // guards all below
	open     int
	stopping bool
	empty    chan struct{} // closed when the crib is stopping and nothing is open any more

	streams context.Context // ends when no more streams may be held open
	drain   context.CancelFunc
}

// New lets requests in for as long as life.
func New(life context.Context) *Turnstile {
	t := &Turnstile{empty: make(chan struct{})}
	t.streams, t.drain = context.WithCancel(life)
	return t
}

// Streams ends when no more streams may be held open.
func (t *Turnstile) Streams() <-chan struct{} { return t.streams.Done() }

// Empty is closed when Stop was called and nothing is open any more.
func (t *Turnstile) Empty() <-chan struct{} { return t.empty }

// Enter lets a request in, or reports false. What continues something that is
// open passes for as long as anything is.
func (t *Turnstile) Enter(continues bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopping && (!continues || t.open == 0) {
		return false
	}
	t.open++
	return true
}

// Leave lets a request out.
func (t *Turnstile) Leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open--
	if t.stopping && t.open == 0 {
		close(t.empty)
	}
}

// Stop lets in no new requests, and ends what is only a stream.
func (t *Turnstile) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopping {
		return
	}
	t.stopping = true
	t.drain()
	if t.open == 0 {
		close(t.empty)
	}
}

// Stopped reports whether Stop was called.
func (t *Turnstile) Stopped() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stopping
}
