package mcphttp_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/wire"
)

const (
	resourceUpdated  = "notifications/resources/updated"
	promptsChanged   = "notifications/prompts/list_changed"
	resourcesChanged = "notifications/resources/list_changed"
)

// listenTo opens a subscription with this filter and returns its
// acknowledgement.
func listenTo(t *testing.T, cl *mcptest.Client, id, filter string) (s *mcptest.Stream, ack string) {
	t.Helper()
	s = cl.OpenID(wire.Modern, id, "subscriptions/listen", `{"notifications":`+filter+`}`)
	t.Cleanup(s.Close)
	if s.Status != http.StatusOK || s.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("listen: %v", &s.Reply)
	}
	ack = s.Next().Data
	if method(ack) != "notifications/subscriptions/acknowledged" {
		t.Fatalf("the first message is %s", ack)
	}
	return s, ack
}

// subscriptionOf is the raw id of the subscription that a message belongs to.
func subscriptionOf(data string) string {
	return string(wire.GetPath([]byte(data), "params", "_meta", wire.MetaSubscriptionID))
}

// A subscription begins with what of it is honoured, under the id of its
// request (2026-07-28, Subscriptions, Acknowledgment).
func TestListenIsAcknowledged(t *testing.T) {
	c := newCrib(t, cribOptions{}, httpServer("fake", legacyPeer(t).URL), httpServer("new", modernPeer(t).URL))
	for _, tc := range []struct{ server, id, filter, want string }{
		{"", `1`, `{"toolsListChanged":true,"promptsListChanged":false,"x":true}`, `{"toolsListChanged":true}`},
		{"", `"1"`, `{"promptsListChanged":true,"resourcesListChanged":true,"toolsListChanged":"yes"}`, `{"promptsListChanged":true,"resourcesListChanged":true}`},
		{"", `9007199254740993`, `{}`, `{}`},
		{"", `"a<&>\u2028"`, `{"resourceSubscriptions":["crib.fake+text://hello","crib.none+text://a","text://hello","","crib.new+text://b"]}`,
			`{"resourceSubscriptions":["crib.fake+text://hello","crib.new+text://b"]}`},
		{"", `0`, `{"resourceSubscriptions":["crib.none+text://a"]}`, `{}`},
		{"", `-1`, `{"resourceSubscriptions":["https://example.test/doc","https://elsewhere.test/"]}`, `{"resourceSubscriptions":["https://example.test/doc"]}`},
		{"fake", `1`, `{"resourceSubscriptions":["text://hello"],"toolsListChanged":true}`, `{"toolsListChanged":true,"resourceSubscriptions":["text://hello"]}`},
		{"new", `1`, `{"resourceSubscriptions":["text://hello"]}`, `{"resourceSubscriptions":["text://hello"]}`},
	} {
		t.Run(tc.server+" "+tc.filter, func(t *testing.T) {
			s, ack := listenTo(t, c.dial(tc.server), tc.id, tc.filter)
			defer s.Close()
			want := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":` + tc.want +
				`,"_meta":{"` + wire.MetaSubscriptionID + `":` + tc.id + `}}}`
			if ack != want {
				t.Errorf("got  %s\nwant %s", ack, want)
			}
		})
	}
	for _, params := range []string{`{}`, `{"notifications":null}`, `{"notifications":[]}`} {
		if r := c.dial("").Post(wire.Modern, "subscriptions/listen", params); r.RPCError().Code != wire.CodeInvalidParams {
			t.Errorf("listen with %s: %v", params, r)
		}
	}
	if r := c.dial("none").Post(wire.Modern, "subscriptions/listen", `{"notifications":{}}`); r.RPCError().Code != wire.CodeInvalidParams {
		t.Errorf("listen to a server that is not there: %v", r)
	}
}

// until reads notifications up to the one about the resource uri, and returns
// the methods of those before it.
func until(t *testing.T, s *mcptest.Stream, uri string) []string {
	t.Helper()
	var before []string
	for {
		data := s.Next().Data
		if got, _ := wire.GetText(wire.Get([]byte(data), "params"), "uri"); got == uri {
			return before
		}
		before = append(before, method(data))
	}
}

