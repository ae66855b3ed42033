package gateway

import (
	"testing"
)

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
