package gateway

import (
	"testing"

	"github.com/toolcrib/toolcrib/internal/wire"
)

func TestTurnstile(t *testing.T) {
	var s turnstile
	s.init(t.Context())
	isEmpty := func() bool {
		select {
		case <-s.empty:
			return true
		default:
			return false
		}
	}
	if !s.enter(false) || !s.enter(false) || s.stopped() {
		t.Fatal("it is shut before anybody shut it")
	}
	s.stop()
	s.stop() // twice is as good as once
	if !s.stopped() || s.enter(false) {
		t.Error("it let in something new when it was shut")
	}
	if !s.enter(true) {
		t.Error("it did not let in what belongs to something open")
	}
	for range 3 {
		if isEmpty() {
			t.Error("it is empty while something is open")
		}
		s.leave()
	}
	if !isEmpty() {
		t.Error("it does not say that it is empty")
	}
	if s.enter(true) {
		t.Error("it let something in when all were gone")
	}
}

func TestTurnstileOfNobody(t *testing.T) {
	var s turnstile
	s.init(t.Context())
	s.stop()
	<-s.empty // at once
}

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
