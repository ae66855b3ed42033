package mcptest

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
)

// Event is one Server-Sent Event.
type Event struct {
	ID    string
	HasID bool   // an id field was there, maybe an empty one
	Name  string // "" is message
	Data  string
	Retry string
}

// SSEStyle is how a server spells its events. The zero style is the usual one.
type SSEStyle struct {
	End       string // of a line: "" is LF; others are CRLF and CR
	Mark      bool   // a byte order mark before the first event
	Comments  bool   // a comment before each event
	SplitData bool   // a message goes on two data lines
	Trickle   bool   // every byte is sent by itself
}

// splitAt is where SplitData breaks a message: between two tokens of JSON.
const splitAt = `{"jsonrpc":"2.0",`

// Encode returns the event as it is sent.
func (s SSEStyle) Encode(e Event) []byte {
	end := s.End
	if end == "" {
		end = "\n"
	}
	var out strings.Builder
	line := func(parts ...string) {
		for _, part := range parts {
			out.WriteString(part)
		}
		out.WriteString(end)
	}
	if s.Comments {
		line(": comment")
		line()
	}
	if e.Name != "" {
		line("event: ", e.Name)
	}
	if e.HasID || e.ID != "" {
		line("id: ", e.ID)
	}
	if e.Retry != "" {
		line("retry: ", e.Retry)
	}
	data := e.Data
	if rest, ok := strings.CutPrefix(data, splitAt); ok && s.SplitData {
		data = splitAt + "\n" + rest
	}
	for part := range strings.SplitSeq(data, "\n") {
		line("data: ", part)
	}
	line()
	return []byte(out.String())
}

// StartSSE sends the header of an event stream, and the mark if the style has
// one.
func (s SSEStyle) StartSSE(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	if s.Mark {
		s.write(w, []byte("\uFEFF"))
	}
	flush(w)
}

// WriteSSE sends events.
func (s SSEStyle) WriteSSE(w http.ResponseWriter, events ...Event) {
	for _, e := range events {
		s.write(w, s.Encode(e))
	}
}

func (s SSEStyle) write(w http.ResponseWriter, b []byte) {
	step := len(b)
	if s.Trickle {
		step = 1
	}
	for ; len(b) > 0; b = b[step:] {
		if _, err := w.Write(b[:step]); err != nil {
			return // the client left
		}
		flush(w)
	}
}

func flush(w http.ResponseWriter) {
	// The error is that the client left, which the next write says too.
	_ = http.NewResponseController(w).Flush()
}

// readEvents reads an event stream by the rules of WHATWG HTML and hands over
// its events and comments until it ends.
func readEvents(r io.Reader, event func(Event), comment func(string)) error {
	lines := sseLines{r: bufio.NewReader(r)}
	var e Event
	var data []string
	for {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			return nil // an unfinished event is dropped
		}
		if err != nil {
			return err
		}
		if line == "" {
			if len(data) > 0 || e.HasID {
				e.Data = strings.Join(data, "\n")
				event(e)
			}
			e, data = Event{}, nil
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "":
			comment(value)
		case "data":
			data = append(data, value)
		case "id":
			e.ID, e.HasID = value, true
		case "event":
			e.Name = value
		case "retry":
			e.Retry = value
		}
	}
}

// sseLines cuts a stream at LF, CR and CRLF.
type sseLines struct {
	r       *bufio.Reader
	begun   bool
	afterCR bool
}

// next returns the next line that has an end. A CR ends a line at once: the LF
// that may follow is skipped with the next one, since it may never come.
func (l *sseLines) next() (string, error) {
	var line []byte
	for {
		b, err := l.r.ReadByte()
		if err != nil {
			return "", err
		}
		skip := b == '\n' && l.afterCR
		l.afterCR = b == '\r'
		if skip {
			continue
		}
		if b == '\n' || b == '\r' {
			text := string(line)
			if !l.begun {
				text = strings.TrimPrefix(text, "\uFEFF")
			}
			l.begun = true
			return text, nil
		}
		line = append(line, b)
	}
}
