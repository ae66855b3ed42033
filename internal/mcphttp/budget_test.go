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
	post := func(session, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/v1/mcp/s", strings.NewReader(body))
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
	abandon := func() {
		w := post("", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"client","version":"1.0.0"}}}`)
		id := w.Header().Get(wire.HeaderSession)
		post(id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		if got := post(id, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}}}`); id == "" || got.Code != http.StatusOK {
			t.Fatalf("session %q: %d %s", id, got.Code, got.Body)
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
	if limit := int64(scaled(budget)); each > limit {
		t.Errorf("%d bytes a session, over %d", each, limit)
	}
}

// manyTools is a list of n tools as servers write them, of half a KiB each.
func manyTools(n int) string {
	tools := make([]string, n)
	for i := range tools {
		tools[i] = fmt.Sprintf(`{"name":"tool_%05d","title":"Tool %d","description":%q,"inputSchema":{"type":"object","required":["message"],"properties":{"message":{"type":"string","description":"what is said"},"count":{"type":"integer"}}}}`,
			i, i, strings.Repeat("Does something with the message that it is given. ", 5))
	}
	return "[" + strings.Join(tools, ",") + "]"
}

// The time that the crib itself takes for a list that it knows.
func TestListsAreQuick(t *testing.T) {
	for _, c := range []struct {
		tools  int
		budget time.Duration
	}{{500, time.Millisecond}, {10_000, 20 * time.Millisecond}} {
		for _, endpoint := range []string{"", "s"} {
			took := listTime(t, c.tools, endpoint)
			t.Logf("%d tools at /v1/mcp/%s: %s", c.tools, endpoint, took)
			if limit := time.Duration(scaled(int(c.budget))); took > limit {
				t.Errorf("%d tools at /v1/mcp/%s: %s, over %s", c.tools, endpoint, took, limit)
			}
		}
	}
}

func listTime(t testing.TB, tools int, endpoint string) time.Duration {
	t.Helper()
	c := newCrib(t, cribOptions{firstWait: time.Minute, budget: time.Minute}, httpServer("s", cheap(t, manyTools(tools))))
	path := "/v1/mcp"
	if endpoint != "" {
		path += "/" + endpoint
	}
	list := func() *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
		for k, v := range map[string]string{"Content-Type": "application/json", "Authorization": "Bearer " + c.token, "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"} {
			r.Header.Set(k, v)
		}
		w := httptest.NewRecorder()
		c.handler.ServeHTTP(w, r)
		return w
	}
	if w := list(); w.Code != http.StatusOK || strings.Count(w.Body.String(), `"inputSchema"`) != tools {
		t.Fatalf("%d: %d tools are listed", w.Code, strings.Count(w.Body.String(), `"inputSchema"`))
	}
	took := make([]time.Duration, 15)
	for i := range took {
		began := time.Now()
		list()
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// scaled is a budget on a machine that also runs the race detector, or other
// tests at the same time.
func scaled(budget int) int {
	if raceEnabled {
		return budget * 20
	}
	return budget * 2
}
