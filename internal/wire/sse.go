package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

const (
	// EventPrefix is how many bytes of the data of an event that is too large
	// are kept: enough to find the id of a JSON-RPC response in it.
	EventPrefix = 4 << 10

	// maxEventField is the greatest size in bytes of the value of an id, event
	// or retry field.
	maxEventField = 4 << 10

	// eventBuffer is how many bytes are read at once. Each open stream holds
	// one such buffer.
	eventBuffer = 16 << 10

	// maxEmptyReads is how many reads in a row may return neither bytes nor an
	// error.
	maxEmptyReads = 100
)

// ErrTooLarge is wrapped by the errors about things that are over a size limit.
var ErrTooLarge = errors.New("larger than the limit")

// Event is one event of an event stream (WHATWG HTML, Server-sent events).
type Event struct {
	ID    string
	HasID bool          // an id field was there; an empty ID resets the last event id
	Name  string        // "" means message
	Data  []byte        // the data lines joined with LF; the reader does not use it again
	Retry time.Duration // 0 if not given
}

// EventTooLargeError is the error about one event that was over the limit.
// The stream can be read on.
type EventTooLargeError struct {
	Limit int   // in bytes
	Event Event // as it came, but with at most EventPrefix bytes of Data
}

func (e *EventTooLargeError) Error() string {
	return fmt.Sprintf("event %s of %d bytes", ErrTooLarge, e.Limit)
}

// Unwrap makes errors.Is(e, ErrTooLarge) true.
func (e *EventTooLargeError) Unwrap() error { return ErrTooLarge }

// EventReader reads an event stream. It holds one event at most, and no more
// of it than its limit.
type EventReader struct {
	lines   lineReader
	max     int
	field   eventField // of the line that is being read
	value   []byte     // of that field, if it is not data
	event   Event
	hasData bool // event has a data line, maybe an empty one
	over    bool // event is over a limit
	told    bool // Next has said so
}

type eventField int

const (
	otherField eventField = iota // a comment, or a field that nobody knows
	dataField
	idField
	nameField
	retryField
)

// NewEventReader reads events from r. The data of one event may have maxEvent
// bytes.
func NewEventReader(r io.Reader, maxEvent int) *EventReader {
	return &EventReader{lines: newLineReader(r), max: maxEvent}
}

// Next returns the next event that carries data, an id or a retry time. An
// event with an id alone is returned too, with no Data, because the id is
// where the stream is resumed. An event that the stream ends in is dropped.
//
// The error of one event that is over the limit is an *EventTooLargeError, as
// soon as it is over: it may never end. The next call goes on behind it. At the end of the stream the error
// is io.EOF. Every other error is the reader's.
func (r *EventReader) Next() (Event, error) {
	for {
		part, err := r.lines.next()
		if err != nil {
			return Event{}, err
		}
		if part.first && part.last && len(part.text) == 0 {
			event, over := r.take()
			if over {
				continue
			}
			if len(event.Data) > 0 || event.HasID || event.Retry > 0 {
				return event, nil
			}
			continue
		}
		text := part.text
		if part.first {
			text = r.begin(part)
		}
		r.add(text)
		if part.last {
			r.commit()
		}
		if r.over && !r.told {
			r.told = true
			return Event{}, &EventTooLargeError{Limit: r.max, Event: r.event}
		}
	}
}

// begin reads the field name at the start of a line and returns what follows.
func (r *EventReader) begin(p linePart) []byte {
	r.value = r.value[:0]
	r.field = otherField
	name, value, colon := bytes.Cut(p.text, []byte(":"))
	if !colon && !p.last {
		return nil // the part is longer than any known name
	}
	switch string(name) {
	case "data":
		r.field = dataField
		if r.hasData {
			r.addData([]byte("\n"))
		}
		r.hasData = true
	case "id":
		r.field = idField
	case "event":
		r.field = nameField
	case "retry":
		r.field = retryField
	}
	return bytes.TrimPrefix(value, []byte(" "))
}

func (r *EventReader) add(text []byte) {
	switch {
	case r.field == otherField:
	case r.field == dataField:
		r.addData(text)
	case len(r.value)+len(text) > maxEventField:
		r.field = otherField
		r.overflow()
	default:
		r.value = append(r.value, text...)
	}
}

func (r *EventReader) addData(text []byte) {
	if len(r.event.Data)+len(text) > r.max {
		r.overflow()
	}
	if r.over {
		text = text[:min(len(text), EventPrefix-len(r.event.Data))]
	}
	r.event.Data = append(r.event.Data, text...)
}

// overflow lets go of everything but the prefix.
func (r *EventReader) overflow() {
	if r.over {
		return
	}
	r.over = true
	r.event.Data = bytes.Clone(r.event.Data[:min(len(r.event.Data), EventPrefix)])
}