// touching makes a server tell of a change of a resource, again and again
// until stop is called: it is not known from when on the server listens.
func touching(t *testing.T, cl *mcptest.Client, tool, uri string) (stop func()) {
	t.Helper()
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		beat := time.NewTicker(20 * time.Millisecond)
		defer beat.Stop()
		for {
			select {
			case <-quit:
				return
			case <-beat.C:
				cl.Post(wire.Modern, "tools/call", callOf(tool, `{"uri":"`+uri+`"}`))
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// unrest is longer than changes are waited for to be told together.
const unrest = 300 * time.Millisecond

// Changes that come together are told together, each kind once, and to each
// listener only what it asked for.
func TestListChangesAreJoined(t *testing.T) {
	t.Parallel()
	peer := legacyPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("still", peer.URL))
	standing := c.enter("")
	listeners := []struct {
		id     string
		stream *mcptest.Stream
		want   []string
	}{
		{`"all"`, nil, []string{toolsChanged, promptsChanged, resourcesChanged}},
		{`"some"`, nil, []string{promptsChanged}},
		{``, standing.Get(), []string{toolsChanged, promptsChanged, resourcesChanged}},
	}
	defer listeners[2].stream.Close()
	listeners[0].stream, _ = listenTo(t, c.dial(""), `"all"`, `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`)
	listeners[1].stream, _ = listenTo(t, c.dial(""), `"some"`, `{"promptsListChanged":true}`)
	standing.Post(wire.Legacy, "tools/list", "")
	for name := range listMethods {
		peer.WaitFor(name, 1)
	}
	for _, l := range listeners {
		for !l.stream.Quiet(unrest) { // what connecting brought
		}
	}

	defs := []servers.Definition{httpServer("still", peer.URL)}
	for n := range 5 {
		defs = append(defs, httpServer(fmt.Sprintf("late-%d", n), "http://127.0.0.1:1/"))
	}
	c.cat.Apply(defs)
	for _, l := range listeners {
		for _, want := range l.want {
			if data := l.stream.Next().Data; method(data) != want || subscriptionOf(data) != l.id {
				t.Errorf("%s got %s, want %s", l.id, data, want)
			}
		}
	}
	for _, l := range listeners {
		if !l.stream.Quiet(unrest) {
			t.Errorf("%s got more", l.id)
		}
	}
}

// A server is asked once for all who want to know of a resource, and no more
// when the last of them has left.
func TestResourceUpdatesOfALegacyServer(t *testing.T) {
	peer := legacyPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
	c.dial("").Post(wire.Modern, "tools/list", "")
	one, _ := listenTo(t, c.dial(""), `1`, `{"resourceSubscriptions":["crib.fake+text://hello"]}`)
	peer.WaitFor("resources/subscribe", 1)
	two, _ := listenTo(t, c.dial("fake"), `"two"`, `{"resourceSubscriptions":["text://other","text://hello"]}`)
	old := c.enter("fake")
	standing := old.Get()
	defer standing.Close()
	if r := old.Post(wire.Legacy, "resources/subscribe", `{"uri":"text://hello"}`); r.Result() != "{}" {
		t.Fatalf("subscribe: %v", r)
	}
	peer.WaitFor("resources/subscribe", 2) // of text://other

	touch := func(uri string) {
		t.Helper()
		if r := c.dial("fake").Post(wire.Modern, "tools/call", callOf("touch", `{"uri":"`+uri+`"}`)); r.Text() != "touched" {
			t.Fatalf("touch: %v", r)
		}
	}
	touch("text://hello")
	for _, tc := range []struct {
		stream  *mcptest.Stream
		id, uri string
	}{{one, `1`, "crib.fake+text://hello"}, {two, `"two"`, "text://hello"}, {standing, ``, "text://hello"}} {
		e := nextOf(tc.stream, resourceUpdated)
		uri, _ := wire.GetText(wire.Get([]byte(e.Data), "params"), "uri")
		if uri != tc.uri || subscriptionOf(e.Data) != tc.id || !strings.Contains(e.Data, `"x-note":"keep"`) {
			t.Errorf("got %s, want %s under the id %s", e.Data, tc.uri, tc.id)
		}
	}

	one.Close()
	if r := old.Post(wire.Legacy, "resources/unsubscribe", `{"uri":"text://hello"}`); r.Result() != "{}" {
		t.Fatalf("unsubscribe: %v", r)
	}
	touch("text://hello")
	touch("text://other")
	if before := until(t, two, "text://other"); len(before) != 1 {
		t.Errorf("the last listener got %q", before)
	}
	if n := peer.Requests("resources/unsubscribe"); n != 0 {
		t.Errorf("the server was asked %d times to tell no more", n)
	}
	two.Close()
	peer.WaitFor("resources/unsubscribe", 2)
	if n := peer.Requests("resources/subscribe"); n != 2 {
		t.Errorf("the server was asked %d times", n)
	}
	changedTools(peer, "new")
	for e := standing.Next(); method(e.Data) != toolsChanged; e = standing.Next() {
		if method(e.Data) == resourceUpdated {
			t.Errorf("after leaving came %s", e.Data)
		}
	}
}

// A modern server is asked in the subscription that the crib keeps open to it.
func TestResourceUpdatesOfAModernServer(t *testing.T) {
	for name, server := range recorders(t, mcptest.EraModern) {
		t.Run(name, func(t *testing.T) {
			c := newCrib(t, cribOptions{}, server.def)
			public := "crib." + name + "+text://hello"
			one, _ := listenTo(t, c.dial(""), `1`, `{"resourceSubscriptions":["`+public+`"]}`)
			two, _ := listenTo(t, c.dial(name), `2`, `{"resourceSubscriptions":["text://hello"]}`)
			stop := touching(t, c.dial(name), "touch", "text://hello")
			until(t, one, public)
			until(t, two, "text://hello")
			stop()

			subscribed := func() (uris []string) {
				for _, m := range server.received() {
					if method(m) == "subscriptions/listen" {
						uris = append(uris, string(wire.GetPath([]byte(m), "params", "notifications", "resourceSubscriptions")))
					}
				}
				return uris
			}
			one.Close()
			two.Close()
			mcptest.Eventually(t, "the end of the subscription", func() bool {
				all := subscribed()
				return all[len(all)-1] == ""
			})
			with := 0
			for _, uris := range subscribed() {
				if uris == `["text://hello"]` {
					with++
				}
			}
			if with != 1 {
				t.Errorf("the server was asked for %q", subscribed())
			}
		})
	}
}

// A legacy client subscribes resource by resource, on the aggregate under the
// crib's URIs.
func TestLegacySubscribe(t *testing.T) {
	legacy, modern := legacyPeer(t), modernPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("old", legacy.URL), httpServer("new", modern.URL))
	cl := c.enter("")
	standing := cl.Get()
	defer standing.Close()
	for _, uri := range []string{"crib.old+text://hello", "crib.new+text://hello", "ui://crib.old/panel/main", "https://example.test/doc"} {
		if r := cl.Post(wire.Legacy, "resources/subscribe", `{"uri":"`+uri+`"}`); r.Result() != "{}" {
			t.Fatalf("subscribe to %s: %v", uri, r)
		}
	}
	for public, own := range map[string][2]string{
		"crib.old+text://hello": {"old", "text://hello"}, "crib.new+text://hello": {"new", "text://hello"},
		"ui://crib.old/panel/main": {"old", "ui://panel/main"}, "https://example.test/doc": {"new", "https://example.test/doc"},
	} {
		stop := touching(t, c.dial(own[0]), "touch", own[1])
		until(t, standing, public)
		stop()
	}
	for _, uri := range []string{"crib.none+text://a", "text://hello", "https://elsewhere.test/"} {
		if r := cl.Post(wire.Legacy, "resources/subscribe", `{"uri":"`+uri+`"}`); r.RPCError().Code != wire.CodeResourceNotFound {
			t.Errorf("subscribe to %s: %v", uri, r)
		}
	}
	for _, params := range []string{`{}`, `{"uri":""}`, `{"uri":1}`} {
		if r := cl.Post(wire.Legacy, "resources/subscribe", params); r.RPCError().Code != wire.CodeInvalidParams {
			t.Errorf("subscribe with %s: %v", params, r)
		}
	}
	if r := cl.Post(wire.Legacy, "resources/unsubscribe", `{"uri":"crib.none+text://a"}`); r.Result() != "{}" {
		t.Errorf("unsubscribe from what never was: %v", r)
	}
	// A session that ends takes its subscriptions with it.
	if n := legacy.Requests("resources/unsubscribe"); n != 0 {
		t.Errorf("%d unsubscribed too early", n)
	}
	cl.Delete()
	legacy.WaitFor("resources/unsubscribe", 2)
}

// Subscribing twice is subscribing once, and leaving once leaves.
func TestSubscribeTwice(t *testing.T) {
	peer := legacyPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
	cl := c.enter("fake")
	standing := cl.Get()
	defer standing.Close()
	for range 3 {
		cl.Post(wire.Legacy, "resources/subscribe", `{"uri":"text://hello"}`)
	}
	touch := callOf("touch", `{"uri":"text://hello"}`)
	cl.Post(wire.Legacy, "tools/call", touch)
	nextOf(standing, resourceUpdated)
	cl.Post(wire.Legacy, "resources/subscribe", `{"uri":"text://last"}`)
	cl.Post(wire.Legacy, "tools/call", callOf("touch", `{"uri":"text://last"}`))
	if before := until(t, standing, "text://last"); slices.Contains(before, resourceUpdated) {
		t.Errorf("told twice: %q", before)
	}
	cl.Post(wire.Legacy, "resources/unsubscribe", `{"uri":"text://hello"}`)
	peer.WaitFor("resources/unsubscribe", 1)
	if n := peer.Requests("resources/subscribe"); n != 2 {
		t.Errorf("the server was asked %d times", n)
	}
}

// A subscription that the crib ends ends with its result (2026-07-28,
// Subscriptions, Graceful Closure), and the streams of sessions with it.
func TestListenEndsWithTheCrib(t *testing.T) {
	c := newCrib(t, cribOptions{}, httpServer("fake", legacyPeer(t).URL))
	s, _ := listenTo(t, c.dial(""), `"last"`, `{"toolsListChanged":true,"resourceSubscriptions":["crib.fake+text://a"]}`)
	standing := c.enter("").Get()
	c.gw.Close()
	messages := rest(s)
	want := `{"jsonrpc":"2.0","id":"last","result":{"resultType":"complete","_meta":{"` + wire.MetaSubscriptionID + `":"last"}}}`
	if len(messages) == 0 || messages[len(messages)-1] != want {
		t.Errorf("got %q, want at the end %s", messages, want)
	}
	rest(standing)
}

// A client that leaves ends its subscription.
func TestListenEndsWithItsClient(t *testing.T) {
	c := newCrib(t, cribOptions{}, httpServer("fake", legacyPeer(t).URL))
	c.dial("").Post(wire.Modern, "tools/list", "")
	before := cribGoroutines()
	var all []*mcptest.Stream
	for n := range 20 {
		s, _ := listenTo(t, c.dial(""), fmt.Sprint(n), `{"toolsListChanged":true}`)
		all = append(all, s)
	}
	for _, s := range all {
		s.Close()
	}
	mcptest.Eventually(t, "the end of the subscriptions", func() bool { return cribGoroutines() <= before })
}

// Who leaves and comes back at once is told again: the two messages to the
// server do not overtake each other.
func TestSubscribeAgainAtOnce(t *testing.T) {
	peer := legacyPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
	cl := c.enter("fake")
	standing := cl.Get()
	defer standing.Close()
	for n := range 30 {
		uri := fmt.Sprintf("text://%d", n)
		cl.Post(wire.Legacy, "resources/subscribe", `{"uri":"`+uri+`"}`)
		cl.Post(wire.Legacy, "resources/unsubscribe", `{"uri":"`+uri+`"}`)
		cl.Post(wire.Legacy, "resources/subscribe", `{"uri":"`+uri+`"}`)
	}
	for n := range 30 {
		cl.Post(wire.Legacy, "tools/call", callOf("touch", fmt.Sprintf(`{"uri":"text://%d"}`, n)))
	}
	for n := range 30 {
		uri := fmt.Sprintf("text://%d", n)
		if got, _ := wire.GetText(wire.Get([]byte(nextOf(standing, resourceUpdated).Data), "params"), "uri"); got != uri {
			t.Fatalf("told of %s, want %s", got, uri)
		}
	}
}

// What a server cannot tell of is not acknowledged.
func TestListenHonoursWhatTheServerCan(t *testing.T) {
	mute := func(era string) *mcptest.HTTP {
		return mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: era, Capabilities: `{"tools":{},"resources":{"listChanged":true}}`}})
	}
	c := newCrib(t, cribOptions{}, httpServer("old", mute(mcptest.EraLegacy).URL), httpServer("new", mute(mcptest.EraModern).URL))
	c.dial("").Post(wire.Modern, "tools/list", "")
	for _, server := range []string{"old", "new"} {
		if _, ack := listenTo(t, c.dial(server), `1`, `{"resourceSubscriptions":["text://hello"]}`); strings.Contains(ack, "text://hello") {
			t.Errorf("%s: %s", server, ack)
		}
		if _, ack := listenTo(t, c.dial(""), `1`, `{"resourceSubscriptions":["crib.`+server+`+text://hello"]}`); strings.Contains(ack, "text://hello") {
			t.Errorf("%s on the aggregate: %s", server, ack)
		}
	}
}

// A list that changes while the crib exchanges its own subscription for
// another one is told of all the same.
func TestNoChangeIsMissedBetweenSubscriptions(t *testing.T) {
	peer := modernPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
	s, _ := listenTo(t, c.dial("fake"), `1`, `{"toolsListChanged":true}`)
	c.dial("fake").Post(wire.Modern, "tools/list", "")
	peer.WaitFor("subscriptions/listen", 1)
	var once sync.Once
	peer.Script(func(_ http.ResponseWriter, _ *http.Request, body []byte) bool {
		if method(string(body)) == "subscriptions/listen" && strings.Contains(string(body), "text://hello") {
			once.Do(func() { changedTools(peer, "between") })
		}
		return false
	})
	listenTo(t, c.dial("fake"), `2`, `{"resourceSubscriptions":["text://hello"]}`)
	mcptest.Eventually(t, "the new list", func() bool {
		return strings.Contains(c.dial("fake").Post(wire.Modern, "tools/list", "").Result(), `"between"`)
	})
	nextOf(s, toolsChanged)
}
