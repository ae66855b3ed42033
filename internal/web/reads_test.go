package web

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counted counts how often a deadline is set.
type counted struct {
	net.Conn
	sets atomic.Int64
}

func (c *counted) SetReadDeadline(t time.Time) error {
	c.sets.Add(1)
	return c.Conn.SetReadDeadline(t)
}

func readsOver(t *testing.T) (r *reads, c *counted, peer net.Conn) {
	t.Helper()
	mine, peer := net.Pipe()
	t.Cleanup(func() { mine.Close(); peer.Close() })
	c = &counted{Conn: mine}
	return &reads{conn: c, base: time.Now()}, c, peer
}

// A read ends when the last deadline says, whatever was set and taken back
// before.
func TestReadDeadlines(t *testing.T) {
	at := func(s ...int) (set []int) { return s } // seconds from now; 0 takes the deadline back, less ends the read at once
	for _, tt := range []struct {
		name string
		set  []int
		want time.Duration // when the read ends; negative: not in a day
	}{
		{"none", at(), -1},
		{"one", at(10), 10 * time.Second},
		{"a later one", at(10, 30), 30 * time.Second},
		{"a sooner one", at(30, 10), 10 * time.Second},
		{"taken back", at(10, 0), -1},
		{"taken back, and one", at(10, 0, 120), 120 * time.Second},
		{"ended at once", at(10, -1), 0},
		{"ended, and taken back", at(-1, 0), -1},
		{"ended, and another", at(-1, 0, 10), 10 * time.Second},
		{"ended, and another at once", at(-1, 10), 10 * time.Second},
		{"as a server does for two requests", at(120, 0, 10, 30, -1, 0, 120, 0, 10, 30), 30 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, _, peer := readsOver(t)
				for _, s := range tt.set {
					d := time.Time{}
					switch {
					case s > 0:
						d = time.Now().Add(time.Duration(s) * time.Second)
					case s < 0:
						d = time.Unix(1, 0)
					}
					if err := r.deadline(d); err != nil {
						t.Fatal(err)
					}
				}
				began := time.Now()
				day := time.AfterFunc(24*time.Hour, func() { peer.Close() })
				defer day.Stop()
				_, err := r.read(make([]byte, 1))
				took := time.Since(began)
				if tt.want < 0 && (!errors.Is(err, io.EOF) || took != 24*time.Hour) || tt.want >= 0 && (!errors.Is(err, os.ErrDeadlineExceeded) || took != tt.want) {
					t.Errorf("it ended after %s: %v", took, err)
				}
			})
		})
	}
}

// A read that waits ends at once when it is told to, and what comes before that
// is read.
func TestReadIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, peer := readsOver(t)
		if err := r.deadline(time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			if _, err := r.read(make([]byte, 1)); err != nil {
				t.Error(err)
			}
			_, err := r.read(make([]byte, 1))
			ended <- err
		}()
		if _, err := peer.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := r.deadline(time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	})
}

// For each request of a connection two deadlines are set, not seven.
func TestReadDeadlinesAreFew(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	counting := &counting{Listener: l}
	srv := &http.Server{ReadHeaderTimeout: ReadHeaderTimeout, ReadTimeout: BodyTimeout, IdleTimeout: IdleTimeout,
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })} //nolint:errcheck // the client sees it
	served := make(chan struct{})
	go func() {
		defer close(served)
		srv.Serve(patientListener{counting, WriteTimeout}) //nolint:errcheck // it says that it was closed
	}()
	defer func() {
		srv.Close()
		<-served
	}()
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	const requests = 100
	for range requests {
		resp, err := client.Post("http://"+l.Addr().String(), "text/plain", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if n := counting.conn.sets.Load(); n > 3*requests {
		t.Errorf("%d deadlines for %d requests", n, requests)
	}
}

// counting counts for the last connection that it accepted.
type counting struct {
	net.Listener
	conn *counted
}

func (l *counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.conn = &counted{Conn: c}
	return l.conn, nil
}
