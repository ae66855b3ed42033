package secret

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf16"
)

// Limits of redaction, in bytes.
const (
	// MinRedacted is the length from which a secret is replaced. Shorter ones
	// are found in too many innocent words.
	MinRedacted = 8

	// MinRedactedWord is the length from which a single word of a secret of
	// several is replaced: the token behind "Bearer", a line of a PEM key.
	MinRedactedWord = 16
)

// Redactor knows the secrets in use and replaces them in what is written
// down: as they are, in base64, escaped for URLs, and escaped for JSON. It
// never forgets one, because text of an earlier connection may still be
// written. It is safe for concurrent use; the zero Redactor knows no secret.
type Redactor struct {
	mu    sync.Mutex          // guards forms; held while current is replaced
	forms map[string]struct{} // every spelling of every secret

	current atomic.Pointer[matcher] // nil: none
}

// Add makes r know v. A value shorter than MinRedacted is not added.
func (r *Redactor) Add(v Value) {
	text := v.Reveal()
	if len(text) < MinRedacted {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.forms[text]; known {
		return
	}
	if r.forms == nil {
		r.forms = map[string]struct{}{}
	}
	for _, form := range spellings(text) {
		r.forms[form] = struct{}{}
	}
	r.current.Store(newMatcher(r.forms))
}

// Redact returns b with every known secret replaced by Mask. It returns b
// itself when there is none in it, and never changes b.
func (r *Redactor) Redact(b []byte) []byte {
	m := r.current.Load()
	if m == nil {
		return b
	}
	from, to := m.find(b)
	if to == 0 {
		return b
	}
	out := make([]byte, 0, len(b)+len(Mask))
	for to > 0 {
		out = append(append(out, b[:from]...), Mask...)
		b = b[to:]
		from, to = m.find(b)
	}
	return append(out, b...)
}

// RedactString is Redact for a string.
func (r *Redactor) RedactString(s string) string {
	b := []byte(s)
	if out := r.Redact(b); len(out) != len(b) || !bytes.Equal(out, b) {
		return string(out)
	}
	return s
}

// matcher finds the spellings of secrets. Most positions of a text are passed
// by one look at a bit set of pairs of bytes.
type matcher struct {
	pairs   [1 << 16 / 64]uint64
	byStart map[uint16][]string // longest first
}

func newMatcher(forms map[string]struct{}) *matcher {
	m := &matcher{byStart: map[uint16][]string{}}
	for _, form := range slices.Collect(maps.Keys(forms)) {
		start := pair(form[0], form[1])
		m.pairs[start/64] |= 1 << (start % 64)
		m.byStart[start] = append(m.byStart[start], form)
	}
	for _, list := range m.byStart {
		slices.SortFunc(list, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	}
	return m
}

func pair(a, b byte) uint16 { return uint16(a)<<8 | uint16(b) }

// find returns where the first secret in b lies, and 0, 0 when there is none.
func (m *matcher) find(b []byte) (from, to int) {
	for i := 0; i+MinRedacted <= len(b); i++ {
		start := pair(b[i], b[i+1])
		if m.pairs[start/64]&(1<<(start%64)) == 0 {
			continue
		}
		for _, form := range m.byStart[start] {
			if len(form) <= len(b)-i && string(b[i:i+len(form)]) == form {
				return i, i + len(form)
			}
		}
	}
	return 0, 0
}

// spellings returns the forms in which text may turn up, each at least
// MinRedacted long.
func spellings(text string) []string {
	forms := slices.Concat([]string{text}, base64Forms(text), urlForms(text), jsonForms(text))
	for word := range strings.FieldsSeq(text) {
		if len(word) >= MinRedactedWord {
			forms = append(forms, word)
		}
	}
	return slices.DeleteFunc(forms, func(f string) bool { return len(f) < MinRedacted })
}

// base64Forms returns the base64 of text, alone and as the part of a longer
// encoding that does not depend on its neighbours: "user:" + text in an
// Authorization header is found, too.
func base64Forms(text string) []string {
	var forms []string
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		forms = append(forms, enc.EncodeToString([]byte(text)))
	}
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for shift := range 3 {
			whole := enc.EncodeToString(append(make([]byte, shift), text...))
			first := (shift*8 + 5) / 6          // the first character of text's bits alone
			last := (shift + len(text)) * 8 / 6 // the first one that the next byte would change
			forms = append(forms, whole[first:last])
		}
	}
	return forms
}

// urlForms returns text as programs escape it in paths and queries.
func urlForms(text string) []string {
	query := url.QueryEscape(text)
	// What encodeURIComponent of JavaScript leaves as it is.
	component := strings.NewReplacer("+", "%20", "%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*").Replace(query)
	forms := []string{query, url.PathEscape(text), strings.ReplaceAll(url.PathEscape(text), "%2F", "/"), component}
	for _, form := range forms {
		forms = append(forms, lowerEscapes(form))
	}
	return forms
}

// lowerEscapes writes %2F as %2f.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], bytes.ToLower(b[i+1:i+3]))
			i += 2
		}
	}
	return string(b)
}

// jsonForms returns text as encoders write it inside a JSON string: with and
// without HTML escapes, with an escaped slash, in ASCII only, and as Go quotes
// it.
func jsonForms(text string) []string {
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a string always encodes
	unquoted := strings.TrimSuffix(strings.TrimSpace(plain.String()), `"`)[1:]
	html, _ := json.Marshal(text)
	goQuoted := strconv.Quote(text)
	return []string{
		unquoted,
		string(html[1 : len(html)-1]),
		strings.ReplaceAll(unquoted, "/", `\/`),
		asciiJSON(unquoted),
		goQuoted[1 : len(goQuoted)-1],
	}
}

// asciiJSON escapes the characters beyond ASCII in the inside of a JSON string.
func asciiJSON(s string) string {
	var b strings.Builder
	for _, c := range s {
		if c < 0x80 {
			b.WriteRune(c)
			continue
		}
		for _, unit := range utf16.Encode([]rune{c}) {
			b.WriteString(`\u` + strconv.FormatUint(uint64(unit)|1<<16, 16)[1:])
		}
	}
	return b.String()
}
