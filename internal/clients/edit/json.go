package edit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// How files that have no layout yet are laid out. The two differ so that
// remove can tell a file that set made from a file that held nothing but {}.
const (
	newFileIndent = "\t"
	defaultIndent = "  "
)

var byteOrderMark = []byte("\xef\xbb\xbf")

// JSON is a JSON file with comments and trailing commas. It is edited by
// cutting and inserting bytes at the offsets of its values, so that nothing
// else moves.
type JSON struct {
	path    string
	absent  bool
	mark    []byte // byte order mark, if any; not part of src
	src     []byte
	root    hujson.Value // without a Value when src is blank
	decoded map[string]any
}

// ParseJSON reads a JSON file, whatever its name. nil data is a file that does
// not exist.
func ParseJSON(path string, data []byte) (*JSON, error) {
	d := &JSON{path: path, absent: data == nil, src: data, decoded: map[string]any{}}
	if rest, ok := bytes.CutPrefix(data, byteOrderMark); ok {
		d.mark, d.src = byteOrderMark, rest
	}
	if len(bytes.TrimSpace(d.src)) == 0 {
		return d, nil
	}
	root, err := hujson.Parse(d.src)
	if err != nil {
		return nil, crib.Errorf(crib.Invalid, "%s: fix %s first", path, strings.TrimPrefix(err.Error(), "hujson: "))
	}
	d.root = root
	standard := root.Clone()
	standard.Standardize()
	dec := json.NewDecoder(bytes.NewReader(standard.Pack()))
	dec.UseNumber()
	if err := dec.Decode(&d.decoded); err != nil || d.decoded == nil {
		return nil, crib.Errorf(crib.Invalid, "%s: fix the file first, it should be an object in braces", path)
	}
	return d, nil
}

// Tree implements Document.
func (d *JSON) Tree() map[string]any { return d.decoded }

func (d *JSON) blank() bool { return d.root.Value == nil }

// An object is a JSON object with the offsets of what is between its braces.
type object struct {
	*hujson.Object
	open, close int
}

func objectOf(v hujson.Value) (object, bool) {
	o, ok := v.Value.(*hujson.Object)
	return object{o, v.StartOffset + 1, v.EndOffset - 1}, ok
}

// index finds a member by name, -1 when there is none. A name that is written
// twice means different things to different programs and is refused.
func (d *JSON) index(o object, name string) (int, error) {
	found := -1
	for i, m := range o.Members {
		if m.Name.Value.(hujson.Literal).String() != name {
			continue
		}
		if found >= 0 {
			line := 1 + bytes.Count(d.src[:m.Name.StartOffset], []byte("\n"))
			return 0, crib.Errorf(crib.Invalid, "%s: fix line %d first, it writes %q a second time", d.path, line, name)
		}
		found = i
	}
	return found, nil
}

// descend follows path from the root as far as there are objects and returns
// them, the root first.
func (d *JSON) descend(path []string) ([]object, error) {
	o, ok := objectOf(d.root)
	if !ok {
		return nil, crib.Errorf(crib.Invalid, "%s: fix the file first, it should be an object in braces", d.path)
	}
	chain := []object{o}
	for i, key := range path {
		at, err := d.index(chain[i], key)
		if err != nil {
			return nil, err
		}
		if at < 0 {
			break
		}
		next, ok := objectOf(chain[i].Members[at].Value)
		if !ok {
			return nil, crib.Errorf(crib.Invalid, "%s: %s is not a table of settings; fix that first", d.path, strings.Join(path[:i+1], "."))
		}
		chain = append(chain, next)
	}
	return chain, nil
}

// Members implements Document; they are in the order of the file.
func (d *JSON) Members(path []string) ([]Member, error) {
	if d.blank() {
		return nil, nil
	}
	chain, err := d.descend(path)
	if err != nil || len(chain) <= len(path) {
		return nil, err
	}
	values, _, err := lookup(d.path, d.decoded, path)
	if err != nil {
		return nil, err
	}
	var found []Member
	last := chain[len(path)]
	for _, m := range last.Members {
		name := m.Name.Value.(hujson.Literal).String()
		if _, err := d.index(last, name); err != nil {
			return nil, err
		}
		found = append(found, Member{name, values[name]})
	}
	return found, nil
}

