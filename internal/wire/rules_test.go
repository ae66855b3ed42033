package wire

import "testing"

func TestEraOfAMessage(t *testing.T) {
	for meta, want := range map[string]Era{
		`{}`: Legacy,
		`{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`: Modern,
		`{"io.modelcontextprotocol/protocolVersion":"2099-01-01"}`: Modern,
		`{"io.modelcontextprotocol/protocolVersion":7}`:            Modern,
		`{"io.modelcontextprotocol/protocolVersion":"2025-06-18"}`: Legacy,
	} {
		for _, method := range []string{"tools/list", "initialize"} {
			m, err := Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"_meta":` + meta + `}}`))
			if err != nil {
				t.Fatal(err)
			}
			if got := m.Era(); got != want {
				t.Errorf("%s with %s: %s, want %s", method, meta, got, want)
			}
		}
	}
}

func TestACallIsNotRepeatable(t *testing.T) {
	for method, want := range map[string]bool{"tools/call": false, "vendor/thing": false, "tasks/cancel": false, "": false, "tools/list": true, "resources/read": true} {
		if Repeatable(method) != want {
			t.Errorf("%q: %v", method, !want)
		}
	}
}
