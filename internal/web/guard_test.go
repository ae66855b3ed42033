package web

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// answered is a handler that tells a request that came through.
var answered = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, "through")
})

func guarded(t *testing.T, o Options) http.Handler {
	t.Helper()
	g, err := Guard(o)
	if err != nil {
		t.Fatal(err)
	}
	return g(answered)
}

func TestHosts(t *testing.T) {
	type row struct {
		host string
		want bool
	}
	for _, tc := range []struct {
		name    string
		allowed []string
		rows    []row
	}{
		{"default", nil, []row{
			{"localhost", true},
			{"LOCALHOST:8080", true},
			{"localhost.", true},
			{"localhost.:8090", true},
			{"localhost:", true},
			{"toolcrib.localhost", true},
			{"a.b.localhost:1", true},
			{"127.0.0.1", true},
			{"127.0.0.1:65535", true},
			{"127.0.0.1.", true},
			{"::1", true},
			{"[::1]", true},
			{"[::1]:8080", true},
			{"[0:0:0:0:0:0:0:1]:8080", true},
			{"", false},
			{".", false},
			{"..", false},
			{"localhost..", false},
			{".localhost", false},
			{"a..localhost", false},
			{"evil.test", false},
			{"localhost.evil.test", false},
			{"127.0.0.1.evil.test", false},
			{"notlocalhost", false},
			{"evil.test:localhost", false},
			{"localhost:65536", false},
			{"localhost:-1", false},
			{"localhost:80x", false},
			{"localhost:80:80", false},
			{"user@localhost", false},
			{"localhost/x", false},
			{"evil.test/.localhost", false},
			{"127.1", false},
			{"2130706433", false},
			{"0x7f.0.0.1", false},
			{"0177.0.0.1", false},
			{"127.0.0.2", false},
			{"10.0.0.7", false},
			{"0.0.0.0", false},
			{"[::]", false},
			{"[::ffff:127.0.0.1]", false},
			{"[::1%lo]", false},
			{"[::1", false},
			{"[::1]x", false},
			{"[127.0.0.1]", false},
			{"::1:8080", false},
			{"localhost\u212a", false},
		}},
		{"empty list is the default", []string{}, []row{
			{"localhost:1", true},
			{"my-host.internal:8090", false},
		}},
		{"off", []string{"*"}, []row{
			{"evil.test", true},
			{"localhost", true},
			{"", false},
		}},
		{"with a port, that port only", []string{"localhost", "My-Host.internal.:8090", "[fd00::7]:9"}, []row{
			{"localhost:1", true},
			{"127.0.0.1:1", true},
			{"[::1]", true},
			{"my-host.internal:8090", true},
			{"MY-HOST.INTERNAL.:8090", true},
			{"my-host.internal:08090", true},
			{"my-host.internal:8091", false},
			{"my-host.internal", false},
			{"sub.my-host.internal:8090", false},
			{"[fd00:0::7]:9", true},
			{"[fd00::7]", false},
			{"evil.test", false},
		}},
		{"a list replaces the default", []string{"crib.example.com"}, []row{
			{"crib.example.com", true},
			{"crib.example.com:8090", true},
			{"localhost", false},
			{"127.0.0.1", false},
			{"toolcrib.localhost", false},
		}},
		{"loopback names on one port", []string{"localhost:8090"}, []row{
			{"localhost:8090", true},
			{"127.0.0.1:8090", true},
			{"toolcrib.localhost:8090", true},
			{"localhost:8091", false},
			{"localhost", false},
		}},
		{"default ports are not sent", []string{"crib.example.com:443", "old.example.com:80"}, []row{
			{"crib.example.com", true},
			{"crib.example.com:443", true},
			{"crib.example.com:8443", false},
			{"old.example.com", true},
		}},
		{"below a name", []string{"*.example.com:8090"}, []row{
			{"a.example.com:8090", true},
			{"b.a.example.com:8090", true},
			{"a.example.com:1", false},
			{"example.com:8090", false},
			{"evilexample.com:8090", false},
		}},
	} {
		h := guarded(t, Options{AllowedHosts: tc.allowed})
		for _, row := range tc.rows {
			t.Run(tc.name+"/"+row.host, func(t *testing.T) {
				r := httptest.NewRequest(http.MethodPost, "/v1/mcp", nil)
				r.Host = row.host
				checkRefusal(t, h, r, row.want, "Host", "allowed_hosts")
			})
		}
	}
}

