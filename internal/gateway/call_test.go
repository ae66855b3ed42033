package gateway

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/bridge"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/gateway/legacy"
	"github.com/toolcrib/toolcrib/internal/page"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

func TestStatusFor(t *testing.T) {
	const result = 0 // in place of a code
	tests := []struct {
		name             string
		client, server   wire.Era
		code, came, want int
	}{
		{"a result", wire.Modern, wire.Modern, result, 200, 0},
		{"a result with a strange status", wire.Modern, wire.Modern, result, 400, 0},
		{"the server's own", wire.Modern, wire.Modern, -32602, 400, 400},
		{"asked to wait", wire.Modern, wire.Modern, -32000, 429, 429},
		{"a fault", wire.Modern, wire.Modern, -32603, 500, 500},
		{"not found", wire.Modern, wire.Modern, wire.CodeMethodNotFound, 404, 404},
		{"not found, over stdio", wire.Modern, wire.Modern, wire.CodeMethodNotFound, 0, 404},
		{"a modern error over stdio", wire.Modern, wire.Modern, wire.CodeMissingCapability, 0, 400},
		{"a header mismatch over stdio", wire.Modern, wire.Modern, wire.CodeHeaderMismatch, 0, 400},
		{"an error of its own over stdio", wire.Modern, wire.Modern, -32099, 0, 0},
		{"not found at a legacy server", wire.Modern, wire.Legacy, wire.CodeMethodNotFound, 200, 404},
		{"a legacy server's status", wire.Modern, wire.Legacy, -32603, 500, 0},

		{"legacy, the server's own", wire.Legacy, wire.Legacy, -32000, 400, 400},
		{"legacy, asked to wait", wire.Legacy, wire.Legacy, -32000, 429, 429},
		{"legacy, and no session is lost", wire.Legacy, wire.Legacy, -32601, 404, 0},
		{"legacy, over stdio", wire.Legacy, wire.Legacy, -32601, 0, 0},
		{"legacy at a modern server", wire.Legacy, wire.Modern, wire.CodeMethodNotFound, 404, 0},
		{"legacy at a modern server that refuses", wire.Legacy, wire.Modern, -32602, 400, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body := `{"jsonrpc":"2.0","id":1,"result":{}}`
			if tt.code != result {
				body = fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"m"}}`, tt.code)
			}
			r := &upstream.Reply{Message: fromServer(t, body), Era: tt.server, Status: tt.came}
			if got := statusFor(&Request{Era: tt.client}, r); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

// Of members with one name, some readers take the first and some the last: a
// question is one if any of them could see it.
func TestAsksForInput(t *testing.T) {
	tests := map[string]bool{
		`{"resultType":"input_required"}`:                         true,
		`{"resultType":"complete"}`:                               false,
		`{"resultType":"complete","resultType":"input_required"}`: true,
		`{"resultType":"input_required","resultType":"complete"}`: true,
		`{"resultType":"complete","x":1,"resultType":"task"}`:     false,
		`{"result\u0054ype":"input\u005frequired"}`:               true,
		`{"x":{"resultType":"input_required"}}`:                   false,
		`{"content":[{"resultType":"input_required"}]}`:           false,
		`{"resultType":["input_required"]}`:                       false,
		`{"inputRequests":{},"requestState":"s"}`:                 false,
		`{}`:               false,
		`"input_required"`: false,
	}
	for result, want := range tests {
		if got := bridge.AsksForInput([]byte(result)); got != want {
			t.Errorf("%s: got %v", result, got)
		}
	}
}

// The client gets its own id back, as it spelled it, and all other bytes as
// they came.
func TestWithID(t *testing.T) {
	tests := []struct{ came, want string }{
		{`{ "jsonrpc":"2.0", "result":{"n":1.0}, "id": 12 , "x":1e2}`, `{ "jsonrpc":"2.0", "result":{"n":1.0}, "id": "\u0061" , "x":1e2}`},
		{`{"jsonrpc":"2.0","id":12,"error":{"code":-1,"message":"12"}}`, `{"jsonrpc":"2.0","id":"\u0061","error":{"code":-1,"message":"12"}}`},
		{`{"jsonrpc":"2.0","error":{"code":-1,"message":"m"}}`, `{"jsonrpc":"2.0","error":{"code":-1,"message":"m"},"id":"\u0061"}`},
		{`{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m"}}`, `{"jsonrpc":"2.0","id":"\u0061","error":{"code":-1,"message":"m"}}`},
	}
	for _, tt := range tests {
		if got := string(withID([]byte(`"\u0061"`), fromServer(t, tt.came))); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
	m := fromServer(t, `{"jsonrpc":"2.0","error":{"code":-1,"message":"m"}}`)
	got := string(withID([]byte(`1`), m, wire.Edit{At: m.Error, With: []byte(`{"code":-2,"message":"n"}`)}))
	if want := `{"jsonrpc":"2.0","error":{"code":-2,"message":"n"},"id":1}`; got != want {
		t.Errorf("with an edit: got %s", got)
	}
}

// Only an error that proves that nothing was executed gives an answer back.
func TestNotExecuted(t *testing.T) {
	proofs := []crib.Code{crib.Unavailable, crib.Unauthorized, crib.Busy}
	for _, c := range crib.Codes() {
		err := fmt.Errorf("wrapped: %w", crib.Errorf(c.Code, "m"))
		if got := notExecuted(err); got != slices.Contains(proofs, c.Code) {
			t.Errorf("%s: got %v", c.Code, got)
		}
	}
	if notExecuted(nil) || notExecuted(context.DeadlineExceeded) {
		t.Error("no error, or one that nobody knows, is a proof")
	}
}

// Who shares a connection is said by the page; a server that everybody shares
// is told of no client.
func TestWant(t *testing.T) {
	ofPrincipal := upstream.Share{Owner: someone.String(), Name: `{"roots":{}}`}
	tests := []struct {
		name    string
		share   page.Share
		session bool
		want    upstream.Share
		declare string
	}{
		{"all, in a session", page.ShareServer, true, upstream.Share{}, ""},
		{"all", page.ShareServer, false, upstream.Share{}, ""},
		{"a principal, in a session", page.SharePrincipal, true, ofPrincipal, `{"roots":{}}`},
		{"a principal", page.SharePrincipal, false, ofPrincipal, `{"roots":{}}`},
		{"a session", page.ShareSession, true, upstream.Share{Name: "session"}, `{"roots":{}}`},
		{"a session, without one", page.ShareSession, false, ofPrincipal, `{"roots":{}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newGateway(t, servers.Definition{Name: "s", Dialogue: page.Dialogue{Share: tt.share, May: []string{page.MayRoots}}})
			m := fromClient(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/clientInfo":{},"io.modelcontextprotocol/clientCapabilities":{"roots":{"x":1},"sampling":{}}}}}`)
			req := &Request{Principal: someone, Era: wire.Modern, Message: m}
			if tt.session {
				req.Era, req.Session = wire.Legacy, sessionOf(t, &ear{}, `{"roots":{},"sampling":{}}`)
				if tt.want.Name == "session" {
					tt.want = req.Session.Share()
				}
			}
			w := g.want(req, serverOf(t, g, "s"))
			if w.Era != req.Era || w.Share != tt.want || string(w.Declare.Capabilities) != tt.declare || (w.Declare.Info != nil) != (tt.declare != "") {
				t.Errorf("got %+v, which declares %s as %s", w, w.Declare.Capabilities, w.Declare.Info)
			}
			if (w.Live != nil) != (legacy.Of(tt.want) != "") {
				t.Errorf("it lives with a session: %v", w.Live != nil)
			}
			if w.Live != nil {
				req.Session.End()
				if w.Live() {
					t.Error("it outlives its session")
				}
			}
		})
	}
}

