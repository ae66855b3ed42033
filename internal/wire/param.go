package wire

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxSchemaDepth is how many arrays and objects may lie in one another in
	// a schema that has annotations.
	maxSchemaDepth = 256

	// MaxParamHeaders is how many annotations one schema may have. HTTP servers
	// commonly take 100 headers in all.
	MaxParamHeaders = 64

	// maxSafeInteger is the greatest integer that every JSON reader knows
	// exactly: 2^53-1. Its negative is the least.
	maxSafeInteger = 1<<53 - 1
	maxSafeDigits  = 16 // of maxSafeInteger in decimal
)

const annotation = "x-mcp-header"

// ParamHeader says that one argument of a tool is mirrored into a header.
type ParamHeader struct {
	Name string   // of the header, without HeaderParamPrefix
	Path []string // the properties that lead to the argument
	Type string   // string, integer or boolean
}

func (p ParamHeader) header() string { return HeaderParamPrefix + p.Name }

func (p ParamHeader) argument() string { return strings.Join(p.Path, ".") }

// ParamHeaders lists the x-mcp-header annotations of a tool's inputSchema in
// their order. Its error says which annotation breaks which rule; such a tool
// must not be offered (2026-07-28, Streamable HTTP, Schema Extension).
func ParamHeaders(inputSchema []byte) ([]ParamHeader, error) {
	if !MayHave(inputSchema, annotation) {
		return nil, nil
	}
	s := newScanner(inputSchema, false)
	defer s.free()
	w := schemaWalk{s: s, raw: inputSchema}
	if err := w.schema(true); err != nil {
		return nil, fmt.Errorf("read inputSchema: %w", err)
	}
	// Schemas are carried as they came, but one that readers could understand
	// differently must not say what goes into headers.
	if len(w.found) > 0 && !jsontext.Value(inputSchema).IsValid() {
		return nil, fmt.Errorf("read inputSchema: %s needs a schema without names that occur twice and without invalid UTF-8", annotation)
	}
	return w.found, nil
}

// MayHave reports whether the JSON text raw can contain the string key, whose
// characters can be written otherwise only as \u escapes.
func MayHave(raw []byte, key string) bool {
	return bytes.Contains(raw, []byte(key)) || bytes.Contains(raw, []byte(`\u`))
}

// schemaWalk goes through a schema once.
type schemaWalk struct {
	s     *scanner
	raw   []byte
	path  []string // the names of the properties that we are in
	found []ParamHeader
}

// schema reads a schema, or whatever stands where one could. reachable says
// that only properties lead to it from the root.
func (w *schemaWalk) schema(reachable bool) error {
	kind := w.s.dec.PeekKind()
	if kind != '{' && kind != '[' {
		_, err := w.s.value()
		return err
	}
	if w.s.dec.StackDepth() >= maxSchemaDepth {
		return fmt.Errorf("it is nested more than %d deep", maxSchemaDepth)
	}
	if kind == '{' {
		return w.object(reachable)
	}
	return w.array()
}

func (w *schemaWalk) object(reachable bool) error {
	var name, typ Span
	err := w.s.object(func(key string, _ Span) error {
		var err error
		switch key {
		case annotation:
			name, err = w.s.value()
		case "type":
			if w.s.dec.PeekKind() != '"' {
				return w.schema(false)
			}
			typ, err = w.s.value()
		case "properties":
			return w.named(reachable)
		case "patternProperties", "$defs", "definitions", "dependentSchemas", "dependentRequired", "dependencies":
			return w.named(false)
		case "enum", "const", "default", "examples":
			_, err = w.s.value() // data, whatever it looks like
		default:
			return w.schema(false)
		}
		return err
	})
	if err != nil || !name.OK() {
		return err
	}
	return w.annotated(name, typ, reachable)
}

func (w *schemaWalk) array() error {
	if _, err := w.s.dec.ReadToken(); err != nil {
		return parseError(err)
	}
	for w.s.dec.PeekKind() != ']' {
		if err := w.schema(false); err != nil {
			return err
		}
	}
	if _, err := w.s.dec.ReadToken(); err != nil {
		return parseError(err)
	}
	return nil
}

