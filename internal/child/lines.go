package child

import "bytes"

var byteOrderMark = []byte("\uFEFF")

// slack is what an unfinished line may have over the limit, since it may turn
// out to be the mark at its start and the CR of its end.
const slack = len("\uFEFF\r")

// splitter cuts a stream into lines and holds at most max bytes and a chunk of
// it at any time.
type splitter struct {
	max        int
	onLine     func(line []byte)
	onOversize func(prefix []byte)

	line  []byte // the unfinished line
	over  bool   // the unfinished line was given up; drop it to its end
	begun bool   // the first line has been seen
}

func (s *splitter) write(chunk []byte) {
	for len(chunk) > 0 {
		part, rest, ended := bytes.Cut(chunk, []byte{'\n'})
		s.add(part)
		if ended {
			s.endLine()
		}
		chunk = rest
	}
}

// end hands over a last line that has no line end.
func (s *splitter) end() { s.endLine() }

func (s *splitter) add(part []byte) {
	switch {
	case s.over:
	case len(s.line)+len(part) > s.max+slack:
		s.giveUp(part)
	default:
		s.line = append(s.line, part...)
	}
}

func (s *splitter) endLine() {
	if !s.over {
		s.finish()
	}
	s.line, s.over = nil, false
}

func (s *splitter) finish() {
	line := bytes.TrimSuffix(s.trimMark(s.line), []byte{'\r'})
	switch {
	case len(line) > s.max:
		s.giveUp(nil)
	case len(bytes.TrimSpace(line)) > 0:
		s.onLine(line)
	}
}

// giveUp reports the unfinished line, to which part belongs, as too long and
// forgets it.
func (s *splitter) giveUp(part []byte) {
	prefix := bytes.Clone(s.line[:min(len(s.line), OversizePrefix)])
	prefix = append(prefix, part[:min(len(part), OversizePrefix-len(prefix))]...)
	s.line, s.over = nil, true
	s.onOversize(s.trimMark(prefix))
}

func (s *splitter) trimMark(line []byte) []byte {
	if s.begun {
		return line
	}
	s.begun = true
	return bytes.TrimPrefix(line, byteOrderMark)
}
