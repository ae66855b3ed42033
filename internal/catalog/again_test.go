package catalog

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// memory is a Store.
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

func definition(url string) servers.Definition {
	return servers.Definition{
		Name: "s", Enabled: true, Era: wire.Legacy, Timeout: time.Second,
		Transport: servers.Transport{URL: url},
	}
}

// newCatalog makes a catalog that ends with the test, with one server.
func newCatalog(t *testing.T, def servers.Definition) (*Catalog, *Server) {
	t.Helper()
	c := New(Options{
		Store: &memory{},
		Connect: func(context.Context, *servers.Definition) (upstream.Credentials, error) {
			return upstream.Credentials{}, nil
		},
	})
	t.Cleanup(c.Close)
	c.Apply([]servers.Definition{def})
	s, err := c.Server(def.Name)
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

var legacy = upstream.Want{Era: wire.Legacy}

// ids are what the last list of tools holds.
func ids(s *Server) string {
	l := s.Last(Tools)
	if l == nil {
		return "none"
	}
	var out []string
	for _, it := range l.Items {
		out = append(out, it.ID)
	}
	return strings.Join(out, " ")
}

// lister answers tools/list of a peer with results by cursor; one that it does
// not have is left to the function miss.
type lister struct {
	mu    sync.Mutex // guards pages, miss
	pages map[string]string
	miss  func(w http.ResponseWriter, r *http.Request)
	asked atomic.Int64
}

func (l *lister) script(w http.ResponseWriter, r *http.Request, body []byte) bool {
	if method, _ := wire.GetText(body, "method"); method != "tools/list" {
		return false
	}
	l.asked.Add(1)
	l.mu.Lock()
	page, ok := l.pages[wire.Text(wire.GetPath(body, "params", "cursor"))]
	miss := l.miss
	l.mu.Unlock()
	if !ok {
		miss(w, r)
		return true
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(wire.Get(body, "id"))+`,"result":`+page+`}`)
	return true
}

func (l *lister) set(miss func(http.ResponseWriter, *http.Request), pages map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pages, l.miss = pages, miss
}

func tool(name string) string {
	return `{"name":"` + name + `","inputSchema":{"type":"object"}}`
}

// A list of which a later page cannot be had is no list: what was known is
// kept whole, and asked for again until it comes.
func TestLaterPageFails(t *testing.T) {
	status := func(code int) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for name, miss := range map[string]func(http.ResponseWriter, *http.Request){
		"error":        status(http.StatusInternalServerError),
		"refused":      status(http.StatusUnauthorized),
		"session lost": status(http.StatusNotFound),
		"hang":         func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"broken off":   func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
			var l lister
			l.set(nil, map[string]string{
				"":  `{"tools":[` + tool("a") + `],"nextCursor":"2"}`,
				"2": `{"tools":[` + tool("b") + `]}`,
			})
			peer.Script(l.script)
			c, s := newCatalog(t, definition(peer.URL))
			if err := s.Relist(t.Context(), legacy, Tools); err != nil || ids(s) != "a b" {
				t.Fatalf("the list is %q, %v", ids(s), err)
			}
			told := make(chan Change, 16)
			defer c.Subscribe(func(ch Change) {
				if ch.Kind == Tools {
					told <- ch
				}
			})()

			l.set(miss, map[string]string{"": `{"tools":[` + tool("new") + `],"nextCursor":"2"}`})
			if err := s.Relist(t.Context(), legacy, Tools); err == nil {
				t.Error("half a list is taken for one")
			}
			if got := ids(s); got != "a b" {
				t.Errorf("the list is %q", got)
			}
			if s.current(legacy, Tools) {
				t.Error("a list that could not be had again is taken for a fresh one")
			}
			if len(told) != 0 {
				t.Errorf("told of %v", <-told)
			}

			l.set(nil, map[string]string{"": `{"tools":[` + tool("c") + `]}`})
			select {
			case ch := <-told: // nobody asked
				if ch != (Change{Server: "s", Kind: Tools}) || ids(s) != "c" {
					t.Errorf("told of %v, with %q", ch, ids(s))
				}
			case <-time.After(mcptest.Patience):
				t.Error("nobody is told that the list is there again")
			}
		})
	}
}

