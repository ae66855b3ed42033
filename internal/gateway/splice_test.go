package gateway

import (
	"testing"

	"github.com/toolcrib/toolcrib/internal/bridge"
	"github.com/toolcrib/toolcrib/internal/servers"
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
			edits := spliceResult("s", tt.method, []byte(tt.result))
			if got := string(wire.Apply(nil, []byte(tt.result), edits...)); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// A server's own state takes the place of the crib's, and where it gave none
// the member goes, wherever it stands.
func TestStateEdit(t *testing.T) {
	tests := []struct {
		name, params, upstream, want string
	}{
		{"only", `{"requestState":"ours"}`, ``, `{}`},
		{"only, with room", `{ "requestState" : "ours" }`, ``, `{  }`},
		{"first", `{"requestState":"ours","name":"t"}`, ``, `{"name":"t"}`},
		{"middle", `{"name":"t", "requestState":"ours", "arguments":{}}`, ``, `{"name":"t", "arguments":{}}`},
		{"last", `{"name":"t", "requestState":"ours"}`, ``, `{"name":"t"}`},
		{"beside one of the arguments", `{"arguments":{"requestState":"theirs"},"requestState":"ours"}`, ``, `{"arguments":{"requestState":"theirs"}}`},
		{"a state", `{"name":"t","requestState":"ours"}`, `"the\u0069rs"`, `{"name":"t","requestState":"the\u0069rs"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := fromClient(t, `{"jsonrpc":"2.0","params":`+tt.params+`,"id":1,"method":"tools/call"}`)
			s := &bridge.State{}
			if tt.upstream != "" {
				s.Upstream = []byte(tt.upstream)
			}
			want := `{"jsonrpc":"2.0","params":` + tt.want + `,"id":1,"method":"tools/call"}`
			got := string(wire.Apply(nil, m.Body, stateEdit(m, s)))
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			fromClient(t, got)
		})
	}
}

// On the aggregate a person sees which server asks.
func TestSigned(t *testing.T) {
	tests := []struct {
		name, kind, body, want string
	}{
		{"a question", servers.MayElicitation, `{"method":"m","params":{"n":1,"message":"\u0041?"}}`, `{"method":"m","params":{"n":1,"message":"[s] \u0041?"}}`},
		{"an empty one", servers.MayElicitation, `{"params":{"message":""}}`, `{"params":{"message":"[s] "}}`},
		{"no text", servers.MayElicitation, `{"params":{"message":7}}`, `{"params":{"message":7}}`},
		{"no message", servers.MayElicitation, `{"params":{}}`, `{"params":{}}`},
		{"a message beside", servers.MayElicitation, `{"message":"m","params":{"x":{"message":"n"}}}`, `{"message":"m","params":{"x":{"message":"n"}}}`},
		{"what no person reads", servers.MaySampling, `{"params":{"message":"m"}}`, `{"params":{"message":"m"}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			const before = `{"k1":`
			body := []byte(before + tt.body + `}`)
			edits := signedAt("s", tt.kind, []byte(tt.body), len(before))
			if got, want := string(wire.Apply(nil, body, edits...)), before+tt.want+`}`; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// Where a client's name for something stands in a completion.
func TestRefAt(t *testing.T) {
	tests := []struct {
		ref, at string
		prompt  bool
	}{
		{`{"type":"ref/prompt","name":"p","uri":"u:"}`, `"p"`, true},
		{`{"uri":"u:","type":"ref/resource","name":"p"}`, `"u:"`, false},
		{`{"type":"ref/prompt"}`, ``, false},
		{`{"type":"ref/new","name":"p"}`, ``, false},
		{`{"name":"p"}`, ``, false},
		{`"p"`, ``, false},
	}
	for _, tt := range tests {
		m := fromClient(t, `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"argument":{"name":"a","value":"v"},"ref":`+tt.ref+`}}`)
		at, prompt := refAt(m)
		if got := string(at.In(m.Body)); got != tt.at || prompt != tt.prompt {
			t.Errorf("%s: got %s, a prompt %v", tt.ref, got, prompt)
		}
	}
}
