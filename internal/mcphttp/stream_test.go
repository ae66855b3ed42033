package mcphttp_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// token is a member of params that asks for progress.
func token(raw string) string { return `"_meta":{"progressToken":` + raw + `}` }

// method is the method of a message, "" for a response.
func method(data string) string {
	m, _ := wire.GetText([]byte(data), "method")
	return m
}

// An answer that nothing precedes is one JSON body.
func TestAnswerIsJSON(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{AlwaysSSE: true})
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
	cl := c.enter("")
	for _, era := range []wire.Era{wire.Legacy, wire.Modern} {
		for _, rq := range []struct{ method, params string }{
			{"tools/call", callOf("fake__echo", "{}")},
			{"tools/call", callOf("fake__rpcerror", "{}")},
			{"tools/call", callOf("fake__slow", `{}`)}, // would tell its progress, but nobody asks
			{"tools/list", ""},
			{"resources/read", `{"uri":"crib.fake+text://hello"}`},
		} {
			r := cl.Post(era, rq.method, rq.params)
			if r.Header.Get("Content-Type") != "application/json" || r.Status != http.StatusOK || r.Message() == "" {
				t.Errorf("%s, %s: %v", era, rq.method, r)
			}
		}
	}
}

// What comes before the answer makes it a stream: in order, with the answer
// last, and nothing behind it.
func TestAnswerIsAStreamWhenSomethingPrecedesIt(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	c := newCrib(t, cribOptions{}, httpServer("far", peer.URL), stdioServer("near", mcptest.Peer()))
	for _, version := range []string{wire.Version20250618, wire.Version20251125, wire.NewestModern} {
		for _, server := range []string{"far", "near"} {
			t.Run(version+"/"+server, func(t *testing.T) {
				cl := c.dial(server)
				era := wire.EraOf(version)
				if era == wire.Legacy {
					cl.Initialize(version)
				}
				r := cl.Post(era, "tools/call", callOf("slow", `{"ticks":3}`, token(`"a"`)))
				h := r.Header
				if h.Get("Content-Type") != "text/event-stream" || h.Get("X-Accel-Buffering") != "no" || !strings.Contains(h.Get("Cache-Control"), "no-cache") {
					t.Errorf("headers %v", h)
				}
				if r.Err != nil || r.Text() != "released" || len(r.Others()) != 3 || r.Events[len(r.Events)-1].Data != r.Message() {
					t.Fatalf("%v", r)
				}
				for i, other := range r.Others() {
					want := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"a","progress":%d,"total":3.0,"message":"tick","x-p":"keep"}}`, i+1)
					if other != want {
						t.Errorf("got  %s\nwant %s", other, want)
					}
				}
				checkEventIDs(t, r, version)
			})
		}
	}
}

// checkEventIDs holds the ids of events to the revision: none in the modern
// one, and a first event with nothing but an id only in the newest legacy one.
func checkEventIDs(t *testing.T, r *mcptest.Reply, version string) {
	t.Helper()
	first := r.Events[0]
	if primed := first.Data == "" && first.ID != ""; primed != (version == wire.Version20251125) {
		t.Errorf("the first event is %+v", first)
	}
	ids := map[string]bool{}
	for _, e := range r.Events {
		if (e.ID != "") != (wire.EraOf(version) == wire.Legacy) || e.ID != "" && ids[e.ID] {
			t.Errorf("event %+v", e)
		}
		ids[e.ID] = true
	}
}

// A quiet request becomes a stream too, before anything is there to be sent,
// so that nothing on the way takes it for dead.
func TestKeepAlive(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	c := newCrib(t, cribOptions{keepAlive: 15 * time.Millisecond}, httpServer("fake", peer.URL))
	cl := c.enter("fake")
	for _, era := range []wire.Era{wire.Legacy, wire.Modern} {
		hold := newGate(t)
		s := cl.Open(era, "tools/call", callOf("slow", hold.args()))
		if s.Status != http.StatusOK || s.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("%s: %v", era, &s.Reply)
		}
		mcptest.Eventually(t, "a third comment", func() bool { return s.Comments() >= 3 })
		hold.open()
		if r := replyTo(s); r.Text() != "released" || len(r.Others()) != 0 {
			t.Errorf("%s: %v", era, r)
		}
	}
	standing := cl.Get()
	defer standing.Close()
	mcptest.Eventually(t, "a third comment on the standing stream", func() bool { return standing.Comments() >= 3 })
	listen := cl.Open(wire.Modern, "subscriptions/listen", `{"notifications":{}}`)
	defer listen.Close()
	mcptest.Eventually(t, "a third comment on a subscription", func() bool { return listen.Comments() >= 3 })
}

// rest reads a stream to its end and returns the data of its events.
func rest(s *mcptest.Stream) []string {
	defer s.Close()
	var out []string
	for e, ok := s.Any(); ok; e, ok = s.Any() {
		if e.Data != "" {
			out = append(out, e.Data)
		}
	}
	return out
}

// ticking opens a call of slow that tells two ticks, and reads its first
// events, up to the first tick.
func ticking(t *testing.T, cl *mcptest.Client, hold gate, name string) (s *mcptest.Stream, prime, tick mcptest.Event) {
	t.Helper()
	s = cl.Open(wire.Legacy, "tools/call", callOf("slow", hold.args(), token(`"`+name+`"`)))
	prime, ok := s.Any()
	if !ok || prime.ID == "" || prime.Data != "" {
		t.Fatalf("the first event is %+v", prime)
	}
	return s, prime, s.Next()
}

// wantTail checks that messages are the ticks from number from on and the
// answer of a call of slow.
func wantTail(t *testing.T, messages []string, name string, from int) {
	t.Helper()
	if len(messages) != 4-from {
		t.Fatalf("from tick %d on: %q", from, messages)
	}
	for i, m := range messages[:len(messages)-1] {
		if !strings.Contains(m, fmt.Sprintf(`"progressToken":"%s","progress":%d,`, name, from+i)) {
			t.Errorf("tick %d is %s", from+i, m)
		}
	}
	if last := messages[len(messages)-1]; !strings.Contains(last, `"text":"released"`) {
		t.Errorf("the answer is %s", last)
	}
}

// A legacy client that lost the stream of a call takes it up behind the event
// that it read last (2025-11-25, Transports, Resumability and Redelivery).
func TestLostStreamIsTakenUp(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
	cl := c.enter("fake")
	hold, other := newGate(t), newGate(t)
	noise, _, _ := ticking(t, cl, other, "other")
	s, prime, tick := ticking(t, cl, hold, "mine")
	s.Close()

	running := cl.Get("Last-Event-ID: " + tick.ID)
	if running.Status != http.StatusOK || running.Header.Get("X-Accel-Buffering") != "no" {
		t.Fatalf("GET: %v", &running.Reply)
	}
	if e := running.Next(); !strings.Contains(e.Data, `"progress":2,`) || e.ID == "" || e.ID == tick.ID {
		t.Errorf("the missed event is %+v", e)
	}
	hold.open()
	wantTail(t, rest(running), "mine", 3)
	wantTail(t, rest(cl.Get("Last-Event-ID: "+tick.ID)), "mine", 2)
	wantTail(t, rest(cl.Get("Last-Event-ID: "+prime.ID)), "mine", 1)

	other.open()
	wantTail(t, rest(noise), "other", 2)
	if n := peer.Executions("slow"); n != 2 {
		t.Errorf("%d executions", n)
	}
	if n := len(peer.Cancelled()); n != 0 {
		t.Errorf("%d calls were cancelled", n)
	}
}

func TestEventIDsThatLeadNowhere(t *testing.T) {
	c := newCrib(t, cribOptions{})
	cl := c.enter("")
	for _, id := range []string{"none", "1-0", "7-3", "0-99", "-", "1-", "-1", "0--5", "1-x"} {
		if s := cl.Get("Last-Event-ID: " + id); s.Status != http.StatusBadRequest {
			s.Close()
			t.Errorf("%q: %v", id, &s.Reply)
		}
	}
	if s := cl.Get("Accept: application/json"); s.Status != http.StatusNotAcceptable {
		s.Close()
		t.Errorf("GET without an event stream: %v", &s.Reply)
	}
}

// changedTools makes the peer list one tool, and tell of it.
func changedTools(peer *mcptest.HTTP, name string) {
	peer.SetTools(`[{"name":"` + name + `","inputSchema":{"type":"object"}}]`)
	peer.ListChanged("tools")
}

const toolsChanged = "notifications/tools/list_changed"

// nextOf reads until a message with this method comes.
func nextOf(s *mcptest.Stream, want string) mcptest.Event {
	for {
		if e := s.Next(); method(e.Data) == want {
			return e
		}
	}
}

// The standing stream of a session tells what belongs to no request, to the
// connection that asked for it last.
func TestStandingStream(t *testing.T) {
	peer := legacyPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
	cl := c.enter("fake")
	first := cl.Get()
	defer first.Close()
	cl.Post(wire.Legacy, "tools/list", "")
	changedTools(peer, "one")
	told := nextOf(first, toolsChanged)
	for !strings.Contains(cl.Post(wire.Legacy, "tools/list", "").Result(), `"tools":[{"name":"one",`) {
		told = nextOf(first, toolsChanged) // the one before was of the first list
	}

	second := cl.Get()
	defer second.Close()
	for _, open := first.Any(); open; _, open = first.Any() {
	}
	changedTools(peer, "two")
	missed := nextOf(second, toolsChanged)
	for missed.ID == told.ID { // taken over before the crib noted that it was written
		missed = nextOf(second, toolsChanged)
	}
	second.Close()

	third := cl.Get("Last-Event-ID: " + told.ID)
	defer third.Close()
	if e := nextOf(third, toolsChanged); e.ID != missed.ID {
		t.Errorf("taken up behind %s came %s, want %s", told.ID, e.ID, missed.ID)
	}
	changedTools(peer, "three")
	if e := nextOf(third, toolsChanged); e.ID == missed.ID {
		t.Errorf("the same event twice")
	}
}

// What happens while no connection carries the standing stream is kept for
// the next one.
func TestStandingStreamKeepsWhatNobodyRead(t *testing.T) {
	peer := legacyPeer(t)
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
	cl := c.enter("fake")
	cl.Post(wire.Legacy, "tools/list", "")
	watcher := c.enter("fake")
	watching := watcher.Get()
	defer watching.Close()
	changedTools(peer, "one")
	nextOf(watching, toolsChanged)
	late := cl.Get()
	defer late.Close()
	nextOf(late, toolsChanged)
}

// flood answers every call of a tool as a stream of events of 64 KiB each
// before the answer.
func flood(events int, answer string) mcptest.Script {
	filler := strings.Repeat("x", 64<<10)
	return func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if !bytes.Contains(body, []byte(`"tools/call"`)) || !bytes.Contains(body, []byte(`"big"`)) {
			return false
		}
		var style mcptest.SSEStyle
		style.StartSSE(w)
		for range events {
			style.WriteSSE(w, mcptest.Event{Data: `{"jsonrpc":"2.0","method":"notifications/vendor/thing","params":{"text":"` + filler + `"}}`})
		}
		style.WriteSSE(w, mcptest.Event{Data: `{"jsonrpc":"2.0","id":` + mcptest.RequestID(body) + `,"result":` + answer + `}`})
		return true
	}
}

// A client that does not read loses the stream it does not read, and nothing
// else.
func TestSlowReaderLosesOnlyItsStream(t *testing.T) {
	t.Parallel()
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
	cl := c.enter("fake")
	cl.Post(wire.Legacy, "tools/list", "")
	flooded := make(chan struct{})
	pour := flood(16<<20/(64<<10), `{"content":[]}`)
	peer.Script(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		taken := pour(w, r, body)
		if taken {
			close(flooded)
		}
		return taken
	})
	slow := rawPost(t, cl, `{"jsonrpc":"2.0","id":"slow","method":"tools/call","params":`+callOf("big", "{}")+`}`)
	select {
	case <-flooded: // nobody made the server wait
	case <-time.After(mcptest.Patience):
		t.Fatal("the server was held up")
	}
	if r := cl.Post(wire.Legacy, "tools/call", callOf("echo", "{}")); r.Text() != "{}" {
		t.Errorf("another call of the same session: %v", r)
	}
	mcptest.Eventually(t, "the end of the call", func() bool {
		return cl.OpenID(wire.Legacy, `"slow"`, "ping", "").Status == http.StatusOK
	})
	slow.SetReadDeadline(time.Now().Add(mcptest.Patience))
	got, err := io.ReadAll(slow)
	if err != nil || bytes.Contains(got, []byte(`"result"`)) {
		t.Errorf("%d bytes and %v; the stream should have been cut", len(got), err)
	}
}

// rawPost sends a message of a legacy client and leaves the answer unread.
func rawPost(t *testing.T, cl *mcptest.Client, body string) net.Conn {
	t.Helper()
	return rawSend(t, cl, body, map[string]string{wire.HeaderSession: cl.Session})
}

func rawSend(t *testing.T, cl *mcptest.Client, body string, header map[string]string) net.Conn {
	t.Helper()
	rq, err := http.NewRequest(http.MethodPost, cl.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	rq.Header = cl.Header.Clone()
	rq.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		rq.Header.Set(name, value)
	}
	rq.Close = true
	conn, err := net.Dial("tcp", rq.URL.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	// A buffer that does not grow: what is not read stays with the crib.
	if err := conn.(*net.TCPConn).SetReadBuffer(256 << 10); err != nil {
		t.Fatal(err)
	}
	if err := rq.Write(conn); err != nil {
		t.Fatal(err)
	}
	return conn
}

// paced answers every call of the tool big as a stream: one progress
// notification for each value that comes, then the answer.
func paced(next <-chan struct{}, events int) mcptest.Script {
	return func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
		if !bytes.Contains(body, []byte(`"tools/call"`)) || !bytes.Contains(body, []byte(`"big"`)) {
			return false
		}
		var style mcptest.SSEStyle
		style.StartSSE(w)
		progressToken := wire.GetPath(body, "params", "_meta", "progressToken")
		for n := range events {
			<-next
			style.WriteSSE(w, mcptest.Event{Data: fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, progressToken, n+1)})
		}
		style.WriteSSE(w, mcptest.Event{Data: `{"jsonrpc":"2.0","id":` + mcptest.RequestID(body) + `,"result":{"resultType":"complete","content":[{"type":"text","text":"done"}]}}`})
		return true
	}
}

// rawModern sends a call of a modern client and leaves the answer unread.
func rawModern(t *testing.T, cl *mcptest.Client, tool, args string) net.Conn {
	t.Helper()
	meta := `"_meta":{"` + wire.MetaProtocolVersion + `":"` + wire.NewestModern + `","` + wire.MetaClientCapabilities + `":{}}`
	return rawSend(t, cl, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+callOf(tool, args, meta)+`}`, map[string]string{
		wire.HeaderProtocolVersion: wire.NewestModern, wire.HeaderMethod: "tools/call", wire.HeaderName: tool,
	})
}

// The connection that a client takes a stream up with gets the rest, also
// while the crib still believes the old one to be alive.
func TestNewConnectionTakesOver(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
	cl := c.enter("fake")
	hold := newGate(t)
	old, _, tick := ticking(t, cl, hold, "mine")
	defer old.Close()
	now := cl.Get("Last-Event-ID: " + tick.ID)
	if e := now.Next(); !strings.Contains(e.Data, `"progress":2,`) {
		t.Errorf("the missed event is %s", e.Data)
	}
	hold.open()
	wantTail(t, rest(now), "mine", 3)
	for _, m := range rest(old) {
		if method(m) == "" {
			t.Errorf("the old connection got the answer too: %s", m)
		}
	}
}

// One message may be as large as the limit of a message allows, on a stream
// as well as alone.
func TestLargeAnswerOnAStream(t *testing.T) {
	t.Parallel()
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	c := newCrib(t, cribOptions{}, httpServer("fake", peer.URL))
	cl := c.enter("fake")
	cl.Post(wire.Legacy, "tools/list", "")
	large := []byte(`"result":{"resultType":"complete","content":[{"type":"text","text":"` + strings.Repeat("y", 5<<20) + `"}]}`)
	peer.Script(flood(1, string(large[len(`"result":`):])))
	for era, conn := range map[wire.Era]net.Conn{
		wire.Legacy: rawPost(t, cl, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+callOf("big", "{}")+`}`),
		wire.Modern: rawModern(t, cl, "big", "{}"),
	} {
		rs, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", era, err)
		}
		got, err := io.ReadAll(rs.Body)
		if err != nil || rs.Header.Get("Content-Type") != "text/event-stream" || !bytes.Contains(got, large) {
			t.Errorf("%s: HTTP %d, %d bytes, %v", era, rs.StatusCode, len(got), err)
		}
	}
}
