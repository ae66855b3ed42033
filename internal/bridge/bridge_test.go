package bridge

import (
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

func newSealer(t *testing.T) *Sealer {
	t.Helper()
	z, err := NewSealer()
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// A state is taken back once, by whom it was given to, for the request it was
// given for, in time, and unchanged; anything else is refused alike.
func TestStateIsBound(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	own := State{Principal: "token:a", Server: "s", Method: "tools/call", Name: "n", Digest: []byte("d"), Round: 3,
		Expires: now.Add(RoundTime), Upstream: []byte(`"st<&>"`)}
	for _, tc := range []struct {
		name   string
		change func(*State)
		text   func(string) string
		later  time.Duration
		twice  bool
		ok     bool
	}{
		{name: "the same", ok: true},
		{name: "another principal", change: func(s *State) { s.Principal = "token:b" }},
		{name: "another server", change: func(s *State) { s.Server = "x" }},
		{name: "another method", change: func(s *State) { s.Method = "prompts/get" }},
		{name: "another tool", change: func(s *State) { s.Name = "m" }},
		{name: "other arguments", change: func(s *State) { s.Digest = []byte("e") }},
		{name: "too late", later: RoundTime},
		{name: "a second time", twice: true},
		{name: "one character changed", text: func(s string) string { return s[:30] + flip(s[30]) + s[31:] }},
		{name: "cut", text: func(s string) string { return s[:len(s)-4] }},
		{name: "empty", text: func(string) string { return "" }},
		{name: "another crib's", text: func(string) string {
			s, _ := newSealer(t).Seal(own) //nolint:errcheck // it would not open either way
			return s
		}},
		{name: "huge", text: func(string) string { return strings.Repeat("A", MaxState+1) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			z := newSealer(t)
			text, err := z.Seal(own)
			if err != nil {
				t.Fatal(err)
			}
			want := own
			if tc.change != nil {
				tc.change(&want)
			}
			if tc.text != nil {
				text = tc.text(text)
			}
			if tc.twice {
				first, err := z.Open(text, own, now)
				if err != nil || z.Spend(first, now) != nil {
					t.Fatal(err)
				}
				if z.Spend(first, now) == nil {
					t.Fatal("spent twice")
				}
			}
			got, err := z.Open(text, want, now.Add(tc.later))
			if tc.ok != (err == nil) {
				t.Fatalf("ok %v, error %v", tc.ok, err)
			}
			if err == nil && (string(got.Upstream) != string(own.Upstream) || got.Round != own.Round) {
				t.Fatalf("got %+v", got)
			}
			if err != nil && crib.CodeOf(err) != crib.Invalid {
				t.Fatalf("code %s", crib.CodeOf(err))
			}
		})
	}
}

func flip(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

// A state of any size comes back byte for byte, and what was spent is
// forgotten when it could no longer be used anyway.
func TestStateOfAnySize(t *testing.T) {
	z := newSealer(t)
	now := time.Now()
	big := State{Expires: now.Add(RoundTime), Upstream: []byte(`"` + strings.Repeat("é<&>", 5000) + `"`)}
	text, err := z.Seal(big)
	if err != nil {
		t.Fatal(err)
	}
	got, err := z.Open(text, State{}, now)
	if err != nil || string(got.Upstream) != string(big.Upstream) {
		t.Fatal(err)
	}
	late := State{Expires: now.Add(3 * RoundTime)}
	text, err = z.Seal(late)
	if err != nil {
		t.Fatal(err)
	}
	if err := z.Spend(got, now); err != nil {
		t.Fatal(err)
	}
	got, err = z.Open(text, State{}, now.Add(2*RoundTime))
	if err != nil || z.Spend(got, now.Add(2*RoundTime)) != nil || len(z.spent) != 1 {
		t.Fatalf("%v, %d kept", err, len(z.spent))
	}
	z.Restore(got)
	if err := z.Spend(got, now.Add(2*RoundTime)); err != nil {
		t.Fatalf("what was given back cannot be spent: %v", err)
	}
}

func message(t *testing.T, body string) wire.Message {
	t.Helper()
	m, err := wire.Scan([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestRequestsCross(t *testing.T) {
	modern := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{},"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"info","progressToken":7,"com.x/k":1.0},"arguments":{"n":9007199254740993}}}`
	got, err := LegacyRequest(message(t, modern))
	if want := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":7,"com.x/k":1.0},"arguments":{"n":9007199254740993}}}`; err != nil || string(got.Body) != want {
		t.Errorf("%v\ngot  %s\nwant %s", err, got.Body, want)
	}
	only := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	got, err = LegacyRequest(message(t, only))
	if want := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`; err != nil || string(got.Body) != want {
		t.Errorf("%v\ngot  %s\nwant %s", err, got.Body, want)
	}
	got, err = ModernRequest(message(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), []byte(`{"name":"c"}`), []byte(`{}`), nil)
	if want := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c"},"io.modelcontextprotocol/clientCapabilities":{}}}}`; err != nil || string(got.Body) != want {
		t.Errorf("%v\ngot  %s\nwant %s", err, got.Body, want)
	}
}

func TestResultsCross(t *testing.T) {
	for _, tc := range []struct{ name, got, want string }{
		{"a call", string(ModernResult("tools/call", []byte(`{"content":[],"x":1.0}`), []byte(`{"name":"s"}`))),
			`{"content":[],"x":1.0,"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"}}}`},
		{"a read", string(ModernResult("resources/read", []byte(`{"contents":[]}`), nil)),
			`{"contents":[],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`},
		{"its own _meta", string(ModernResult("tools/call", []byte(`{"_meta":{"a":1}}`), []byte(`{}`))),
			`{"_meta":{"a":1,"io.modelcontextprotocol/serverInfo":{}},"resultType":"complete"}`},
		{"an array as structure", string(LegacyResult("tools/call", []byte(`{"content":[{"type":"text","text":"[1]"}],"structuredContent":[1]}`))),
			`{"content":[{"type":"text","text":"[1]"}]}`},
		{"an object as structure", string(LegacyResult("tools/call", []byte(`{"structuredContent":{"a":1}}`))), `{"structuredContent":{"a":1}}`},
		{"a tool with an array", string(LegacyTool([]byte(`{"name":"t","outputSchema":{"type":"array"},"x":1}`))), `{"name":"t","x":1}`},
		{"a tool with an object", string(LegacyTool([]byte(`{"name":"t","outputSchema":{"type":"object"}}`))), `{"name":"t","outputSchema":{"type":"object"}}`},
		{"not found", string(ModernError([]byte(`{"code":-32002,"message":"m","data":{"a":1}}`))), `{"code":-32602,"message":"m","data":{"a":1}}`},
		{"a link to follow", string(ModernError([]byte(`{"code":-32042,"message":"m"}`))), `{"code":-32603,"message":"m"}`},
		{"a code of its own", string(ModernError([]byte(`{"code":-32050,"message":"m"}`))), `{"code":-32050,"message":"m"}`},
	} {
		if tc.got != tc.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tc.name, tc.got, tc.want)
		}
	}
}

func TestHellosCross(t *testing.T) {
	legacy := &wire.Hello{Era: wire.Legacy, Version: "2025-06-18", Result: []byte(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"tasks":{}},"serverInfo":{"name":"s","x":1},"instructions":"do","x":2}`)}
	got := DiscoverResult(legacy)
	for _, want := range []string{`"instructions":"do"`, `"x":2`, `"capabilities":{"tools":{"listChanged":true}}`, `"io.modelcontextprotocol/serverInfo":{"name":"s","x":1}`, `"resultType":"complete"`, `"cacheScope":"private"`, `"supportedVersions":["2024-11-05"`} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%s is missing in %s", want, got)
		}
	}
	if strings.Contains(string(got), "protocolVersion\":") || strings.Contains(string(got), "tasks") {
		t.Errorf("too much in %s", got)
	}
	modern := &wire.Hello{Era: wire.Modern, Version: "2026-07-28", Result: []byte(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{}},"ttlMs":1,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}},"instructions":"do"}`)}
	got = InitializeResult(modern, "2025-03-26")
	want := `{"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}},"instructions":"do","protocolVersion":"2025-03-26","serverInfo":{"name":"s","version":"1"}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
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
			m := message(t, `{"jsonrpc":"2.0","params":`+tt.params+`,"id":1,"method":"tools/call"}`)
			s := &State{}
			if tt.upstream != "" {
				s.Upstream = []byte(tt.upstream)
			}
			want := `{"jsonrpc":"2.0","params":` + tt.want + `,"id":1,"method":"tools/call"}`
			got := string(wire.Apply(nil, m.Body, StateEdit(m, s)))
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			message(t, got)
		})
	}
}

// A server learns nothing of a capability that its page does not let it use,
// and the others keep their bytes.
func TestPermitted(t *testing.T) {
	all := []string{Elicitation, Roots, Sampling}
	tests := []struct {
		name, capabilities string
		may                []string
		want               string
	}{
		{"everything", `{"roots":{},"sampling":{},"elicitation":{}}`, all, `{"roots":{},"sampling":{},"elicitation":{}}`},
		{"the default", `{"roots":{"listChanged":true}, "sampling":{},"elicitation":{}}`, []string{Elicitation, Roots}, `{"roots":{"listChanged":true},"elicitation":{}}`},
		{"nothing", `{"roots":{},"sampling":{},"elicitation":{}}`, nil, `{}`},
		{"what nobody knows stays", `{"x-new":{"n":1.0},"sampling":{}}`, nil, `{"x-new":{"n":1.0}}`},
		{"nothing to take out", `{ "x-new" : 1 }`, nil, `{ "x-new" : 1 }`},
		{"none", ``, nil, ``},
		{"an empty object", `{}`, nil, `{}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Permitted([]byte(tt.capabilities), tt.may)
			if !sameButSpace(string(got), tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	if got := Permitted(nil, nil); got != nil {
		t.Errorf("a client without capabilities declares %s", got)
	}
}

func sameButSpace(a, b string) bool {
	return strings.ReplaceAll(a, " ", "") == strings.ReplaceAll(b, " ", "")
}
