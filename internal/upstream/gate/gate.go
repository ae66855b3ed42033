// Package gate lets requests to a server in: no more than it can take, within
// so much memory, and none, but for one trial now and then, while the server
// fails one after the other.
package gate

import (
	"context"
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
	MaxQueued    = 64               // requests that wait for a place at one server
	QueueTime    = 10 * time.Second // how long one waits for a place
	MaxOpenTotal = 1024             // requests open at all servers, those that wait included
	MaxHeld      = 64 << 20         // bytes of requests and answers in memory for one server
	MaxHeldTotal = 256 << 20        // bytes of them for all servers
	TripAfter    = 5                // failures in a row before a server is left alone for a while

	// A server is left alone for as long as the last failure took, within
	// these: what fails at once may be tried again soon.
	MinPause = 250 * time.Millisecond
	MaxPause = 30 * time.Second
)

// Total counts what all servers of a crib have open together.
type Total struct {
	open atomic.Int64
	held atomic.Int64
}

// Gate is that of one server.
type Gate struct {
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

// New makes the gate of the server with a name. total counts for all of them.
func New(name string, total *Total) *Gate {
	return &Gate{name: name, total: total, places: semaphore.NewWeighted(MaxOpen)}
}

// Ticket is the right to have one request open at a server.
type Ticket struct {
	g     *Gate
	began time.Time // when it was let in
	trial bool      // its end tells whether the server is well

	mu    sync.Mutex // guards held, ended
	held  int64
	ended bool
}

// Admit lets in a request of size bytes, or tells why it does not: Busy where
// it would be over a limit, Unavailable where the server is left alone. Nothing
// was sent then. The ticket must be ended.
func (g *Gate) Admit(ctx context.Context, size int) (*Ticket, error) {
	t := &Ticket{g: g}
	var err error
	if t.trial, err = g.takeTrial(time.Now()); err != nil {
		return nil, err
	}
	if err := g.enter(ctx, t, size); err != nil {
		t.giveTrialBack()
		return nil, err
	}
	t.began = time.Now()
	if t.trial {
		return t, nil
	}
	if t.trial, err = g.takeTrial(t.began); err != nil { // the server may have failed while the request waited
		t.leave()
		return nil, err
	}
	return t, nil
}

func (g *Gate) enter(ctx context.Context, t *Ticket, size int) error {
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
func (g *Gate) place(ctx context.Context) error {
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

// Hold counts n more bytes that are kept in memory for the request. What comes
// behind its end is counted no more: nobody would give it back.
func (t *Ticket) Hold(n int) *crib.Error {
	if t == nil {
		return nil
	}
	mine, all, ended := t.count(int64(n))
	if ended {
		return nil
	}
	if mine > MaxHeld {
		return crib.Errorf(crib.TooLarge, "what server %s is asked and answers at this moment is more than %d bytes", t.g.name, MaxHeld)
	}
	if all > MaxHeldTotal {
		return crib.Errorf(crib.TooLarge, "what all servers are asked and answer at this moment is more than %d bytes", MaxHeldTotal)
	}
	return nil
}

func (t *Ticket) count(n int64) (mine, all int64, ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return 0, 0, true
	}
	t.held += n
	return t.g.held.Add(n), t.g.total.held.Add(n), false
}

// Reader counts what is read from a server and kept for a request.
type Reader struct {
	From   io.Reader
	Ticket *Ticket // nil counts nothing

	n int
}

func (h *Reader) Read(p []byte) (int, error) {
	n, err := h.From.Read(p)
	h.n += n
	if over := h.Ticket.Hold(n); over != nil {
		return 0, over
	}
	return n, err
}

// Drop says that what was read until now is not kept any more.
func (h *Reader) Drop() {
	h.Ticket.Hold(-h.n) //nolint:errcheck // less is never over a limit
	h.n = 0
}

func (t *Ticket) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.g.held.Add(-t.held)
	t.g.total.held.Add(-t.held)
	t.g.total.open.Add(-1)
	t.g.places.Release(1)
}

// End gives the place back. It is called once.
func (t *Ticket) End() {
	t.leave()
	t.giveTrialBack()
}

func (t *Ticket) giveTrialBack() {
	if !t.trial {
		return
	}
	t.g.mu.Lock()
	defer t.g.mu.Unlock()
	t.g.trial = false
}

// Health is what the end of a request says of its server.
type Health int

// What it can say.
const (
	Nothing Health = iota
	Well
	Ill
)

// Report tells how the request went that a server was given. why says what an
// ill server did, in words that follow "the last time it".
func (t *Ticket) Report(h Health, why string) { t.g.learn(t, h, why, time.Now()) }

// takeTrial reports whether the server may be asked. Behind the pause one
// request may, to see whether it is well: who is told so holds the trial.
func (g *Gate) takeTrial(now time.Time) (trial bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failures < TripAfter {
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
func (g *Gate) learn(t *Ticket, h Health, why string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case h == Nothing:
	case h == Well:
		g.failures, g.last = 0, ""
	case t.began.Before(g.at):
		// It was open when the last one failed: one event, not two.
	default:
		g.failures++
		g.last, g.at = why, now
		g.until = now.Add(min(max(now.Sub(t.began), MinPause), MaxPause))
	}
}

// Shut tells why nothing is let in, "" if something is.
func (g *Gate) Shut() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failures < TripAfter || !g.trial && !time.Now().Before(g.until) {
		return ""
	}
	return "it failed several times in a row: the last time it " + g.last
}

// Queued is how many requests wait for a place.
func (g *Gate) Queued() int { return int(g.queued.Load()) }

// Held is how many bytes are kept in memory for the server's requests.
func (g *Gate) Held() int64 { return g.held.Load() }

func unavailable(server, format string, args ...any) *crib.Error {
	return crib.Errorf(crib.Unavailable, "server %s "+format, append([]any{server}, args...)...)
}
