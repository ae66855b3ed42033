package mcphttp

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// Limits of streams.
const (
	KeepAlive    = 15 * time.Second // between comments on a quiet stream; also until a quiet request becomes one
	MaxBehind    = 4 << 20          // bytes that a client may be behind before its stream is cut
	KeptIdle     = 64 << 10         // bytes kept for a legacy client while no stream of its own is open
	KeptEvents   = 256 << 10        // bytes kept of each stream that may be taken up again
	KeptStreams  = 8                // streams of a legacy session that may be taken up again
	standingName = "0"              // the stream that belongs to no request
)

// stream is a sequence of events to one client: written by the requests that
// cause them, read by the connection that carries them. A legacy stream has a
// name; its events have ids made of it, and can be read again from any of them
// that is still kept (2025-11-25, Transports, Resumability).
type stream struct {
	name string // "" for a modern one, whose events have no ids

	mu     sync.Mutex // guards all below
	events [][]byte   // [i] is event number first+i
	first  int
	size   int           // bytes of events
	unread int           // bytes behind the reader
	reader int           // number of the event that is read next
	ended  bool          // there will be no more
	lost   bool          // the reader was too far behind; what was to be read then is gone, but for the last event
	wake   chan struct{} // closed and replaced at each change
	taken  chan struct{} // of the connection that carries the stream; closed when another one takes it
	limit  int           // bytes that may be unread
}

func newModernStream() *stream { return newStream("", MaxBehind) }

func newStream(name string, limit int) *stream {
	return &stream{name: name, limit: limit, wake: make(chan struct{})}
}

func (s *stream) signal() {
	close(s.wake)
	s.wake = make(chan struct{})
}

// push adds an event. It never blocks: a reader that is too far behind loses
// what it did not read, and a standing stream that nobody reads its oldest
// events.
func (s *stream) push(body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.lost {
		return
	}
	if s.unread > s.limit && s.name != standingName {
		// It was behind before this event: an event of any size goes to a
		// client that reads.
		s.lost = true
		s.forget()
		s.signal()
		return
	}
	s.append(body)
	for s.name == standingName && s.unread > s.limit && len(s.events) > 1 {
		s.drop()
	}
	s.trim()
	s.signal()
}

// finish adds the last event, which is kept whatever became of the others: it
// is the answer, and the request will not be sent again for it.
func (s *stream) finish(body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.append(body)
	s.ended = true
	s.signal()
}

func (s *stream) append(body []byte) {
	s.events = append(s.events, body)
	s.size += len(body)
	s.unread += len(body)
}

// drop forgets the oldest event.
func (s *stream) drop() {
	s.size -= len(s.events[0])
	if s.reader <= s.first {
		s.unread -= len(s.events[0])
		s.reader = s.first + 1
	}
	s.events[0] = nil
	s.events = s.events[1:]
	s.first++
}

// forget drops all events.
func (s *stream) forget() {
	for len(s.events) > 0 {
		s.drop()
	}
}

// trim forgets events that were read: all of a modern stream, of a legacy one
// what is more than may be asked for again, but never its last.
func (s *stream) trim() {
	keep, least := KeptEvents, 1
	if s.name == "" {
		keep, least = 0, 0
	}
	for s.first < s.reader && len(s.events) > least && s.size > keep {
		s.drop()
	}
}

// end says that no more events come.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended = true
		s.signal()
	}
}

// onward is the place of attach that goes on where the stream was read last.
const onward = -1

// attach makes the caller the one connection that carries the stream, from
// event number n on or onward: the newest one wins, since the one before may
// hang half open and would swallow events. taken is closed when another one
// attaches. It reports false if event n is no longer kept.
func (s *stream) attach(n int) (taken chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n != onward {
		if n > s.first+len(s.events) || n < s.first && !s.lost {
			return nil, false
		}
		n = max(n, s.first)
		s.reader, s.unread, s.lost = n, 0, false
		for _, ev := range s.events[n-s.first:] {
			s.unread += len(ev)
		}
	}
	if s.taken != nil {
		close(s.taken)
	}
	s.taken = make(chan struct{})
	return s.taken, true
}

