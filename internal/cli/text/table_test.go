package text

import (
	"bytes"
	"testing"
)

func TestTable(t *testing.T) {
	rows := func() [][]Cell {
		return [][]Cell{
			{{Text: "files"}, {"ready", Green}, {Text: "a command\nthat is rather long for a line"}},
			{{Text: "x\x1b[0m"}, {"failed", Red}, {Text: ""}},
		}
	}
	head := []string{"SERVER", "STATE", "WHERE"}
	for _, tt := range []struct {
		name   string
		screen Screen
		want   string
	}{
		{"no terminal", Screen{}, "files\tready\ta command that is rather long for a line\nx\\x1b[0m\tfailed\n"},
		{"terminal", Screen{Width: 40}, "SERVER    STATE   WHERE\n" +
			"files     ready   a command that is rat…\n" +
			"x\\x1b[0m  failed\n"},
		{"narrow terminal", Screen{Width: 10}, "SERVER    STATE   WHERE\n" +
			"files     ready   a command that is r…\n" +
			"x\\x1b[0m  failed\n"},
		{"colours", Screen{Width: 80, Colour: true}, "\x1b[1mSERVER\x1b[0m    \x1b[1mSTATE\x1b[0m   \x1b[1mWHERE\x1b[0m\n" +
			"files     \x1b[32mready\x1b[0m   a command that is rather long for a line\n" +
			"x\\x1b[0m  \x1b[31mfailed\x1b[0m\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			tt.screen.W = &out
			tt.screen.Table(head, rows())
			if got := out.String(); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestTableWithoutRows(t *testing.T) {
	var out bytes.Buffer
	Screen{W: &out, Width: 80}.Table([]string{"A", "B"}, nil)
	if got := out.String(); got != "A  B\n" {
		t.Errorf("got %q", got)
	}
}
