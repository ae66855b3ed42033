package page

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// SetEnabled returns the page src with mcp.enabled set, and every other byte
// as it was. The result is read back before it is returned: an Unsupported
// error says that the page is written in a way that cannot be edited safely.
func SetEnabled(src []byte, enabled bool) ([]byte, error) {
	before, faults := Parse("page", src)
	if msg := firstError(faults); msg != "" {
		return nil, crib.Errorf(crib.Invalid, "the page has a fault, mend it first: %s", msg)
	}
	if before.Block.Enabled == enabled {
		return src, nil
	}
	front, _ := splitPage(src)
	root, _ := ParseYAML("page", front.padded())
	block, at, _ := findBlock(&Decoder{}, root)
	lines := bytes.SplitAfter(src, []byte("\n"))
	if v, ok := block.Get("enabled"); ok {
		replaceAt(lines, v.At, v.Text, strconv.FormatBool(enabled))
	} else {
		insertAt(lines, at, block.Members[0].At, "enabled: "+strconv.FormatBool(enabled))
	}
	out := bytes.Join(lines, nil)
	after, faults := Parse("page", out)
	before.Block.Enabled = enabled
	if Faulty(faults) || !sameBlock(before.Block, after.Block) || after.Body != before.Body {
		return nil, crib.Errorf(crib.Unsupported, "this page is written in a way that cannot be edited safely: write enabled: %t under mcp: by hand", enabled)
	}
	return out, nil
}

// replaceAt replaces old at a place by now. Where something else stands there,
// it changes nothing, and reading back will notice.
func replaceAt(lines [][]byte, at Place, old, now string) {
	before, after := cutAt(lines[at.Line-1], at.Col)
	if rest, ok := strings.CutPrefix(after, old); ok {
		lines[at.Line-1] = []byte(before + now + rest)
	}
}

// insertAt adds a key before the first one of a block, in the block's own
// style. block is the place of the block's name, first that of its first key.
func insertAt(lines [][]byte, block, first Place, text string) {
	line := lines[first.Line-1]
	before, after := cutAt(line, first.Col)
	switch end := "\n"; {
	case first.Line == block.Line: // { … } behind the name
		lines[first.Line-1] = []byte(before + text + ", " + after)
	default:
		if bytes.HasSuffix(line, []byte("\r\n")) {
			end = "\r\n"
		}
		if bytes.Contains(lines[block.Line-1], []byte("{")) {
			text += ","
		}
		lines[first.Line-1] = []byte(strings.Repeat(" ", first.Col-1) + text + end + string(line))
	}
}

// cutAt cuts line before column col, which counts characters from 1.
func cutAt(line []byte, col int) (before, after string) {
	runes := []rune(string(line))
	i := min(max(col-1, 0), len(runes))
	return string(runes[:i]), string(runes[i:])
}

// firstError returns the first of faults that is no warning, without the name
// of the file, or "".
func firstError(faults []Fault) string {
	for _, f := range faults {
		if f.Severity == Error {
			if f.Line > 0 {
				return "line " + strconv.Itoa(f.Line) + ": " + f.Msg
			}
			return f.Msg
		}
	}
	return ""
}
