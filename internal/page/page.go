package page

import (
	"bytes"
	"fmt"
	"slices"
)

// MaxPageBytes is the greatest size of a page, in bytes.
const MaxPageBytes = 1 << 20

// blockKey is the key of the front matter that defines a server.
const blockKey = "mcp"

// Page is a page that defines a server.
type Page struct {
	Block Block
	At    Place  // of the block
	Body  string // the text below the front matter, as it is
}

// Parse reads a page: YAML between two lines of "---", with the server under
// mcp: (or metadata: mcp:), then Markdown. name is what faults call the file.
// The Page is usable only where no fault is an Error.
func Parse(name string, src []byte) (Page, []Fault) {
	d := &Decoder{File: name}
	if len(src) > MaxPageBytes {
		d.Errorf(Place{}, "larger than %d KiB", MaxPageBytes>>10)
		return Page{}, d.Faults
	}
	parts, ok := splitPage(src)
	if !ok {
		d.Errorf(Place{Line: 1}, "a page begins with a line ---, then keys such as mcp:, then another line ---")
		return Page{}, d.Faults
	}
	root, faults := ParseYAML(name, parts.padded())
	if faults != nil {
		return Page{}, faults
	}
	p := Page{Body: string(parts.body)}
	n, at, ok := findBlock(d, root)
	if ok {
		checkOutside(d, root)
		p.Block, p.At = ReadBlock(d, n, "mcp"), at
	}
	return p, d.Faults
}

// parts are the pieces of a page. Joined, they are the page.
type parts struct {
	mark  []byte // a byte order mark, or nothing
	open  []byte // the first line
	front []byte
	close []byte
	body  []byte
}

// padded is the front matter at the lines where it stands in the page.
func (p parts) padded() []byte { return append([]byte("\n"), p.front...) }

func splitPage(src []byte) (parts, bool) {
	var p parts
	if bytes.HasPrefix(src, byteOrderMark) {
		p.mark, src = src[:len(byteOrderMark)], src[len(byteOrderMark):]
	}
	p.open, src = cutLine(src)
	if !isFence(p.open) {
		return parts{}, false
	}
	rest := src
	for len(rest) > 0 {
		line, after := cutLine(rest)
		if isFence(line) {
			p.front, p.close, p.body = src[:len(src)-len(rest)], line, after
			return p, true
		}
		rest = after
	}
	return parts{}, false
}

// cutLine returns the first line of b with its end, and what follows.
func cutLine(b []byte) (line, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i+1], b[i+1:]
	}
	return b, nil
}

func isFence(line []byte) bool { return string(bytes.TrimRight(line, " \t\r\n")) == "---" }

// findBlock returns the value of mcp: or of metadata: mcp:, and the place of
// its key.
func findBlock(d *Decoder, root Node) (Node, Place, bool) {
	var found []Member
	add := func(m Member) {
		if m.Key == blockKey {
			found = append(found, m)
		}
	}
	for _, m := range root.Members {
		add(m)
		if m.Key == "metadata" {
			for _, inner := range m.Value.Members {
				add(inner)
			}
		}
	}
	switch len(found) {
	case 1:
		return found[0].Value, found[0].At, true
	case 2:
		d.Errorf(found[1].At, "mcp is here twice, alone and under metadata: keep one of them")
	default:
		d.Errorf(root.At, "the front matter has no key mcp%s; it defines the server, such as mcp: { transport: { http: https://mcp.example.com } }", nearBlock(root))
	}
	return Node{}, Place{}, false
}

func nearBlock(root Node) string {
	for _, m := range root.Members {
		if Nearest(m.Key, []string{blockKey}) != "" {
			return fmt.Sprintf(" (did you mean mcp by %q?)", Clip(m.Key))
		}
	}
	return ""
}

// checkOutside refuses keys of the block that stand beside it: a page whose
// "enabled: false" is not indented would be enabled.
func checkOutside(d *Decoder, root Node) {
	free := []string{"description"} // pages of all kinds have one of their own
	for _, m := range root.Members {
		if _, ok := lookup(BlockFields(), m.Key); ok && !slices.Contains(free, m.Key) {
			d.Errorf(m.At, "%s belongs under mcp: indent it", m.Key)
		}
	}
}
