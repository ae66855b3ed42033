package mcptest

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// stream holds the messages of one answer, or of the channel of a session, so
// that a client can come back for those it has not seen.
type stream struct {
	id string

	mu      sync.Mutex    // guards what follows
	lines   [][]byte      // the messages
	final   bool          // the last of lines is the answer
	closed  bool          // nothing more will come
	changed chan struct{} // closed and replaced at every change
	next    int           // the first message that nobody has read
	reading bool
}

func newStream(id string) *stream { return &stream{id: id, changed: make(chan struct{})} }

func (s *stream) add(line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.lines = append(s.lines, line)
	s.wake()
}

// finish adds the answer, if it is not nil, and closes the stream.
func (s *stream) finish(answer []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if answer != nil {
		s.lines = append(s.lines, answer)
		s.final = true
	}
	s.closed = true
	s.wake()
}

// wake tells those who wait. The caller holds mu.
func (s *stream) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// state returns the messages from n on and what to wait for when there are
// none.
func (s *stream) state(n int) (lines [][]byte, final, closed bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n < len(s.lines) {
		lines = s.lines[n:]
	}
	return lines, s.final, s.closed, s.changed
}

// begin claims the stream for a reader that has no event id, and returns where
// it reads on. Two at one time are refused.
func (s *stream) begin() (from int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reading {
		return 0, false
	}
	s.reading = true
	return s.next, true
}

func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = false
}

func (s *stream) read(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = max(s.next, n)
}

// eventID is the id of the event that carries message n. Number -1 is the
// event before the first message.
func (s *stream) eventID(n int) string { return fmt.Sprintf("%s/%d", s.id, n) }

func parseEventID(id string) (streamID string, n int, ok bool) {
	streamID, number, found := strings.Cut(id, "/")
	n, err := strconv.Atoi(number)
	return streamID, n, found && err == nil && n >= -1
}

// writer sends a stream to one client.
type writer struct {
	w       http.ResponseWriter
	style   SSEStyle
	ids     bool // events have ids
	noFinal bool // stop before the answer
	early   bool // stop before the first message
}

// start sends the header, and with ids an empty event by which the client can
// come back (2025-11-25, Streamable HTTP, Resumability).
func (o *writer) start(s *stream) {
	o.style.StartSSE(o.w)
	if o.ids {
		o.style.WriteSSE(o.w, Event{ID: s.eventID(-1)})
	}
}

// copy sends the messages from number from on until the stream is closed, ctx
// ends, or the writer has to stop.
func (o *writer) copy(ctx context.Context, s *stream, from int) {
	if o.early {
		return
	}
	for n := from; ; {
		lines, final, closed, changed := s.state(n)
		for i, line := range lines {
			isAnswer := final && i == len(lines)-1
			if isAnswer && o.noFinal {
				return
			}
			e := Event{Name: "message", Data: string(line)}
			if o.ids {
				e.ID = s.eventID(n)
			}
			o.style.WriteSSE(o.w, e)
			n++
			s.read(n)
		}
		if closed {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