// named reads an object whose names are chosen by the author of the schema, so
// that one of them may be x-mcp-header without being an annotation.
func (w *schemaWalk) named(reachable bool) error {
	if w.s.dec.PeekKind() != '{' {
		return w.schema(false)
	}
	return w.s.object(func(key string, _ Span) error {
		w.path = append(w.path, key)
		err := w.schema(reachable)
		w.path = w.path[:len(w.path)-1]
		return err
	})
}

// annotated takes the annotation of the schema that was just read.
func (w *schemaWalk) annotated(at, typ Span, reachable bool) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%s at %.200q: %s", annotation, w.s.dec.StackPointer(), fmt.Sprintf(format, args...))
	}
	if !reachable || len(w.path) == 0 {
		return refuse("only a property that is reached through properties alone can be mirrored")
	}
	name, _ := at.Text(w.raw)
	if !isToken(name) {
		return refuse("%.100s is not a header name of letters, digits and !#$%%&'*+-.^_`|~", at.In(w.raw))
	}
	kind, _ := typ.Text(w.raw)
	if kind != "string" && kind != "integer" && kind != "boolean" {
		return refuse("the type of the property must be string, integer or boolean")
	}
	if slices.ContainsFunc(w.found, func(p ParamHeader) bool { return strings.EqualFold(p.Name, name) }) {
		return refuse("another property is mirrored as %q already; case does not tell header names apart", name)
	}
	if len(w.found) == MaxParamHeaders {
		return refuse("at most %d properties can be mirrored", MaxParamHeaders)
	}
	w.found = append(w.found, ParamHeader{Name: name, Path: slices.Clone(w.path), Type: kind})
	return nil
}

// isToken reports whether s is a token (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
		if !alnum && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// SetParams sets in h the Mcp-Param-* headers of a call with these raw
// arguments (2026-07-28, Streamable HTTP, Value Encoding). An argument that is
// null or absent has no header. The error names the argument whose value
// cannot be mirrored; h may then have been changed in part.
func SetParams(h http.Header, params []ParamHeader, arguments []byte) error {
	values, err := argumentValues(params, arguments)
	if err != nil {
		return err
	}
	for i, p := range params {
		if values[i] == nil {
			h.Del(p.header())
			continue
		}
		text, err := p.text(values[i])
		if err != nil {
			return fmt.Errorf("argument %q: %w", p.argument(), err)
		}
		h.Set(p.header(), EncodeHeader(text))
	}
	return nil
}

// text returns what the header of p must carry for the raw value.
func (p ParamHeader) text(raw []byte) (string, error) {
	kind := jsontext.Kind(raw[0])
	switch {
	case p.Type == "string" && kind == '"':
		return unquote(raw), nil
	case p.Type == "boolean" && (kind == 't' || kind == 'f'):
		return string(raw), nil
	case p.Type != "integer":
		return "", fmt.Errorf("must be a %s", p.Type)
	}
	n, err := safeInteger(raw)
	if err != nil {
		return "", err
	}
	return strconv.FormatInt(n, 10), nil
}

