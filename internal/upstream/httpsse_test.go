package upstream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// ssePeer is a peer that speaks HTTP+SSE alone.
func ssePeer(t *testing.T, opts mcptest.HTTPOptions) *mcptest.HTTP {
	t.Helper()
	opts.OldSSE, opts.Era = true, mcptest.EraLegacy
	return mcptest.NewHTTP(t, opts)
}

// sseServer is such a peer with a Server and a leg to it.
func sseServer(t *testing.T, opts Options) (*mcptest.HTTP, *Server, Leg) {
	t.Helper()
	peer := ssePeer(t, mcptest.HTTPOptions{})
	s := serverOf(t, Spec{URL: peer.URL}, opts)
	leg := mustLeg(t, s, Want{Era: wire.Modern})
	if _, ok := leg.(*sseLeg); !ok {
		t.Fatalf("got a leg of type %T", leg)
	}
	return peer, s, leg
}

// What a server names for messages is taken only where its credentials belong.
func TestEndpoint(t *testing.T) {
	const base = "https://h.example/api/sse?key=k"
	tests := []struct {
		base, named, want string // want "" is a refusal
	}{
		{base, "/messages?session=1", "https://h.example/messages?session=1"},
		{base, "messages", "https://h.example/api/messages"},
		{base, "?session=1", "https://h.example/api/sse?session=1"},
		{base, "https://h.example/m", "https://h.example/m"},
		{base, "HTTPS://H.Example:443/m", "https://H.Example:443/m"},
		{base, "//h.example/m", "https://h.example/m"},
		{base, " /m\t", "https://h.example/m"},
		{base, "/m#part", "https://h.example/m"},
		{base, `/\other.example/m`, "https://h.example/%5Cother.example/m"},
		{"http://h.example:80/sse", "http://h.example/m", "http://h.example/m"},
		{"http://[::1]:8080/sse", "http://[::1]:8080/m", "http://[::1]:8080/m"},
		{"http://h.example:8080/sse", "/m", "http://h.example:8080/m"},

		{base, "http://h.example/m", ""},
		{base, "https://other.example/m", ""},
		{base, "//other.example/m", ""},
		{base, "https://h.example:8443/m", ""},
		{base, "https://h.example.other/m", ""},
		{base, "https://user@h.example/m", ""},
		{base, "https://user:pass@h.example/m", ""},
		{base, "https://@h.example/m", ""},
		{base, "https://h.example@other.example/m", ""},
		{base, "https:h.example/m", ""},
		{base, "https:///m", ""},
		{base, "ftp://h.example/m", ""},
		{base, "javascript:alert(1)", ""},
		{base, "/m\x00", ""},
		{base, "/a\n/b", ""},
		{base, "/" + strings.Repeat("m", maxEndpoint), ""},
		{"http://h.example:8080/sse", "http://h.example/m", ""},
		{"http://[::1]:8080/sse", "http://127.0.0.1:8080/m", ""},
	}
	for _, tt := range tests {
		from, err := url.Parse(tt.base)
		if err != nil {
			t.Fatal(err)
		}
		got, err := sameOrigin(from, tt.named)
		if (err == nil) != (tt.want != "") || err == nil && got.String() != tt.want {
			t.Errorf("%.60q at %s: got %v, %v; want %q", tt.named, tt.base, got, err, tt.want)
		}
	}
}

// Messages go where the first endpoint said, whatever the stream names later.
func TestASecondEndpointChangesNothing(t *testing.T) {
	for _, again := range []string{"/elsewhere", "http://127.0.0.1:1/m", "no address\x7f"} {
		peer := ssePeer(t, mcptest.HTTPOptions{OldSSEAgain: again})
		s := serverOf(t, Spec{URL: peer.URL}, Options{})
		if err := echo(t, mustLeg(t, s, Want{Era: wire.Legacy})); err != nil {
			t.Errorf("%q: %v", again, err)
		}
		for _, seen := range peer.Seen() {
			if seen.HTTPMethod == http.MethodPost && seen.Path != "/messages" && seen.Path != "/mcp" {
				t.Errorf("%q: a message went to %s", again, seen.Path)
			}
		}
	}
}

