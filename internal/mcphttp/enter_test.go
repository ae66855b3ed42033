package mcphttp

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/auth"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/store"
	"github.com/toolcrib/toolcrib/internal/web"
)

// broken is a body that never comes.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("gone") }

// read has the door read a body that is declared to have a size, -1 for none.
func read(d *Door, size int64, body io.Reader) (got []byte, status int) {
	r := httptest.NewRequest(http.MethodPost, "/v1/mcp", body)
	r.ContentLength = size
	w := httptest.NewRecorder()
	got, ok := d.body(w, r, func(err error) { w.WriteHeader(web.Status(err)) })
	if ok {
		return got, 0
	}
	return nil, w.Code
}

// The bodies of open requests have a limit together, which one that is refused
// anyway does not touch. While a body of unknown length comes in it counts as
// the greatest, then as what it is.
func TestBodies(t *testing.T) {
	var d Door
	short, status := read(&d, -1, strings.NewReader("{}"))
	if status != 0 || d.bodies.Load() != 2 {
		t.Fatalf("HTTP %d, %d bytes counted for two", status, d.bodies.Load())
	}
	d.bodies.Add(MaxBodies - web.MaxBody) // others
	for name, size := range map[string]int64{"the greatest": web.MaxBody, "one of unknown length": -1} {
		if _, status := read(&d, size, strings.NewReader("")); status != http.StatusServiceUnavailable {
			t.Errorf("%s: HTTP %d", name, status)
		}
	}
	if _, status := read(&d, 1<<40, strings.NewReader("")); status != http.StatusRequestEntityTooLarge {
		t.Errorf("one that is refused unread: HTTP %d", status)
	}
	if _, status := read(&d, 2, broken{}); status != http.StatusBadRequest {
		t.Errorf("one that breaks off: HTTP %d", status)
	}
	d.bodies.Add(-(MaxBodies - web.MaxBody))
	if got := d.bodies.Load(); got != 2 {
		t.Errorf("%d bytes are left, want the 2 of the open request", got)
	}
	d.letGo(short)
	if got := d.bodies.Load(); got != 0 {
		t.Errorf("%d bytes are left", got)
	}
}

// The requests that are open have a limit too, streams included.
func TestRequests(t *testing.T) {
	folder, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { folder.Close() })
	registry, err := auth.New(auth.Options{Store: folder.NewTokens(), Anonymous: true})
	if err != nil {
		t.Fatal(err)
	}
	d := Door{auth: registry}
	came := 0
	h := d.identified(func(http.ResponseWriter, *http.Request, crib.Principal) { came++ })
	ask := func() int {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "http://localhost/v1/mcp", nil)
		r.RemoteAddr = "127.0.0.1:50000"
		h.ServeHTTP(w, r)
		return w.Code
	}
	d.requests.Add(MaxRequests - 1)
	if code := ask(); code != http.StatusOK || came != 1 {
		t.Errorf("the last one that fits: HTTP %d", code)
	}
	d.requests.Add(1)
	if code := ask(); code != http.StatusServiceUnavailable || came != 1 {
		t.Errorf("one over the limit: HTTP %d", code)
	}
	if got := d.requests.Load(); got != MaxRequests {
		t.Errorf("%d requests are counted", got)
	}
}