// CheckParams reports, as a *HeaderError, where the Mcp-Param-* headers of a
// call do not say the same as its raw arguments (2026-07-28, Streamable HTTP,
// Server Validation). Headers that no annotation names are ignored.
//
// A value is compared by the type that it has in the arguments. One that has
// not the type of the schema is for the tool to refuse, which tells a model
// more than a header mismatch does.
func CheckParams(h http.Header, params []ParamHeader, arguments []byte) error {
	values, err := argumentValues(params, arguments)
	if err != nil {
		return err
	}
	for i, p := range params {
		if err := p.check(h, values[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p ParamHeader) check(h http.Header, value []byte) error {
	header := p.header()
	raw, present, err := headerField(h, header)
	switch {
	case err != nil:
		return err
	case present && value == nil:
		return headerErrorf("header mismatch: %s is there, but the argument %.100q is absent or null", header, p.argument())
	case !present && value != nil:
		return headerErrorf("the %s header is missing; it must carry the argument %.100q", header, p.argument())
	case value == nil:
		return nil
	}
	text, err := DecodeHeader(raw)
	if err != nil {
		return headerErrorf("the %s header cannot be read: %v", header, err)
	}
	if !sameValue(text, value) {
		return headerErrorf("header mismatch: %s does not say the same as the argument %.100q", header, p.argument())
	}
	return nil
}

// sameValue compares the text of a header with a raw value.
func sameValue(text string, raw []byte) bool {
	switch raw[0] {
	case '"':
		return text == unquote(raw)
	case 't', 'f':
		return text == string(raw)
	}
	want, err := safeInteger(raw)
	if err != nil {
		return false // fractions, arrays and objects are not mirrored
	}
	got, err := safeInteger([]byte(text))
	return err == nil && got == want
}

// argumentValues returns the raw value of each parameter, nil where it is null
// or absent.
func argumentValues(params []ParamHeader, arguments []byte) ([][]byte, error) {
	p := argumentPicker{params: params, raw: arguments, values: make([][]byte, len(params))}
	if len(params) == 0 || len(arguments) == 0 {
		return p.values, nil
	}
	p.s = newScanner(arguments, true)
	defer p.s.free()
	if p.s.dec.PeekKind() != '{' {
		return p.values, nil
	}
	if err := p.object(); err != nil {
		return nil, fmt.Errorf("read arguments: %w", err)
	}
	return p.values, nil
}

// argumentPicker goes through arguments once.
type argumentPicker struct {
	s      *scanner
	params []ParamHeader
	raw    []byte
	path   []string
	values [][]byte
}

func (a *argumentPicker) object() error {
	return a.s.object(func(key string, _ Span) error {
		a.path = append(a.path, key)
		err := a.member()
		a.path = a.path[:len(a.path)-1]
		return err
	})
}

func (a *argumentPicker) member() error {
	depth := len(a.path)
	at, inside := -1, false
	for i, p := range a.params {
		if len(p.Path) < depth || !slices.Equal(p.Path[:depth], a.path) {
			continue
		}
		if len(p.Path) == depth {
			at = i
		} else {
			inside = true
		}
	}
	if at < 0 && inside && a.s.dec.PeekKind() == '{' {
		return a.object()
	}
	v, err := a.s.value()
	if err != nil || at < 0 {
		return err
	}
	if raw := v.In(a.raw); string(raw) != "null" {
		a.values[at] = raw
	}
	return nil
}

var errNotSafeInteger = errors.New("must be an integer between -(2^53-1) and 2^53-1")

// safeInteger returns the value of the JSON number b if it is an integer that
// every JSON reader knows exactly, however it is spelled: 42, 42.0, 4.2e1. It
// counts digits, because a float64 would round the very numbers that are to be
// refused.
func safeInteger(b []byte) (int64, error) {
	if !isNumber(b) {
		return 0, errNotSafeInteger
	}
	text, negative := strings.CutPrefix(string(b), "-")
	mantissa, exponent := text, int64(0)
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa = text[:i]
		e, err := strconv.ParseInt(text[i+1:], 10, 32)
		if err != nil && strings.Trim(mantissa, "0.") != "" {
			return 0, errNotSafeInteger
		}
		exponent = e
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return 0, nil
	}
	significant := strings.TrimRight(digits, "0")
	zeros := exponent - int64(len(fraction)) + int64(len(digits)-len(significant))
	if zeros < 0 || int64(len(significant))+zeros > maxSafeDigits {
		return 0, errNotSafeInteger
	}
	n, err := strconv.ParseInt(significant+strings.Repeat("0", int(zeros)), 10, 64)
	if err != nil || n > maxSafeInteger {
		return 0, errNotSafeInteger
	}
	if negative {
		n = -n
	}
	return n, nil
}

// isNumber reports whether b is a JSON number and nothing else, not even
// spaces around it.
func isNumber(b []byte) bool {
	digit := func(c byte) bool { return '0' <= c && c <= '9' }
	if len(b) == 0 || !(b[0] == '-' || digit(b[0])) || !digit(b[len(b)-1]) {
		return false
	}
	return jsontext.Value(b).IsValid()
}
