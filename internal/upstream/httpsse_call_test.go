package upstream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// slowCall makes a call that lasts until the file is there, and returns how it
// ends.
func slowCall(t *testing.T, leg Leg, release string) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	ctx := patiently(t)
	go func() {
		_, err := leg.Do(ctx, toolCall(leg, "slow", fmt.Sprintf(`{"release":%q}`, release)), Nobody{})
		ended <- err
	}()
	return ended
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Error(err)
	}
}

// delivered brings messages of a method to the server, and then does to the
// client's own request what fault does.
func delivered(t *testing.T, method string, fault func(w http.ResponseWriter, r *http.Request)) mcptest.Script {
	const mark = "X-Delivered"
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if r.Header.Get(mark) != "" || !bytes.Contains(body, []byte(`"`+method+`"`)) {
			return false
		}
		again, err := http.NewRequestWithContext(r.Context(), http.MethodPost, "http://"+r.Host+r.URL.String(), bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return false
		}
		again.Header.Set(mark, "1")
		resp, err := client.Do(again)
		if err != nil {
			if r.Context().Err() == nil { // else the test is over: the answer came first
				t.Error(err)
			}
			return true
		}
		resp.Body.Close()
		fault(w, r)
		return true
	}
}

// An answer on the stream is the answer, whatever becomes of the request that
// asked for it.
func TestAnAnswerOutlivesItsPost(t *testing.T) {
	status := func(code int, kind, body string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(code)
			io.WriteString(w, body)               //nolint:errcheck // the client may have left
			http.NewResponseController(w).Flush() //nolint:errcheck // likewise
		}
	}
	faults := map[string]func(http.ResponseWriter){
		"accepted":               status(202, "text/plain", "Accepted"),
		"no content":             status(204, "text/plain", ""),
		"200 with text":          status(200, "text/html", "<p>ok</p>"),
		"200 with JSON":          status(200, "application/json", `{"ok":true}`),
		"200 with broken JSON":   status(200, "application/json", `{"jsonrpc":`),
		"200 with another's id":  status(200, "application/json", `{"jsonrpc":"2.0","id":987654321,"result":{"content":[]}}`),
		"a fault":                status(500, "text/plain", "oops"),
		"a gateway's timeout":    status(504, "text/html", "<p>slow</p>"),
		"a request timeout":      status(408, "text/plain", ""),
		"cut":                    func(w http.ResponseWriter) { mcptest.Hijack(t, w).Close() },
		"held until all is over": nil,
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			peer, _, leg := sseServer(t, Options{})
			release := filepath.Join(t.TempDir(), "release")
			peer.Script(delivered(t, "tools/call", func(w http.ResponseWriter, r *http.Request) {
				if fault == nil {
					touch(t, release)
					<-r.Context().Done()
					return
				}
				fault(w)
				touch(t, release)
			}))
			if err := <-slowCall(t, leg, release); err != nil {
				t.Error(err)
			}
			if n := peer.Executions("slow"); n != 1 {
				t.Errorf("executed %d times", n)
			}
			if leg.Retired() || isClosed(leg.Done()) {
				t.Error("the leg was given up")
			}
		})
	}
}

// The request of a call that was answered comes to its own end: its connection
// is used again.
func TestAnAnswerCutsNoConnection(t *testing.T) {
	peer, _, leg := sseServer(t, Options{})
	var mu sync.Mutex // guards came
	var came []string // from where
	free := make(chan struct{})
	peer.Script(delivered(t, "tools/call", func(w http.ResponseWriter, r *http.Request) {
		<-free
		mu.Lock()
		defer mu.Unlock()
		came = append(came, r.RemoteAddr)
		w.WriteHeader(http.StatusAccepted)
	}))
	if err := echo(t, leg); err != nil {
		t.Fatal(err)
	}
	close(free)
	mcptest.Eventually(t, "the connection is used again", func() bool {
		if err := echo(t, leg); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		return len(came) > 1 && slices.Contains(came[1:], came[0])
	})
}

