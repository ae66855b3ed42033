// Package task knows the tasks that servers gave in the place of results: which
// result is one, and whose it is.
package task

import (
	"strconv"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Limits of tasks.
const (
	Max     = 1_000              // of a principal, that the crib knows at one time; over it, the oldest is forgotten
	MaxTime = 7 * 24 * time.Hour // that a task is known for whose server gives it no end, and the most for any
)

// Registry is the tasks that servers gave in the place of results (2025-11-25,
// Tasks; SEP-2663). Whoever has a task's id could read its result: so only the
// principal that called may use it, and anybody else's looks as if there were
// none.
type Registry struct {
	mu sync.Mutex // guards of
	of map[crib.Principal]map[string]Task
}

// Task is one of a principal, by its id.
type Task struct {
	Server  string
	Session string // of the legacy client that called; "" for a modern one
	Began   time.Time
	Expires time.Time
}

// NewRegistry knows of no task.
func NewRegistry() *Registry { return &Registry{of: make(map[crib.Principal]map[string]Task)} }

// Add notes a task. It is false if the principal has one of this id at another
// server: nobody could say which of them is meant.
func (ts *Registry) Add(p crib.Principal, id string, t Task) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	own := ts.of[p]
	if own == nil {
		own = make(map[string]Task)
		ts.of[p] = own
	}
	oldest, over := "", len(own) >= Max
	for known, k := range own {
		switch {
		case !t.Began.Before(k.Expires):
			delete(own, known)
		case over && (oldest == "" || k.Began.Before(own[oldest].Began)):
			oldest = known
		}
	}
	if twice, ok := own[id]; ok && twice.Server != t.Server {
		return false
	}
	if len(own) >= Max {
		delete(own, oldest)
	}
	own[id] = t
	return true
}

// Get finds a task of a principal.
func (ts *Registry) Get(p crib.Principal, id string, now time.Time) (Task, bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t, ok := ts.of[p][id]
	return t, ok && now.Before(t.Expires)
}

// Caller is whose task of a server an id is, and in which session.
func (ts *Registry) Caller(server, id string) (p crib.Principal, session string, ok bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for p, own := range ts.of {
		if t, ok := own[id]; ok && t.Server == server {
			return p, t.Session, true
		}
	}
	return crib.Principal{}, "", false
}

// In is the raw task in the result of a call, nil if it is an ordinary one:
// a result of that type (SEP-2663), or its member of that name, which legacy
// servers give and modern ones gave before.
func In(era wire.Era, result []byte) []byte {
	if !wire.MayHave(result, "taskId") {
		return nil
	}
	if own := wire.Get(result, "task"); wire.Get(own, "taskId") != nil {
		return own
	}
	if kind, _ := wire.GetText(result, "resultType"); era == wire.Modern && kind == "task" {
		return result
	}
	return nil
}

// Time is how long a raw task is kept by its server, by the name that its
// era gives that.
func Time(raw []byte) time.Duration {
	for _, key := range []string{"ttlMs", "ttl"} {
		if ms, err := strconv.ParseInt(string(wire.Get(raw, key)), 10, 64); err == nil && ms > 0 && ms < MaxTime.Milliseconds() {
			return time.Duration(ms) * time.Millisecond
		}
	}
	return MaxTime
}
