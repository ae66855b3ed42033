package legacy

import (
	"slices"
	"sync"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// moreVerbose returns the more verbose of two levels; "" is none.
func moreVerbose(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "" || slices.Index(wire.LogLevels, a) <= slices.Index(wire.LogLevels, b):
		return a
	}
	return b
}

// Levels knows from which level on each legacy server was asked to log. A
// server that several clients share logs for the most curious of them; each
// gets what it asked for.
type Levels struct {
	mu   sync.Mutex             // guards all below
	most string                 // of all sessions
	told map[*wire.Hello]string // by what the server said when it was connected: a new connection knows nothing
}

// NewLevels knows of no level.
func NewLevels() *Levels { return &Levels{told: make(map[*wire.Hello]string)} }

// Recount takes the most verbose level of the sessions.
func (l *Levels) Recount(all []*Session) {
	most := ""
	for _, s := range all {
		most = moreVerbose(most, s.WantedLevel())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most = most
}

// Due returns the level that a server has to be told, "" if it knows.
func (l *Levels) Due(h *wire.Hello, own string, shared bool) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	told := l.told[h]
	if shared {
		if want := moreVerbose(own, l.most); want != "" && moreVerbose(told, want) != told {
			return want
		}
		return ""
	}
	if own != told {
		return own
	}
	return ""
}

// Note keeps what a server was told, until Forget. It reports whether nothing
// was kept of it before.
func (l *Levels) Note(h *wire.Hello, level string) (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known := l.told[h]
	l.told[h] = level
	return !known
}

// Forget drops what a server was told whose connection has ended.
func (l *Levels) Forget(h *wire.Hello) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.told, h)
}
