package mcpstdio

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/toolcrib/toolcrib/internal/wire"
)

const (
	lineBuffer = 64 << 10 // bytes that are read at once
	linePrefix = 4 << 10  // bytes that are kept of a line that is too long: enough to find its id
	keptBuffer = 1 << 20  // bytes of a write buffer that is used again
)

var byteOrderMark = []byte("\uFEFF")

// line is one message of the client without its line end, or the start of one
// that is too long.
type line struct {
	text []byte
	over bool
}

// readLines hands over the lines of in and closes lines at its end. It stops
// when done is closed, once the read that it waits for returns.
func readLines(in io.Reader, limit int, lines chan<- line, done <-chan struct{}) {
	defer close(lines)
	r := bufio.NewReaderSize(in, lineBuffer)
	for first := true; ; first = false {
		l, err := readLine(r, limit)
		if first {
			l.text = bytes.TrimPrefix(l.text, byteOrderMark)
		}
		if len(bytes.TrimSpace(l.text)) > 0 {
			select {
			case lines <- l:
			case <-done:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// readLine reads a line. What is more than limit is dropped to the line's end.
// An error may come with a last line that has none.
func readLine(r *bufio.Reader, limit int) (line, error) {
	var l line
	for {
		part, err := r.ReadSlice('\n')
		switch {
		case l.over:
		case len(l.text)+len(part) > limit+len("\r\n"):
			l.over = true
			prefix := bytes.Clone(l.text[:min(len(l.text), linePrefix)])
			l.text = append(prefix, part[:min(len(part), linePrefix-len(prefix))]...)
		default:
			l.text = append(l.text, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		l.text = bytes.TrimRight(l.text, "\r\n")
		if len(l.text) > limit {
			l = line{text: l.text[:min(len(l.text), linePrefix)], over: true}
		}
		return l, err
	}
}

// output writes messages to the client, one on a line, each whole.
type output struct {
	w      io.Writer
	failed chan struct{} // closed when nothing more can be written

	mu  sync.Mutex // guards w, buf and err
	buf []byte
	err error
}

func newOutput(w io.Writer) *output { return &output{w: w, failed: make(chan struct{})} }

// send writes a message, unless ctx has ended: whoever ends it can be sure that
// nothing of that kind begins to be written afterwards.
func (o *output) send(ctx context.Context, message []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ctx.Err() != nil || o.err != nil {
		return
	}
	o.buf = append(append(o.buf[:0], bytes.TrimSpace(wire.OneLine(message))...), '\n')
	if _, err := o.w.Write(o.buf); err != nil {
		o.err = fmt.Errorf("write to the client: %w", err)
		close(o.failed)
	}
	if cap(o.buf) > keptBuffer {
		o.buf = nil
	}
}

func (o *output) error() error {
	select {
	case <-o.failed:
		return o.err
	default: // a write may still hang
		return nil
	}
}
