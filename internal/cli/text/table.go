package text

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// Style is how a terminal shows a text.
type Style string

// The styles.
const (
	Plain Style = ""
	Bold  Style = "1"
	Dim   Style = "2"
	Red   Style = "31"
	Green Style = "32"
	Amber Style = "33"
)

// minLastColumn is the least width, in characters, to which the last column
// of a table is cut.
const minLastColumn = 20

// Screen writes for people: with colours and columns on a terminal, else plain.
type Screen struct {
	W      io.Writer
	Colour bool
	Width  int // of the terminal in characters, 0 where there is none
}

// NewScreen is the screen that w is: a terminal, or none. NO_COLOR and
// TERM=dumb leave out the colours.
func NewScreen(w io.Writer, getenv func(string) string) Screen {
	s := Screen{W: w}
	if !IsTerminal(w) {
		return s
	}
	s.Width = defaultWidth
	if width, _, err := term.GetSize(int(w.(*os.File).Fd())); err == nil && width > 0 {
		s.Width = width
	}
	s.Colour = getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
	return s
}

// defaultWidth is that of a terminal which does not say, in characters.
const defaultWidth = 80

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Styled wraps text, which must be visible already.
func (p Screen) Styled(s Style, text string) string {
	if !p.Colour || s == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// Line writes its parts and ends the line.
func (p Screen) Line(parts ...string) {
	_, _ = io.WriteString(p.W, strings.Join(parts, "")+"\n")
}

// Cell is one field of a table.
type Cell struct {
	Text  string
	Style Style
}

// Cell is a field in this style.
func (s Style) Cell(text string) Cell { return Cell{text, s} }

// Cells are texts without a style.
func Cells(texts ...string) []Cell {
	row := make([]Cell, 0, len(texts))
	for _, t := range texts {
		row = append(row, Cell{Text: t})
	}
	return row
}

// Table writes rows below a head. On a terminal the columns stand below each
// other and the last one is cut to the width; elsewhere there is a line a row
// without the head, its fields apart by tabs.
func (p Screen) Table(head []string, rows [][]Cell) {
	for _, row := range rows {
		for i := range row {
			row[i].Text = OneLine(row[i].Text)
		}
	}
	if p.Width == 0 {
		for _, row := range rows {
			texts := make([]string, 0, len(row))
			for _, c := range row {
				texts = append(texts, c.Text)
			}
			p.Line(strings.TrimRight(strings.Join(texts, "\t"), "\t"))
		}
		return
	}
	top := Cells(head...)
	for i := range top {
		top[i].Style = Bold
	}
	rows = append([][]Cell{top}, rows...)
	widths := columnWidths(rows, p.Width)
	for _, row := range rows {
		var b strings.Builder
		for i, c := range row {
			text := cut(c.Text, widths[i])
			b.WriteString(p.Styled(c.Style, text))
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+columnGap))
			}
		}
		p.Line(strings.TrimRight(b.String(), " "))
	}
}

const columnGap = 2 // spaces

func columnWidths(rows [][]Cell, width int) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.Text))
		}
	}
	last, left := len(widths)-1, width
	for _, w := range widths[:last] {
		left -= w + columnGap
	}
	widths[last] = min(widths[last], max(left, minLastColumn))
	return widths
}

// cut shortens text to at most width characters.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}