// next returns the events that were not read, or a channel to wait on. It
// gives nothing to a connection from which the stream was taken.
func (s *stream) next(taken chan struct{}) (events [][]byte, number int, over bool, wake <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost || s.taken != taken {
		return nil, 0, true, nil
	}
	return slices.Clone(s.events[s.reader-s.first:]), s.reader, s.ended, s.wake
}

// read notes that a connection has written the events before number n.
func (s *stream) read(taken chan struct{}, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken != taken || s.lost {
		return
	}
	for ; s.reader < n; s.reader++ {
		s.unread -= len(s.events[s.reader-s.first])
	}
	s.trim()
}

// eventID is the id of event number n of a legacy stream.
func (s *stream) eventID(n int) string {
	if s.name == "" {
		return ""
	}
	return s.name + "-" + strconv.Itoa(n)
}

// parseEventID takes an id apart into the stream and the number of the event.
func parseEventID(id string) (name string, n int, ok bool) {
	name, num, ok := strings.Cut(id, "-")
	n, err := strconv.Atoi(num)
	return name, n, ok && err == nil && n >= -1
}

// commit writes the head of an event stream.
func commit(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
}

// carry writes the stream to a client until the stream is over or was taken,
// gone is closed or the client does not take it; it reports whether the client
// got all of it.
// prime sends an event id at the start, from which a client can take the
// stream up again.
func (s *stream) carry(w http.ResponseWriter, taken chan struct{}, gone <-chan struct{}, keepAlive time.Duration, prime bool) bool {
	rc := http.NewResponseController(w)
	beat := time.NewTicker(keepAlive)
	defer beat.Stop()
	var buf []byte
	if prime {
		buf = fmt.Appendf(buf, "id: %s\ndata: \n\n", s.eventID(s.position()-1))
	} else {
		buf = wire.AppendComment(buf)
	}
	for {
		events, n, over, wake := s.next(taken)
		for i, ev := range events {
			buf = wire.AppendEvent(buf, s.eventID(n+i), ev)
		}
		if len(buf) > 0 {
			if err := write(w, rc, buf); err != nil {
				return false
			}
			s.read(taken, n+len(events))
			buf = buf[:0]
		}
		if over {
			return !s.isLost(taken)
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-wake:
		case <-gone:
			return false
		case <-taken:
			return false
		case <-beat.C:
			buf = wire.AppendComment(buf)
		}
	}
}

func (s *stream) isLost(taken chan struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost || s.taken != taken
}

func (s *stream) position() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reader
}

func write(w http.ResponseWriter, rc *http.ResponseController, b []byte) error {
	if _, err := w.Write(b); err != nil {
		return err
	}
	return rc.Flush()
}

// hub holds the streams of one legacy session. It is the session's Outlet.
type hub struct {
	standing *stream

	mu      sync.Mutex // guards all below
	next    int
	streams []*stream // that may be taken up again, oldest first
}

func newHub() *hub { return &hub{standing: newStream(standingName, KeptIdle)} }

// Push sends what belongs to no request.
func (h *hub) Push(body []byte) { h.standing.push(body) }

// Close ends the standing stream. Those of open requests end with these.
func (h *hub) Close() { h.standing.end() }

// open makes the stream of a request.
func (h *hub) open() *stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next++
	s := newStream(strconv.Itoa(h.next), MaxBehind)
	h.streams = append(h.streams, s)
	if len(h.streams) > KeptStreams {
		h.streams = h.streams[1:]
	}
	return s
}

// find returns the stream of an event id, nil if it is not kept.
func (h *hub) find(name string) *stream {
	if name == standingName {
		return h.standing
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.streams {
		if s.name == name {
			return s
		}
	}
	return nil
}
