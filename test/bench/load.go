package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// load is a client with one connection for each call at a time.
type load struct {
	conns []*conn
}

// conn is one connection. Requests are written by hand: what the load costs is
// not to be seen in the figures of a machine with few processors.
type conn struct {
	net.Conn
	r      *bufio.Reader
	target target
	host   string
	path   string
	era    string
	sid    string // Mcp-Session-Id
	num    int
	sent   int
	buf    bytes.Buffer
}

var connections atomic.Int64

func open(t target, era string, conc int) (*load, error) {
	u, err := url.Parse(t.url)
	if err != nil {
		return nil, err
	}
	l := new(load)
	for range conc {
		c, err := net.Dial("tcp", u.Host)
		if err != nil {
			l.close()
			return nil, err
		}
		k := &conn{Conn: c, r: bufio.NewReader(c), target: t, host: u.Host, path: u.Path, era: era, num: int(connections.Add(1))}
		l.conns = append(l.conns, k)
		if era == "legacy" {
			if err := k.initialize(); err != nil {
				l.close()
				return nil, err
			}
		}
	}
	return l, nil
}

func (l *load) close() {
	for _, c := range l.conns {
		if c.sid != "" && c.target.token != "" {
			c.send("DELETE", nil, "") //nolint:errcheck // it is over
		}
		c.Close() //nolint:errcheck // likewise
	}
}

// drive makes n calls, and returns how long each took. The first fault ends it.
func (l *load) drive(n int) ([]time.Duration, error) {
	var left atomic.Int64
	left.Store(int64(n))
	parts := make([][]time.Duration, len(l.conns))
	faults := make([]error, len(l.conns))
	var wg sync.WaitGroup
	for i, c := range l.conns {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				began := time.Now()
				if faults[i] = c.call(); faults[i] != nil {
					left.Store(0)
					return
				}
				parts[i] = append(parts[i], time.Since(began))
			}
		})
	}
	wg.Wait()
	var took []time.Duration
	for _, p := range parts {
		took = append(took, p...)
	}
	return took, errors.Join(faults...)
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

// call makes one call. The answer must hold the token of this very call.
func (c *conn) call() error {
	c.sent++
	token := fmt.Sprintf("%032d", c.num*1_000_000_000+c.sent)
	params := fmt.Sprintf(`"name":%q,"arguments":{"message":%q}`, c.target.tool, token)
	if c.era == "modern" {
		params += "," + meta
	}
	got, err := c.send("POST", fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%s}}`, c.sent, params), "tools/call")
	if err != nil {
		return err
	}
	if !bytes.Contains(got, []byte(`"text":"`+token+`"`)) || !bytes.Contains(got, fmt.Appendf(nil, `"id":%d`, c.sent)) {
		return fmt.Errorf("call %d with token %s was answered with %s", c.sent, token, got)
	}
	return nil
}

func (c *conn) initialize() error {
	_, err := c.send("POST", []byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`), "")
	if err != nil {
		return err
	}
	_, err = c.send("POST", []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), "")
	return err
}

func (c *conn) send(verb string, body []byte, method string) ([]byte, error) {
	b := &c.buf
	b.Reset()
	fmt.Fprintf(b, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", verb, c.path, c.host, len(body))
	if c.target.token != "" {
		fmt.Fprintf(b, "Authorization: Bearer %s\r\n", c.target.token)
	}
	switch {
	case c.era == "modern":
		fmt.Fprintf(b, "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: %s\r\nMcp-Name: %s\r\n", method, c.target.tool)
	case c.sid != "":
		fmt.Fprintf(b, "Mcp-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: %s\r\n", c.sid)
	}
	b.WriteString("\r\n")
	b.Write(body)
	c.SetDeadline(time.Now().Add(30 * time.Second)) //nolint:errcheck // a closed connection fails below
	if _, err := c.Write(b.Bytes()); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("HTTP %d: %s", resp.StatusCode, got)
	}
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		c.sid = id
	}
	return got, nil
}
