package mcphttp_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolcrib/toolcrib/internal/auth"
	"github.com/toolcrib/toolcrib/internal/bridge"
	"github.com/toolcrib/toolcrib/internal/catalog"
	"github.com/toolcrib/toolcrib/internal/gateway"
	"github.com/toolcrib/toolcrib/internal/mcphttp"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/store"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/web"
	"github.com/toolcrib/toolcrib/internal/wire"
)

func TestMain(m *testing.M) {
	mcptest.RunPeerIfAsked()
	goleak.VerifyTestMain(m)
}

// cribT is a crib of real parts behind a real HTTP server.
type cribT struct {
	t       testing.TB
	url     string // of /v1/mcp
	token   string
	cat     *catalog.Catalog
	gw      *gateway.Gateway
	handler http.Handler // of the door, without a connection before it
	folder  *store.Folder
	auth    *auth.Registry
	log     strings.Builder
}

// cribOptions shorten times.
type cribOptions struct {
	upstream  upstream.Options
	budget    time.Duration
	firstWait time.Duration
	keepAlive time.Duration
	idle      time.Duration
	round     time.Duration // for a client to answer
	dir       string        // of the state; "" is a new one
}

func newCrib(t testing.TB, o cribOptions, defs ...servers.Definition) *cribT {
	t.Helper()
	c := &cribT{t: t}
	if o.dir == "" {
		o.dir = t.TempDir()
	}
	var err error
	if c.folder, err = store.Open(o.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.folder.Close() })
	if c.auth, err = auth.New(auth.Options{Store: c.folder.NewTokens()}); err != nil {
		t.Fatal(err)
	}
	if c.token, err = c.auth.Create("tester"); err != nil {
		t.Fatal(err)
	}
	sealer, err := bridge.NewSealer()
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelInfo}))
	o.upstream.Version, o.upstream.Log = "test", log
	o.upstream.Environ = []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir()}
	c.cat = catalog.New(catalog.Options{
		Store: c.folder.Lists(), Upstream: o.upstream, Budget: o.budget, FirstWait: o.firstWait, Log: log,
		Connect: func(ctx context.Context, def *servers.Definition) (upstream.Credentials, error) {
			creds := upstream.Credentials{Header: http.Header{}}
			for _, h := range def.Headers {
				creds.Header.Set(h.Name, h.Value.Source())
			}
			return creds, nil
		},
		Other: func(server string, share upstream.Share, m wire.Message) { c.gw.Told(server, share, m) },
	})
	if c.gw, err = gateway.New(gateway.Options{Catalog: c.cat, Sealer: sealer, Version: "test", Log: log, SessionIdle: o.idle, RoundTime: o.round}); err != nil {
		t.Fatal(err)
	}
	handler, err := mcphttp.New(mcphttp.Options{Gateway: c.gw, Auth: c.auth, Log: log, KeepAlive: o.keepAlive})
	if err != nil {
		t.Fatal(err)
	}
	c.handler = handler
	c.cat.Apply(defs)
	srv := httptest.NewUnstartedServer(handler)
	srv.Listener, srv.Config = web.Patient(srv.Listener), web.Server(handler, log)
	srv.Start()
	c.url = srv.URL + "/v1/mcp"
	t.Cleanup(func() {
		c.gw.Close()
		handler.Wait()
		srv.CloseClientConnections()
		srv.Close()
		c.cat.Close()
	})
	return c
}

// testWriter writes the crib's log to the test's.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("log: %s", strings.TrimSpace(string(p)))
	return len(p), nil
}

// httpServer defines a server that is reached by URL.
func httpServer(name, url string, change ...func(*servers.Definition)) servers.Definition {
	return define(servers.Definition{Name: name, Transport: servers.Transport{URL: url}}, change)
}

// stdioServer defines a server that is started.
func stdioServer(name string, command []string, change ...func(*servers.Definition)) servers.Definition {
	return define(servers.Definition{Name: name, Transport: servers.Transport{Command: command}}, change)
}

func define(d servers.Definition, change []func(*servers.Definition)) servers.Definition {
	d.Enabled, d.Timeout = true, 20*time.Second
	d.Dialogue = servers.Dialogue{Share: servers.ShareServer, May: []string{"elicitation", "roots"}}
	for _, f := range change {
		f(&d)
	}
	return d
}