// commit ends a line.
func (r *EventReader) commit() {
	switch r.field {
	case idField:
		if bytes.IndexByte(r.value, 0) < 0 {
			r.event.ID, r.event.HasID = string(r.value), true
		}
	case nameField:
		r.event.Name = string(r.value)
	case retryField:
		// 32 bits of milliseconds are 49 days; more is taken for nonsense.
		if ms, err := strconv.ParseUint(string(r.value), 10, 32); err == nil {
			r.event.Retry = time.Duration(ms) * time.Millisecond
		}
	}
}

// take returns what was read since the last blank line.
func (r *EventReader) take() (event Event, over bool) {
	event, over = r.event, r.over
	r.event, r.hasData, r.over, r.told = Event{}, false, false, false
	return event, over
}

// minLinePart is the least length of the first part of a line that is longer:
// the longest known field name with its colon and the space behind it.
const minLinePart = len("event: ")

// linePart is a line or a part of one, without its end.
type linePart struct {
	text        []byte // valid until the next read
	first, last bool
}

// lineReader splits a stream at LF, CR and CRLF. It hands out long lines in
// parts, so that it never has to hold one.
type lineReader struct {
	src      io.Reader
	err      error // what src ended with
	buf      []byte
	pos, end int // buf[pos:end] is still to be handed out
	lf, cr   int // the next of each at or behind pos, or end; to be searched if less than pos
	begun    bool
	midLine  bool
	afterCR  bool // an LF that comes now belongs to the CR before it
}

func newLineReader(src io.Reader) lineReader {
	return lineReader{src: src, buf: make([]byte, eventBuffer), lf: -1, cr: -1}
}

// next returns the next part of a line. It does not wait for the byte behind
// a CR: the event that the CR ends may be the last one for a long time.
func (l *lineReader) next() (linePart, error) {
	if err := l.skipBOM(); err != nil {
		return linePart{}, err
	}
	p := linePart{first: !l.midLine}
	for {
		if l.afterCR && l.pos < l.end {
			l.afterCR = false
			if l.buf[l.pos] == '\n' {
				l.pos++
			}
		}
		to := l.lineEnd()
		p.text = l.buf[l.pos:to]
		if to < l.end {
			p.last = true
			l.midLine = false
			l.afterCR = l.buf[to] == '\r'
			l.pos = to + 1
			return p, nil
		}
		if len(p.text) >= minLinePart || len(p.text) > 0 && !p.first {
			l.midLine = true
			l.pos = to
			return p, nil
		}
		if err := l.fill(); err != nil {
			return linePart{}, err
		}
	}
}

// lineEnd returns where the line at pos ends, or end. Both bytes are searched
// for separately and remembered, so that a stream that uses only one of them
// is not searched to its end on each line for the other.
func (l *lineReader) lineEnd() int {
	if l.lf < l.pos {
		l.lf = l.search('\n')
	}
	if l.cr < l.pos {
		l.cr = l.search('\r')
	}
	return min(l.lf, l.cr)
}

func (l *lineReader) search(c byte) int {
	if i := bytes.IndexByte(l.buf[l.pos:l.end], c); i >= 0 {
		return l.pos + i
	}
	return l.end
}

var byteOrderMark = []byte("\uFEFF")

func (l *lineReader) skipBOM() error {
	for !l.begun {
		have := l.buf[l.pos:l.end]
		if len(have) < len(byteOrderMark) && bytes.HasPrefix(byteOrderMark, have) {
			if err := l.fill(); err != nil {
				return err
			}
			continue
		}
		if bytes.HasPrefix(have, byteOrderMark) {
			l.pos += len(byteOrderMark)
		}
		l.begun = true
	}
	return nil
}

// fill reads at least one byte behind what is still to be handed out, which is
// less than minLinePart.
func (l *lineReader) fill() error {
	l.end = copy(l.buf, l.buf[l.pos:l.end])
	l.pos, l.lf, l.cr = 0, -1, -1
	for range maxEmptyReads {
		if l.err != nil {
			return l.err
		}
		var n int
		n, l.err = l.src.Read(l.buf[l.end:])
		l.end += n
		if n > 0 {
			return nil
		}
	}
	l.err = io.ErrNoProgress
	return l.err
}

// AppendEvent appends an event named message to dst. data is JSON; line breaks
// between its tokens become spaces. An empty id is left out, and so is one
// that the line format cannot carry.
func AppendEvent(dst []byte, id string, data []byte) []byte {
	if id != "" && !strings.ContainsAny(id, "\r\n\x00") {
		dst = append(dst, "id: "...)
		dst = append(dst, id...)
		dst = append(dst, '\n')
	}
	dst = append(dst, "event: message\ndata: "...)
	dst = append(dst, OneLine(data)...)
	return append(dst, "\n\n"...)
}

// AppendComment appends a comment to dst. It keeps an idle stream open and
// carries nothing.
func AppendComment(dst []byte) []byte { return append(dst, ":\n\n"...) }
