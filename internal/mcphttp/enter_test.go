package mcphttp

import (
	"net/http/httptest"
	"testing"

	"github.com/toolcrib/toolcrib/internal/web"
)

// What is open at the door has a limit, which a body that is refused anyway
// does not touch, and leaves nothing behind.
func TestEnter(t *testing.T) {
	var d Door
	var leave []func()
	in := func(size int64) bool {
		r := httptest.NewRequest("POST", "/v1/mcp", nil)
		r.ContentLength = size
		l, ok := d.enter(r)
		if ok {
			leave = append(leave, l)
		} else {
			l()
		}
		return ok
	}
	for i := range MaxBodies / web.MaxBody {
		if !in([]int64{-1, web.MaxBody}[i%2]) {
			t.Fatalf("body %d was refused", i)
		}
	}
	if in(1) || in(-1) {
		t.Error("one byte over the limit was let in")
	}
	if !in(0) || !in(1<<40) {
		t.Error("a request without a body, or with one that is refused unread, was refused")
	}
	for len(leave) < MaxRequests {
		if !in(0) {
			t.Fatalf("request %d was refused", len(leave))
		}
	}
	if in(0) {
		t.Error("one request over the limit was let in")
	}
	for _, l := range leave {
		l()
	}
	if d.requests.Load() != 0 || d.bodies.Load() != 0 {
		t.Errorf("left: %d requests, %d bytes", d.requests.Load(), d.bodies.Load())
	}
}
