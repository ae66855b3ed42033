package wire

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// The quick scan reads the messages that nearly everybody sends: without
// escapes in names, not deeply nested, with few members to an object. It takes
// less than half the time of the full one, which every call pays twice. What it
// does not take, for whatever reason, the full scan reads or refuses; what it
// does take, the full scan takes with the same result.
const (
	quickDepth = 64 // of nesting
	quickNames = 16 // members of one object whose names must differ
)

type quick struct {
	b      []byte
	i      int
	strict bool
	depth  int
}

// quickScan is scan for ordinary messages; ok is false for all others.
func quickScan(b []byte, strict bool) (m Message, ok bool) {
	q := quick{b: b, strict: strict}
	m.Body = b
	q.space()
	if q.peek() != '{' {
		return m, false
	}
	var version, method Span
	var ms members
	ms.begin(&q, envelopeNames)
	for ms.next(&q) {
		var v Span
		switch ms.name() {
		case "params":
			if q.peek() != '{' {
				return m, false
			}
			if !q.params(&m) {
				return m, false
			}
			continue
		case "jsonrpc":
			v, ok = q.value()
			version = v
		case "id":
			v, ok = q.value()
			m.ID = v
		case "method":
			v, ok = q.value()
			method = v
		case "result":
			v, ok = q.value()
			m.Result = v
		case "error":
			v, ok = q.value()
			m.Error = v
		default:
			_, ok = q.value()
		}
		if !ok {
			return m, false
		}
	}
	q.space()
	if ms.bad || q.i != len(b) {
		return m, false
	}
	return m, m.classify(version, method) == nil
}

func (q *quick) params(m *Message) bool {
	from := q.i
	var ms members
	ms.begin(q, paramNames)
	for ms.next(q) {
		if ms.at >= 0 && ms.name() == "_meta" && q.peek() == '{' {
			if !q.meta(m) {
				return false
			}
			continue
		}
		v, ok := q.value()
		if !ok {
			return false
		}
		if ms.at >= 0 {
			*m.Params.slot(ms.at) = v
		}
	}
	m.Params.All = Span{from, q.i}
	return !ms.bad
}

func (q *quick) meta(m *Message) bool {
	from := q.i
	var ms members
	ms.begin(q, metaNames)
	for ms.next(q) {
		v, ok := q.value()
		if !ok {
			return false
		}
		if ms.at >= 0 {
			*m.Meta.slot(ms.at) = v
		}
	}
	m.Params.Meta = Span{from, q.i}
	return !ms.bad
}

// members goes through an object whose names must differ. Its known names are
// those of n; nil knows none.
type members struct {
	n    *names
	at   int // place of the name in n, -1 for none
	seen [quickNames]Span
	num  int
	bad  bool // something is not as it should be, or not ordinary
}

func (ms *members) begin(q *quick, n *names) {
	q.i++ // the brace
	q.depth++
	ms.n, ms.bad = n, q.depth > quickDepth
}

func (ms *members) name() string {
	if ms.at < 0 {
		return ""
	}
	return ms.n.list[ms.at]
}

// next goes to the next value. It is false behind the last, and where
// something is bad.
func (ms *members) next(q *quick) bool {
	q.space()
	c := q.peek()
	if c == '}' && !ms.bad {
		q.i++
		q.depth--
		return false
	}
	if ms.num > 0 {
		if c != ',' {
			ms.bad = true
			return false
		}
		q.i++
		q.space()
	}
	ms.bad = ms.bad || !ms.key(q)
	return !ms.bad
}

// key reads a name and its colon.
func (ms *members) key(q *quick) bool {
	from := q.i
	if q.peek() != '"' {
		return false
	}
	escaped, ok := q.text()
	if !ok {
		return false
	}
	at := Span{from, q.i}
	if q.space(); q.peek() != ':' {
		return false
	}
	q.i++
	q.space()
	ms.at = -1
	ms.num++
	if escaped || ms.num > quickNames {
		return false
	}
	raw := q.b[at.From:at.To]
	for _, s := range ms.seen[:ms.num-1] {
		if string(q.b[s.From:s.To]) == string(raw) {
			return false
		}
	}
	ms.seen[ms.num-1] = at
	if ms.n != nil {
		var err error
		if ms.at, err = ms.n.find(raw, q.strict); err != nil {
			return false
		}
	}
	return true
}

func (q *quick) peek() byte {
	if q.i < len(q.b) {
		return q.b[q.i]
	}
	return 0
}

func (q *quick) space() {
	for q.i < len(q.b) {
		switch q.b[q.i] {
		case ' ', '\t', '\r', '\n':
			q.i++
		default:
			return
		}
	}
}

