package mcphttp_test

import (
	"net/http"
	"testing"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Clients say what they take in many ways, or not at all. A POST is answered in
// any case: the protocol has no other form of an answer.
func TestAcceptOfPOST(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	c := newCrib(t, cribOptions{}, httpServer("s", peer.URL))
	cl := c.enter("s")
	for _, accept := range []string{"", "*/*", "application/json", "application/json, text/event-stream", "text/event-stream, application/json;q=0.1", "Application/JSON", "text/html"} {
		for _, era := range bothEras {
			r := cl.Post(era, "tools/call", callOf("echo", `{"n":1.0}`), "Accept: "+accept)
			if r.Status != http.StatusOK || r.Text() != `{"n":1.0}` || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s, %q: %s, type %q", era, accept, r, r.Header.Get("Content-Type"))
			}
		}
		if r := cl.Post(wire.Legacy, "notifications/x", "", "Accept: "+accept); r.Status != http.StatusAccepted || len(r.Body) != 0 {
			t.Errorf("%q, a notification: %s", accept, r)
		}
	}
}

// A GET is for a stream, and whoever excludes that gets none.
func TestAcceptOfGET(t *testing.T) {
	c := newCrib(t, cribOptions{})
	for accept, status := range map[string]int{
		"":                  http.StatusOK,
		"*/*":               http.StatusOK,
		"text/*":            http.StatusOK,
		"text/event-stream": http.StatusOK,
		"Text/Event-Stream": http.StatusOK,
		"application/json, text/event-stream;q=0.5": http.StatusOK,
		"application/json":                          http.StatusNotAcceptable,
		"text/html":                                 http.StatusNotAcceptable,
	} {
		s := c.enter("").Get("Accept: " + accept)
		if s.Status != status {
			t.Errorf("%q: HTTP %d, want %d", accept, s.Status, status)
		}
		s.Close()
	}
}
