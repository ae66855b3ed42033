package mcpstdio_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/auth"
	"github.com/toolcrib/toolcrib/internal/bridge"
	"github.com/toolcrib/toolcrib/internal/catalog"
	"github.com/toolcrib/toolcrib/internal/demo"
	"github.com/toolcrib/toolcrib/internal/gateway"
	"github.com/toolcrib/toolcrib/internal/mcphttp"
	"github.com/toolcrib/toolcrib/internal/mcpstdio"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/store"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// realCrib is a crib of real parts that can be started again at its address.
type realCrib struct {
	t     *testing.T
	dir   string
	addr  string
	token string
	defs  []servers.Definition
	gw    atomic.Pointer[gateway.Gateway]

	mu   sync.Mutex // guards both below
	end  func()
	over bool // it is not started again
}

func (c *realCrib) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
	c.end = func() {}
}

// newCrib starts a crib with servers by name and URL.
func newCrib(t *testing.T, urls map[string]string) *realCrib {
	t.Helper()
	c := &realCrib{t: t, dir: t.TempDir(), addr: "127.0.0.1:0", end: func() {}}
	for name, url := range urls {
		c.defs = append(c.defs, servers.Definition{
			Name: name, Transport: servers.Transport{URL: url}, Enabled: true, Timeout: mcptest.Patience,
			Dialogue: servers.Dialogue{Share: servers.ShareSession, May: []string{servers.MayElicitation}},
		})
	}
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.mu.Lock()
		c.over = true
		c.mu.Unlock()
		c.stop()
	})
	return c
}

// start may be called by any goroutine.
func (c *realCrib) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return errors.New("the test is over")
	}
	folder, err := store.Open(c.dir)
	if err != nil {
		return err
	}
	tokens, err := auth.New(auth.Options{Store: folder.NewTokens()})
	if err != nil {
		return err
	}
	if c.token == "" {
		if c.token, err = tokens.Create("tester"); err != nil {
			return err
		}
	}
	sealer, err := bridge.NewSealer()
	if err != nil {
		return err
	}
	cat := catalog.New(catalog.Options{
		Store: folder.Lists(),
		Connect: func(context.Context, *servers.Definition) (upstream.Credentials, error) {
			return upstream.Credentials{}, nil
		},
	})
	gw, err := gateway.New(gateway.Options{Catalog: cat, Sealer: sealer, Version: "test"})
	if err != nil {
		return err
	}
	handler, err := mcphttp.New(mcphttp.Options{Gateway: gw, Auth: tokens})
	if err != nil {
		return err
	}
	cat.Apply(c.defs)
	l, err := net.Listen("tcp", c.addr)
	if err != nil {
		return err
	}
	c.addr = l.Addr().String()
	srv := &http.Server{Handler: handler}
	served := make(chan struct{})
	go func() {
		defer close(served)
		srv.Serve(l) //nolint:errcheck // it says that it was closed
	}()
	c.gw.Store(gw)
	c.end = func() {
		srv.Close()
		<-served
		gw.Close()
		cat.Close()
		folder.Close()
	}
	return nil
}

// pipeT is a client on stdio.
type pipeT struct {
	t     *testing.T
	in    *io.PipeWriter
	lines chan string
	ended chan error
}

func (c *realCrib) connect(server string, change ...func(*mcpstdio.Options)) *pipeT {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p := &pipeT{t: c.t, in: inW, lines: make(chan string, 1000), ended: make(chan error, 1)}
	o := mcpstdio.Options{
		In: inR, Out: outW, URL: "http://" + c.addr + "/v1/mcp" + server, Retry: 5 * time.Millisecond,
		Token: func(context.Context) (string, error) { return c.token, nil },
	}
	for _, f := range change {
		f(&o)
	}
	go func() {
		defer close(p.lines)
		for r := bufio.NewScanner(outR); r.Scan(); {
			p.lines <- r.Text()
		}
	}()
	go func() {
		p.ended <- mcpstdio.Run(context.Background(), o)
		outW.Close()
		inR.Close()
	}()
	c.t.Cleanup(func() { inW.Close() })
	return p
}

