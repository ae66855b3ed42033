package mcphttp_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"testing"

	"github.com/toolcrib/toolcrib/internal/auth"
	"github.com/toolcrib/toolcrib/internal/bridge"
	"github.com/toolcrib/toolcrib/internal/catalog"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/gateway"
	"github.com/toolcrib/toolcrib/internal/mcphttp"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/store"
	"github.com/toolcrib/toolcrib/internal/web"
)

// discarding takes an answer and counts it.
type discarding struct {
	h      http.Header
	status int
	n      int
}

func (d *discarding) Header() http.Header { return d.h }
func (d *discarding) WriteHeader(s int)   { d.status = s }
func (d *discarding) Write(b []byte) (int, error) {
	d.n += len(b)
	return len(b), nil
}

// BenchmarkCall is what the crib itself does for one modern call, from the
// request that net/http read to the answer that it will write, at a server that
// costs nothing.
func BenchmarkCall(b *testing.B) {
	folder, err := store.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer folder.Close()
	tokens, err := auth.New(auth.Options{Store: folder.NewTokens()})
	if err != nil {
		b.Fatal(err)
	}
	token, err := tokens.Create("bench")
	if err != nil {
		b.Fatal(err)
	}
	sealer, err := bridge.NewSealer()
	if err != nil {
		b.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	cat := catalog.New(catalog.Options{Store: folder.Lists(), Fake: true, Log: log})
	defer cat.Close()
	gw, err := gateway.New(gateway.Options{Catalog: cat, Sealer: sealer, Version: "bench", Log: log})
	if err != nil {
		b.Fatal(err)
	}
	defer gw.Close()
	door, err := mcphttp.New(mcphttp.Options{Gateway: gw, Auth: tokens, Log: log})
	if err != nil {
		b.Fatal(err)
	}
	guard, err := web.Guard(web.Options{})
	if err != nil {
		b.Fatal(err)
	}
	handler := web.Recover(log)(web.SecurityHeaders(guard(door)))
	cat.Apply([]servers.Definition{{Name: "up", Enabled: true, Transport: servers.Transport{URL: "http://127.0.0.1:1/mcp"}, Gates: []servers.Gate{{Pattern: "echo", Effect: crib.Allow}}}})
	const body = `{"jsonrpc":"2.0","id":42949672961,"method":"tools/call","params":{"name":"echo","arguments":{"message":"0123456789abcdef0123456789abcdef"},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	reader := bytes.NewReader(nil)
	req, err := http.NewRequest("POST", "http://127.0.0.1:8090/v1/mcp/up", nil)
	if err != nil {
		b.Fatal(err)
	}
	for k, v := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + token,
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo", "User-Agent": "bench",
	} {
		req.Header.Set(k, v)
	}
	req.Body, req.ContentLength = io.NopCloser(reader), int64(len(body))
	b.ReportAllocs()
	for b.Loop() {
		reader.Reset([]byte(body))
		w := &discarding{h: make(http.Header, 8)}
		handler.ServeHTTP(w, req)
		if w.status != http.StatusOK || w.n == 0 {
			b.Fatalf("answered with %d", w.status)
		}
	}
}
