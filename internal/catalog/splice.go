package catalog

import "github.com/toolcrib/toolcrib/internal/wire"

// SpliceResult makes the URIs in a result lead through the crib: of resource
// links, embedded resources and the contents that were read. Text is never
// touched.
func SpliceResult(server, method string, result []byte) []wire.Edit {
	var edits []wire.Edit
	add := func(base int, raw []byte) {
		for _, m := range wire.Members(raw) {
			if uri, ok := m.Val.Text(raw); ok && m.Key == "uri" {
				at := wire.Span{From: base + m.Val.From, To: base + m.Val.To}
				edits = append(edits, wire.Edit{At: at, With: wire.Quote(PublicURI(server, uri))})
			}
		}
	}
	block := func(base int, raw []byte) {
		switch kind, _ := wire.GetText(raw, "type"); kind {
		case "resource_link":
			add(base, raw)
		case "resource":
			for _, m := range wire.Members(raw) {
				if m.Key == "resource" {
					add(base+m.Val.From, m.Val.In(raw))
				}
			}
		}
	}
	for _, m := range wire.Members(result) {
		raw, base := m.Val.In(result), m.Val.From
		switch {
		case method == "tools/call" && m.Key == "content":
			each(raw, base, block)
		case method == "resources/read" && m.Key == "contents":
			each(raw, base, add)
		case method == "prompts/get" && m.Key == "messages":
			each(raw, base, func(base int, message []byte) {
				for _, c := range wire.Members(message) {
					if c.Key == "content" {
						block(base+c.Val.From, c.Val.In(message))
						each(c.Val.In(message), base+c.Val.From, block)
					}
				}
			})
		}
	}
	return edits
}

func each(array []byte, base int, f func(int, []byte)) {
	for _, at := range wire.Elements(array) {
		f(base+at.From, at.In(array))
	}
}
