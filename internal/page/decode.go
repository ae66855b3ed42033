package page

import (
	"fmt"
	"strings"
	"time"
)

// Decoder turns nodes into values and collects what is wrong with them.
type Decoder struct {
	File   string
	Faults []Fault
}

// Errorf adds a fault that stops what it is about. Never put a value that
// could be a secret into its text.
func (d *Decoder) Errorf(at Place, format string, args ...any) {
	d.add(at, Error, format, args...)
}

// Warnf adds a warning.
func (d *Decoder) Warnf(at Place, format string, args ...any) {
	d.add(at, Warning, format, args...)
}

func (d *Decoder) add(at Place, s Severity, format string, args ...any) {
	d.Faults = append(d.Faults, Fault{File: d.File, Line: at.Line, Col: at.Col, Path: at.Path, Severity: s, Msg: fmt.Sprintf(format, args...)})
}

// Field is one key of a mapping: how it is read, and what the reference and
// the schema say about it. They come from one table, so that they cannot
// differ.
type Field[T any] struct {
	Name    string
	Type    string // for the reference
	Default string // for the reference; "" is none
	Doc     string // one line
	Schema  Schema // JSON Schema of the value
	Read    func(d *Decoder, n Node, to *T)
}

// Schema is a JSON Schema.
type Schema map[string]any

// ReadMapping reads n, which messages call what, into to by the fields of table.
// A key that is in none of them is a fault that names the nearest one.
func ReadMapping[T any](d *Decoder, n Node, what string, table []Field[T], to *T) {
	if n.Kind == Null {
		return
	}
	if n.Kind != Mapping {
		d.Errorf(n.At, "%s is %s; a mapping of keys was expected: %s", what, n.Kind, names(table))
		return
	}
	for _, m := range n.Members {
		f, ok := lookup(table, m.Key)
		if !ok {
			d.Errorf(m.At, "%s has no key %q%s; its keys are: %s", what, Clip(m.Key), didYouMean(m.Key, table), names(table))
			continue
		}
		f.Read(d, m.Value, to)
	}
}

func lookup[T any](table []Field[T], key string) (Field[T], bool) {
	for _, f := range table {
		if f.Name == key {
			return f, true
		}
	}
	return Field[T]{}, false
}

func names[T any](table []Field[T]) string {
	var list []string
	for _, f := range table {
		if f.Doc != "" {
			list = append(list, f.Name)
		}
	}
	return strings.Join(list, ", ")
}

func didYouMean[T any](key string, table []Field[T]) string {
	var known []string
	for _, f := range table {
		known = append(known, f.Name)
	}
	if near := Nearest(key, known); near != "" {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return ""
}

// Within makes of fields of a T fields of a U that holds one.
func Within[T, U any](table []Field[T], part func(*U) *T) []Field[U] {
	var out []Field[U]
	for _, f := range table {
		out = append(out, Field[U]{f.Name, f.Type, f.Default, f.Doc, f.Schema, func(d *Decoder, n Node, to *U) { f.Read(d, n, part(to)) }})
	}
	return out
}

// NotYet is a field that is known and refused, so that a page for a later
// version is not half understood.
func NotYet[T any](name string) Field[T] {
	return Field[T]{Name: name, Read: func(d *Decoder, n Node, _ *T) {
		d.Errorf(n.At, "%s is known, not yet: this version of the crib cannot do it; take the key out", name)
	}}
}

// ReadText reads text. It never shows the value.
func (d *Decoder) ReadText(n Node, what string) (string, bool) {
	if n.Kind != Text {
		d.Errorf(n.At, "%s is %s; text was expected%s", what, n.Kind, quoteHint(n))
		return "", false
	}
	return n.Text, true
}

func quoteHint(n Node) string {
	if n.Kind == Number || n.Kind == Bool {
		return ": put it in quotes"
	}
	return ""
}

// ReadScalar reads text, a number, or true or false as it was spelled.
func (d *Decoder) ReadScalar(n Node, what string) (string, bool) {
	switch n.Kind {
	case Text, Number, Bool:
		return n.Text, true
	}
	d.Errorf(n.At, "%s is %s; text was expected", what, n.Kind)
	return "", false
}

// ReadBool reads true or false.
func (d *Decoder) ReadBool(n Node, what string, to *bool) {
	if n.Kind != Bool {
		d.Errorf(n.At, "%s is %s; true or false was expected, without quotes", what, n.Kind)
		return
	}
	*to = strings.EqualFold(n.Text, "true")
}

// ReadWord reads one of words.
func (d *Decoder) ReadWord(n Node, what string, words ...string) (string, bool) {
	if n.Kind == Text {
		for _, w := range words {
			if n.Text == w {
				return w, true
			}
		}
	}
	d.Errorf(n.At, "%s: %s was expected", what, strings.Join(words, ", "))
	return "", false
}

// ReadTexts reads a list of text.
func (d *Decoder) ReadTexts(n Node, what string) ([]string, bool) {
	if n.Kind != List {
		d.Errorf(n.At, "%s is %s; a list was expected, such as [a, b]", what, n.Kind)
		return nil, false
	}
	list := make([]string, 0, len(n.Items))
	for i, item := range n.Items {
		text, ok := d.ReadText(item, fmt.Sprintf("%s, entry %d,", what, i+1))
		if !ok {
			return nil, false
		}
		list = append(list, text)
	}
	return list, true
}

// ReadDuration reads a time with its unit, such as 60s, from least to most.
func (d *Decoder) ReadDuration(n Node, what string, least, most time.Duration, to *time.Duration) {
	v, err := time.ParseDuration(n.Text)
	if n.Kind != Text || err != nil {
		d.Errorf(n.At, "%s: a time with its unit was expected, such as 60s or 5m", what)
		return
	}
	if v < least || v > most {
		d.Errorf(n.At, "%s: %s is out of range; from %s to %s was expected", what, v, least, most)
		return
	}
	*to = v
}

// Nearest returns the entry of known that key was probably meant to be, or "".
func Nearest(key string, known []string) string {
	best, least := "", 3 // edits; more is another word
	for _, k := range known {
		if n := edits(strings.ToLower(key), k); n < least && n < len(k) {
			best, least = k, n
		}
	}
	return best
}

// edits is the number of characters to add, drop, change or swap with their
// neighbour that makes a of b (optimal string alignment), in bytes.
func edits(a, b string) int {
	const longest = 64 // bytes; no key of ours is longer
	if len(a) > longest || len(b) > longest {
		return longest
	}
	var d [longest + 1][longest + 1]int // d[i][j]: edits of a[:i] and b[:j]
	for i := range len(a) + 1 {
		for j := range len(b) + 1 {
			if i == 0 || j == 0 {
				d[i][j] = i + j
				continue
			}
			change := d[i-1][j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			d[i][j] = min(change, d[i-1][j]+1, d[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
