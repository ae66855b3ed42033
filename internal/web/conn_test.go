package web

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"
)

// serveOn serves h on a loopback port with a short time for each write.
func serveOn(t *testing.T, timeout time.Duration, h http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := Server(h, slog.New(slog.DiscardHandler))
	served := make(chan struct{})
	go func() {
		defer close(served)
		srv.Serve(patientListener{l, timeout}) //nolint:errcheck // it says that it was closed
	}()
	t.Cleanup(func() {
		srv.Close()
		<-served
	})
	return l.Addr().String()
}

// A client that reads nothing is given up, and its request with it.
func TestAClientThatDoesNotReadIsGivenUp(t *testing.T) {
	gone := make(chan struct{})
	addr := serveOn(t, 50*time.Millisecond, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, io.LimitReader(zeros{}, 64<<20)) //nolint:errcheck // it is to fail
		<-r.Context().Done()
		close(gone)
	})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Fatal("the request goes on")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// A client that reads slowly gets all of a great answer, though it takes many
// times as long as one write may.
func TestASlowReaderGetsAll(t *testing.T) {
	const size = 4 << 20
	want := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	addr := serveOn(t, time.Second, func(w http.ResponseWriter, _ *http.Request) {
		w.Write(want) //nolint:errcheck // the client sees what is missing
	})
	resp, err := http.Get("http://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got bytes.Buffer
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		<-tick.C
		_, err := io.CopyN(&got, resp.Body, 64<<10)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%d bytes came", got.Len())
	}
}

// Cut ends the request of its connection and no other.
func TestCut(t *testing.T) {
	ended, other := make(chan struct{}), make(chan struct{})
	addr := serveOn(t, time.Second, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/other" {
			<-other
			io.WriteString(w, "whole") //nolint:errcheck // the client sees what is missing
			return
		}
		io.Copy(io.Discard, r.Body) //nolint:errcheck // there is none
		Cut(r)
		<-r.Context().Done()
		close(ended)
	})
	answers := make(chan string, 1)
	go func() {
		resp, err := http.Get("http://" + addr + "/other")
		if err != nil {
			answers <- err.Error()
			return
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		answers <- string(b)
	}()
	if resp, err := http.Get("http://" + addr + "/cut"); err == nil {
		t.Errorf("answered with %s", resp.Status)
		resp.Body.Close()
	}
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("the request goes on")
	}
	close(other)
	if got := <-answers; got != "whole" {
		t.Errorf("the other request got %q", got)
	}
}
