// Package alarm wakes those who have waited for so long, all with one timer: a
// timer for each call costs more than all that a call asks of it, which is
// mostly to be stopped again.
package alarm

import (
	"sync"
	"time"
)

// Queue rings for each of its entries when it has been in it for a time that is
// the same for all. The zero Queue cannot be used; see New.
type Queue struct {
	after time.Duration

	mu    sync.Mutex // guards all below
	first *Entry     // the one that is due next
	last  *Entry
	timer *time.Timer // made by the first entry
	armed bool        // the timer runs; it may be for an entry that has left
}

// Waiter is rung for when it has waited for long enough.
type Waiter interface{ Ring() }

// Entry is a place in a queue, to be kept inside of what waits.
type Entry struct {
	who        Waiter
	due        time.Time
	prev, next *Entry
	in         bool
}

// New makes a queue whose entries are rung for after a time.
func New(after time.Duration) *Queue { return &Queue{after: after} }

// After is how long an entry waits.
func (q *Queue) After() time.Duration { return q.after }

// Add has who rung for, on a goroutine of its own and once, if e is not removed
// before. now is the time.
func (q *Queue) Add(e *Entry, now time.Time, who Waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	*e = Entry{who: who, due: now.Add(q.after), prev: q.last, in: true}
	if q.last == nil {
		q.first = e
	} else {
		q.last.next = e
	}
	q.last = e
	switch {
	case q.armed:
		return
	case q.timer == nil:
		q.timer = time.AfterFunc(q.after, q.wake)
	default:
		q.timer.Reset(q.after)
	}
	q.armed = true
}

// Remove takes e out. It reports false if it was not in: it never was, or is
// being rung for.
func (q *Queue) Remove(e *Entry) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.remove(e)
}

func (q *Queue) remove(e *Entry) bool {
	if !e.in {
		return false
	}
	if e.prev == nil {
		q.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		q.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	*e = Entry{}
	return true
}

// wake rings for those that are due, and sets the timer for the next one.
func (q *Queue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for q.first != nil && !q.first.due.After(now) {
		who := q.first.who
		q.remove(q.first)
		go who.Ring()
	}
	if q.armed = q.first != nil; q.armed {
		q.timer.Reset(q.first.due.Sub(now))
	}
}
