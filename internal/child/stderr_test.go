package child

import (
	"strings"
	"testing"
)

func TestStderrTail(t *testing.T) {
	for _, tc := range []struct {
		name    string
		written []string
		lines   int
		want    string
	}{
		{"nothing", nil, 3, ""},
		{"fewer than asked for", []string{"a\nb\n"}, 3, "a\nb"},
		{"the last ones", []string{"a\nb\nc\nd\n"}, 2, "c\nd"},
		{"unfinished", []string{"a\nb"}, 1, "b"},
		{"CRLF", []string{"a\r\nb\r\n"}, 2, "a\nb"},
		{"progress bar", []string{"10%\r", "55%\r", "100%", "\ndone\n"}, 2, "100%\ndone"},
		{"progress bar at its start", []string{"10%\r90%\r"}, 1, "90%"},
		{"cut inside a line", []string{strings.Repeat("x", 30) + "\nlast\n"}, 9, "last"},
		{"one line longer than is kept", []string{strings.Repeat("x", 30)}, 9, strings.Repeat("x", 20)},
		{"many small ones", slicesRepeat("line\n", 100), 3, "line\nline\nline"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newStderrLog(20, nil)
			for _, chunk := range tc.written {
				l.write([]byte(chunk))
			}
			if got := l.tail(tc.lines); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if cap(l.kept) > 8*l.keep {
				t.Errorf("%d bytes are held for the last %d", cap(l.kept), l.keep)
			}
		})
	}
}

func slicesRepeat(s string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = s
	}
	return out
}
