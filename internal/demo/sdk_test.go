package demo

import (
	"context"
	"io"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// A client that others wrote gets along with both servers, in both eras.
func TestOfficialClient(t *testing.T) {
	for _, version := range []string{wire.Version20260728, wire.Version20251125} {
		t.Run(version, func(t *testing.T) {
			d := startStdio(t, time.Microsecond)
			workshop := dial(t, version, &mcp.IOTransport{Reader: io.NopCloser(d.out), Writer: d.in})
			tools, err := workshop.ListTools(t.Context(), nil)
			if err != nil || len(tools.Tools) != 5 {
				t.Fatalf("%v, %v", tools, err)
			}
			if _, err := workshop.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "workshop://bolts"}); err != nil {
				t.Error(err)
			}
			if _, err := workshop.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "plan_job", Arguments: map[string]string{"job": "a shelf"}}); err != nil {
				t.Error(err)
			}

			srv := httptest.NewServer(HTTP())
			t.Cleanup(srv.Close)
			notebook := dial(t, version, &mcp.StreamableClientTransport{Endpoint: srv.URL})
			r, err := notebook.CallTool(t.Context(), &mcp.CallToolParams{Name: "add_note", Arguments: map[string]any{"title": "hello"}})
			if err != nil || r.IsError {
				t.Errorf("%v, %v", r, err)
			}
		})
	}
}

func dial(t *testing.T, version string, transport mcp.Transport) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "t", Version: "1"}, nil)
	s, err := client.Connect(context.WithoutCancel(t.Context()), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.InitializeResult().ProtocolVersion; got != version {
		t.Errorf("%s was negotiated, want %s", got, version)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