// Some servers put the answer into the response to the request.
func TestAnAnswerInTheResponse(t *testing.T) {
	peer, _, leg := sseServer(t, Options{})
	peer.Script(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
		if !bytes.Contains(body, []byte(`"tools/call"`)) {
			return false
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"here"}]}}`, mcptest.RequestID(body))
		return true
	})
	reply, err := leg.Do(patiently(t), toolCall(leg, "echo", `{}`), Nobody{})
	if err != nil || textOf(reply) != "here" {
		t.Errorf("got %v, %v", reply, err)
	}
}

// What a response proves of a call that brought no answer. It is never sent a
// second time.
func TestACallThatIsNotTaken(t *testing.T) {
	tests := []struct {
		status  int // 0 cuts the connection
		code    crib.Code
		retired bool
	}{
		{400, crib.Unavailable, true},
		{404, crib.Unavailable, true},
		{410, crib.Unavailable, true},
		{413, crib.Unavailable, true},
		{401, crib.Unauthorized, true},
		{403, crib.Unauthorized, true},
		{429, crib.Unavailable, false},
		{307, crib.Unavailable, false},
		{408, crib.Unknown, false},
		{500, crib.Unknown, false},
		{502, crib.Unknown, false},
		{0, crib.Unknown, false},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.status), func(t *testing.T) {
			t.Parallel()
			peer, s, leg := sseServer(t, Options{ProbeTimeout: time.Second})
			var came atomic.Int64
			peer.Script(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
				if !bytes.Contains(body, []byte(`"tools/call"`)) {
					return false
				}
				came.Add(1)
				if tt.status == 0 {
					mcptest.Hijack(t, w).Close()
					return true
				}
				w.Header().Set("Location", "/messages")
				w.WriteHeader(tt.status)
				return true
			})
			if err := echo(t, leg); crib.CodeOf(err) != tt.code {
				t.Errorf("got %v", err)
			}
			if came.Load() != 1 || leg.Retired() != tt.retired || isClosed(leg.Done()) {
				t.Errorf("it came %d times, retired %v, ended %v", came.Load(), leg.Retired(), isClosed(leg.Done()))
			}
			peer.Script(nil)
			now := mustLeg(t, s, Want{Era: wire.Modern})
			if err := echo(t, now); err != nil || (now != leg) != tt.retired {
				t.Errorf("the next call: %v, over a new leg: %v", err, now != leg)
			}
		})
	}
}

// A session that the server does not know any more costs only the call that
// shows it: what is open on the stream comes to its end.
func TestALostStreamSessionEndsNoCalls(t *testing.T) {
	peer, s, leg := sseServer(t, Options{})
	release := filepath.Join(t.TempDir(), "release")
	ended := slowCall(t, leg, release)
	mcptest.Eventually(t, "the call is executed", func() bool { return peer.Executions("slow") == 1 })
	peer.Script(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if !bytes.Contains(body, []byte(`"echo"`)) {
			return false
		}
		http.NotFound(w, r)
		return true
	})
	if err := echo(t, leg); crib.CodeOf(err) != crib.Unavailable {
		t.Errorf("got %v", err)
	}
	peer.Script(nil)
	if err := echo(t, mustLeg(t, s, Want{Era: wire.Modern})); err != nil {
		t.Error(err)
	}
	touch(t, release)
	if err := <-ended; err != nil {
		t.Errorf("the open call ended with %v", err)
	}
	mcptest.Eventually(t, "the leg ends", func() bool { return isClosed(leg.Done()) })
}

// A read that met a dead connection is sent again; a call is not.
func TestAReadIsSentAgain(t *testing.T) {
	peer, _, leg := sseServer(t, Options{})
	var cut atomic.Bool
	peer.Script(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
		if !bytes.Contains(body, []byte(`"tools/list"`)) || cut.Swap(true) {
			return false
		}
		mcptest.Hijack(t, w).Close()
		return true
	})
	if _, err := leg.Do(patiently(t), NewRequest(leg, "1", "tools/list", ""), Nobody{}); err != nil || !cut.Load() {
		t.Errorf("got %v", err)
	}
}

// When the stream ends so does the leg: calls are unknown and not sent again, a
// list is not.
func TestAStreamThatBreaks(t *testing.T) {
	peer, s, leg := sseServer(t, Options{})
	ended := slowCall(t, leg, "/nowhere")
	listed := make(chan error, 1)
	mcptest.Eventually(t, "the call is executed", func() bool { return peer.Executions("slow") == 1 })
	peer.Script(func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
		if !bytes.Contains(body, []byte(`"tools/list"`)) {
			return false
		}
		<-r.Context().Done()
		return true
	})
	ctx := patiently(t)
	go func() {
		_, err := leg.Do(ctx, NewRequest(leg, "1", "tools/list", ""), Nobody{})
		listed <- err
	}()
	mcptest.Eventually(t, "both are open", func() bool { return leg.Open() == 2 })
	peer.CutConnections()
	if err := <-ended; crib.CodeOf(err) != crib.Unknown || !strings.Contains(err.Error(), "its stream ended") {
		t.Errorf("the call ended with %v", err)
	}
	if err := <-listed; crib.CodeOf(err) != crib.Unavailable {
		t.Errorf("the list ended with %v", err)
	}
	mcptest.Eventually(t, "the leg ends", func() bool { return isClosed(leg.Done()) })
	peer.Script(nil)
	now := mustLeg(t, s, Want{Era: wire.Modern})
	if err := echo(t, now); err != nil || now == leg {
		t.Errorf("the next call: %v", err)
	}
	if n := peer.Executions("slow"); n != 1 {
		t.Errorf("executed %d times", n)
	}
}

// An event over the limit fails its own request and nothing else.
func TestAHugeEvent(t *testing.T) {
	peer, _, leg := sseServer(t, Options{})
	release := filepath.Join(t.TempDir(), "release")
	ended := slowCall(t, leg, release)
	mcptest.Eventually(t, "the call is executed", func() bool { return peer.Executions("slow") == 1 })
	_, err := leg.Do(patiently(t), toolCall(leg, "big", fmt.Sprintf(`{"bytes":%d}`, MaxMessage)), Nobody{})
	if crib.CodeOf(err) != crib.TooLarge {
		t.Errorf("got %v", err)
	}
	touch(t, release)
	if err := <-ended; err != nil {
		t.Errorf("the other call ended with %v", err)
	}
	if err := echo(t, leg); err != nil {
		t.Error(err)
	}
}

// A message over the limit that does not say which request it answers may
// answer any.
func TestTooLargeForAnId(t *testing.T) {
	tests := map[string][]bool{ // which of two requests fail
		`{"jsonrpc":"2.0","id":2,"result":{`:  {false, true},
		`{"jsonrpc":"2.0","id":77,"result":{`: {false, false},
		`{"jsonrpc":"2.0","result":{"a":"bb`:  {true, true},
		`no JSON`:                             {true, true},
	}
	for prefix, want := range tests {
		l := &common{spec: &Spec{Name: "s"}}
		var got []bool
		first, _ := opened(t, &l.open, &Outgoing{})
		second, _ := opened(t, &l.open, &Outgoing{})
		l.tooLarge([]byte(prefix))
		for _, c := range []*call{first, second} {
			select {
			case r := <-c.reply:
				got = append(got, crib.CodeOf(r.err) == crib.TooLarge)
			default:
				got = append(got, false)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", prefix, got, want)
		}
	}
}

// asked is a Listener that keeps what it is asked and told, and answers.
type asked struct {
	mu   sync.Mutex // guards said
	said []string
}

func (a *asked) note(m wire.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.said = append(a.said, m.Method)
}

func (a *asked) all() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.said)
}

func (a *asked) Notification(m wire.Message) { a.note(m) }

func (a *asked) Request(m wire.Message, answer func([]byte)) {
	a.note(m)
	answer(wire.ResultBody(m.ID.In(m.Body), []byte(`{"roots":[]}`)))
}

// told keeps what a server said unasked.
type told struct{ asked }

func (e *told) Notification(_ string, _ Leg, m wire.Message) { e.note(m) }
func (e *told) Silent(string, Leg)                           { e.note(wire.Message{Method: "silent"}) }
func (e *told) Connected(string, Leg, Share)                 {}
func (e *told) Renewed(string, Leg)                          {}

// What a server says on the stream reaches the request that it is about, and
// what is about none the events.
func TestWhatAStreamSays(t *testing.T) {
	events := &told{}
	peer, _, leg := sseServer(t, Options{Events: events})
	call := func(tool, arguments string) (*Reply, []string) {
		t.Helper()
		lis := &asked{}
		out := NewRequest(leg, "1", "tools/call", `"name":"`+tool+`","arguments":`+arguments+`,"_meta":{"progressToken":0}`)
		at := bytes.LastIndexByte(out.Src, '0')
		out.Token, out.Read, out.Owner = wire.Span{From: at, To: at + 1}, false, true
		reply, err := leg.Do(patiently(t), out, lis)
		if err != nil {
			t.Fatalf("%s: %v", tool, err)
		}
		return reply, lis.all()
	}
	if _, heard := call("slow", `{"ticks":2}`); !slices.Equal(heard, []string{"notifications/progress", "notifications/progress"}) {
		t.Errorf("of progress it heard %q", heard)
	}
	if reply, heard := call("request", `{"method":"roots/list","params":{}}`); !slices.Equal(heard, []string{"roots/list"}) || !strings.Contains(textOf(reply), `{"roots":[]}`) {
		t.Errorf("it was asked %q, and answered %q", heard, textOf(reply))
	}
	if reply, heard := call("request", `{"method":"ping","params":{}}`); len(heard) != 0 || !strings.Contains(textOf(reply), `"result":{}`) {
		t.Errorf("it was asked %q, and answered %q", heard, textOf(reply))
	}
	peer.ListChanged("tools")
	mcptest.Eventually(t, "the change is told", func() bool { return len(events.all()) > 0 })
	if got := events.all(); !slices.Equal(got, []string{"notifications/tools/list_changed"}) {
		t.Errorf("of itself it told %q", got)
	}

	// With two calls open nothing proves whose question it is.
	release := filepath.Join(t.TempDir(), "release")
	ended := slowCall(t, leg, release)
	mcptest.Eventually(t, "the call is executed", func() bool { return peer.Executions("slow") == 2 })
	if reply, heard := call("request", `{"method":"roots/list","params":{}}`); len(heard) != 0 || !strings.Contains(textOf(reply), "-32601") {
		t.Errorf("it was asked %q, and answered %q", heard, textOf(reply))
	}
	touch(t, release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Bytes that are no UTF-8 are kept from clients as they are on every leg.
func TestAStreamThatIsNoText(t *testing.T) {
	_, _, leg := sseServer(t, Options{})
	for at, want := range map[string]string{"text": "\uFFFD", "progress": "told", "question": "-32700"} {
		lis := &asked{}
		reply, err := leg.Do(patiently(t), toolCall(leg, "garbled", `{"bytes":"/w==","at":"`+at+`"}`), lis)
		if err != nil || !strings.Contains(textOf(reply), want) || len(lis.all()) != 0 {
			t.Errorf("%s: got %v, %v, and %q came", at, reply, err, lis.all())
		}
	}
}

// A call that is given up is cancelled at the server, and what the server says
// of other things does not keep it waiting.
func TestACallThatIsGivenUp(t *testing.T) {
	t.Run("by its client", func(t *testing.T) {
		peer, _, leg := sseServer(t, Options{})
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := leg.Do(ctx, toolCall(leg, "slow", `{"release":"/nowhere"}`), Nobody{})
			ended <- err
		}()
		peer.WaitFor("tools/call", 1)
		leave()
		if err := <-ended; crib.CodeOf(err) != crib.Cancelled {
			t.Errorf("got %v", err)
		}
		mcptest.Eventually(t, "the server is told", func() bool { return len(peer.Cancelled()) == 1 })
	})
	t.Run("because it is late", func(t *testing.T) {
		peer, _, leg := sseServer(t, Options{})
		out := toolCall(leg, "slow", `{"release":"/nowhere"}`)
		out.Timeout = 200 * time.Millisecond
		over := make(chan struct{})
		var chatting sync.WaitGroup
		chatting.Go(func() {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					peer.ListChanged("tools")
				case <-over:
					return
				}
			}
		})
		_, err := leg.Do(patiently(t), out, Nobody{})
		close(over)
		chatting.Wait()
		if crib.CodeOf(err) != crib.Timeout {
			t.Errorf("got %v", err)
		}
		mcptest.Eventually(t, "the server is told", func() bool { return len(peer.Cancelled()) == 1 })
	})
	t.Run("before it was sent", func(t *testing.T) {
		peer, _, leg := sseServer(t, Options{})
		ctx, leave := context.WithCancel(t.Context())
		leave()
		if _, err := leg.Do(ctx, toolCall(leg, "echo", `{}`), Nobody{}); crib.CodeOf(err) != crib.Cancelled || peer.Requests("tools/call") != 0 {
			t.Errorf("got %v", err)
		}
	})
	t.Run("with the leg", func(t *testing.T) {
		peer, s, leg := sseServer(t, Options{})
		ended := slowCall(t, leg, "/nowhere")
		mcptest.Eventually(t, "the call is executed", func() bool { return peer.Executions("slow") == 1 })
		s.Close()
		if err := <-ended; crib.CodeOf(err) != crib.Unknown {
			t.Errorf("got %v", err)
		}
		if _, err := leg.Do(patiently(t), toolCall(leg, "echo", `{}`), Nobody{}); crib.CodeOf(err) != crib.Unavailable {
			t.Errorf("behind its end: %v", err)
		}
	})
}
