package mcphttp_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// A legacy server that breaks off the stream of a call may take any stream that
// is opened for the same one taken up again, and answer there.
func TestAnswerOnTheStandingStream(t *testing.T) {
	for _, era := range bothEras {
		t.Run(string(era), func(t *testing.T) {
			peer := legacyPeer(t)
			called := make(chan string, 1)
			peer.Script(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
				flush := w.(http.Flusher).Flush
				switch {
				case method(string(body)) == "tools/call":
					w.Header().Set("Content-Type", "text/event-stream")
					fmt.Fprint(w, "id: 1\nretry: 1\ndata: \n\n") // and that is all
					called <- mcptest.RequestID(body)
				case r.Method == http.MethodGet:
					w.Header().Set("Content-Type", "text/event-stream")
					flush()
					if r.Header.Get(wire.HeaderLastEventID) == "" {
						fmt.Fprintf(w, "id: 2\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", <-called, told("here"))
						flush()
					}
					<-r.Context().Done()
				default:
					return false
				}
				return true
			})
			c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
			if r := call(c.client(era, "fake"), era, "echo", "{}"); r.Text() != "here" {
				t.Errorf("%v", r)
			}
		})
	}
}
