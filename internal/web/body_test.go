package web

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// A body that never comes whole holds its connection no longer than it may,
// however it is announced.
func TestABodyThatDoesNotCome(t *testing.T) {
	for name, raw := range map[string]string{
		"less than was said":        "Content-Length: 100\r\n\r\n0123456789",
		"nothing of it":             "Content-Length: 100\r\n\r\n",
		"a chunk that breaks off":   "Transfer-Encoding: chunked\r\n\r\n64\r\n0123456789",
		"chunks without an end":     "Transfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n",
		"more than is made at once": "Content-Length: 8000000\r\n\r\n0123456789",
	} {
		addr := serveOn(t, time.Second, func(w http.ResponseWriter, r *http.Request) {
			var buf bytes.Buffer
			if err := readBody(w, r, &buf, MaxBody, 100*time.Millisecond); err != nil {
				WriteRPCError(w, Status(err), codeInternal, err.Error())
			}
		})
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\n"+raw); err != nil {
			t.Fatal(err)
		}
		c.SetReadDeadline(time.Now().Add(20 * time.Second)) //nolint:errcheck // a closed connection fails below
		answer, err := io.ReadAll(c)                        // until the server closes
		if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 400 ")) {
			t.Errorf("%s: %q, %v", name, answer, err)
		}
	}
}
