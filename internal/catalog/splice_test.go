package catalog

import (
	"testing"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// URIs of a server's resources lead through the crib on the aggregate;
// everything else comes out as it came.
func TestSpliceResult(t *testing.T) {
	const same = ""
	tests := []struct {
		name, method, result, want string
	}{
		{"text that looks like one", "tools/call", `{"content":[{"type":"text","text":"uri: file:///a","uri":"file:///a"}]}`, same},
		{"content that nobody knows", "tools/call", `{"content":[{"type":"x-new","uri":"file:///a","resource":{"uri":"file:///a"}}]}`, same},
		{"content without a type", "tools/call", `{"content":[{"uri":"file:///a"}]}`, same},
		{"structured content", "tools/call", `{"structuredContent":{"type":"resource_link","uri":"file:///a","content":[{"type":"resource_link","uri":"file:///a"}]}}`, same},
		{"an image", "tools/call", `{"content":[{"type":"image","data":"AA==","uri":"file:///a"}]}`, same},
		{"nothing", "tools/call", `{}`, same},
		{"no list", "tools/call", `{"content":{"type":"resource_link","uri":"file:///a"}}`, same},
		{"no result", "tools/call", `null`, same},

		{"a link", "tools/call",
			`{ "content" : [ {"type":"text","text":"1"}, {"type":"resource_link", "uri": "file:///a" ,"n":1.0} ],"x":1e2}`,
			`{ "content" : [ {"type":"text","text":"1"}, {"type":"resource_link", "uri": "crib.s+file:///a" ,"n":1.0} ],"x":1e2}`},
		{"a link whose type stands behind", "tools/call",
			`{"content":[{"uri":"file:///a","type":"resource_link"}]}`,
			`{"content":[{"uri":"crib.s+file:///a","type":"resource_link"}]}`},
		{"an embedded resource", "tools/call",
			`{"content":[{"type":"resource","uri":"out:er","resource":{"uri":"file:///a","text":"file:///a"}}]}`,
			`{"content":[{"type":"resource","uri":"out:er","resource":{"uri":"crib.s+file:///a","text":"file:///a"}}]}`},
		{"two of them", "tools/call",
			`{"content":[{"type":"resource_link","uri":"a:1"},{"type":"resource","resource":{"uri":"a:2"}}]}`,
			`{"content":[{"type":"resource_link","uri":"crib.s+a:1"},{"type":"resource","resource":{"uri":"crib.s+a:2"}}]}`},
		{"a page of an app", "tools/call",
			`{"content":[{"type":"resource_link","uri":"ui://x/y"}]}`,
			`{"content":[{"type":"resource_link","uri":"ui://crib.s/x/y"}]}`},
		{"an address on the web", "tools/call", `{"content":[{"type":"resource_link","uri":"https://example.com/"}]}`, same},
		{"a URI with escapes", "tools/call",
			`{"content":[{"type":"resource_link","uri":"file:\/\/\/\u0061"}]}`,
			`{"content":[{"type":"resource_link","uri":"crib.s+file:///a"}]}`},
		{"a URI that is no string", "tools/call", `{"content":[{"type":"resource_link","uri":7}]}`, same},

		{"what was read", "resources/read",
			`{"contents":[{"uri":"file:///a","text":"file:///a"},{"uri":"file:///b","blob":""}]}`,
			`{"contents":[{"uri":"crib.s+file:///a","text":"file:///a"},{"uri":"crib.s+file:///b","blob":""}]}`},
		{"content of a read", "resources/read", `{"content":[{"type":"resource_link","uri":"file:///a"}]}`, same},
		{"contents of a call", "tools/call", `{"contents":[{"uri":"file:///a"}]}`, same},

		{"a prompt with one block", "prompts/get",
			`{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"file:///a"}}}]}`,
			`{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"crib.s+file:///a"}}}]}`},
		{"a prompt with several blocks", "prompts/get",
			`{"messages":[{"role":"user","content":[{"type":"text","text":"file:///a"},{"type":"resource_link","uri":"file:///a"}]},{"content":{"type":"resource_link","uri":"b:"},"role":"user"}]}`,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"file:///a"},{"type":"resource_link","uri":"crib.s+file:///a"}]},{"content":{"type":"resource_link","uri":"crib.s+b:"},"role":"user"}]}`},
		{"a prompt with text", "prompts/get", `{"messages":[{"role":"user","content":{"type":"text","text":"file:///a"}}]}`, same},
		{"a completion", "completion/complete", `{"completion":{"values":["file:///a"]},"content":[{"type":"resource_link","uri":"a:"}]}`, same},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			if want == same {
				want = tt.result
			}
			edits := SpliceResult("s", tt.method, []byte(tt.result))
			if got := string(wire.Apply(nil, []byte(tt.result), edits...)); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}
