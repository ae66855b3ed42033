// Package text is how commands write for people: what servers say is made
// visible first, and only a terminal gets columns and colours.
package text

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Characters that are letters or marks to Unicode and show nothing, so that
// they can carry text past a person's eyes.
var blank = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x034f, Hi: 0x034f, Stride: 1}, // combining grapheme joiner
		{Lo: 0x115f, Hi: 0x1160, Stride: 1}, // Hangul fillers
		{Lo: 0x17b4, Hi: 0x17b5, Stride: 1}, // Khmer inherent vowels
		{Lo: 0x180b, Hi: 0x180f, Stride: 1}, // Mongolian selectors
		{Lo: 0x2800, Hi: 0x2800, Stride: 1}, // Braille without dots
		{Lo: 0x3164, Hi: 0x3164, Stride: 1}, // Hangul filler
		{Lo: 0xfe00, Hi: 0xfe0d, Stride: 1}, // variation selectors but those of emoji
		{Lo: 0xffa0, Hi: 0xffa0, Stride: 1}, // half-width Hangul filler
	},
	R32: []unicode.Range32{
		{Lo: 0xe0100, Hi: 0xe01ef, Stride: 1}, // more variation selectors
	},
}

// shows reports whether a person sees c as it is. Format characters, which
// include those that turn the direction of text, do not show.
func shows(c rune) bool {
	return unicode.IsPrint(c) && !unicode.Is(blank, c) || unicode.Is(unicode.Zs, c)
}

// Visible returns s, which may come from a server, so that all of it is seen
// and none of it drives the terminal: control, invisible and direction-turning
// characters are written as escapes. Line breaks and tabs stay.
func Visible(s string) string {
	return escapeUnseen(s, func(c rune) bool { return c == '\n' || c == '\t' || shows(c) }, escaped)
}

// OneLine is Visible for a place that has one line: runs of white space
// become one space.
func OneLine(s string) string { return Visible(strings.Join(strings.Fields(s), " ")) }

// VisibleJSON is Visible for JSON text, which stays the same value: what is
// escaped can only stand inside strings.
func VisibleJSON(s string) string {
	return escapeUnseen(s, func(c rune) bool { return c < utf8.RuneSelf || shows(c) }, func(c rune, _ string) string {
		if c > 0xffff {
			hi, lo := utf16.EncodeRune(c)
			return fmt.Sprintf(`\u%04x\u%04x`, hi, lo)
		}
		return fmt.Sprintf(`\u%04x`, c)
	})
}

func escapeUnseen(s string, seen func(rune) bool, escape func(rune, string) string) string {
	var b strings.Builder
	for len(s) > 0 {
		c, n := utf8.DecodeRuneInString(s)
		if broken := c == utf8.RuneError && n == 1; broken || !seen(c) {
			b.WriteString(escape(c, s[:n]))
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// escaped writes c as Go does; raw are its bytes, which may be no character.
func escaped(c rune, raw string) string {
	switch {
	case c == utf8.RuneError && len(raw) == 1:
		return fmt.Sprintf(`\x%02x`, raw[0])
	case c == '\r':
		return `\r`
	case c < 0x100:
		return fmt.Sprintf(`\x%02x`, c)
	case c > 0xffff:
		return fmt.Sprintf(`\U%08x`, c)
	}
	return fmt.Sprintf(`\u%04x`, c)
}

// Count is n with its noun: 1 tool, 12 tools.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