// Set implements Document. An entry of the same name is replaced where it
// stands; a new one comes last.
func (d *JSON) Set(path []string, name string, entry Fields) ([]byte, error) {
	members, err := d.Members(path)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		if m.Name == name && reflect.DeepEqual(m.Value, any(entry.decoded())) {
			return d.bytes(), nil
		}
	}
	after, err := d.put(path, name, entry)
	if err != nil {
		return nil, err
	}
	return verified(d.path, d, after, path, name, entry.decoded())
}

// put is set without the check of its result. A value is of a type of Fields,
// or verbatim.
func (d *JSON) put(path []string, name string, value any) ([]byte, error) {
	if d.blank() {
		return d.fresh(path, name, value), nil
	}
	chain, err := d.descend(path)
	if err != nil {
		return nil, err
	}
	depth := len(chain) - 1
	target := chain[depth]
	if depth < len(path) {
		return d.insert(target, path[depth], nest(path[depth+1:], name, value)), nil
	}
	at, err := d.index(target, name)
	if err != nil {
		return nil, err
	}
	if at < 0 {
		return d.insert(target, name, value), nil
	}
	old := target.Members[at].Value
	l := d.layout()
	l.lead = d.indentAt(target.Members[at].Name.StartOffset)
	l.inline = !d.multiline(target)
	return d.splice(splice{old.StartOffset, old.EndOffset, l.render(value)}), nil
}

// A wrapper is a table that set makes for its only member.
type wrapper struct{ Field }

func nest(path []string, name string, value any) any {
	w := wrapper{Field{name, value}}
	for _, key := range slices.Backward(path) {
		w = wrapper{Field{key, w}}
	}
	return w
}

// fresh is the content of a file that held nothing.
func (d *JSON) fresh(path []string, name string, value any) []byte {
	l := layout{eol: d.eol(), unit: newFileIndent}
	text := l.render(nest(path, name, value))
	if d.absent {
		return []byte(text + l.eol)
	}
	return slices.Concat(d.mark, d.src, []byte(text))
}

// A splice replaces the bytes from start to end.
type splice struct {
	start, end int
	text       string
}

// splice applies changes that do not overlap and are given in their order.
func (d *JSON) splice(changes ...splice) []byte {
	out := slices.Clone(d.mark)
	last := 0
	for _, c := range changes {
		out = append(append(out, d.src[last:c.start]...), c.text...)
		last = c.end
	}
	return append(out, d.src[last:]...)
}

const blanks = " \t\r\n"

// insert adds a member at the end of an object, in the way in which the object
// is written.
func (d *JSON) insert(o object, name string, value any) []byte {
	l := d.layout()
	if len(o.Members) == 0 {
		return d.insertFirst(o, name, value, l)
	}
	last := o.Members[len(o.Members)-1].Value
	tail, comma, trailing := last.EndOffset, ",", ""
	if last.AfterExtra != nil {
		// The object's last member has a comma, so the new one gets one too.
		tail, comma, trailing = last.EndOffset+len(last.AfterExtra)+1, "", ","
	}
	at := tail + len(bytes.TrimRight(d.src[tail:o.close], blanks))
	lead := " "
	if d.multiline(o) {
		l.lead = d.indentAt(o.Members[0].Name.StartOffset)
		if !d.startsLine(o.Members[0].Name.StartOffset) {
			l.lead += l.unit
		}
		lead = l.eol + l.lead
	} else {
		l.inline = true
	}
	text := lead + quote(name) + ": " + l.render(value) + trailing
	return d.splice(splice{last.EndOffset, last.EndOffset, comma}, splice{at, at, text})
}

// insertFirst adds the only member of an object. What the object looks like
// decides the layout, so that no two objects give the same text: remove can
// tell which it was, and whether set made the object.
func (d *JSON) insertFirst(o object, name string, value any, l layout) []byte {
	body := d.src[o.open:o.close]
	at := o.open + len(bytes.TrimRight(body, blanks))
	outer := d.indentAt(o.open - 1)
	open := bytes.Contains(body, []byte("\n"))
	isRoot := o.open == d.root.StartOffset+1
	before, after := l.eol+outer+l.unit, ""
	switch {
	case open && at > o.open: // it holds comments
		l.lead = outer + l.unit
	case isRoot && len(body) == 0:
		l.lead, after = outer+l.unit, l.eol+outer
	case isRoot && open:
		l.inline = true
	case len(body) == 0 && bytes.Contains(d.src[:o.open], []byte("\n")):
		l.inline, after = true, l.eol+outer
	default:
		l.inline, before = true, ""
	}
	return d.splice(splice{at, at, before + quote(name) + ": " + l.render(value) + after})
}