func TestOrigins(t *testing.T) {
	type row struct {
		origin string
		want   bool
	}
	for _, tc := range []struct {
		name    string
		allowed []string
		rows    []row
	}{
		{"default", nil, []row{
			{"http://localhost", true},
			{"http://localhost:3000", true},
			{"https://LOCALHOST:3000", true},
			{"http://127.0.0.1:5173", true},
			{"http://[::1]:5173", true},
			{"http://toolcrib.localhost:8090", true},
			{"null", false},
			{"", false},
			{"*", false},
			{"localhost", false},
			{"//localhost", false},
			{"https://evil.test", false},
			{"http://localhost.evil.test", false},
			{"http://localhost@evil.test", false},
			{"http://localhost/x", false},
			{"http://localhost:3000 http://evil.test", false},
			{"ftp://localhost", false},
			{"chrome-extension://localhost", false},
			{"file://", false},
			{"http://127.0.0.1.evil.test", false},
		}},
		{"empty list is the default", []string{}, []row{
			{"http://localhost:3000", true},
			{"https://evil.test", false},
		}},
		{"a star is the default", []string{"*"}, []row{
			{"http://localhost:3000", true},
			{"https://evil.test", false},
			{"null", false},
		}},
		{"a list replaces the default", []string{"https://App.example.com", "http://dev.example.com:3000", "chrome-extension://abcdef", "https://b.example.com:443"}, []row{
			{"https://app.example.com", true},
			{"https://app.example.com:443", true},
			{"https://app.example.com:8443", false},
			{"http://app.example.com", false},
			{"https://sub.app.example.com", false},
			{"http://dev.example.com:3000", true},
			{"http://dev.example.com", false},
			{"chrome-extension://abcdef", true},
			{"chrome-extension://abcdee", false},
			{"https://b.example.com", true},
			{"http://localhost:3000", false},
			{"null", false},
		}},
		{"a star beside a list adds the default", []string{"https://app.example.com", "*"}, []row{
			{"https://app.example.com", true},
			{"http://localhost:3000", true},
			{"https://evil.test", false},
		}},
	} {
		h := guarded(t, Options{AllowedOrigins: tc.allowed, AllowedHosts: []string{"*"}})
		for _, row := range tc.rows {
			t.Run(tc.name+"/"+row.origin, func(t *testing.T) {
				r := httptest.NewRequest(http.MethodPost, "/v1/mcp", nil)
				r.Header["Origin"] = []string{row.origin}
				checkRefusal(t, h, r, row.want, "Origin", "allowed_origins")
			})
		}
		t.Run(tc.name+"/absent", func(t *testing.T) {
			checkRefusal(t, h, httptest.NewRequest(http.MethodPost, "/v1/mcp", nil), true, "", "")
		})
	}
}

// checkRefusal checks that h lets r through or refuses it as MCP asks: 403, a
// JSON-RPC error without an id, and a text that names header and setting.
func checkRefusal(t *testing.T, h http.Handler, r *http.Request, through bool, header, setting string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if through {
		if w.Code != http.StatusOK || w.Body.String() != "through" {
			t.Fatalf("refused: %d %s", w.Code, w.Body)
		}
		return
	}
	var body struct {
		JSONRPC string
		ID      json.RawMessage
		Error   struct {
			Code    int
			Message string
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatalf("%d %q: %v", w.Code, w.Body, err)
	}
	if w.Code != http.StatusForbidden || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("status %d, type %q", w.Code, w.Header().Get("Content-Type"))
	}
	if body.JSONRPC != "2.0" || body.ID != nil || body.Error.Code != CodeRefused {
		t.Errorf("body %s", w.Body)
	}
	if r.Host != "" && (!strings.Contains(body.Error.Message, header) || !strings.Contains(body.Error.Message, setting)) {
		t.Errorf("message %q names neither %s nor %s", body.Error.Message, header, setting)
	}
	if got := w.Header().Get("Access-Control-Allow-Origin"); got != "" {
		t.Errorf("a refused page may read the answer: %q", got)
	}
}

