package wire

import (
	"bytes"
	"unicode/utf8"
)

// MetaRepaired stands in the _meta of a result, with the value true, in which
// bytes that were no UTF-8 were replaced by U+FFFD.
const MetaRepaired = "io.toolcrib/repaired"

var replacement = []byte("\uFFFD")

// Legible reports whether m is UTF-8 throughout, as all JSON that is exchanged
// must be (RFC 8259, section 8.1). Escapes are ASCII, whatever they stand for.
func (m *Message) Legible() bool { return utf8.Valid(m.Body) }

// Repair returns the response m with each run of bytes that are no UTF-8
// replaced by U+FFFD. A result that is an object says so in its _meta; see
// MetaRepaired. The error wraps those of ScanServer: what was replaced may be
// the name of a member that must not occur twice.
func Repair(m Message) (Message, error) {
	m, err := ScanServer(bytes.ToValidUTF8(m.Body, replacement))
	if err != nil {
		return m, err
	}
	result := m.Result.In(m.Body)
	if len(result) == 0 || result[0] != '{' {
		return m, nil
	}
	meta := SetMembers(nil, Get(result, "_meta"), Set{Key: MetaRepaired, Val: []byte("true")})
	result = SetMembers(nil, result, Set{Key: "_meta", Val: meta})
	return ScanServer(Apply(nil, m.Body, Edit{At: m.Result, With: result}))
}

// LegibleMembers returns the object raw without the members that hold bytes
// that are no UTF-8, and the names of those. It returns raw itself if all of it
// can be read.
func LegibleMembers(raw []byte) (legible []byte, left []string) {
	if utf8.Valid(raw) {
		return raw, nil
	}
	legible = []byte{'{'}
	for _, m := range Members(raw) {
		member := m.At.In(raw)
		if !utf8.Valid(member) {
			left = append(left, string(bytes.ToValidUTF8([]byte(m.Key), replacement)))
			continue
		}
		if len(legible) > 1 {
			legible = append(legible, ',')
		}
		legible = append(legible, member...)
	}
	return append(legible, '}'), left
}
