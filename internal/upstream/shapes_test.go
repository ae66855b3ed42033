package upstream

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Servers acknowledge notifications in many ways, and any 2xx is one
// (2025-11-25, Streamable HTTP, Sending Messages, asks for 202).
func TestNotificationsAreAcknowledgedInManyWays(t *testing.T) {
	for _, tc := range []struct {
		name   string
		status int
		kind   string
		body   string
		chunks bool // the length is not told
		fails  bool
	}{
		{name: "202", status: 202},
		{name: "202 with a text", status: 202, kind: "text/plain", body: "Accepted"},
		{name: "202 chunked and empty", status: 202, chunks: true},
		{name: "200", status: 200},
		{name: "200 chunked and empty", status: 200, chunks: true},
		{name: "200 JSON, empty", status: 200, kind: "application/json"},
		{name: "200 null", status: 200, kind: "application/json", body: "null"},
		{name: "200 object", status: 200, kind: "application/json", body: `{"jsonrpc":"2.0","id":null,"result":{}}`},
		{name: "200 HTML", status: 200, kind: "text/html", body: "<h1>OK</h1>"},
		{name: "200 stream, empty", status: 200, kind: "text/event-stream"},
		{name: "200 stream with a comment", status: 200, kind: "text/event-stream", body: ": ok\n\n"},
		{name: "200 long", status: 200, kind: "text/plain", body: strings.Repeat("x", 2*maxDrain)},
		{name: "201", status: 201},
		{name: "204", status: 204},
		{name: "400", status: 400, fails: true},
		{name: "500", status: 500, fails: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: mcptest.EraLegacy}})
			peer.Script(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
				if !strings.Contains(string(body), `"notifications/`) {
					return false
				}
				w.Header()["Content-Type"] = nil // or net/http would make one up
				if tc.kind != "" {
					w.Header().Set("Content-Type", tc.kind)
				}
				w.WriteHeader(tc.status)
				if tc.chunks {
					http.NewResponseController(w).Flush() //nolint:errcheck // the handler ends with the connection
				}
				w.Write([]byte(tc.body)) //nolint:errcheck // likewise
				return true
			})
			s := serverOf(t, Spec{URL: peer.URL, Era: wire.Legacy}, Options{})
			leg, err := s.Leg(patiently(t), Want{Era: wire.Legacy})
			if tc.fails {
				if err == nil {
					t.Fatal("a server that refuses notifications/initialized was taken")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := leg.Notify(patiently(t), []byte(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)); err != nil {
				t.Error(err)
			}
			peer.Script(nil)
			if err := echo(t, leg); err != nil {
				t.Error(err)
			}
		})
	}
}

// The type of an answer is compared as a media type, and one that is missing or
// wrong does not matter where the body is the answer.
func TestTypesOfAnswers(t *testing.T) {
	const result = `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"here"}]}}`
	const event = "event: message\ndata: " + result + "\n\n"
	for _, tc := range []struct{ kind, body string }{
		{"application/json", result},
		{"application/json; charset=utf-8", result},
		{"application/json;charset=UTF-8", result},
		{"Application/JSON", result},
		{`application/json; charset="utf-8"`, result},
		{"application/json; charset", result},
		{"application/json;", result},
		{"application/json-rpc", result},
		{"text/json", result},
		{"text/plain; charset=utf-8", result},
		{"text/html", " \r\n\t" + result + "\n"},
		{"/", result},
		{"", result},
		{"text/event-stream", event},
		{"text/event-stream; charset=utf-8", event},
		{"Text/Event-Stream;charset=UTF-8", event},
		{"text/event-stream; charset", event},
		{"text/event-stream;", event},
	} {
		for _, era := range []wire.Era{wire.Modern, wire.Legacy} {
			t.Run(fmt.Sprintf("%s %q", era, tc.kind), func(t *testing.T) {
				peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: string(era)}})
				s := serverOf(t, Spec{URL: peer.URL, Era: era}, Options{})
				leg := mustLeg(t, s, Want{Era: era})
				peer.Script(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
					if !strings.Contains(string(body), `"tools/call"`) {
						return false
					}
					w.Header()["Content-Type"] = nil
					if tc.kind != "" {
						w.Header().Set("Content-Type", tc.kind)
					}
					w.Write([]byte(strings.ReplaceAll(tc.body, "ID", mcptest.RequestID(body)))) //nolint:errcheck // the client left
					return true
				})
				reply, err := leg.Do(patiently(t), toolCall(leg, "echo", "{}"), Nobody{})
				if err != nil || textOf(reply) != "here" || leg.Retired() {
					t.Errorf("got %v, %v", reply, err)
				}
			})
		}
	}
}

// Some servers refuse a type with parameters, and some an Accept that lacks one
// of the two forms of an answer.
func TestTypesOfRequests(t *testing.T) {
	for _, era := range []wire.Era{wire.Modern, wire.Legacy} {
		peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: string(era)}})
		s := serverOf(t, Spec{URL: peer.URL, Era: era}, Options{})
		leg := mustLeg(t, s, Want{Era: era})
		if err := echo(t, leg); err != nil {
			t.Error(err)
		}
		if err := leg.Notify(patiently(t), []byte(`{"jsonrpc":"2.0","method":"notifications/x"}`)); err != nil {
			t.Error(err)
		}
		posts := 0
		for _, seen := range peer.Seen() {
			if seen.HTTPMethod != http.MethodPost {
				continue
			}
			posts++
			if kind, accept := seen.Header["Content-Type"], seen.Header["Accept"]; len(kind) != 1 || kind[0] != "application/json" ||
				len(accept) != 1 || !strings.Contains(accept[0], "application/json") || !strings.Contains(accept[0], "text/event-stream") {
				t.Errorf("%s, %s: type %q, accept %q", era, seen.RPCMethod, kind, accept)
			}
		}
		if posts < 3 {
			t.Errorf("%s: %d requests came", era, posts)
		}
	}
}