// Lists without an end have one.
func TestEndlessList(t *testing.T) {
	for name, tc := range map[string]struct {
		next  func(n int64) string
		pages int64
	}{
		"one cursor for ever":   {func(int64) string { return "x" }, 2},
		"two cursors by turns":  {func(n int64) string { return string(rune('x' + n%2)) }, 3},
		"always another cursor": {func(n int64) string { return strings.Repeat("x", int(n)) }, MaxPages},
	} {
		t.Run(name, func(t *testing.T) {
			peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
			var asked atomic.Int64
			peer.Script(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
				if method, _ := wire.GetText(body, "method"); method != "tools/list" {
					return false
				}
				n := asked.Add(1)
				w.Header().Set("Content-Type", "application/json")
				io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(wire.Get(body, "id"))+
					`,"result":{"tools":[`+tool("t"+strings.Repeat("i", int(n)))+`],"nextCursor":"`+tc.next(n)+`"}}`)
				return true
			})
			_, s := newCatalog(t, definition(peer.URL))
			l, err := s.List(t.Context(), legacy, Tools)
			if err != nil || int64(len(l.List.Items)) != tc.pages {
				t.Fatalf("%d items, %v; want %d", len(l.List.Items), err, tc.pages)
			}
		})
	}
}

// A server that nobody asks for is left alone, and one that is removed ends
// what would ask it.
func TestAskedAgainNoMore(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	var l lister
	l.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, nil)
	peer.Script(l.script)
	tries := func(s *Server) int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.tries)
	}
	c, s := newCatalog(t, definition(peer.URL))
	if err := s.Relist(t.Context(), legacy, Tools); err == nil || tries(s) == 0 {
		t.Fatalf("the list is %q, and it is not asked for again", ids(s))
	}
	s.mu.Lock()
	s.wanted = s.wanted.Add(-wantedFor)
	s.mu.Unlock()
	mcptest.Eventually(t, "nobody asks any more", func() bool { return tries(s) == 0 })

	if err := s.Relist(t.Context(), legacy, Tools); err == nil || tries(s) == 0 {
		t.Fatalf("the list is %q, and it is not asked for again", ids(s))
	}
	c.Apply(nil)
	mcptest.Eventually(t, "the removed server is let go", func() bool { return tries(s) == 0 })
}

// What a server answered while its page was exchanged is shown under the new
// page.
func TestRedefinedMeanwhile(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	arrived, answer := make(chan struct{}), make(chan struct{})
	var once sync.Once
	peer.Script(func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
		if method, _ := wire.GetText(body, "method"); method == "tools/list" {
			once.Do(func() { close(arrived) })
			select {
			case <-answer:
			case <-r.Context().Done():
			}
		}
		return false
	})
	def := definition(peer.URL)
	def.Timeout = mcptest.Patience
	def.Description = "of old"
	c, s := newCatalog(t, def)
	done := make(chan error, 1)
	go func() { done <- s.Relist(t.Context(), legacy, Tools) }()
	<-arrived
	def.Description = "of now"
	c.Apply([]servers.Definition{def})
	close(answer)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	l := s.Last(Tools)
	if l == nil || len(l.Items) == 0 {
		t.Fatal("there is no list")
	}
	if slices.ContainsFunc(l.Items, func(it *Item) bool {
		return !strings.Contains(string(it.Own), "of now") || strings.Contains(string(it.Public), "of old")
	}) {
		t.Errorf("%s", l.Items[0].Own)
	}
}

// A server that cannot tell of changes in one session may in the next.
func TestSilentSession(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	_, s := newCatalog(t, definition(peer.URL))
	if err := s.Relist(t.Context(), legacy, Tools); err != nil {
		t.Fatal(err)
	}
	leg, err := s.Up().Leg(t.Context(), legacy)
	if err != nil {
		t.Fatal(err)
	}
	ttl := func() time.Duration { return s.Last(Tools).TTL }
	if ttl() >= 0 {
		t.Fatalf("the list of a server that tells of changes ages by %s", ttl())
	}
	first := leg.Hello()
	events{s}.Silent("s", leg)
	if err := s.Relist(t.Context(), legacy, Tools); err != nil || ttl() != LegacyTTL {
		t.Fatalf("the list of a silent session ages by %s, %v", ttl(), err)
	}
	peer.Forget()
	mcptest.Eventually(t, "the list of the next session waits to be told", func() bool {
		if err := s.Relist(t.Context(), legacy, Tools); err != nil {
			t.Fatal(err)
		}
		return leg.Hello() != first && ttl() < 0
	})
}