func TestSeveralOriginsAreRefused(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "http://localhost/v1/mcp", nil)
	r.Header["Origin"] = []string{"http://localhost", "http://localhost"}
	checkRefusal(t, guarded(t, Options{}), r, false, "Origin", "")
}

func TestForwardedHeadersAreIgnored(t *testing.T) {
	h := guarded(t, Options{})
	for _, tc := range []struct {
		host, forwarded string
		want            bool
	}{
		{"evil.test", "localhost", false},
		{"localhost", "evil.test", true},
	} {
		r := httptest.NewRequest(http.MethodPost, "/v1/mcp", nil)
		r.Host = tc.host
		r.Header.Set("X-Forwarded-Host", tc.forwarded)
		r.Header.Set("Forwarded", "host="+tc.forwarded)
		r.Header.Set("X-Original-Host", tc.forwarded)
		checkRefusal(t, h, r, tc.want, "Host", "allowed_hosts")
	}
}

func TestRefusalEchoesLittle(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/v1/mcp", nil)
	r.Host = strings.Repeat("<é", 5000)
	w := httptest.NewRecorder()
	guarded(t, Options{}).ServeHTTP(w, r)
	if w.Code != http.StatusForbidden || w.Body.Len() > 1024 || strings.Contains(w.Body.String(), "<") {
		t.Fatalf("%d, %d bytes: %s", w.Code, w.Body.Len(), w.Body)
	}
}

// A real connection, so that what net/http makes of odd Host headers and of
// "OPTIONS *" is part of the test.
func TestGuardOnAConnection(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			address := "127.0.0.1:0"
			if network == "unix" {
				address = filepath.Join(t.TempDir(), "s")
			}
			l, err := net.Listen(network, address)
			if err != nil {
				t.Fatal(err)
			}
			srv := Server(guarded(t, Options{}), discard)
			done := make(chan error, 1)
			go func() { done <- srv.Serve(l) }()
			t.Cleanup(func() {
				_ = srv.Close()
				<-done
			})
			for request, want := range map[string]int{
				"GET / HTTP/1.1\r\nHost: localhost\r\n":                       200,
				"GET / HTTP/1.1\r\nHost: ::1\r\n":                             200,
				"GET / HTTP/1.1\r\nHost: evil.test\r\n":                       403,
				"GET / HTTP/1.1\r\nHost:\r\n":                                 403,
				"GET / HTTP/1.0\r\n":                                          403,
				"GET / HTTP/1.1\r\n":                                          400,
				"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.test\r\n":    400,
				"GET http://evil.test/ HTTP/1.1\r\nHost: localhost\r\n":       403,
				"OPTIONS * HTTP/1.1\r\nHost: evil.test\r\n":                   403,
				"GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n":       403,
				"GET / HTTP/1.1\r\nHost: localhost\r\nOrigin:\r\n":            403,
				"GET / HTTP/1.1\r\nHost: localhost\r\norigin: http://x.y\r\n": 403,
			} {
				if got := rawStatus(t, l.Addr(), request); got != want {
					t.Errorf("%q: %d, want %d", request, got, want)
				}
			}
		})
	}
}

