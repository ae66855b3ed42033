package web

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// logBuffer is a log that handlers write and a test reads.
type logBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

var discard = slog.New(slog.DiscardHandler)

func TestStatusOfEveryCode(t *testing.T) {
	want := map[crib.Code]int{
		crib.Invalid: 400, crib.NotFound: 404, crib.Denied: 403, crib.Unavailable: 503,
		crib.Unauthorized: 502, crib.Timeout: 504, crib.Unknown: 502, crib.Cancelled: 499,
		crib.TooLarge: 413, crib.Busy: 429, crib.Unsupported: 501, crib.Internal: 500,
	}
	for _, c := range crib.Codes() {
		status, ok := want[c.Code]
		if !ok {
			t.Errorf("code %s has no status", c.Code)
			continue
		}
		if got := Status(fmt.Errorf("do it: %w", crib.Errorf(c.Code, "x"))); got != status {
			t.Errorf("%s: %d, want %d", c.Code, got, status)
		}
	}
	if got := Status(errors.New("x")); got != 500 {
		t.Errorf("an error without a code: %d", got)
	}
}

func TestRecoverAnswersAndServesOn(t *testing.T) {
	var logged logBuffer
	h := Recover(slog.New(slog.NewTextHandler(&logged, nil)))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/early":
			w.Header().Set("Content-Length", "1000")
			panic("early fault")
		case "/late":
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			panic("late fault")
		case "/flushed":
			w.(http.Flusher).Flush()
			panic("flushed fault")
		case "/abort":
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, "fine")
	}))
	srv := httptest.NewServer(h)
	defer srv.Close()
	get := func(path string) (int, string, error) {
		res, err := srv.Client().Get(srv.URL + path)
		if err != nil {
			return 0, "", err
		}
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body)
		return res.StatusCode, string(body), err
	}

	status, body, err := get("/early?token=canary")
	if err != nil || status != 500 || !strings.Contains(body, `"jsonrpc":"2.0"`) || strings.Contains(body, "fault\"") {
		t.Errorf("early: %d %q %v", status, body, err)
	}
	if got := logged.String(); !strings.Contains(got, "early fault") || !strings.Contains(got, "serve_test.go") || strings.Contains(got, "canary") {
		t.Errorf("log: %s", got)
	}
	if _, body, err := get("/late"); err == nil {
		t.Errorf("late: %q was taken for a whole answer", body)
	}
	if _, body, err := get("/flushed"); err == nil {
		t.Errorf("flushed: %q was taken for a whole answer", body)
	}
	before := logged.String()
	if _, _, err := get("/abort"); err == nil {
		t.Error("abort: the connection was not cut")
	}
	if logged.String() != before {
		t.Error("a handler that cuts on purpose was logged as a fault")
	}
	if status, body, err := get("/"); status != 200 || body != "fine" || err != nil {
		t.Errorf("afterwards: %d %q %v", status, body, err)
	}
}

func TestReadBody(t *testing.T) {
	const limit = 64
	for _, tc := range []struct {
		name string
		body io.Reader
		want crib.Code // "" is success
	}{
		{"empty", strings.NewReader(""), ""},
		{"at the limit", strings.NewReader(strings.Repeat("x", limit)), ""},
		{"over the limit", strings.NewReader(strings.Repeat("x", limit+1)), crib.TooLarge},
		{"over the limit, length unknown", io.MultiReader(strings.NewReader(strings.Repeat("x", limit+1))), crib.TooLarge},
		{"broken off", io.MultiReader(strings.NewReader("x"), brokenReader{}), crib.Invalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var buf bytes.Buffer
			r := httptest.NewRequest(http.MethodPost, "/", tc.body)
			err := readBody(httptest.NewRecorder(), r, &buf, limit)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || crib.CodeOf(err) != tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if buf.Len() > limit {
				t.Errorf("%d bytes were kept", buf.Len())
			}
		})
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestServerHasLimitsAndNoWriteTimeout(t *testing.T) {
	s := Server(http.NotFoundHandler(), discard)
	if s.ReadHeaderTimeout <= 0 || s.IdleTimeout <= 0 || s.MaxHeaderBytes <= 0 {
		t.Error("a limit is missing")
	}
	if s.WriteTimeout != 0 {
		t.Error("an absolute timeout cuts streams that are alive")
	}
}

// The limit on a request's body cuts no stream that follows it, and lets the
// handler see when the client leaves, however long behind it that is.
func TestTheLimitOfABodyEndsWithIt(t *testing.T) {
	const timeout = 50 * time.Millisecond
	for name, body := range map[string]io.Reader{"with a body": strings.NewReader("{}"), "without": http.NoBody} {
		t.Run(name, func(t *testing.T) {
			left := make(chan struct{})
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(left)
				io.Copy(io.Discard, r.Body)
				for range 4 {
					select {
					case <-r.Context().Done():
						t.Error("the stream was cut")
						return
					case <-time.After(timeout):
					}
					io.WriteString(w, "event\n")
					http.NewResponseController(w).Flush()
				}
				<-r.Context().Done()
			})
			srv := httptest.NewUnstartedServer(nil)
			srv.Config = server(h, discard, timeout)
			srv.Start()
			defer srv.Close()
			res, err := srv.Client().Post(srv.URL, "text/plain", body)
			if err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(res.Body)
			for range 4 {
				if !lines.Scan() {
					t.Fatal("the stream ended:", lines.Err())
				}
			}
			res.Body.Close()
			<-left
		})
	}
}

func TestSecurityHeadersCanBeReplaced(t *testing.T) {
	h := SecurityHeaders(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
	}))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	for header, want := range map[string]string{
		"X-Content-Type-Options":       "nosniff",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Cache-Control":                "no-cache",
	} {
		if got := w.Header().Get(header); got != want {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
}
