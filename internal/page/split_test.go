package page

import (
	"slices"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/crib"
)

func TestSplitCommand(t *testing.T) {
	tests := []struct {
		in   string
		want []string
		err  string
	}{
		{in: `npx -y pkg@1.2.3`, want: []string{"npx", "-y", "pkg@1.2.3"}},
		{in: "  a\t b\n c  ", want: []string{"a", "b", "c"}},
		{in: `"/opt/MCP Servers/s" --c="a b" ''`, want: []string{"/opt/MCP Servers/s", "--c=a b", ""}},
		{in: `"C:\Program Files\n.exe" -x`, want: []string{`C:\Program Files\n.exe`, "-x"}},
		{in: `C:\Program Files\n.exe -x`, want: []string{`C:\Program`, `Files\n.exe`, "-x"}},
		{in: `x --root=\\srv\share`, want: []string{"x", `--root=\\srv\share`}},
		{in: `x "\\srv\my share"`, want: []string{"x", `\\srv\my share`}},
		{in: `/opt/My\ Srv/x y`, want: []string{"/opt/My Srv/x", "y"}},
		{in: `x C:\dir\ y`, want: []string{"x", `C:\dir\`, "y"}},
		{in: `x C:\ y`, want: []string{"x", `C:\`, "y"}},
		{in: `x '{"a": "b c"}'`, want: []string{"x", `{"a": "b c"}`}},
		{in: `x "{\"a\": \"b\"}"`, want: []string{"x", `{"a": "b"}`}},
		{in: `x \"a b\'`, want: []string{"x", `"a`, `b'`}},
		{in: `x 'C:\dir\'`, want: []string{"x", `C:\dir\`}},
		{in: `x a'b'"c"d`, want: []string{"x", "abcd"}},
		{in: `x "" ''`, want: []string{"x", "", ""}},
		{in: `x "&&" '|' a\b`, want: []string{"x", "&&", "|", `a\b`}},
		{in: `x a|b a>b http://h/?a=1&b=2`, want: []string{"x", "a|b", "a>b", "http://h/?a=1&b=2"}},
		{in: `~/bin/x ~ *.go #no`, want: []string{"~/bin/x", "~", "*.go", "#no"}},
		{in: `./x A=b`, want: []string{"./x", "A=b"}},
		{in: `x ä "ö ü"`, want: []string{"x", "ä", "ö ü"}},
		{in: `x \`, want: []string{"x", `\`}},

		{in: ``, err: "names no program"},
		{in: " \n", err: "names no program"},
		{in: `''`, err: "names no program"},
		{in: `a "b`, err: `a " is not closed`},
		{in: `a 'b`, err: `a ' is not closed`},
		{in: `a "C:\dir\"`, err: `is not closed`},
		{in: `a && b`, err: "word 2 is for a shell"},
		{in: `a | b`, err: "no shell runs"},
		{in: `a ; b`, err: "no shell runs"},
		{in: `a; b`, err: "no shell runs"},
		{in: `a > f`, err: "no shell runs"},
		{in: `a b 2>&1`, err: "word 3"},
		{in: `a $(b)`, err: "no shell runs"},
		{in: "a `b`", err: "no shell runs"},
		{in: `FOO=bar a`, err: "put it under env"},
		{in: "a\x00b", err: "NUL"},
		{in: `a ${ env:T }`, err: "not expanded"},
		{in: `a --k="${T:-x}"`, err: "not expanded"},
	}
	for _, tt := range tests {
		got, err := SplitCommand(tt.in)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || crib.CodeOf(err) != crib.Invalid {
				t.Errorf("%q: got %q, error %v; want %q", tt.in, got, err, tt.err)
			}
			continue
		}
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%q: got %q, %v; want %q", tt.in, got, err, tt.want)
		}
	}
}
