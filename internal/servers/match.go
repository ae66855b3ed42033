package servers

import (
	"strings"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/page"
)

// Match reports whether name matches pattern, in which "*" stands for any run
// of characters, also an empty one. Nothing else is special, and case counts.
func Match(pattern, name string) bool {
	first, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, first)
	if !ok {
		return false
	}
	for {
		middle, after, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(name, rest)
		}
		// The earliest place leaves the most for what follows.
		i := strings.Index(name, middle)
		if i < 0 {
			return false
		}
		name, rest = name[i+len(middle):], after
	}
}

// specificity orders patterns that match one name: a name without "*" before
// all others, then by the length of the text before the first "*".
func specificity(pattern string) int {
	prefix, _, wild := strings.Cut(pattern, "*")
	if !wild {
		return page.MaxPattern + 1
	}
	return len(prefix)
}

// strictness orders effects. An effect that is not known is the strictest.
func strictness(e crib.Effect) int {
	switch e {
	case crib.Allow:
		return 0
	case crib.Ask:
		return 1
	}
	return 2
}

// GateFor returns what d says about calls to tool, and the pattern that says
// it. The most specific pattern decides; of two that are equally specific, the
// stricter one. explicit is false where no pattern matches.
func (d Definition) GateFor(tool string) (effect crib.Effect, pattern string, explicit bool) {
	best := -1
	for _, g := range d.Gates {
		if !Match(g.Pattern, tool) {
			continue
		}
		s := specificity(g.Pattern)
		if s > best || s == best && strictness(g.Effect) > strictness(effect) {
			effect, pattern, explicit, best = g.Effect, g.Pattern, true, s
		}
	}
	return effect, pattern, explicit
}

// Offers reports whether the crib offers tool of this server at all: a pattern
// of d.Tools matches it, or there are only patterns with "!", and none of those
// matches. The order of the patterns does not count.
func (d Definition) Offers(tool string) bool {
	wanted, positive := false, false
	for _, p := range d.Tools {
		if out, ok := strings.CutPrefix(p, "!"); ok {
			if Match(out, tool) {
				return false
			}
			continue
		}
		positive = true
		wanted = wanted || Match(p, tool)
	}
	return wanted || !positive
}

// PassesMethod reports whether d lets a vendor method through. The methods and
// notifications of the protocol never are, whatever the patterns say.
func (d Definition) PassesMethod(method string) bool {
	if page.CoreMethod(method) {
		return false
	}
	for _, p := range d.Methods {
		if Match(p, method) {
			return true
		}
	}
	return false
}
