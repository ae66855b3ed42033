package child

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// stderrLog keeps the end of what a child writes to stderr. Writing to it
// never waits for anybody.
type stderrLog struct {
	keep int

	mu    sync.Mutex // guards kept and cut
	kept  []byte     // at most twice keep, so that bytes are moved seldom
	isCut bool       // something before kept was dropped

	hook     chan []byte   // nil without a hook
	hookDone chan struct{} // closed when the hook has had everything
	dropped  atomic.Int64  // chunks that the hook missed
}

func newStderrLog(keep int, onStderr func([]byte)) *stderrLog {
	l := &stderrLog{keep: keep, hookDone: make(chan struct{})}
	if onStderr == nil {
		close(l.hookDone)
		return l
	}
	l.hook = make(chan []byte, hookQueue)
	go func() {
		defer close(l.hookDone)
		for chunk := range l.hook {
			onStderr(chunk)
		}
	}()
	return l
}

func (l *stderrLog) write(chunk []byte) {
	l.remember(chunk)
	if l.hook == nil {
		return
	}
	select {
	case l.hook <- bytes.Clone(chunk):
	default:
		l.dropped.Add(1)
	}
}

func (l *stderrLog) remember(chunk []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(chunk) > l.keep {
		chunk = chunk[len(chunk)-l.keep:]
		l.kept, l.isCut = l.kept[:0], true
	}
	l.kept = append(l.kept, chunk...)
	if len(l.kept) > 2*l.keep {
		l.kept = slices.Delete(l.kept, 0, len(l.kept)-l.keep)
		l.isCut = true
	}
}

// close ends the hook. Nothing may be written afterwards.
func (l *stderrLog) close() {
	if l.hook != nil {
		close(l.hook)
	}
}

func (l *stderrLog) tail(n int) string {
	text, isCut := l.last()
	lines := strings.Split(strings.TrimRight(text, "\r\n"), "\n")
	if isCut && len(lines) > 1 {
		lines = lines[1:] // its beginning is missing
	}
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	for i, line := range lines {
		lines[i] = afterRedraws(line)
	}
	return strings.Join(lines, "\n")
}

func (l *stderrLog) last() (text string, isCut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := max(0, len(l.kept)-l.keep)
	return string(l.kept[from:]), l.isCut || from > 0
}

// afterRedraws returns what a terminal would show of a line that moves back to
// its start with carriage returns, as progress bars do.
func afterRedraws(line string) string {
	line = strings.TrimRight(line, "\r")
	return line[strings.LastIndexByte(line, '\r')+1:]
}