func rawStatus(t *testing.T, addr net.Addr, request string) int {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(context.Background(), addr.Network(), addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, request+"Connection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

func TestPreflight(t *testing.T) {
	h := guarded(t, Options{AllowedOrigins: []string{"https://app.example.com"}})
	r := httptest.NewRequest(http.MethodOptions, "http://localhost/v1/mcp", nil)
	r.Header.Set("Origin", "https://app.example.com")
	r.Header.Set("Access-Control-Request-Method", "POST")
	r.Header.Set("Access-Control-Request-Headers", "authorization, Content-Type,mcp-method,mcp-param-order_id,x-forwarded-host,cookie")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusNoContent || w.Body.Len() != 0 {
		t.Fatalf("%d %q", w.Code, w.Body)
	}
	for header, want := range map[string]string{
		"Access-Control-Allow-Origin":      "https://app.example.com",
		"Access-Control-Allow-Methods":     "GET, POST, DELETE",
		"Access-Control-Allow-Headers":     "authorization, content-type, mcp-method, mcp-param-order_id",
		"Access-Control-Allow-Credentials": "",
	} {
		if got := w.Header().Get(header); got != want {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
	if got := strings.Join(w.Header().Values("Vary"), ", "); got != "Origin, Access-Control-Request-Headers" {
		t.Errorf("Vary: %q", got)
	}

	r.Header.Set("Origin", "https://evil.test")
	checkRefusal(t, h, r, false, "Origin", "allowed_origins")
}

func TestCORSOnAnswers(t *testing.T) {
	h := guarded(t, Options{})
	for _, tc := range []struct {
		origin, allow, expose string
	}{
		{"http://localhost:3000", "http://localhost:3000", "Mcp-Session-Id"},
		{"", "", ""},
	} {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/v1/mcp", nil)
		if tc.origin != "" {
			r.Header.Set("Origin", tc.origin)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header().Get("Access-Control-Allow-Origin"); got != tc.allow {
			t.Errorf("origin %q: allowed %q", tc.origin, got)
		}
		if got := w.Header().Get("Access-Control-Expose-Headers"); !strings.HasPrefix(got, tc.expose) || (tc.expose == "") != (got == "") {
			t.Errorf("origin %q: exposed %q", tc.origin, got)
		}
		if got := w.Header().Get("Vary"); got != "Origin" {
			t.Errorf("origin %q: Vary %q", tc.origin, got)
		}
	}
	// Without the header that makes it a preflight, OPTIONS is the route's.
	r := httptest.NewRequest(http.MethodOptions, "http://localhost/v1/mcp", nil)
	r.Header.Set("Origin", "http://localhost")
	checkRefusal(t, h, r, true, "", "")
}

func TestOptionsAreCheckedOnce(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    Options
	}{
		{"host with scheme", Options{AllowedHosts: []string{"http://localhost"}}},
		{"host with path", Options{AllowedHosts: []string{"localhost/x"}}},
		{"empty host", Options{AllowedHosts: []string{""}}},
		{"host with a port of letters", Options{AllowedHosts: []string{"localhost:http"}}},
		{"star with a port", Options{AllowedHosts: []string{"*:8090"}}},
		{"star in the middle", Options{AllowedHosts: []string{"a.*.example.com"}}},
		{"star before an address", Options{AllowedHosts: []string{"*.127.0.0.1"}}},
		{"star beside others", Options{AllowedHosts: []string{"localhost", "*"}}},
		{"origin without scheme", Options{AllowedOrigins: []string{"app.example.com"}}},
		{"origin with path", Options{AllowedOrigins: []string{"https://app.example.com/"}}},
		{"origin with a star", Options{AllowedOrigins: []string{"https://*.example.com"}}},
		{"null origin", Options{AllowedOrigins: []string{"null"}}},
		{"empty origin", Options{AllowedOrigins: []string{""}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Guard(tc.o)
			if crib.CodeOf(err) != crib.Invalid {
				t.Errorf("got %v, want an invalid error", err)
			}
			for _, h := range tc.o.AllowedHosts {
				if h != "localhost" && h != "*" && CheckHost(h) == nil {
					t.Errorf("CheckHost takes %q", h)
				}
			}
			for _, o := range tc.o.AllowedOrigins {
				if CheckOrigin(o) == nil {
					t.Errorf("CheckOrigin takes %q", o)
				}
			}
		})
	}
}

func BenchmarkGuard(b *testing.B) {
	g, err := Guard(Options{})
	if err != nil {
		b.Fatal(err)
	}
	h := g(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8090/v1/mcp", nil)
	w := httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		clear(w.Header())
		h.ServeHTTP(w, r)
	}
}
