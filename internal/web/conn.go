package web

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// WriteTimeout is how long a client may take to accept the next
	// writeChunk bytes of an answer, and no less than seven eighths of it. A
	// stream may live as long as it likes, and an answer of any size may come
	// slowly, but a client that reads nothing may not hold a connection.
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
	now := time.Now()
	return &patientConn{Conn: c, timeout: l.timeout, base: now, reads: reads{conn: c, base: now}}, nil
}

type patientConn struct {
	net.Conn
	timeout time.Duration
	base    time.Time
	until   atomic.Int64 // the deadline that is set, in nanoseconds behind base
	reads   reads
}

func (c *patientConn) Read(b []byte) (int, error)        { return c.reads.read(b) }
func (c *patientConn) SetReadDeadline(t time.Time) error { return c.reads.deadline(t) }

// SetDeadline sets both deadlines.
func (c *patientConn) SetDeadline(t time.Time) error {
	return errors.Join(c.reads.deadline(t), c.SetWriteDeadline(t))
}

// allow gives the next write its time. A deadline that is nearly as far away as
// a new one would be is left: setting it costs as much as many a write.
func (c *patientConn) allow() error {
	now := time.Since(c.base)
	if left := time.Duration(c.until.Load()) - now; left > c.timeout-c.timeout/8 {
		return nil
	}
	c.until.Store(int64(now + c.timeout))
	return c.SetWriteDeadline(c.base.Add(now + c.timeout))
}

func (c *patientConn) Write(b []byte) (written int, err error) {
	for {
		if err := c.allow(); err != nil {
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
