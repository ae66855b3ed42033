package wire

import (
	"bytes"
	"errors"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Edit replaces the bytes of At by With. An empty At inserts.
type Edit struct {
	At   Span
	With []byte
}

// Apply appends src to dst with the edits made. Edits must not overlap; two
// insertions at one place come out in the order given. Everything that no edit
// covers is copied byte for byte.
func Apply(dst, src []byte, edits ...Edit) []byte {
	slices.SortStableFunc(edits, func(a, b Edit) int { return a.At.From - b.At.From })
	at := 0
	for _, e := range edits {
		dst = append(dst, src[at:e.At.From]...)
		dst = append(dst, e.With...)
		at = e.At.To
	}
	return append(dst, src[at:]...)
}

// Member is one member of an object, by where it lies.
type Member struct {
	Key string
	At  Span // from the first byte of the name to the last of the value
	Val Span
}

// Members lists the members of the JSON object raw in order. It is lenient:
// it reads what a server sent. It returns nil if raw is no object.
func Members(raw []byte) []Member {
	if t := bytes.TrimLeft(raw, " \t\r\n"); len(t) == 0 || t[0] != '{' {
		return nil
	}
	s := newScanner(raw, false)
	defer s.free()
	var out []Member
	err := s.object(func(key string, at Span) error {
		v, err := s.value()
		out = append(out, Member{Key: key, At: Span{at.From, v.To}, Val: v})
		return err
	})
	if err != nil {
		return nil
	}
	return out
}

// Get returns the value of the first member key of the object raw, nil if
// there is none or raw is no object. It reads raw as far as it must.
func Get(raw []byte, key string) []byte {
	if t := bytes.TrimLeft(raw, " \t\r\n"); len(t) == 0 || t[0] != '{' {
		return nil
	}
	s := newScanner(raw, false)
	defer s.free()
	var found []byte
	s.members(func(name []byte, _ Span) error { //nolint:errcheck // what is broken holds nothing more
		v, err := s.value()
		if err == nil && isText(name, key) {
			found, err = v.In(raw), errFound
		}
		return err
	})
	return found
}

var errFound = errors.New("found")

// isText reports whether the JSON string raw says text.
func isText(raw []byte, text string) bool {
	if bytes.IndexByte(raw, '\\') >= 0 {
		return unquote(raw) == text
	}
	return string(raw[1:len(raw)-1]) == text
}

// GetPath follows keys from object to object.
func GetPath(raw []byte, keys ...string) []byte {
	for _, k := range keys {
		raw = Get(raw, k)
	}
	return raw
}

// GetText returns the text of the string member key of the object raw.
func GetText(raw []byte, key string) (string, bool) {
	v := Get(raw, key)
	if len(v) < 2 || v[0] != '"' {
		return "", false
	}
	return unquote(v), true
}

// Text returns the text of the JSON string raw, "" if it is none.
func Text(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	return unquote(raw)
}

// Elements lists the elements of the JSON array raw, by where they lie. It
// returns nil if raw is no array.
func Elements(raw []byte) []Span {
	t := bytes.TrimLeft(raw, " \t\r\n")
	if len(t) == 0 || t[0] != '[' {
		return nil
	}
	s := newScanner(raw, false)
	defer s.free()
	if _, err := s.dec.ReadToken(); err != nil {
		return nil
	}
	var out []Span
	for s.dec.PeekKind() != ']' {
		v, err := s.value()
		if err != nil {
			return nil
		}
		out = append(out, v)
	}
	return out
}

// Set is a member to be set in an object; a nil Val deletes it.
type Set struct {
	Key string
	Val []byte
}

// SetMembers appends the object raw to dst with members set or deleted.
// Members that are not named keep their bytes and their order; new ones are
// added at the end.
func SetMembers(dst, raw []byte, sets ...Set) []byte {
	members := Members(raw)
	done := make([]bool, len(sets))
	dst = append(dst, '{')
	first := true
	sep := func() {
		if !first {
			dst = append(dst, ',')
		}
		first = false
	}
next:
	for _, m := range members {
		for i, s := range sets {
			if s.Key != m.Key {
				continue
			}
			if s.Val != nil && !done[i] {
				sep()
				dst = append(dst, raw[m.At.From:m.Val.From]...)
				dst = append(dst, s.Val...)
			}
			done[i] = true
			continue next
		}
		sep()
		dst = append(dst, raw[m.At.From:m.At.To]...)
	}
	for i, s := range sets {
		if s.Val == nil || done[i] {
			continue
		}
		sep()
		dst = AppendString(dst, s.Key)
		dst = append(dst, ':')
		dst = append(dst, s.Val...)
	}
	return append(dst, '}')
}

// AppendString appends s as a JSON string, with no more escapes than JSON
// asks for. Invalid UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	out, err := jsontext.AppendQuote(dst, s)
	if err != nil {
		out, _ = jsontext.AppendQuote(dst, string(bytes.ToValidUTF8([]byte(s), []byte("\uFFFD"))))
	}
	return out
}

// Quote returns s as a JSON string.
func Quote(s string) []byte { return AppendString(nil, s) }

// AppendInt appends n in decimal.
func AppendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

// OneLine returns b with line breaks replaced by spaces. In valid JSON they
// can only lie between tokens, so the value does not change. It returns b
// itself if there is nothing to replace.
func OneLine(b []byte) []byte {
	if bytes.IndexByte(b, '\n') < 0 && bytes.IndexByte(b, '\r') < 0 {
		return b
	}
	out := bytes.Clone(b)
	for i, c := range out {
		if c == '\n' || c == '\r' {
			out[i] = ' '
		}
	}
	return bytes.TrimSpace(out)
}

// ErrorBody returns a JSON-RPC error response. An absent id becomes null; data
// is left out when nil.
func ErrorBody(id []byte, code int, message string, data []byte) []byte {
	out := append(make([]byte, 0, 96+len(message)), `{"jsonrpc":"2.0","id":`...)
	if len(id) == 0 {
		id = []byte("null")
	}
	out = append(out, id...)
	out = append(out, `,"error":{"code":`...)
	out = AppendInt(out, int64(code))
	out = append(out, `,"message":`...)
	out = AppendString(out, message)
	if data != nil {
		out = append(out, `,"data":`...)
		out = append(out, data...)
	}
	return append(out, "}}"...)
}

// ResultBody returns a JSON-RPC response with the result given.
func ResultBody(id, result []byte) []byte {
	out := append(make([]byte, 0, 40+len(id)+len(result)), `{"jsonrpc":"2.0","id":`...)
	out = append(out, id...)
	out = append(out, `,"result":`...)
	out = append(out, result...)
	return append(out, '}')
}

// RPCError is the error member of a response, read.
type RPCError struct {
	Code    int
	Message string
	Data    []byte // raw, nil if absent
}

// ReadError reads the error object raw. A code that is no integer reads as
// -32603.
func ReadError(raw []byte) RPCError {
	e := RPCError{Code: CodeInternal}
	for _, m := range Members(raw) {
		v := m.Val.In(raw)
		switch m.Key {
		case "code":
			if n, err := strconv.Atoi(string(v)); err == nil {
				e.Code = n
			}
		case "message":
			e.Message = Text(v)
		case "data":
			e.Data = v
		}
	}
	return e
}

// IsObject reports whether raw is one JSON object and nothing else, by the
// same strict rules as Scan.
func IsObject(raw []byte) bool {
	t := bytes.TrimLeft(raw, " \t\r\n")
	return len(t) > 0 && t[0] == '{' && jsontext.Value(t).IsValid()
}
