package web

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// slow is the time for headers and for a body in the tests of them.
const slow = 200 * time.Millisecond

// dialSlow serves h, which has little time for each request to come, and opens
// a connection.
func dialSlow(t *testing.T, h http.HandlerFunc) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := server(h, discard, slow)
	srv.ReadHeaderTimeout = slow
	served := make(chan struct{})
	go func() {
		defer close(served)
		srv.Serve(l) //nolint:errcheck // it says that it was closed
	}()
	t.Cleanup(func() {
		srv.Close()
		<-served
	})
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second)) //nolint:errcheck // a test that hangs fails
	return c
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// readIt wants the body of its request, refuse does not.
func readIt(w http.ResponseWriter, r *http.Request) {
	if err := ReadBody(w, r, new(bytes.Buffer)); err != nil {
		WriteRPCError(w, Status(err), codeInternal, err.Error())
	}
}

func refuse(w http.ResponseWriter, _ *http.Request) {
	WriteRPCError(w, http.StatusUnauthorized, codeInternal, "not before you say who you are")
}

// A body that never comes whole holds its connection no longer than it may,
// however it is announced, and whether or not anybody wants to read it.
func TestABodyThatDoesNotCome(t *testing.T) {
	for name, raw := range map[string]string{
		"less than was said":        "Content-Length: 100\r\n\r\n0123456789",
		"nothing of it":             "Content-Length: 100\r\n\r\n",
		"a chunk that breaks off":   "Transfer-Encoding: chunked\r\n\r\n64\r\n0123456789",
		"chunks without an end":     "Transfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n",
		"half a chunk's size":       "Transfer-Encoding: chunked\r\n\r\n6",
		"more than is made at once": "Content-Length: 8000000\r\n\r\n0123456789",
	} {
		for status, h := range map[string]http.HandlerFunc{"400 ": readIt, "401 ": refuse} {
			c := dialSlow(t, h)
			send(t, c, "POST / HTTP/1.1\r\nHost: x\r\n"+raw)
			answer, err := io.ReadAll(c) // until the server closes
			if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+status) {
				t.Errorf("%s, for %s: %q, %v", name, status, answer, err)
			}
		}
	}
}

// What comes a byte at a time has no more time than what does not come: each
// byte is no new beginning.
func TestARequestThatTrickles(t *testing.T) {
	for name, head := range map[string]string{
		"headers": "POST / HTTP/1.1\r\nHost: x\r\nX-Long: ",
		"a body":  "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n",
	} {
		c := dialSlow(t, readIt)
		send(t, c, head)
		closed := make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, c)
			closed <- err
		}()
		beat := time.NewTicker(slow / 10)
		for open := true; open; {
			select {
			case err := <-closed:
				open = false
				if ne, ok := err.(net.Error); ok && ne.Timeout() {
					t.Errorf("%s: the connection stayed open", name)
				}
			case <-beat.C:
				io.WriteString(c, "x") //nolint:errcheck // the server may have closed
			}
		}
		beat.Stop()
	}
}

// The time for a body ends with the body: the answer has all the time that it
// needs, also where nobody read the body.
func TestTheTimeForABodyIsNoneForTheAnswer(t *testing.T) {
	for name, read := range map[string]http.HandlerFunc{"read": readIt, "left": func(http.ResponseWriter, *http.Request) {}} {
		for kind, raw := range map[string]string{
			"of known length": "Content-Length: 5\r\n\r\nwhole",
			"in chunks":       "Transfer-Encoding: chunked\r\n\r\n5\r\nwhole\r\n0\r\n\r\n",
			"that is none":    "\r\n",
		} {
			c := dialSlow(t, func(w http.ResponseWriter, r *http.Request) {
				read(w, r)
				w.WriteHeader(http.StatusOK)
				http.NewResponseController(w).Flush() //nolint:errcheck // the client sees what is missing
				select {
				case <-r.Context().Done():
				case <-time.After(3 * slow):
					io.WriteString(w, "at last!") //nolint:errcheck // likewise
				}
			})
			send(t, c, "POST / HTTP/1.1\r\nHost: x\r\n"+raw)
			if answer, err := bufio.NewReader(c).ReadString('!'); err != nil {
				t.Errorf("a body %s that is %s: %q, %v", kind, name, answer, err)
			}
		}
	}
}