func (p *pipeT) send(format string, args ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		p.t.Fatal(err)
	}
}

// until returns the first line that has all parts, and fails if none comes.
func (p *pipeT) until(parts ...string) string {
	p.t.Helper()
	deadline := time.After(mcptest.Patience)
	var others []string
	for {
		select {
		case l, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("the relay ended; before, it wrote %q", others)
			}
			has := true
			for _, part := range parts {
				has = has && strings.Contains(l, part)
			}
			if has {
				return l
			}
			others = append(others, l)
		case <-deadline:
			p.t.Fatalf("no line has %q; there were %q", parts, others)
		}
	}
}

func (p *pipeT) initialize() {
	p.t.Helper()
	p.send(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}`)
	p.until(`"id":"init"`, `"protocolVersion":"2025-11-25"`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

func serverAt(t *testing.T, handler http.Handler) string {
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestRealCrib(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{Strict: true})
	c := newCrib(t, map[string]string{"notes": serverAt(t, demo.HTTP()), "peer": peer.URL})
	p := c.connect("")
	p.send(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{%s}}`, meta)
	p.until(`"id":1`, `"supportedVersions"`)
	p.initialize()
	p.send(`{"jsonrpc":"2.0","id":"1","method":"tools/list"}`)
	p.until(`"id":"1"`, `"notes__add_note"`, `"peer__echo"`)
	p.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"notes__add_note","arguments":{"title":"modern"},%s}}`, meta)
	p.until(`"id":2`, `"structuredContent":{"id":1,"notes":1}`)
	p.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"notes__add_note","arguments":{"title":"legacy"}}}`)
	p.until(`"id":3`, `"structuredContent":{"id":2,"notes":2}`)

	// The relay knows no schemas. What a server wants mirrored in headers, the
	// crib mirrors.
	p.send(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"peer__headed","arguments":{"region":"north","count":7},%s}}`, meta)
	p.until(`"id":4`, `"structuredContent":{"region":"north","count":7}`)
	if got := peer.Last("tools/call").Header.Get("Mcp-Param-Region"); got != "north" {
		t.Errorf("the server got the region %q in its header", got)
	}

	p.in.Close()
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
	if n := c.gw.Load().Sessions(); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

func TestOneServerOfARealCrib(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	p := newCrib(t, map[string]string{"peer": peer.URL}).connect("/peer")
	p.initialize()
	p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{"ticks":1},"_meta":{"progressToken":"mine"}}}`)
	p.until("notifications/progress", `"progressToken":"mine"`)
	p.until(`"id":1`, "released")
	p.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"elicit","arguments":{}}}`)
	question := p.until(`"method":"elicitation/create"`)
	p.send(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"n":9007199254740993}}}`, wire.Get([]byte(question), "id"))
	p.until(`"id":2`, "9007199254740993")
}

// The crib restarts under an open pipe: the client notices nothing but that
// its next request takes a little longer.
func TestRestartOfARealCrib(t *testing.T) {
	c := newCrib(t, map[string]string{"notes": serverAt(t, demo.HTTP())})
	p := c.connect("", func(o *mcpstdio.Options) {
		o.Ensure = func(context.Context) error {
			if conn, err := net.Dial("tcp", c.addr); err == nil {
				return conn.Close()
			}
			return c.start()
		}
	})
	p.initialize()
	for i := range 3 {
		p.send(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"notes__add_note","arguments":{"title":"n"}}}`, i)
		p.until(fmt.Sprintf(`"id":%d`, i), fmt.Sprintf(`"notes":%d`, i+1))
		c.stop()
	}
	p.send(`{"jsonrpc":"2.0","id":9,"method":"tools/list","params":{%s}}`, meta)
	p.until(`"id":9`, `"notes__list_notes"`)
}
