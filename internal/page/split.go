package page

import (
	"regexp"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// shellWords are what a shell would act on. No shell runs, so a command line
// that has one of them as a word was meant for something else.
var shellWords = []string{"&&", "||", "|", "|&", ";", "&", ">", ">>", "<", "<<", "2>", "2>>", "&>", "2>&1", "!"}

var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// SplitCommand splits a command line into the program and its arguments, once
// and without a shell:
//
//   - Spaces, tabs and line ends separate words.
//   - 'single quotes' hold text as it is; "double quotes" too, except that \"
//     is a quote. Quotes may stand inside a word: --c="a b". Empty quotes are
//     an empty argument.
//   - A backslash is a backslash, so that C:\x and \\host\share stay whole.
//     Only before a quote, and before a space in a word without another
//     backslash, it takes the meaning of that character away: /opt/My\ Srv.
//   - Nothing is expanded: no variables, no ~, no patterns.
//
// A quote that is not closed, a word that only a shell understands and a
// variable set before the program are Invalid errors. They never show the
// text, which may hold a secret.
func SplitCommand(line string) ([]string, error) {
	words, err := SplitArgs(line)
	switch {
	case err != nil:
		return nil, err
	case len(words) == 0 || words[0] == "":
		return nil, crib.Errorf(crib.Invalid, "the command line names no program")
	case assignment.MatchString(words[0]):
		return nil, crib.Errorf(crib.Invalid, "a variable is set before the program, but no shell runs: put it under env")
	}
	return words, nil
}

// SplitArgs is SplitCommand for arguments alone; there may be none.
func SplitArgs(line string) ([]string, error) {
	if strings.ContainsRune(line, 0) {
		return nil, crib.Errorf(crib.Invalid, "a command line cannot hold a NUL character")
	}
	if reference.MatchString(line) { // before splitting: one with spaces would become several words
		return nil, crib.Errorf(crib.Invalid, "there is a ${…} in it, but %s", notExpanded)
	}
	s := splitter{rest: line}
	var words []string
	for s.skipSpace(); s.rest != ""; s.skipSpace() {
		word, quoted, err := s.word()
		if err != nil {
			return nil, err
		}
		if !quoted && (slices.Contains(shellWords, word) || strings.HasSuffix(word, ";") || strings.HasPrefix(word, "$(") || strings.HasPrefix(word, "`")) {
			return nil, crib.Errorf(crib.Invalid, "word %d is for a shell, but no shell runs: give one program and its arguments, or put the word in quotes", len(words)+1)
		}
		words = append(words, word)
	}
	return words, nil
}

type splitter struct{ rest string }

const spaces = " \t\r\n"

func (s *splitter) skipSpace() { s.rest = strings.TrimLeft(s.rest, spaces) }

// word takes the next word and says whether any of it was in quotes.
func (s *splitter) word() (word string, quoted bool, err error) {
	var b strings.Builder
	for s.rest != "" && !strings.ContainsRune(spaces, rune(s.rest[0])) {
		c := s.rest[0]
		switch {
		case c == '\'' || c == '"':
			quoted = true
			if err := s.quotes(c, &b); err != nil {
				return "", false, err
			}
		case c == '\\' && len(s.rest) > 1 && escapes(b.String(), s.rest[1]):
			b.WriteByte(s.rest[1])
			s.rest = s.rest[2:]
		default:
			b.WriteByte(c)
			s.rest = s.rest[1:]
		}
	}
	return b.String(), quoted, nil
}

// escapes reports whether a backslash between before and next is an escape
// and no part of a Windows path.
func escapes(before string, next byte) bool {
	switch next {
	case '"', '\'':
		return true
	case ' ', '\t':
		return !strings.Contains(before, `\`) && !strings.HasSuffix(before, ":")
	}
	return false
}

// quotes takes what stands between two quotes q.
func (s *splitter) quotes(q byte, b *strings.Builder) error {
	s.rest = s.rest[1:]
	for s.rest != "" {
		c := s.rest[0]
		switch {
		case c == q:
			s.rest = s.rest[1:]
			return nil
		case c == '\\' && q == '"' && strings.HasPrefix(s.rest, `\"`):
			b.WriteByte('"')
			s.rest = s.rest[2:]
		default:
			b.WriteByte(c)
			s.rest = s.rest[1:]
		}
	}
	return crib.Errorf(crib.Invalid, "a %c is not closed: close it, or give command and args as a list", q)
}
