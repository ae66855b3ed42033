package edit

import (
	"bytes"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// TOML is a TOML file. An entry is a table of its own, with sub-tables that
// may stand anywhere; whole lines are added and taken out.
type TOML struct {
	path    string
	absent  bool
	mark    []byte // byte order mark, if any; not part of src
	src     []byte
	decoded map[string]any
}

// ParseTOML reads a TOML file, whatever its name. nil data is a file that does
// not exist.
func ParseTOML(path string, data []byte) (*TOML, error) {
	d := &TOML{path: path, absent: data == nil, src: data, decoded: map[string]any{}}
	if rest, ok := bytes.CutPrefix(data, byteOrderMark); ok {
		d.mark, d.src = byteOrderMark, rest
	}
	err := toml.Unmarshal(d.src, &d.decoded)
	var bad *toml.DecodeError
	switch {
	case errors.As(err, &bad):
		line, column := bad.Position()
		return nil, crib.Errorf(crib.Invalid, "%s: fix line %d, column %d first: %s", path, line, column, strings.TrimPrefix(bad.Error(), "toml: "))
	case err != nil:
		return nil, crib.Errorf(crib.Invalid, "%s: fix the file first: %s", path, strings.TrimPrefix(err.Error(), "toml: "))
	}
	return d, nil
}

// Tree implements Document.
func (d *TOML) Tree() map[string]any { return d.decoded }

// Members implements Document; they are sorted by name.
func (d *TOML) Members(path []string) ([]Member, error) {
	found, _, err := lookup(d.path, d.decoded, path)
	if err != nil {
		return nil, err
	}
	var list []Member
	for _, name := range slices.Sorted(maps.Keys(found)) {
		list = append(list, Member{name, found[name]})
	}
	return list, nil
}

// Set implements Document. The entry becomes a table at the end of the file.
func (d *TOML) Set(path []string, name string, entry Fields) ([]byte, error) {
	found, _, err := lookup(d.path, d.decoded, path)
	if err != nil {
		return nil, err
	}
	if reflect.DeepEqual(found[name], any(entry.decoded())) {
		return d.bytes(), nil
	}
	if err := d.extendable(path); err != nil {
		return nil, err
	}
	base := d
	if _, present := found[name]; present {
		rest, err := d.Remove(path, name)
		if err != nil {
			return nil, err
		}
		if base, err = ParseTOML(d.path, rest); err != nil {
			return nil, err
		}
	}
	block, err := tomlBlock(append(slices.Clone(path), name), entry)
	if err != nil {
		return nil, err
	}
	return verified(d.path, d, base.appended(block), path, name, entry.decoded())
}

// appended adds a block at the end, a blank line before it. A file that does
// not end its last line still does not, so that remove can tell.
func (d *TOML) appended(block string) []byte {
	eol := eolOf(d.src)
	block = strings.ReplaceAll(block, "\n", eol)
	switch {
	case d.absent:
		return []byte(block + eol)
	case len(d.src) == 0:
		return slices.Concat(d.mark, []byte(block))
	case bytes.HasSuffix(d.src, []byte("\n")):
		return slices.Concat(d.mark, d.src, []byte(eol+block+eol))
	default:
		return slices.Concat(d.mark, d.src, []byte(eol+eol+block))
	}
}

// tomlBlock writes a table with its header, without the last newline. The keys
// of the path have been checked to need no quotes.
func tomlBlock(keys []string, entry Fields) (string, error) {
	var b strings.Builder
	b.WriteString("[" + strings.Join(keys, ".") + "]\n")
	for _, fv := range entry {
		enc := toml.NewEncoder(&b).SetTablesInline(true)
		if err := enc.Encode(map[string]any{fv.Name: decodedValue(fv.Value)}); err != nil {
			return "", crib.Errorf(crib.Internal, "%s cannot be written as TOML: %v", fv.Name, err)
		}
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// Remove implements Document. Comments inside the entry go with it.
func (d *TOML) Remove(path []string, name string) ([]byte, error) {
	found, _, err := lookup(d.path, d.decoded, path)
	if err != nil {
		return nil, err
	}
	if _, present := found[name]; !present {
		return d.bytes(), nil
	}
	spans, err := d.spans(append(slices.Clone(path), name))
	if err != nil {
		return nil, err
	}
	after := append([]byte{}, d.mark...)
	last := 0
	for _, s := range spans {
		after = append(after, d.src[last:s.start]...)
		last = s.end
	}
	after = append(after, d.src[last:]...)
	return verified(d.path, d, d.undone(spans, after), path, name, nil)
}

func (d *TOML) bytes() []byte {
	if d.absent {
		return nil
	}
	return append(append([]byte{}, d.mark...), d.src...)
}

// undone looks for what the document was before set appended its block: when
// the block was all there is, the file itself may be new, and a file that did
// not end its last line is left so.
func (d *TOML) undone(spans []span, plain []byte) []byte {
	block := spans[len(spans)-1]
	if len(spans) > 1 || block.end != len(d.src) {
		return plain
	}
	ended := bytes.HasSuffix(d.src, []byte("\n"))
	switch {
	case block.start == 0 && ended && d.mark == nil:
		return nil
	case !ended:
		return bytes.TrimSuffix(bytes.TrimSuffix(plain, []byte("\n")), []byte("\r"))
	}
	return plain
}

// Restore implements Document.
func (d *TOML) Restore(path []string, name string, from Document) ([]byte, error) {
	other, ok := from.(*TOML)
	if !ok {
		return nil, crib.Errorf(crib.Invalid, "%s: the backup is of another kind", d.path)
	}
	values, _, err := lookup(d.path, other.decoded, path)
	if err != nil {
		return nil, err
	}
	spans, err := other.spans(append(slices.Clone(path), name))
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(spans, func(s span) bool { return !s.header }) {
		return nil, crib.Errorf(crib.Invalid, "%s: %s.%s is not a table of its own in the backup; put it back by hand", d.path, strings.Join(path, "."), name)
	}
	var text strings.Builder
	for _, s := range spans {
		text.Write(bytes.TrimLeft(other.src[s.start:s.end], "\r\n"))
	}
	block := strings.TrimRight(strings.ReplaceAll(text.String(), "\r\n", "\n"), "\n")
	return verified(d.path, d, d.appended(block), path, name, values[name])
}

// A span is a run of whole lines that belong to an entry.
type span struct {
	start, end int
	header     bool // starts with the header of a table
}

// An expression is one header or one key with its value.
type expression struct {
	keys       []string // from the root
	header     bool
	start, end int // offsets of its lines
}

// spans finds the lines of the table at keys, in their order.
func (d *TOML) spans(keys []string) ([]span, error) {
	if err := d.extendable(keys[:len(keys)-1]); err != nil {
		return nil, err
	}
	expressions, err := d.expressions()
	if err != nil {
		return nil, err
	}
	var spans []span
	inside := false // the current header belongs to the entry
	for _, e := range expressions {
		belongs := hasPrefix(e.keys, keys)
		switch {
		case e.header:
			inside = belongs
			if belongs {
				spans = append(spans, span{d.blankLineBefore(e.start), e.end, true})
			}
		case inside:
			spans[len(spans)-1].end = e.end
		case belongs:
			spans = append(spans, span{e.start, e.end, false})
		}
	}
	if len(spans) == 0 {
		return nil, crib.Errorf(crib.Invalid, "%s: %s is not found in the text; make the change by hand", d.path, strings.Join(keys, "."))
	}
	return spans, nil
}

// extendable reports why the table at keys cannot have lines added or taken
// out: a table in braces is one value.
func (d *TOML) extendable(keys []string) error {
	expressions, err := d.expressions()
	if err != nil {
		return err
	}
	for _, e := range expressions {
		if !e.header && hasPrefix(keys, e.keys) {
			table := strings.Join(e.keys, ".")
			return crib.Errorf(crib.Invalid, "%s: %s is written as one value in braces; write its entries as tables of their own, with headers such as [%s.NAME], then try again",
				d.path, table, table)
		}
	}
	return nil
}

func hasPrefix(keys, prefix []string) bool {
	return len(keys) >= len(prefix) && slices.Equal(keys[:len(prefix)], prefix)
}

// blankLineBefore moves the start of a line over one blank line before it.
func (d *TOML) blankLineBefore(start int) int {
	before := bytes.TrimSuffix(bytes.TrimSuffix(d.src[:start], []byte("\n")), []byte("\r"))
	if len(before) < start && (len(before) == 0 || before[len(before)-1] == '\n') {
		return len(before)
	}
	return start
}

func (d *TOML) expressions() ([]expression, error) {
	var p unstable.Parser
	p.Reset(d.src)
	var list []expression
	var table []string
	for p.NextExpression() {
		node := p.Expression()
		var keys []string
		start, end := len(d.src), 0
		for it := node.Key(); it.Next(); {
			key := it.Node()
			keys = append(keys, string(key.Data))
			start = min(start, int(key.Raw.Offset))
			end = max(end, int(key.Raw.Offset+key.Raw.Length))
		}
		header := node.Kind == unstable.Table || node.Kind == unstable.ArrayTable
		if header {
			table = keys
		} else {
			keys = slices.Concat(table, keys)
			start, end = int(node.Raw.Offset), int(node.Raw.Offset+node.Raw.Length)
		}
		list = append(list, expression{keys, header, d.lineStart(start), d.lineEnd(end)})
	}
	if err := p.Error(); err != nil {
		return nil, crib.Errorf(crib.Invalid, "%s: fix the file first: %v", d.path, err)
	}
	return list, nil
}

func (d *TOML) lineStart(at int) int {
	return bytes.LastIndexByte(d.src[:at], '\n') + 1
}

func (d *TOML) lineEnd(at int) int {
	if i := bytes.IndexByte(d.src[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(d.src)
}
