package bridge

import (
	"testing"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// On the aggregate a person sees which server asks.
func TestSigned(t *testing.T) {
	tests := []struct {
		name, kind, body, want string
	}{
		{"a question", Elicitation, `{"method":"m","params":{"n":1,"message":"\u0041?"}}`, `{"method":"m","params":{"n":1,"message":"[s] \u0041?"}}`},
		{"an empty one", Elicitation, `{"params":{"message":""}}`, `{"params":{"message":"[s] "}}`},
		{"no text", Elicitation, `{"params":{"message":7}}`, `{"params":{"message":7}}`},
		{"no message", Elicitation, `{"params":{}}`, `{"params":{}}`},
		{"a message beside", Elicitation, `{"message":"m","params":{"x":{"message":"n"}}}`, `{"message":"m","params":{"x":{"message":"n"}}}`},
		{"what no person reads", Sampling, `{"params":{"message":"m"}}`, `{"params":{"message":"m"}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			const before = `{"k1":`
			body := []byte(before + tt.body + `}`)
			edits := SignedAt("s", tt.kind, []byte(tt.body), len(before))
			if got, want := string(wire.Apply(nil, body, edits...)), before+tt.want+`}`; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}
