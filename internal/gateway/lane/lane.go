// Package lane gives requests that may be asked something a connection each.
package lane

import (
	"sync"

	"github.com/toolcrib/toolcrib/internal/upstream"
)

// Max is how many connections to one server the clients of a principal may
// have beside each other because their calls may wait for answers. What is more
// shares the first one.
const Max = 16

// Registry is the connections on which dialogues are held. Where one pipe carries
// all requests, nothing proves because of which of them a server asks; so a
// dialogue has one to itself, and a client that never comes back keeps nobody
// else from being asked.
type Registry struct {
	mu   sync.Mutex // guards busy
	busy map[Of]*[Max]bool
}

// Of is where the lanes of those who share a leg lead.
type Of struct {
	Server string
	Share  upstream.Share
}

// NewRegistry knows of lanes that are all free.
func NewRegistry() *Registry { return &Registry{busy: make(map[Of]*[Max]bool)} }

// Enter takes the first lane that is free, ok is false if there is none.
func (l *Registry) Enter(at Of) (n int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	busy := l.busy[at]
	if busy == nil {
		busy = new([Max]bool)
		l.busy[at] = busy
	}
	for n := range busy {
		if !busy[n] {
			busy[n] = true
			return n, true
		}
	}
	return 0, false
}

// Leave frees a lane.
func (l *Registry) Leave(at Of, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	busy := l.busy[at]
	busy[n] = false
	if *busy == [Max]bool{} {
		delete(l.busy, at)
	}
}