// A server in trouble is a tool's error, which a model can read; an error of
// another request has a code that its client knows.
func TestTrouble(t *testing.T) {
	g := newGateway(t)
	g.redact = func(s string) string { return strings.ReplaceAll(s, "key", "[redacted]") }
	about := func(err error) func(era wire.Era, method string) Answer {
		return func(era wire.Era, method string) Answer {
			return g.trouble(&Request{Era: era, Message: fromClient(t, `{"jsonrpc":"2.0","id":1,"method":"`+method+`"}`)}, err)
		}
	}
	gone, cancelled := about(crib.Errorf(crib.Unavailable, "gone: key")), about(crib.Errorf(crib.Cancelled, "left"))
	none, odd := about(crib.Errorf(crib.NotFound, "none")), about(crib.Errorf(crib.Unsupported, "odd"))
	secret := about(fmt.Errorf("key of the crib's own"))
	const head = `{"jsonrpc":"2.0","id":1,`
	tests := []struct {
		name   string
		answer Answer
		want   string
	}{
		{"a call", gone(wire.Modern, "tools/call"), `"result":{"resultType":"complete","content":[{"type":"text","text":"gone: [redacted]"}],"isError":true,"_meta":{"io.toolcrib/code":"unavailable"}}}`},
		{"a legacy call", gone(wire.Legacy, "tools/call"), `"result":{"content":[{"type":"text","text":"gone: [redacted]"}],"isError":true,"_meta":{"io.toolcrib/code":"unavailable"}}}`},
		{"a cancelled call", cancelled(wire.Legacy, "tools/call"), `"error":{"code":-32603,"message":"left"}}`},
		{"a prompt", gone(wire.Modern, "prompts/get"), `"error":{"code":-32603,"message":"gone: [redacted]","data":{"io.toolcrib/code":"unavailable"}}}`},
		{"no such prompt", none(wire.Legacy, "prompts/get"), `"error":{"code":-32602,"message":"none","data":{"io.toolcrib/code":"not_found"}}}`},
		{"no such resource", none(wire.Modern, "resources/read"), `"error":{"code":-32602,"message":"none","data":{"io.toolcrib/code":"not_found"}}}`},
		{"no such resource of a legacy client", none(wire.Legacy, "resources/read"), `"error":{"code":-32002,"message":"none","data":{"io.toolcrib/code":"not_found"}}}`},
		{"not here", odd(wire.Legacy, "completion/complete"), `"error":{"code":-32601,"message":"odd","data":{"io.toolcrib/code":"unsupported"}}}`},
	}
	for _, tt := range tests {
		if got := string(tt.answer.Body); got != head+tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, got, head+tt.want)
		}
	}
	for _, method := range []string{"tools/call", "prompts/get"} {
		if got := string(secret(wire.Modern, method).Body); strings.Contains(got, "key") {
			t.Errorf("%s shows %s", method, got)
		}
	}
}

