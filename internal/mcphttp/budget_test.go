package mcphttp_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// cheap is a modern server with the given tools that remembers nothing.
func cheap(t testing.TB, tools string) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		method, _ := wire.GetText(body, "method")
		result := `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`
		switch method {
		case "server/discover":
			result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":3600000,"cacheScope":"public"}`
		case "tools/list":
			result = `{"resultType":"complete","ttlMs":3600000,"cacheScope":"public","tools":` + tools + `}`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, wire.Get(body, "id"), result)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// heapInUse is the heap that is alive behind a collection, in bytes.
func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what finalizers freed
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Most legacy clients never end their sessions. One that was opened, used for
// one call and left costs at most 5 KiB until it expires.
func TestAnAbandonedSessionIsSmall(t *testing.T) {
	const sessions, budget = 5000, 5 << 10
	c := newCrib(t, cribOptions{}, httpServer("s", cheap(t, `[{"name":"echo","inputSchema":{"type":"object"}}]`)))
	abandon := func() {
		session := openLegacy(t, c, "/v1/mcp/s")
		got := postAs(c, "/v1/mcp/s", session, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}}}`)
		if got.Code != http.StatusOK {
			t.Fatalf("session %q: %d %s", session, got.Code, got.Body)
		}
	}
	for range 50 { // what is made once
		abandon()
	}
	before, had := heapInUse(), c.gw.Sessions()
	for range sessions {
		abandon()
	}
	after := heapInUse()
	if n := c.gw.Sessions() - had; n != sessions {
		t.Fatalf("%d sessions are left", n)
	}
	each := (int64(after) - int64(before)) / sessions
	t.Logf("%d bytes a session", each)
	limit := int64(budget)
	if raceEnabled { // the detector keeps a shadow of what is alive
		limit *= 4
	}
	if each > limit {
		t.Errorf("%d bytes a session, over %d", each, limit)
	}
}

// postAs posts to the door itself, in a legacy session where there is one.
func postAs(c *cribT, path, session, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+c.token)
	if session != "" {
		r.Header.Set(wire.HeaderSession, session)
		r.Header.Set(wire.HeaderProtocolVersion, "2025-11-25")
	}
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	return w
}

// openLegacy opens a legacy session and is its id.
func openLegacy(t testing.TB, c *cribT, path string) string {
	t.Helper()
	w := postAs(c, path, "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"client","version":"1.0.0"}}}`)
	session := w.Header().Get(wire.HeaderSession)
	if session == "" {
		t.Fatalf("no session: %d %s", w.Code, w.Body)
	}
	postAs(c, path, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return session
}

// manyTools is a list of n tools as servers write them, of half a KiB each.
func manyTools(n int) string {
	tools := make([]string, n)
	for i := range tools {
		tools[i] = fmt.Sprintf(`{"name":"tool_%05d","title":"Tool %d","description":%q,"inputSchema":{"type":"object","required":["message"],"properties":{"message":{"type":"string","description":"what is said"},"count":{"type":"integer"}}},"outputSchema":{"type":"object","properties":{"said":{"type":"string"}}}}`,
			i, i, strings.Repeat("Does something with the message that it is given. ", 5))
	}
	return "[" + strings.Join(tools, ",") + "]"
}

// listSizes are lists that the crib has, and how long one takes of its time.
var listSizes = []struct {
	tools  int
	budget time.Duration
}{{500, time.Millisecond}, {10_000, 20 * time.Millisecond}}

// The time that the crib itself takes for a list that it knows.
func TestListsAreQuick(t *testing.T) {
	for _, size := range listSizes {
		for name, list := range listers(t, size.tools) {
			took := make([]time.Duration, 15)
			for i := range took {
				began := time.Now()
				list(t)
				took[i] = time.Since(began)
			}
			slices.Sort(took)
			median := took[len(took)/2]
			t.Logf("%s: %s", name, median)
			if limit := time.Duration(scaled(int(size.budget))); median > limit {
				t.Errorf("%s: %s, over %s", name, median, limit)
			}
		}
	}
}

func BenchmarkList(b *testing.B) {
	for _, size := range listSizes {
		for name, list := range listers(b, size.tools) {
			b.Run(name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					list(b)
				}
			})
		}
	}
}

// listers ask the door itself for a list of a modern server that is in the crib
// already, by name: at both endpoints in both eras. A legacy client's list is
// translated.
func listers(t testing.TB, tools int) map[string]func(testing.TB) {
	t.Helper()
	c := newCrib(t, cribOptions{firstWait: time.Minute, budget: time.Minute}, httpServer("s", cheap(t, manyTools(tools))))
	out := make(map[string]func(testing.TB))
	add := func(era wire.Era, path string, request func() *http.Request) {
		ask := func(w http.ResponseWriter) {
			r := request()
			r.Header.Set("Authorization", "Bearer "+c.token)
			c.handler.ServeHTTP(w, r)
		}
		w := httptest.NewRecorder()
		ask(w)
		if n := strings.Count(w.Body.String(), `"inputSchema"`); w.Code != http.StatusOK || n != tools {
			t.Fatalf("%d: %d tools are listed", w.Code, n)
		}
		out[fmt.Sprintf("%d tools, %s, %s", tools, era, path)] = func(t testing.TB) {
			w := &discarding{h: make(http.Header, 8)}
			if ask(w); w.status != http.StatusOK {
				t.Fatalf("answered with %d", w.status)
			}
		}
	}
	for _, path := range []string{"/v1/mcp", "/v1/mcp/s"} {
		session := openLegacy(t, c, path)
		add(wire.Modern, path, func() *http.Request { return modernList(path) })
		add(wire.Legacy, path, func() *http.Request { return legacyList(path, session) })
	}
	return out
}

func modernList(path string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(wire.HeaderProtocolVersion, "2026-07-28")
	r.Header.Set("Mcp-Method", "tools/list")
	return r
}

func legacyList(path, session string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(wire.HeaderSession, session)
	r.Header.Set(wire.HeaderProtocolVersion, "2025-11-25")
	return r
}

// scaled is a budget on a machine that also runs the race detector, or other
// tests at the same time.
func scaled(budget int) int {
	if raceEnabled {
		return budget * 20
	}
	return budget * 2
}
