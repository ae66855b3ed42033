package child

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// split feeds the stream in the pieces given and records what comes out.
func split(maxLine int, pieces ...[]byte) []string {
	var got []string
	s := splitter{
		max:        maxLine,
		onLine:     func(line []byte) { got = append(got, string(line)) },
		onOversize: func(prefix []byte) { got = append(got, fmt.Sprintf("over:%s", prefix)) },
	}
	for _, piece := range pieces {
		s.write(piece)
	}
	s.end()
	return got
}

func TestSplitterTakesTheStreamInAnyPieces(t *testing.T) {
	for _, tc := range []struct {
		name, stream string
		want         []string
	}{
		{"line ends", "a\r\nb\n\r\n\nc\r\r\n", []string{"a", "b", "c\r"}},
		{"bare CR is no end", "a\rb\n", []string{"a\rb"}},
		{"mark at the start only", "\ufeffa\n\ufeffb\n", []string{"a", "\ufeffb"}},
		{"mark alone", "\ufeff\na\n", []string{"a"}},
		{"unfinished", "a\nbc", []string{"a", "bc"}},
		{"blank", " \t\n\n", nil},
		{"as long as allowed", "12345678\n12345678\r\n", []string{"12345678", "12345678"}},
		{"too long by one", "123456789\nz\n", []string{"over:123456789", "z"}},
		{"CR counts when it is not the end", "12345678\rx\nz\n", nil},
		{"unfinished and too long", "123456789", []string{"over:123456789"}},
		{"first line with a mark as long as allowed", "\ufeff12345678\r\nz\n", []string{"12345678", "z"}},
		{"long first line with a mark", "\ufeff12345678901234\nz\n", nil},
		{"UTF-8", "é漢\n", []string{"é漢"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for i := range len(tc.stream) + 1 {
				got := split(8, []byte(tc.stream[:i]), []byte(tc.stream[i:]))
				if tc.want == nil {
					checkOversize(t, got, tc.stream)
				} else if !slices.Equal(got, tc.want) {
					t.Fatalf("split at %d: got %q, want %q", i, got, tc.want)
				}
			}
		})
	}
}

// checkOversize allows any prefix: how much of a long line has come when it
// proves too long depends on the pieces.
func checkOversize(t *testing.T, got []string, stream string) {
	t.Helper()
	if strings.TrimSpace(stream) == "" {
		if len(got) > 0 {
			t.Fatalf("got %q", got)
		}
		return
	}
	if len(got) != 2 || got[1] != "z" {
		t.Fatalf("got %q", got)
	}
	prefix, ok := strings.CutPrefix(got[0], "over:")
	if !ok || len(prefix) < 8 || !strings.HasPrefix(strings.TrimPrefix(stream, "\ufeff"), prefix) {
		t.Fatalf("got %q", got)
	}
}

func TestSplitterReportsALongLineOnceAndAtOnce(t *testing.T) {
	var prefix []byte
	calls := 0
	s := splitter{max: 10_000, onLine: func([]byte) {}, onOversize: func(p []byte) { prefix = p; calls++ }}
	for range 3 {
		s.write(bytes.Repeat([]byte("x"), 8_000))
	}
	if calls != 1 || len(prefix) != OversizePrefix {
		t.Errorf("%d calls, prefix of %d bytes", calls, len(prefix))
	}
	if cap(s.line) > 0 {
		t.Errorf("%d bytes of a line that was given up are kept", cap(s.line))
	}
}

func TestSplitterLinesMayBeKept(t *testing.T) {
	chunk := []byte("one\ntwo\n")
	var kept [][]byte
	s := splitter{max: 8, onLine: func(line []byte) { kept = append(kept, line) }, onOversize: func([]byte) {}}
	s.write(chunk)
	copy(chunk, "########")
	if got := string(bytes.Join(kept, []byte{' '})); got != "one two" {
		t.Errorf("got %q", got)
	}
}
