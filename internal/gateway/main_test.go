package gateway

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/toolcrib/toolcrib/internal/bridge"
	"github.com/toolcrib/toolcrib/internal/catalog"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/gateway/legacy"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a catalog.Store.
type memory struct{ docs sync.Map }

func (s *memory) Load(server string) ([]byte, error) {
	doc, _ := s.docs.Load(server)
	raw, _ := doc.([]byte)
	return raw, nil
}

func (s *memory) Save(server string, doc []byte) error {
	s.docs.Store(server, doc)
	return nil
}

func (s *memory) Delete(server string) error {
	s.docs.Delete(server)
	return nil
}

// newGateway makes a gateway before the servers that are defined. Those
// without a transport are never connected to.
func newGateway(t *testing.T, defs ...servers.Definition) *Gateway {
	t.Helper()
	cat := catalog.New(catalog.Options{
		Store: &memory{},
		Connect: func(context.Context, *servers.Definition) (upstream.Credentials, error) {
			return upstream.Credentials{}, nil
		},
	})
	t.Cleanup(cat.Close)
	for i := range defs {
		defs[i].Enabled = true
	}
	cat.Apply(defs)
	sealer, err := bridge.NewSealer()
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(Options{Catalog: cat, Sealer: sealer, Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// serverOf finds a server of the gateway.
func serverOf(t *testing.T, g *Gateway, name string) *catalog.Server {
	t.Helper()
	s, err := g.cat.Server(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fromClient reads a message of a client.
func fromClient(t *testing.T, body string) wire.Message {
	t.Helper()
	m, err := wire.Scan([]byte(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return m
}

// fromServer reads a message of a server.
func fromServer(t *testing.T, body string) wire.Message {
	t.Helper()
	m, err := wire.ScanServer([]byte(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return m
}

// someone calls in every test that does not care who does.
var someone = crib.Principal{Kind: crib.Token, ID: "someone"}

// ear is a Sink and an Outlet that keeps what it gets.
type ear struct {
	mu     sync.Mutex // guards all below
	heard  []string
	closed int
}

func (e *ear) Send(body []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, string(bytes.Clone(body)))
}

func (e *ear) Push(body []byte) { e.Send(body) }

func (e *ear) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed++
}

// take returns what came since the last time.
func (e *ear) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.heard
	e.heard = nil
	return out
}

// sessionOf is the session of a client with these raw capabilities.
func sessionOf(t *testing.T, outlet Outlet, capabilities string) *Session {
	t.Helper()
	m := fromClient(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"c","version":"1"}}}`)
	return legacy.New(someone, "", wire.NewestLegacy, m, outlet)
}