// Remove implements Document. Comments around the entry stay.
func (d *JSON) Remove(path []string, name string) ([]byte, error) {
	members, err := d.Members(path)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(members, func(m Member) bool { return m.Name == name })
	if at < 0 {
		return d.bytes(), nil
	}
	chain, err := d.descend(path)
	if err != nil {
		return nil, err
	}
	owner := chain[len(path)]
	after := d.cut(owner, at)
	if len(members) == 1 {
		after = d.undone(chain, path, name, ordered(owner.Members[0].Value), after)
	}
	return verified(d.path, d, after, path, name, nil)
}

func (d *JSON) bytes() []byte {
	if d.absent {
		return nil
	}
	return append(append([]byte{}, d.mark...), d.src...)
}

// undone looks for what the document was before Set added its only entry: the
// first candidate from which Set would make exactly this document. Without one,
// the table is closed over the blanks that plain leaves in it.
func (d *JSON) undone(chain []object, path []string, name string, value any, plain []byte) []byte {
	start, end := d.root.StartOffset, d.root.EndOffset
	candidates := [][]byte{
		nil,
		append(append([]byte{}, d.mark...), d.src[:start]...),
		d.splice(splice{start, end, "{}"}),
	}
	for i, key := range path {
		at, err := d.index(chain[i], key)
		if err == nil && at >= 0 {
			candidates = append(candidates, d.cut(chain[i], at))
		}
	}
	owner := chain[len(path)]
	closed := d.splice(splice{owner.open, owner.close, ""})
	candidates = append(candidates, closed, plain)
	whole := d.bytes()
	for _, c := range candidates {
		before, err := ParseJSON(d.path, c)
		if err != nil {
			continue
		}
		if again, err := before.put(path, name, value); err == nil && bytes.Equal(again, whole) {
			return c
		}
	}
	entry := owner.Members[0]
	around := slices.Concat(d.src[owner.open:entry.Name.StartOffset], d.src[entry.Value.EndOffset:owner.close])
	if len(bytes.Trim(around, blanks+",")) == 0 {
		return closed
	}
	return plain
}

// Restore implements Document.
func (d *JSON) Restore(path []string, name string, from Document) ([]byte, error) {
	other, ok := from.(*JSON)
	if !ok {
		return nil, crib.Errorf(crib.Invalid, "%s: the backup is of another kind", d.path)
	}
	chain, err := other.descend(path)
	if err != nil || len(chain) <= len(path) {
		return nil, crib.Errorf(crib.Invalid, "%s: the backup has no %s", d.path, strings.Join(path, "."))
	}
	owner := chain[len(path)]
	at, err := other.index(owner, name)
	if err != nil || at < 0 {
		return nil, crib.Errorf(crib.Invalid, "%s: the backup has no entry %q", d.path, name)
	}
	v := owner.Members[at].Value
	after, err := d.put(path, name, verbatim(other.src[v.StartOffset:v.EndOffset]))
	if err != nil {
		return nil, err
	}
	values, _, err := lookup(d.path, other.decoded, path)
	if err != nil {
		return nil, err
	}
	return verified(d.path, d, after, path, name, values[name])
}

// cut takes out one member with its comma. Comments stay.
func (d *JSON) cut(o object, i int) []byte {
	m := o.Members[i]
	start, end := m.Name.StartOffset, m.Value.EndOffset
	last := i == len(o.Members)-1
	comma := end + len(m.Value.AfterExtra)
	hasComma := !last || m.Value.AfterExtra != nil
	var changes []splice
	if !hasComma && i > 0 {
		prev := o.Members[i-1].Value
		at := prev.EndOffset + len(prev.AfterExtra)
		changes = append(changes, splice{at, at + 1, ""})
	}
	if hasComma && len(bytes.TrimSpace(d.src[end:comma])) == 0 {
		end, hasComma = comma+1, false
	}
	start, end = d.widen(start, end, i > 0, last)
	changes = append(changes, splice{start, end, ""})
	if hasComma {
		changes = append(changes, splice{comma, comma + 1, ""})
	}
	return d.splice(changes...)
}