// value reads one value and says where it lay.
func (q *quick) value() (Span, bool) {
	q.space()
	from := q.i
	ok := q.any()
	return Span{from, q.i}, ok
}

func (q *quick) any() bool {
	switch c := q.peek(); c {
	case '"':
		_, ok := q.text()
		return ok
	case '{':
		if q.strict {
			return q.object()
		}
		return q.looseObject()
	case '[':
		return q.array()
	case 't':
		return q.word("true")
	case 'f':
		return q.word("false")
	case 'n':
		return q.word("null")
	default:
		return q.number()
	}
}

// object reads an object whose names must differ.
func (q *quick) object() bool {
	var ms members
	ms.begin(q, nil)
	for ms.next(q) {
		if !q.any() {
			return false
		}
	}
	return !ms.bad
}

// looseObject reads an object whose names may be any.
func (q *quick) looseObject() bool {
	q.i++
	if q.depth++; q.depth > quickDepth {
		return false
	}
	for n := 0; ; n++ {
		q.space()
		if q.peek() == '}' && n == 0 {
			break
		}
		if q.peek() != '"' {
			return false
		}
		if _, ok := q.text(); !ok {
			return false
		}
		if q.space(); q.peek() != ':' {
			return false
		}
		q.i++
		q.space()
		if !q.any() {
			return false
		}
		q.space()
		if c := q.peek(); c == '}' {
			break
		} else if c != ',' {
			return false
		}
		q.i++
		q.space()
	}
	q.i++
	q.depth--
	return true
}

func (q *quick) array() bool {
	q.i++
	if q.depth++; q.depth > quickDepth {
		return false
	}
	for n := 0; ; n++ {
		q.space()
		if q.peek() == ']' && n == 0 {
			break
		}
		if !q.any() {
			return false
		}
		q.space()
		if c := q.peek(); c == ']' {
			break
		} else if c != ',' {
			return false
		}
		q.i++
	}
	q.i++
	q.depth--
	return true
}

func (q *quick) word(w string) bool {
	if len(q.b)-q.i < len(w) || string(q.b[q.i:q.i+len(w)]) != w {
		return false
	}
	q.i += len(w)
	return true
}

func (q *quick) digits() bool {
	from := q.i
	for c := q.peek(); '0' <= c && c <= '9'; c = q.peek() {
		q.i++
	}
	return q.i > from
}

// number reads a number (RFC 8259, section 6).
func (q *quick) number() bool {
	if q.peek() == '-' {
		q.i++
	}
	if q.peek() == '0' {
		q.i++
	} else if !q.digits() {
		return false
	}
	if q.peek() == '.' {
		q.i++
		if !q.digits() {
			return false
		}
	}
	if c := q.peek(); c == 'e' || c == 'E' {
		q.i++
		if c := q.peek(); c == '+' || c == '-' {
			q.i++
		}
		return q.digits()
	}
	return true
}

// text reads a string. Surrogates in escapes are left to the full scan.
func (q *quick) text() (escaped, ok bool) {
	q.i++
	for {
		q.plain()
		if q.i >= len(q.b) {
			return escaped, false
		}
		switch c := q.b[q.i]; {
		case c == '"':
			q.i++
			return escaped, true
		case c == '\\':
			escaped = true
			if !q.escape() {
				return escaped, false
			}
		case c < ' ':
			return escaped, false
		case !q.strict:
			q.i++
		default:
			r, n := utf8.DecodeRune(q.b[q.i:])
			if r == utf8.RuneError && n <= 1 {
				return escaped, false
			}
			q.i += n
		}
	}
}

const (
	lows  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plain skips characters that stand for themselves, eight at a time: a byte
// below 0x20, a quote, a backslash or one that is not ASCII ends it.
func (q *quick) plain() {
	for q.i+8 <= len(q.b) {
		w := binary.LittleEndian.Uint64(q.b[q.i:])
		quote, back := w^(lows*'"'), w^(lows*'\\')
		// Right up to the first byte that is not plain, which is all it is for.
		special := ((w - lows*' ') | (quote - lows) | (back - lows) | w) & highs
		if special != 0 {
			q.i += bits.TrailingZeros64(special) / 8
			return
		}
		q.i += 8
	}
	for q.i < len(q.b) {
		if c := q.b[q.i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return
		}
		q.i++
	}
}

func (q *quick) escape() bool {
	if q.i+1 >= len(q.b) {
		return false
	}
	switch q.b[q.i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		q.i += 2
		return true
	case 'u':
		if q.i+6 > len(q.b) {
			return false
		}
		for _, c := range q.b[q.i+2 : q.i+6] {
			if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
				return false
			}
		}
		if first := q.b[q.i+2]; (first == 'd' || first == 'D') && q.b[q.i+3] > '7' {
			return false
		}
		q.i += 6
		return true
	}
	return false
}
