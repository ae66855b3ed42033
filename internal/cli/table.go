package cli

import (
	"io"
	"strings"
	"unicode/utf8"
)

// style is how a terminal shows a text.
type style string

const (
	plain style = ""
	bold  style = "1"
	dim   style = "2"
	red   style = "31"
	green style = "32"
	amber style = "33"
)

// minLastColumn is the least width, in characters, to which the last column
// of a table is cut.
const minLastColumn = 20

// screen writes for people: with colours and columns on a terminal, else plain.
type screen struct {
	w      io.Writer
	colour bool
	width  int // of the terminal in characters, 0 where there is none
}

// styled wraps text, which must be visible already.
func (p screen) styled(s style, text string) string {
	if !p.colour || s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// line writes its parts and ends the line.
func (p screen) line(parts ...string) {
	_, _ = io.WriteString(p.w, strings.Join(parts, "")+"\n")
}

// cell is one field of a table.
type cell struct {
	text  string
	style style
}

func cells(texts ...string) []cell {
	row := make([]cell, 0, len(texts))
	for _, t := range texts {
		row = append(row, cell{text: t})
	}
	return row
}

// table writes rows below a head. On a terminal the columns stand below each
// other and the last one is cut to the width; elsewhere there is a line a row
// without the head, its fields apart by tabs.
func (p screen) table(head []string, rows [][]cell) {
	for _, row := range rows {
		for i := range row {
			row[i].text = oneLine(row[i].text)
		}
	}
	if p.width == 0 {
		for _, row := range rows {
			texts := make([]string, 0, len(row))
			for _, c := range row {
				texts = append(texts, c.text)
			}
			p.line(strings.TrimRight(strings.Join(texts, "\t"), "\t"))
		}
		return
	}
	top := cells(head...)
	for i := range top {
		top[i].style = bold
	}
	rows = append([][]cell{top}, rows...)
	widths := columnWidths(rows, p.width)
	for _, row := range rows {
		var b strings.Builder
		for i, c := range row {
			text := cut(c.text, widths[i])
			b.WriteString(p.styled(c.style, text))
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+columnGap))
			}
		}
		p.line(strings.TrimRight(b.String(), " "))
	}
}

const columnGap = 2 // spaces

func columnWidths(rows [][]cell, width int) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
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