// widen extends a cut over the blanks that would be left over: its whole lines
// when it has them for itself.
func (d *JSON) widen(start, end int, follows, last bool) (int, int) {
	lineStart := start - len(d.indentBefore(start))
	after := end + len(d.src[end:]) - len(bytes.TrimLeft(d.src[end:], " \t\r"))
	opensLine := lineStart == 0 || d.src[lineStart-1] == '\n'
	closesLine := after < len(d.src) && d.src[after] == '\n'
	switch {
	case opensLine && closesLine:
		return lineStart, after + 1
	case opensLine && last && follows && after < len(d.src) && d.src[after] == '}':
		before := len(bytes.TrimRight(d.src[:start], blanks))
		if !lineComment.Match(d.src[:before]) {
			return before, end
		}
		return start, end
	case opensLine:
		return start, after
	case follows:
		return lineStart, end
	case last:
		return start, end
	default:
		return start, after
	}
}

// lineComment matches text whose last line may end in a comment that would
// swallow what is moved behind it.
var lineComment = regexp.MustCompile(`//[^\n]*$`)

func (d *JSON) indentBefore(at int) []byte {
	line := d.src[:at]
	return line[len(bytes.TrimRight(line, " \t")):]
}

func (d *JSON) startsLine(at int) bool {
	start := at - len(d.indentBefore(at))
	return start == 0 || d.src[start-1] == '\n'
}

// indentAt is the indentation of the line on which an offset is.
func (d *JSON) indentAt(at int) string {
	line := d.src[bytes.LastIndexByte(d.src[:at], '\n')+1 : at]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// multiline reports whether an object with members spreads over lines.
func (d *JSON) multiline(o object) bool {
	first, last := o.Members[0].Name.StartOffset, o.Members[len(o.Members)-1].Value.EndOffset
	return bytes.Contains(d.src[o.open:first], []byte("\n")) || bytes.Contains(d.src[last:o.close], []byte("\n"))
}

func (d *JSON) eol() string { return eolOf(d.src) }

func eolOf(data []byte) string {
	if bytes.Contains(data, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

func (d *JSON) layout() layout {
	l := layout{eol: d.eol(), unit: defaultIndent}
	root, ok := objectOf(d.root)
	if !ok || len(root.Members) == 0 {
		return l
	}
	if first := root.Members[0].Name.StartOffset; d.startsLine(first) && len(d.indentBefore(first)) > 0 {
		l.unit = string(d.indentBefore(first))
	}
	return l
}

// A layout writes values.
type layout struct {
	eol    string
	unit   string // one step of indentation
	lead   string // indentation of the line on which the value starts
	inline bool   // everything on one line
}

// verbatim is a value that is written already.
type verbatim []byte

func (l layout) render(v any) string {
	switch v := v.(type) {
	case string:
		return quote(v)
	case bool:
		return fmt.Sprint(v)
	case verbatim:
		return string(v)
	case []string:
		quoted := make([]string, len(v))
		for i, s := range v {
			quoted[i] = quote(s)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	case wrapper:
		if l.inline {
			return "{ " + quote(v.Name) + ": " + l.render(v.Value) + " }"
		}
		return l.object(Fields{v.Field})
	case Fields:
		return l.object(v)
	}
	panic(fmt.Sprintf("edit: a value of type %T cannot be written", v))
}

func (l layout) object(f Fields) string {
	inner := l
	inner.lead += l.unit
	before, between, after := l.eol+inner.lead, ","+l.eol+inner.lead, l.eol+l.lead
	if l.inline {
		before, between, after = "", ", ", ""
	}
	texts := make([]string, len(f))
	for i, fv := range f {
		texts[i] = quote(fv.Name) + ": " + inner.render(fv.Value)
	}
	return "{" + before + strings.Join(texts, between) + after + "}"
}

func quote(s string) string { return string(hujson.String(s)) }

// ordered is a value as set would be given it, with what set cannot write kept
// as it is.
func ordered(v hujson.Value) any {
	switch value := v.Value.(type) {
	case *hujson.Object:
		f := Fields{}
		for _, m := range value.Members {
			f = append(f, Field{m.Name.Value.(hujson.Literal).String(), ordered(m.Value)})
		}
		return f
	case *hujson.Array:
		list := []string{}
		for _, e := range value.Elements {
			item, ok := e.Value.(hujson.Literal)
			if !ok || item.Kind() != '"' {
				return verbatim(v.Pack())
			}
			list = append(list, item.String())
		}
		return list
	case hujson.Literal:
		if value.Kind() == '"' {
			return value.String()
		}
		return verbatim(value)
	}
	return verbatim(v.Pack())
}
