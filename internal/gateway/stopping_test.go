package gateway

import (
	"testing"

	"github.com/toolcrib/toolcrib/internal/wire"
)

func TestWhatContinues(t *testing.T) {
	const state = `"requestState":"s"`
	for _, tc := range []struct {
		era            wire.Era
		method, params string
		want           bool
	}{
		{wire.Legacy, "ping", `{}`, true},
		{wire.Modern, "tools/call", `{` + state + `}`, true},
		{wire.Modern, "prompts/get", `{` + state + `}`, true},
		{wire.Modern, "resources/read", `{` + state + `}`, true},
		{wire.Modern, "tasks/cancel", `{"taskId":"t"}`, true},
		{wire.Modern, "tools/call", `{}`, false},
		{wire.Modern, "tools/call", `{"inputResponses":{}}`, false},
		{wire.Modern, "vendor/pay", `{` + state + `}`, false}, // nobody opens its seal
		{wire.Modern, "tools/list", `{` + state + `}`, false},
		{wire.Legacy, "tools/call", `{` + state + `}`, false},
		{wire.Modern, "subscriptions/listen", `{}`, false},
		{wire.Modern, "server/discover", `{}`, false},
	} {
		m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"` + tc.method + `","params":` + tc.params + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := continues(&Request{Era: tc.era, Message: m}); got != tc.want {
			t.Errorf("%s %s %s: %t", tc.era, tc.method, tc.params, got)
		}
	}
}
