package web

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// readSlack is how long a deadline may stand that a server has taken back before
// it is looked at again: shorter than any that it sets.
const readSlack = 5 * time.Second

// reads keeps the read deadlines that a server sets, and sets those of its
// connection only where one has to come sooner than the one that is set. net/http
// sets half a dozen for each request, next to none of which is ever met; one that
// is met too early is looked at, and set anew.
type reads struct {
	conn net.Conn
	base time.Time // what is before it is set to end a read at once

	mu   sync.Mutex // guards both below
	want time.Time  // what the server set; zero is none
	set  time.Time  // what the connection has; never later than want
}

// deadline is SetReadDeadline.
func (r *reads) deadline(t time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.want = t
	ended := !r.set.IsZero() && r.set.Before(r.base)
	switch {
	case t.IsZero() && ended:
		return r.arm(time.Now().Add(readSlack))
	case t.IsZero():
		return nil
	case t.Before(r.base), r.set.IsZero(), ended, t.Before(r.set):
		return r.arm(t)
	}
	return nil
}

// arm sets the deadline of the connection. It is called with mu held.
func (r *reads) arm(t time.Time) error {
	r.set = t
	return r.conn.SetReadDeadline(t)
}

// read is Read.
func (r *reads) read(b []byte) (int, error) {
	for {
		n, err := r.conn.Read(b)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || !r.early() {
			return n, err
		}
	}
}

// early reports whether a deadline was met that the server does not want, and
// sets the one that it does.
func (r *reads) early() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.want.IsZero() && !time.Now().Before(r.want) {
		return false
	}
	return r.arm(r.want) == nil
}
