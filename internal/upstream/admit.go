package upstream

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// Limits of the requests that clients make, of one server and of all together.
// What the crib asks for itself (lists, signs of life) is not counted: it is
// one request at a time.
const (
	MaxOpen      = 128              // requests that one server works on at a time
	MaxQueued    = 256              // requests that wait for a place at one server
	QueueTime    = 10 * time.Second // how long one waits for a place
	MaxOpenTotal = 1024             // requests open at all servers, those that wait included
	MaxHeld      = 64 << 20         // bytes of requests and answers in memory for one server
	MaxHeldTotal = 256 << 20        // bytes of them for all servers
	tripAfter    = 5                // failures in a row before a server is left alone for a while

	// A server is left alone for as long as the last failure took, within
	// these: what fails at once may be tried again soon.
	minPause = 250 * time.Millisecond
	maxPause = 30 * time.Second
)

// Total counts what all servers of a crib have open together.
type Total struct {
	open atomic.Int64
	held atomic.Int64
}

// gate lets requests to one server in: no more than it can take, and none, but
// for one trial now and then, while it fails one after the other.
type gate struct {
	name   string
	total  *Total
	places *semaphore.Weighted
	queued atomic.Int64
	held   atomic.Int64

	mu       sync.Mutex // guards all below
	failures int        // in a row
	last     string     // what the last of them was
	at       time.Time  // when it was
	until    time.Time  // nothing is let in before, if the gate is shut
	trial    bool       // one request is out to see whether the server is well
}

func newGate(name string, total *Total) *gate {
	return &gate{name: name, total: total, places: semaphore.NewWeighted(MaxOpen)}
}

// Ticket is the right to have one request open at a server.
type Ticket struct {
	g     *gate
	began time.Time
	held  atomic.Int64
	trial bool
}

// admit lets in a request of size bytes, or tells why it does not: Busy where
// it would be over a limit, Unavailable where the server is left alone. Nothing
// was sent then. The ticket must be ended.
func (g *gate) admit(ctx context.Context, size int) (*Ticket, error) {
	t := &Ticket{g: g, began: time.Now()}
	var err error
	if t.trial, err = g.well(t.began); err != nil {
		return nil, err
	}
	if err := g.enter(ctx, t, size); err != nil {
		t.noTrial()
		return nil, err
	}
	return t, nil
}

func (g *gate) enter(ctx context.Context, t *Ticket, size int) error {
	if g.total.open.Add(1) > MaxOpenTotal {
		g.total.open.Add(-1)
		return crib.Errorf(crib.Busy, "the crib has %d requests open at its servers, which is all that it takes; nothing was sent, try again later", MaxOpenTotal)
	}
	if err := g.place(ctx); err != nil {
		g.total.open.Add(-1)
		return err
	}
	if err := t.Hold(size); err != nil {
		t.leave()
		return crib.Errorf(crib.Busy, "%s; nothing was sent, try again later", err.Msg)
	}
	return nil
}

// place waits for one of the server's places.
func (g *gate) place(ctx context.Context) error {
	if g.places.TryAcquire(1) {
		return nil
	}
	defer g.queued.Add(-1)
	if g.queued.Add(1) > MaxQueued {
		return crib.Errorf(crib.Busy, "server %s works on %d requests and %d wait; nothing was sent, try again later", g.name, MaxOpen, MaxQueued)
	}
	waiting, cancel := context.WithTimeout(ctx, QueueTime)
	defer cancel()
	if g.places.Acquire(waiting, 1) == nil {
		return nil
	}
	if ctx.Err() != nil {
		return crib.Errorf(crib.Cancelled, "the request was cancelled before it was sent to server %s", g.name)
	}
	return crib.Errorf(crib.Busy, "server %s works on %d requests and none ended within %s; nothing was sent, try again later", g.name, MaxOpen, QueueTime)
}

// Hold counts n more bytes that are kept in memory for the request.
func (t *Ticket) Hold(n int) *crib.Error {
	if t == nil {
		return nil
	}
	t.held.Add(int64(n))
	mine, all := t.g.held.Add(int64(n)), t.g.total.held.Add(int64(n))
	if mine > MaxHeld {
		return crib.Errorf(crib.TooLarge, "what server %s is asked and answers at this moment is more than %d bytes", t.g.name, MaxHeld)
	}
	if all > MaxHeldTotal {
		return crib.Errorf(crib.TooLarge, "what all servers are asked and answer at this moment is more than %d bytes", MaxHeldTotal)
	}
	return nil
}

// holding counts what is read from a server and kept.
type holding struct {
	from   io.Reader
	ticket *Ticket
	n      int
}

func (h *holding) Read(p []byte) (int, error) {
	n, err := h.from.Read(p)
	h.n += n
	if over := h.ticket.Hold(n); over != nil {
		return 0, over
	}
	return n, err
}

// drop says that what was read until now is not kept any more.
func (h *holding) drop() {
	h.ticket.Hold(-h.n) //nolint:errcheck // less is never over a limit
	h.n = 0
}

func (t *Ticket) leave() {
	t.g.places.Release(1)
	t.g.total.open.Add(-1)
	t.g.held.Add(-t.held.Load())
	t.g.total.held.Add(-t.held.Load())
}

// End gives the place back.
func (t *Ticket) End() {
	t.leave()
	t.noTrial()
}

func (t *Ticket) noTrial() {
	if !t.trial {
		return
	}
	t.g.mu.Lock()
	defer t.g.mu.Unlock()
	t.g.trial = false
}

// Report tells how the request went that a leg was given; err is that of Do.
func (t *Ticket) Report(err error) { t.g.learn(t, err, time.Now()) }

// well reports whether the server may be asked. Behind the pause one request
// may, to see whether it is.
func (g *gate) well(now time.Time) (trial bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failures < tripAfter {
		return false, nil
	}
	if g.trial {
		return false, unavailable(g.name, "failed %d times in a row and is being tried again; the last time it %s", g.failures, g.last)
	}
	if wait := g.until.Sub(now); wait > 0 {
		return false, unavailable(g.name, "failed %d times in a row and is tried again in %s; the last time it %s", g.failures, max(wait.Round(time.Second), time.Second), g.last)
	}
	g.trial = true
	return true, nil
}

// learn takes note of how a request went.
func (g *gate) learn(t *Ticket, err error, now time.Time) {
	why, v := judgeEnd(err)
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case v == saysNothing:
	case v == saysWell:
		g.failures, g.last = 0, ""
	case t.began.Before(g.at):
		// It was open when the last one failed: one event, not two.
	default:
		g.failures++
		g.last, g.at = why, now
		g.until = now.Add(min(max(now.Sub(t.began), minPause), maxPause))
	}
}

// shut tells why nothing is let in, "" if something is.
func (g *gate) shut(now time.Time) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failures < tripAfter || !g.trial && !now.Before(g.until) {
		return ""
	}
	return "it failed several times in a row: the last time it " + g.last
}

type health int

const (
	saysNothing health = iota
	saysWell
	saysIll
)

// judgeEnd tells what the end of a request says of its server. A refusal to
// connect says that the server is away, which costs nobody anything to find
// out; and what a client or a limit of the crib ended says nothing.
func judgeEnd(err error) (why string, v health) {
	if err == nil {
		return "", saysWell
	}
	if _, refused := errors.AsType[*refusedError](err); refused {
		return "", saysNothing
	}
	switch crib.CodeOf(err) {
	case crib.Timeout:
		return "did not answer in time", saysIll
	case crib.Unknown:
		return "broke off", saysIll
	case crib.Unavailable:
		return "could not be reached", saysIll
	}
	return "", saysNothing
}
