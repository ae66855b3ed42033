package web

import (
	"context"
	"net"
	"net/http"
	"time"
)

const (
	// WriteTimeout is how long a client may take to accept the next
	// writeChunk bytes of an answer. A stream may live as long as it likes,
	// and an answer of any size may come slowly, but a client that reads
	// nothing may not hold a connection.
	WriteTimeout = 30 * time.Second

	writeChunk = 256 << 10 // bytes
)

// Patient returns l with connections that give up a write after WriteTimeout
// without progress.
func Patient(l net.Listener) net.Listener { return patientListener{l, WriteTimeout} }

type patientListener struct {
	net.Listener
	timeout time.Duration
}

func (l patientListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &patientConn{c, l.timeout}, nil
}

type patientConn struct {
	net.Conn
	timeout time.Duration
}

func (c *patientConn) Write(b []byte) (written int, err error) {
	for {
		if err := c.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(b[:min(len(b), writeChunk)])
		written += n
		if b = b[n:]; err != nil || len(b) == 0 {
			return written, err
		}
	}
}

// CloseWrite lets net/http take leave of a client that still sends.
func (c *patientConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

type connKey struct{}

// remember makes the connection of a request known to Cut.
func remember(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// Cut closes the connection that r came on: its context ends, and nothing more
// is written. It is for clients that do not take their answers. The server must
// be one of Server.
func Cut(r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		c.Close() //nolint:errcheck // it is given up
	}
}