// A question of a server is brought to the client only as far as the page and
// the client allow, with the crib's own state, and not for ever.
func TestInputRequired(t *testing.T) {
	const (
		elicit = `{"resultType":"input_required","requestState":"up","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"Sure?"}}}}`
		caps   = `{"elicitation":{}}`
	)
	tests := []struct {
		name, method, caps, result string
		era                        wire.Era
		round                      int // the one it answers, -1 for none
		code                       crib.Code
	}{
		{"asked", "tools/call", caps, elicit, wire.Modern, -1, ""},
		{"the next round", "prompts/get", caps, elicit, wire.Modern, 3, ""},
		{"the last round", "tools/call", caps, elicit, wire.Modern, bridge.MaxRounds - 2, ""},
		{"a round too many", "tools/call", caps, elicit, wire.Modern, bridge.MaxRounds - 1, crib.Denied},
		{"without questions", "tools/call", caps, `{"resultType":"input_required","requestState":"up"}`, wire.Modern, -1, ""},
		{"of an extension", "tools/call", caps, `{"resultType":"input_required","inputRequests":{"k":{"method":"vendor/ask"}}}`, wire.Modern, -1, ""},
		{"where the protocol has none", "completion/complete", caps, elicit, wire.Modern, -1, crib.Unsupported},
		{"that the client did not declare", "tools/call", `{"sampling":{}}`, elicit, wire.Modern, -1, crib.Denied},
		{"that the page does not allow", "tools/call", `{"sampling":{}}`, strings.ReplaceAll(elicit, "elicitation/create", "sampling/createMessage"), wire.Modern, -1, crib.Denied},
		{"one that is allowed and one that is not", "tools/call", caps, strings.Replace(elicit, `"inputRequests":{`, `"inputRequests":{"a":{"method":"roots/list"},`, 1), wire.Modern, -1, crib.Denied},
		{"that reads in two ways", "tools/call", caps, strings.Replace(elicit, `"up"`, `"up","requestState":"x"`, 1), wire.Modern, -1, crib.Unavailable},
	}
	g := newGateway(t, servers.Definition{Name: "s", Dialogue: page.Dialogue{May: []string{page.MayElicitation, page.MayRoots}}})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := fromClient(t, `{"jsonrpc":"2.0","id":1,"method":"`+tt.method+`","params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":`+tt.caps+`}}}`)
			req := &Request{Principal: someone, Era: tt.era, Server: "s", Message: m}
			at := &target{server: serverOf(t, g, "s"), name: "t"}
			if tt.round >= 0 {
				at.state = &bridge.State{Round: tt.round}
			}
			got, err := g.inputRequired(req, at, []byte(tt.result), false)
			if tt.code != "" {
				if err == nil || crib.CodeOf(err) != tt.code {
					t.Errorf("got %s, %v", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			sealed, _ := wire.GetText(got, "requestState")
			retry := fromClient(t, strings.Replace(string(m.Body), `"params":{`, `"params":{"requestState":`+string(wire.Quote(sealed))+`,"inputResponses":{},`, 1))
			back := &target{server: at.server, name: "t"}
			if err := g.resume(&Request{Principal: someone, Era: wire.Modern, Server: "s", Message: retry}, back); err != nil {
				t.Fatal(err)
			}
			if back.state.Round != tt.round+1 || string(back.state.Upstream) != string(wire.Get([]byte(tt.result), "requestState")) {
				t.Errorf("it comes back as %+v", back.state)
			}
			if string(wire.Get(got, "inputRequests")) != string(wire.Get([]byte(tt.result), "inputRequests")) {
				t.Errorf("the questions are now %s", got)
			}
			other := crib.Principal{Kind: crib.Token, ID: "other"}
			if err := g.resume(&Request{Principal: other, Era: wire.Modern, Server: "s", Message: retry}, &target{server: at.server, name: "t"}); err == nil {
				t.Error("another principal takes it up")
			}
		})
	}
}

// A request that names no method of the crib, and one of nothing at all, are
// refused in the form of their era.
func TestMethodNotFound(t *testing.T) {
	m := fromClient(t, `{"jsonrpc":"2.0","id":"a","method":"vendor/x"}`)
	const body = `{"jsonrpc":"2.0","id":"a","error":{"code":-32601,"message":"method vendor/x is not served here"}}`
	for era, status := range map[wire.Era]int{wire.Modern: http.StatusNotFound, wire.Legacy: 0} {
		if got := methodNotFound(&Request{Era: era, Message: m}); string(got.Body) != body || got.Status != status {
			t.Errorf("%s: got %d %s", era, got.Status, got.Body)
		}
	}
}
