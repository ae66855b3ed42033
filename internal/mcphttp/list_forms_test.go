package mcphttp_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// listed asks for the tools at path in era, and is the result's array.
func listed(t *testing.T, c *cribT, path string, era wire.Era, session string) string {
	t.Helper()
	r := modernList(path)
	if era == wire.Legacy {
		r = legacyList(path, session)
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return string(wire.Get(wire.Get(w.Body.Bytes(), "result"), "tools"))
}

// A modern server's tool with an output schema that is no object's has none
// for a legacy client (2025-11-25, Tools, Data Types), whatever the key looks
// like in the server's bytes; everything else is shown as it came.
func TestListsInTheClientsForm(t *testing.T) {
	const (
		object  = `{"name":"object","inputSchema":{"type":"object"},"outputSchema":{"type":"object"},"x":1}`
		array   = `{"name":"array","inputSchema":{"type":"object"},"outputSchema":{"type":"array"},"x":1.0}`
		escaped = `{"name":"escaped","inputSchema":{"type":"object"},"output\u0053chema":{"type":"string"}}`
	)
	tools := strings.Join([]string{object, array, escaped}, ",")
	legacy := strings.Join([]string{object, `{"name":"array","inputSchema":{"type":"object"},"x":1.0}`, `{"name":"escaped","inputSchema":{"type":"object"}}`}, ",")
	c := newCrib(t, cribOptions{}, httpServer("s", cheap(t, "["+tools+"]")))
	for _, path := range []string{"/v1/mcp", "/v1/mcp/s"} {
		session := openLegacy(t, c, path)
		for era, want := range map[wire.Era]string{wire.Modern: tools, wire.Legacy: legacy} {
			if path == "/v1/mcp" {
				want = strings.ReplaceAll(want, `"name":"`, `"name":"s__`)
			}
			if got := listed(t, c, path, era, session); got != "["+want+"]" {
				t.Errorf("%s %s\n got %s\nwant [%s]", path, era, got, want)
			}
		}
	}
}

// What a list shows is decided when it is asked for: the first list behind a
// reload that gives less, or more, shows it.
func TestAReloadShowsInTheNextList(t *testing.T) {
	def := httpServer("s", cheap(t, `[{"name":"a","inputSchema":{"type":"object"}},{"name":"b","inputSchema":{"type":"object"}}]`))
	denied := def
	denied.Gates = append(slices.Clone(def.Gates), servers.Gate{Pattern: "b", Effect: crib.Deny})
	c := newCrib(t, cribOptions{}, def)
	for _, path := range []string{"/v1/mcp", "/v1/mcp/s"} {
		session := openLegacy(t, c, path)
		for _, era := range []wire.Era{wire.Modern, wire.Legacy} {
			for _, step := range []struct {
				def  servers.Definition
				want int
			}{{def, 2}, {denied, 1}, {def, 2}} {
				c.cat.Apply([]servers.Definition{step.def})
				if got := listed(t, c, path, era, session); strings.Count(got, `"inputSchema"`) != step.want {
					t.Errorf("%s %s: want %d tools, got %s", path, era, step.want, got)
				}
			}
		}
	}
}
