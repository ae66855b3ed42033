package upstream

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// scanned reads a message of a server.
func scanned(t *testing.T, body string) wire.Message {
	t.Helper()
	m, err := wire.ScanServer([]byte(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return m
}

func TestWhatAnAnswerToDiscoverSays(t *testing.T) {
	const none = "" // of a server that is legacy, or of an error
	tests := []struct {
		name   string
		answer string // the member beside the id
		hello  string // the version of the modern hello, none for no hello
		eras   []wire.Era
		fails  bool
	}{
		{"modern", `"result":{"supportedVersions":["2026-07-28"]}`, wire.NewestModern, []wire.Era{wire.Modern}, false},
		{"both", `"result":{"supportedVersions":["2025-06-18","2026-07-28"]}`, wire.NewestModern, []wire.Era{wire.Legacy, wire.Modern}, false},
		{"both, and each once", `"result":{"supportedVersions":["2026-07-28","2025-06-18","2025-11-25","2026-07-28"]}`, wire.NewestModern, []wire.Era{wire.Modern, wire.Legacy}, false},
		{"a version of tomorrow beside ours", `"result":{"supportedVersions":["2099-01-01","2026-07-28"]}`, wire.NewestModern, []wire.Era{wire.Modern}, false},
		{"a result of a legacy server", `"result":{"supportedVersions":["2025-11-25"]}`, none, []wire.Era{wire.Legacy}, false},
		{"only versions of tomorrow", `"result":{"supportedVersions":["2099-01-01"]}`, none, nil, true},
		{"no versions", `"result":{"supportedVersions":[]}`, none, nil, true},
		{"versions that are no list", `"result":{"supportedVersions":"2026-07-28"}`, none, nil, true},
		{"versions that are no strings", `"result":{"supportedVersions":[20260728,null]}`, none, nil, true},
		{"an empty result", `"result":{}`, none, nil, true},

		{"method not found", `"error":{"code":-32601,"message":"no"}`, none, []wire.Era{wire.Legacy}, false},
		{"invalid request", `"error":{"code":-32600,"message":"not initialized"}`, none, []wire.Era{wire.Legacy}, false},
		{"invalid params", `"error":{"code":-32602,"message":"no"}`, none, []wire.Era{wire.Legacy}, false},
		{"parse error", `"error":{"code":-32700,"message":"no"}`, none, []wire.Era{wire.Legacy}, false},
		{"internal error", `"error":{"code":-32603,"message":"no"}`, none, []wire.Era{wire.Legacy}, false},
		{"an error of the server's own", `"error":{"code":-32000,"message":"no session"}`, none, []wire.Era{wire.Legacy}, false},
		{"a code that is no number", `"error":{"code":"E","message":"no"}`, none, []wire.Era{wire.Legacy}, false},

		{"header mismatch", `"error":{"code":-32020,"message":"no"}`, none, nil, true},
		{"missing capability", `"error":{"code":-32021,"message":"no"}`, none, nil, true},
		{"unsupported, with a legacy version", `"error":{"code":-32022,"message":"no","data":{"supported":["2099-01-01","2025-03-26"]}}`, none, []wire.Era{wire.Legacy}, false},
		{"unsupported, with the one that was asked for", `"error":{"code":-32022,"message":"no","data":{"supported":["2025-03-26","2026-07-28"]}}`, none, nil, true},
		{"unsupported, with versions of tomorrow", `"error":{"code":-32022,"message":"no","data":{"supported":["2099-01-01"]}}`, none, nil, true},
		{"unsupported, with none", `"error":{"code":-32022,"message":"no","data":{"supported":[]}}`, none, nil, true},
		{"unsupported, without data", `"error":{"code":-32022,"message":"no"}`, none, nil, true},
		{"header mismatch that names a legacy version", `"error":{"code":-32020,"message":"no","data":{"supported":["2025-03-26"]}}`, none, nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := judge("s", scanned(t, `{"jsonrpc":"2.0","id":1,`+tt.answer+`}`))
			if version := versionOf(v.hello); version != tt.hello || !slices.Equal(v.eras, tt.eras) || (v.err != nil) != tt.fails {
				t.Errorf("got hello %q, eras %v, error %v; want %q, %v, an error %v", version, v.eras, v.err, tt.hello, tt.eras, tt.fails)
			}
			if v.err != nil && crib.CodeOf(v.err) != crib.Unavailable {
				t.Errorf("the error is %s", crib.CodeOf(v.err))
			}
		})
	}
}

func versionOf(h *wire.Hello) string {
	if h == nil {
		return ""
	}
	return h.Version
}

// What a server says of itself is kept as it came.
func TestHelloKeepsBytes(t *testing.T) {
	const result = `{"supportedVersions":["2026-07-28"], "x":1.0,"y":9007199254740993}`
	hello, _, err := modernHello("s", []byte(result))
	if err != nil || string(hello.Result) != result || hello.Era != wire.Modern {
		t.Errorf("got %+v, %v", hello, err)
	}
}

func TestLegacyVersions(t *testing.T) {
	for _, v := range []string{wire.Version20241105, wire.Version20250326, wire.Version20250618, wire.Version20251125} {
		hello, err := legacyHello("s", []byte(`{"protocolVersion":"`+v+`"}`))
		if err != nil || hello.Version != v || hello.Era != wire.Legacy {
			t.Errorf("%s: got %+v, %v", v, hello, err)
		}
	}
	for _, result := range []string{
		`{"protocolVersion":"2026-07-28"}`, `{"protocolVersion":"2099-01-01"}`, `{"protocolVersion":""}`,
		`{"protocolVersion":20251125}`, `{}`, `null`, ``,
	} {
		if hello, err := legacyHello("s", []byte(result)); err == nil || hello != nil || crib.CodeOf(err) != crib.Unavailable {
			t.Errorf("%q: got %+v, %v", result, hello, err)
		}
	}
}

func TestStatusesThatSayLegacy(t *testing.T) {
	tests := map[int]bool{
		http.StatusBadRequest: true, http.StatusNotFound: true, http.StatusMethodNotAllowed: true, http.StatusNotAcceptable: true,
		http.StatusGone: true, http.StatusUnsupportedMediaType: true, http.StatusUnprocessableEntity: true,
		http.StatusUnauthorized: false, http.StatusForbidden: false, http.StatusProxyAuthRequired: false,
		http.StatusRequestTimeout: false, http.StatusTooManyRequests: false,
		http.StatusOK: false, http.StatusAccepted: false, http.StatusFound: false, http.StatusPermanentRedirect: false,
		http.StatusInternalServerError: false, http.StatusBadGateway: false, http.StatusServiceUnavailable: false, http.StatusGatewayTimeout: false,
	}
	for status, want := range tests {
		if got := saysLegacy(status); got != want {
			t.Errorf("%d: got %v", status, got)
		}
	}
}

// What the crib asks for itself is a message of its era, and nothing of the
// other one.
func TestOwnRequests(t *testing.T) {
	client := Declaration{Info: []byte(`{"name":"c","version":"1.0"}`), Capabilities: []byte(`{"roots":{}}`)}
	const (
		us     = `{"name":"toolcrib","version":"v\"1"}`
		them   = `{"name":"c","version":"1.0"}`
		metaUs = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":` + us + `,"io.modelcontextprotocol/clientCapabilities":{}}`
	)
	tests := []struct {
		name string
		out  *Outgoing
		want string
	}{
		{"modern, no params", Declaration{}.request(wire.Modern, `v"1`, "server/discover", ""), `{"jsonrpc":"2.0","id":7,"method":"server/discover","params":{` + metaUs + `}}`},
		{"modern, with params", Declaration{}.request(wire.Modern, `v"1`, "tools/list", `"cursor":"c"`), `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":"c",` + metaUs + `}}`},
		{"legacy, no params", Declaration{}.request(wire.Legacy, `v"1`, "ping", ""), `{"jsonrpc":"2.0","id":7,"method":"ping","params":{}}`},
		{"initialize of the crib", Declaration{}.initialize(`v"1`), `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":` + us + `}}`},
		{"initialize of a client", client.initialize(`v"1`), `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":` + them + `}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.out.body(7)
			if string(got) != tt.want || !json.Valid(got) {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if !tt.out.Read || tt.out.Owner {
				t.Error("it is no read without an owner")
			}
		})
	}
}

// The id and the progress token are replaced by the leg's number, the edits
// are made, and a message stays on one line.
func TestBody(t *testing.T) {
	src := "{\"jsonrpc\":\"2.0\",\n\"id\":\"a\",\"method\":\"tools/call\",\"params\":{\"name\":\"s__t\",\"_meta\":{\"progressToken\":\"p\"}}}"
	m, err := wire.Scan([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	out := &Outgoing{Src: m.Body, ID: m.ID, Token: m.Meta.ProgressToken, Edits: []wire.Edit{{At: m.Params.Name, With: []byte(`"t"`)}}}
	want := `{"jsonrpc":"2.0", "id":12,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":12}}}`
	if got := string(out.body(12)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if string(m.Body) != src {
		t.Error("the client's bytes were changed")
	}
}

// A lost request may have been executed unless it never left or reading it
// twice harms nobody.
func TestWhatIsKnownOfALostRequest(t *testing.T) {
	for _, tt := range []struct {
		read, sent bool
		lost, late crib.Code
	}{
		{false, true, crib.Unknown, crib.Timeout},
		{false, false, crib.Unavailable, crib.Unavailable},
		{true, true, crib.Unavailable, crib.Unavailable},
		{true, false, crib.Unavailable, crib.Unavailable},
	} {
		out := &Outgoing{Method: "m", Read: tt.read}
		name := fmt.Sprintf("read %v, sent %v", tt.read, tt.sent)
		if got := crib.CodeOf(lost("s", out, tt.sent, "why")); got != tt.lost {
			t.Errorf("%s: lost is %s", name, got)
		}
		if got := crib.CodeOf((&Spec{Name: "s"}).late(out, tt.sent)); got != tt.late {
			t.Errorf("%s: late is %s", name, got)
		}
	}
}

func TestBackoff(t *testing.T) {
	want := map[int]string{-1: "0s", 0: "0s", 1: "1s", 2: "2s", 3: "4s", 5: "16s", 6: "30s", 7: "30s", 1000: "30s"}
	for failures, w := range want {
		if got := backoff(failures).String(); got != w {
			t.Errorf("%d: got %s, want %s", failures, got, w)
		}
	}
}
