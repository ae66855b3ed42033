package secret

import (
	"regexp"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// AnyStore is the store name that stands for all stores, tried in order.
const AnyStore = "secrets"

// Ref names a secret: where it is kept, and what it is called there.
type Ref struct {
	Store string // a store's name, or AnyStore
	Name  string
}

func (r Ref) String() string { return "${ " + r.Store + ":" + r.Name + " }" }

// Template is a value as it was written: literal text and references. It
// holds no resolved secret and does not change when one is rotated. The zero
// Template is the empty text.
type Template struct {
	parts []part
}

// part is literal text or, when ref.Name is set, a reference.
type part struct {
	text string
	ref  Ref
}

// Literal is the Template of text that is sent as it stands.
func Literal(text string) Template {
	if text == "" {
		return Template{}
	}
	return Template{parts: []part{{text: text}}}
}

// Reference is the Template that consists of one secret.
func Reference(store, name string) Template {
	return Template{parts: []part{{ref: Ref{Store: store, Name: name}}}}
}

// Join is the Template that consists of a followed by b.
func Join(a, b Template) Template {
	var t Template
	for _, p := range slices.Concat(a.parts, b.parts) {
		if last := len(t.parts) - 1; last >= 0 && p.ref.Name == "" && t.parts[last].ref.Name == "" {
			t.parts[last].text += p.text
			continue
		}
		t.parts = append(t.parts, p)
	}
	return t
}

// Refs returns the secrets that t names, in order, each once.
func (t Template) Refs() []Ref {
	var refs []Ref
	seen := map[Ref]bool{}
	for _, p := range t.parts {
		if p.ref.Name != "" && !seen[p.ref] {
			seen[p.ref] = true
			refs = append(refs, p.ref)
		}
	}
	return refs
}

// LiteralText returns the text of t, and false if t names a secret.
func (t Template) LiteralText() (string, bool) {
	var b strings.Builder
	for _, p := range t.parts {
		if p.ref.Name != "" {
			return "", false
		}
		b.WriteString(p.text)
	}
	return b.String(), true
}

// Source returns t in the notation that ParseToolValue reads: literal text
// with "$$" for a dollar, and references. It is stable, so it can be digested.
// Literal text is shown, even if somebody wrote a key there.
func (t Template) Source() string {
	var b strings.Builder
	for _, p := range t.parts {
		if p.ref.Name != "" {
			b.WriteString(p.ref.String())
			continue
		}
		b.WriteString(strings.ReplaceAll(p.text, "$", "$$"))
	}
	return b.String()
}

// String returns what may be shown of t: its source, or Mask if a key seems to
// be written in it.
func (t Template) String() string {
	if t.HoldsKey("") {
		return Mask
	}
	return t.Source()
}

// HoldsKey reports whether literal text of t looks like a key under name.
func (t Template) HoldsKey(name string) bool {
	for _, p := range t.parts {
		if p.ref.Name == "" && LooksLikeKey(name, p.text) {
			return true
		}
	}
	return false
}

var (
	bareName  = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
	storeName = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)
	shellName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// ParsePageValue reads a text value of a page: a bare name such as GH_TOKEN is
// a secret in any store; text with "${ store:NAME }" in it is expanded; "$$"
// is a dollar. Text without a reference is an error, so that a secret cannot
// be pasted into a page by mistake. The page's { value: … } form is Literal:
// nothing in it is expanded.
//
// Errors never show the value.
func ParsePageValue(text string) (Template, error) {
	if bareName.MatchString(text) {
		if LooksLikeKey("", text) {
			return Template{}, crib.Errorf(crib.Invalid, "this looks like a key, where the name of a secret was expected: "+
				"move it into a store, in the workspace folder with (umask 077; printf %%s '…' > secrets/NAME), and write NAME here")
		}
		return Reference(AnyStore, text), nil
	}
	t, err := parse(text)
	if err != nil {
		return Template{}, err
	}
	if _, literal := t.LiteralText(); literal {
		return Template{}, crib.Errorf(crib.Invalid, "plain text is not taken here: write the NAME of a secret in capitals, "+
			"or { value: … } for text that is no secret, or text with ${ store:NAME } in it")
	}
	return t, nil
}

// ParseToolValue reads a value of a tools: entry: literal text in which
// "${ store:NAME }" is expanded and "$$" is a dollar. A literal that looks
// like a key is refused with the command that moves it into a store. name says
// what the value is for, such as "google-maps API_KEY": it decides with the
// value whether that looks like a key, and the secret's suggested name is made
// of it.
//
// Errors never show the value.
func ParseToolValue(name, text string) (Template, error) {
	t, err := parse(text)
	if err != nil {
		return Template{}, err
	}
	if t.HoldsKey(name) {
		to := SuggestName(name)
		return Template{}, crib.Errorf(crib.Invalid, "this looks like a key, and keys do not belong into this file: "+
			"move it into a store, in the workspace folder with (umask 077; printf %%s '…' > secrets/%s), and write ${ %s:%s } here",
			to, AnyStore, to)
	}
	return t, nil
}

// SuggestName makes a secret name of the name of a header, variable or
// parameter: X-Api-Key becomes X_API_KEY.
func SuggestName(name string) string {
	var b strings.Builder
	for _, c := range strings.ToUpper(name) {
		switch {
		case c >= 'A' && c <= 'Z', c >= '0' && c <= '9' && b.Len() > 0:
			b.WriteRune(c)
		case b.Len() > 0:
			b.WriteByte('_')
		}
	}
	if b.Len() == 0 {
		return "NAME"
	}
	return b.String()
}

// parse reads the one notation of references.
func parse(text string) (Template, error) {
	var t Template
	var lit strings.Builder
	flush := func() {
		if lit.Len() > 0 {
			t.parts = append(t.parts, part{text: lit.String()})
			lit.Reset()
		}
	}
	for {
		before, rest, found := strings.Cut(text, "$")
		lit.WriteString(before)
		if !found {
			flush()
			return t, nil
		}
		switch {
		case strings.HasPrefix(rest, "$"):
			lit.WriteByte('$')
			text = rest[1:]
		case strings.HasPrefix(rest, "{"):
			inner, after, closed := strings.Cut(rest[1:], "}")
			if !closed {
				return Template{}, crib.Errorf(crib.Invalid, "a ${ has no closing brace: write ${ store:NAME }, or $$ for a dollar")
			}
			ref, err := parseRef(strings.TrimSpace(inner))
			if err != nil {
				return Template{}, err
			}
			flush()
			t.parts = append(t.parts, part{ref: ref})
			text = after
		default:
			return Template{}, crib.Errorf(crib.Invalid, "a single $ means nothing here: write $$ for a dollar, or ${ store:NAME } for a secret")
		}
	}
}

// parseRef reads what stands between the braces. What it shows in errors is a
// name in capitals, or nothing.
func parseRef(inner string) (Ref, error) {
	store, name, found := strings.Cut(inner, ":")
	store, name = strings.TrimSpace(store), strings.TrimSpace(name)
	switch {
	case !found && bareName.MatchString(inner):
		return Ref{}, crib.Errorf(crib.Invalid, "${%s} names no store: write ${ %s:%s } for all stores, or ${ env:%s }", inner, AnyStore, inner, inner)
	case found && strings.HasPrefix(name, "-") && bareName.MatchString(store):
		return Ref{}, crib.Errorf(crib.Invalid, "${%s:-…} with a default is not known: write ${ %s:%s } and put the value into a store", store, AnyStore, store)
	case !found || !storeName.MatchString(store) || name == "" || strings.ContainsAny(name, "${"):
		return Ref{}, crib.Errorf(crib.Invalid, "a ${…} is not understood: write ${ store:NAME }, such as ${ %s:GH_TOKEN }, or $$ for a dollar", AnyStore)
	}
	return Ref{Store: store, Name: name}, nil
}