// The older transport is the last way: its requests follow on those that are
// refused, all with the credential, and the next connection goes straight to
// what the last one found.
func TestTheOrderOfTheWays(t *testing.T) {
	peer := ssePeer(t, mcptest.HTTPOptions{})
	s := serverOf(t, Spec{URL: peer.URL, Connect: func(context.Context) (Credentials, error) {
		return Credentials{Header: http.Header{"Authorization": {"Bearer k"}}}, nil
	}}, Options{})
	came := func() (list []string) {
		for _, seen := range peer.Seen() {
			if seen.Header.Get("Authorization") != "Bearer k" {
				t.Errorf("%s %s came without its credential", seen.HTTPMethod, seen.Path)
			}
			list = append(list, strings.TrimSpace(seen.HTTPMethod+" "+seen.Path+" "+seen.RPCMethod))
		}
		return list
	}
	first := mustLeg(t, s, Want{Era: wire.Modern})
	stream := []string{"GET /mcp", "POST /messages initialize", "POST /messages notifications/initialized"}
	want := append([]string{"POST /mcp server/discover", "POST /mcp initialize"}, stream...)
	if got := came(); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	first.Close()
	mustLeg(t, s, Want{Era: wire.Modern})
	if got := came()[len(want):]; !slices.Equal(got, stream) {
		t.Errorf("the second time got %q", got)
	}
}

// A server that has learned Streamable HTTP since is found out.
func TestAServerThatLearned(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: mcptest.EraLegacy}})
	s := serverOf(t, Spec{URL: peer.URL}, Options{})
	s.spec.older.Store(true)
	leg := mustLeg(t, s, Want{Era: wire.Legacy})
	if _, ok := leg.(*httpLeg); !ok || s.spec.older.Load() {
		t.Errorf("got a leg of type %T", leg)
	}
}

// Whatever keeps a stream from coming up is said as what it is.
func TestNoStream(t *testing.T) {
	status := func(code int) mcptest.Script {
		return func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(code)
			return true
		}
	}
	stream := func(text string) mcptest.Script {
		return func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, text) //nolint:errcheck // the client may have left
			return true
		}
	}
	tests := []struct {
		name   string
		method string // of HTTP or JSON-RPC, to which answer is given
		answer mcptest.Script
		code   crib.Code
		says   string
	}{
		{"none", http.MethodGet, status(404), crib.Unavailable, "HTTP 405 without a JSON-RPC message, and has no stream of the older"},
		{"a page", http.MethodGet, status(200), crib.Unavailable, "is its address right?"},
		{"elsewhere", http.MethodGet, status(307), crib.Unavailable, "is its address right?"},
		{"the server is ill", http.MethodGet, status(503), crib.Unavailable, "it answered HTTP 503"},
		{"it is busy", http.MethodGet, status(429), crib.Unavailable, "asks to wait (HTTP 429)"},
		{"a credential is missing", http.MethodGet, status(401), crib.Unauthorized, "refuses the credential"},
		{"a credential is refused", http.MethodGet, status(403), crib.Unauthorized, "refuses the credential"},
		{"it ends at once", http.MethodGet, stream(""), crib.Unavailable, "did not say where to send messages"},
		{"it ends before its endpoint", http.MethodGet, stream("event: message\ndata: {}\n\n: event: endpoint\n\ndata: /m\n\n"), crib.Unavailable, "did not say where to send messages"},
		{"an endpoint with a user", http.MethodGet, stream("event: endpoint\ndata: http://u@HOST/m\n\n"), crib.Unavailable, "refused"},
		{"no answer at all", http.MethodGet, func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
			<-r.Context().Done()
			return true
		}, crib.Unavailable, "did not say within"},
		{"a wrong endpoint", "initialize", status(404), crib.Unavailable, "answered HTTP 404"},
		{"a refused greeting", "initialize", func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"not today"}}`, mcptest.RequestID(body))
			return true
		}, crib.Unavailable, "refuses initialize: not today"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			peer := ssePeer(t, mcptest.HTTPOptions{})
			peer.Script(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
				if r.Method != tt.method && (r.URL.Path != "/messages" || !bytes.Contains(body, []byte(`"`+tt.method+`"`))) {
					return false
				}
				return tt.answer(hostWriter{w, r.Host}, r, body)
			})
			s := serverOf(t, Spec{URL: peer.URL}, Options{ProbeTimeout: time.Second})
			_, err := s.Leg(patiently(t), Want{Era: wire.Modern})
			if crib.CodeOf(err) != tt.code || !strings.Contains(fmt.Sprint(err), tt.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// hostWriter puts the peer's own host in place of HOST.
type hostWriter struct {
	http.ResponseWriter
	host string
}

func (w hostWriter) Write(b []byte) (int, error) {
	_, err := w.ResponseWriter.Write(bytes.ReplaceAll(b, []byte("HOST"), []byte(w.host)))
	return len(b), err
}
