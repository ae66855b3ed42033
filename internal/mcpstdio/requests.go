package mcpstdio

import (
	"context"
	"sync"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// request is one request of the client that is open.
type request struct {
	m   wire.Message
	id  string // as it was spelled: 1 is not "1"
	era wire.Era
	// ctx ends when the client has cancelled the request; from then on nothing
	// is written for it.
	ctx     context.Context
	cancel  context.CancelFunc
	written chan struct{} // closed when it was written, or will not be
	wrote   func()        // closes written
}

func newRequest(parent context.Context, era wire.Era, m wire.Message) *request {
	q := &request{m: m, id: string(m.ID.In(m.Body)), era: era, written: make(chan struct{})}
	q.ctx, q.cancel = context.WithCancel(parent)
	q.wrote = sync.OnceFunc(func() { close(q.written) })
	return q
}

// openRequests finds open requests by era and id. The eras are apart: a client
// that tries both on one pipe may count from the start in each.
type openRequests struct {
	mu   sync.Mutex // guards byID
	byID map[openKey]*request
}

type openKey struct {
	era wire.Era
	id  string
}

func (o *openRequests) init() { o.byID = make(map[openKey]*request) }

// add opens q. It reports why that cannot be.
func (o *openRequests) add(q *request) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := openKey{q.era, q.id}
	if o.byID[key] != nil {
		return crib.Errorf(crib.Invalid, "a request with this id is already open; give each request an id of its own")
	}
	if len(o.byID) >= MaxOpen {
		return crib.Errorf(crib.Busy, "%d requests are open; wait for an answer before sending more", MaxOpen)
	}
	o.byID[key] = q
	return nil
}

func (o *openRequests) remove(q *request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if key := (openKey{q.era, q.id}); o.byID[key] == q {
		delete(o.byID, key)
	}
}

func (o *openRequests) get(era wire.Era, id string) *request {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.byID[openKey{era, id}]
}

// endSubscriptions ends the requests that have no end of their own.
func (o *openRequests) endSubscriptions() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, q := range o.byID {
		if q.m.Method == "subscriptions/listen" {
			q.cancel()
		}
	}
}
