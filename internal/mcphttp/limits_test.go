package mcphttp_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/web"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// maxGrowth is how many bytes the heap may grow by while a server sends without
// end: a few times the greatest message, garbage included.
const maxGrowth = 6 * upstream.MaxMessage

// heapGrowth is by how many bytes the heap was greater during f than before.
func heapGrowth(f func()) int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	before := int64(stats.HeapAlloc)
	stop, most := make(chan struct{}), make(chan int64)
	go func() {
		look := time.NewTicker(2 * time.Millisecond)
		defer look.Stop()
		greatest := before
		for {
			select {
			case <-look.C:
				runtime.ReadMemStats(&stats)
				greatest = max(greatest, int64(stats.HeapAlloc))
			case <-stop:
				most <- greatest
				return
			}
		}
	}()
	f()
	close(stop)
	return <-most - before
}

// Long lines on stdout pass as they are up to the limit; over it the request
// that they answer fails, and the next one works.
func TestLongLines(t *testing.T) {
	for _, era := range bothEras {
		t.Run(string(era), func(t *testing.T) {
			def, starts := peerServer(t, "-era", string(era))
			c := newCrib(t, cribOptions{}, def)
			cl := c.client(era, "s")
			sizes := []int{64<<10 - 1, 64 << 10, 65537}
			if era == wire.Modern {
				sizes = append(sizes, 5<<20) // once: it takes its time
			}
			for _, size := range sizes {
				r := call(cl, era, "big", fmt.Sprintf(`{"bytes":%d}`, size))
				if want := `"text":"` + strings.Repeat("b", size) + `"`; r.Status != http.StatusOK || !bytes.Contains(r.Body, []byte(want)) {
					t.Errorf("%d bytes: got HTTP %d, %d bytes", size, r.Status, len(r.Body))
				}
			}
			if r := call(cl, era, "endless", `{"bytes":17825792}`); !tooLarge(r) {
				t.Errorf("17 MiB: %.300s", r)
			}
			works(t, cl, era, "echo")
			if starts() != 1 {
				t.Errorf("%d starts", starts())
			}
		})
	}
}

// A line many times longer than any message costs its own call and no memory.
// What else is open on the pipe waits for it, and then goes on.
func TestVeryLongLine(t *testing.T) {
	const size = 8 * upstream.MaxMessage
	def, starts := peerServer(t)
	c := newCrib(t, cribOptions{}, def)
	cl := c.client(wire.Modern, "s")
	hold := newGate(t)
	other := cl.Open(wire.Modern, "tools/call", callOf("slow", hold.args(`"ticks":1`), token("1")))
	defer other.Close()
	other.Next()
	growth := heapGrowth(func() {
		if r := call(cl, wire.Modern, "endless", fmt.Sprintf(`{"bytes":%d}`, size)); !tooLarge(r) {
			t.Errorf("got %s", r)
		}
		works(t, cl, wire.Modern, "echo") // behind the line
	})
	if growth > maxGrowth {
		t.Errorf("the heap grew by %d MiB", growth>>20)
	}
	hold.open()
	if e := other.Next(); !strings.Contains(e.Data, `"text":"released"`) {
		t.Errorf("the other call: %s", e.Data)
	}
	if starts() != 1 {
		t.Errorf("%d starts", starts())
	}
}

// A long line that nobody waits for any more fails no call that is open.
func TestLateLongLine(t *testing.T) {
	def, _ := peerServer(t)
	c := newCrib(t, cribOptions{}, def)
	cl, hasty := c.client(wire.Modern, "s"), c.client(wire.Modern, "s")
	hold := newGate(t)
	other := cl.Open(wire.Modern, "tools/call", callOf("slow", hold.args(`"ticks":1`), token("1")))
	defer other.Close()
	other.Next()
	hasty.Timeout = 30 * time.Millisecond // it leaves long before the line is over the limit
	call(hasty, wire.Modern, "endless", fmt.Sprintf(`{"bytes":%d}`, 3*upstream.MaxMessage))
	works(t, cl, wire.Modern, "echo") // behind the line
	hold.open()
	if e := other.Next(); !strings.Contains(e.Data, `"text":"released"`) {
		t.Errorf("the other call: %s", e.Data)
	}
}

// A line without end fails its call as soon as it is over the limit. The pipe
// is lost with it, but not the crib, its other servers or its memory, and the
// server can be switched off.
func TestEndlessLine(t *testing.T) {
	def, _ := peerServer(t)
	other := behindStdio(t, "other", mcptest.EraModern)
	c := newCrib(t, cribOptions{upstream: upstream.Options{StopGrace: 100 * time.Millisecond}}, def, other.def)
	cl := c.client(wire.Modern, "")
	works(t, cl, wire.Modern, "other__echo")
	growth := heapGrowth(func() {
		if r := call(cl, wire.Modern, "s__endless", "{}"); !tooLarge(r) {
			t.Errorf("got %s", r)
		}
		works(t, cl, wire.Modern, "other__echo")
		srv, err := c.cat.Server("s")
		if err != nil {
			t.Fatal(err)
		}
		c.cat.Apply([]servers.Definition{other.def})
		mcptest.Eventually(t, "the end of the process", func() bool { return srv.Up().State().Legs == 0 })
		works(t, cl, wire.Modern, "other__echo")
	})
	if growth > maxGrowth {
		t.Errorf("the heap grew by %d MiB", growth>>20)
	}
}

// filling writes chunks until the client leaves, at most size bytes, and
// counts them.
func filling(w io.Writer, chunk string, size int64, written *atomic.Int64) {
	for written.Load() < size {
		n, err := io.WriteString(w, chunk)
		written.Add(int64(n))
		if err != nil {
			return
		}
	}
}

// What a server sends over HTTP without end fails its call with too_large soon
// behind the limit, whatever it is made of, and the next call works.
func TestEndlessHTTP(t *testing.T) {
	const (
		size  = 6 * upstream.MaxMessage
		slack = upstream.MaxMessage // what may lie in buffers on the way
	)
	filler := strings.Repeat("x", 64<<10)
	for _, tc := range []struct {
		name, era, kind, start, chunk string
	}{
		{"JSON", mcptest.EraModern, "application/json", `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"`, filler},
		{"one data line", mcptest.EraModern, "text/event-stream", `data: {"jsonrpc":"2.0","id":ID,"result":"`, filler},
		{"many data lines", mcptest.EraLegacy, "text/event-stream", `data: {"jsonrpc":"2.0","id":ID,"result":"` + "\n", "data: " + filler + "\n"},
		{"many short data lines", mcptest.EraModern, "text/event-stream", `data: {"jsonrpc":"2.0","id":ID,"result":"` + "\n", strings.Repeat("data:"+filler[:250]+"\n", 256)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: tc.era}})
			c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
			cl := c.client(wire.Modern, "s")
			works(t, cl, wire.Modern, "echo")
			var written atomic.Int64
			answerCalls(p, func(w http.ResponseWriter, _ *http.Request, id string) {
				w.Header().Set("Content-Type", tc.kind)
				io.WriteString(w, strings.ReplaceAll(tc.start, "ID", id))
				filling(w, tc.chunk, size, &written)
			})
			growth := heapGrowth(func() {
				if r := call(cl, wire.Modern, "echo", "{}"); !tooLarge(r) {
					t.Errorf("got %s", r)
				}
			})
			if n := written.Load(); n > upstream.MaxMessage+slack {
				t.Errorf("%d MiB were read", n>>20)
			}
			if growth > maxGrowth {
				t.Errorf("the heap grew by %d MiB", growth>>20)
			}
			p.Script(nil)
			works(t, cl, wire.Modern, "echo")
		})
	}
}

// What is no part of a message costs no memory, however much there is of it
// before the answer.
func TestLongCommentsBeforeAnswer(t *testing.T) {
	filler := strings.Repeat("x", 64<<10)
	for name, chunk := range map[string]string{"one comment": filler, "comments": filler + "\n:", "unknown fields": "\nx" + filler} {
		p := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
		c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
		cl := c.client(wire.Modern, "s")
		works(t, cl, wire.Modern, "echo")
		var written atomic.Int64
		answerCalls(p, func(w http.ResponseWriter, _ *http.Request, id string) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, ":")
			filling(w, chunk, 2*upstream.MaxMessage, &written)
			fmt.Fprintf(w, "\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"at last\"}]}}\n\n", id)
		})
		growth := heapGrowth(func() {
			if r := call(cl, wire.Modern, "echo", "{}"); r.Text() != "at last" {
				t.Errorf("%s: %s", name, r)
			}
		})
		if growth > upstream.MaxMessage {
			t.Errorf("%s: the heap grew by %d MiB", name, growth>>20)
		}
	}
}

// The limit is met to the byte.
func TestLimitToTheByte(t *testing.T) {
	p := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: mcptest.EraModern}})
	c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
	cl := c.client(wire.Modern, "s")
	works(t, cl, wire.Modern, "echo")
	for _, tc := range []struct {
		kind, want string
		size       int
	}{
		{"application/json", `"text":"whole"`, upstream.MaxMessage},
		{"application/json", `"io.toolcrib/code":"too_large"`, upstream.MaxMessage + 1},
		{"text/event-stream", `"io.toolcrib/code":"too_large"`, upstream.MaxMessage + 1},
	} {
		answerCalls(p, func(w http.ResponseWriter, _ *http.Request, id string) {
			w.Header().Set("Content-Type", tc.kind)
			head, tail := `{"jsonrpc":"2.0","id":`+id+`,"result":{"content":[{"type":"text","text":"whole"}],"x":"`, `"}}`
			body := head + strings.Repeat("x", tc.size-len(head)-len(tail)) + tail
			if tc.kind != "application/json" {
				body = "data: " + body + "\n\n"
			}
			io.WriteString(w, body)
		})
		if r := call(cl, wire.Modern, "echo", "{}"); !bytes.Contains(r.Body, []byte(tc.want)) {
			t.Errorf("%s, %d bytes: HTTP %d, %d bytes", tc.kind, tc.size, r.Status, len(r.Body))
		}
	}
}

// A client's message over the limit is refused before anything of it is used.
func TestLongRequests(t *testing.T) {
	p := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	c := newCrib(t, cribOptions{}, httpServer("s", p.URL))
	long := `{"a":"` + strings.Repeat("x", web.MaxBody) + `"}`
	works(t, c.client(wire.Modern, ""), wire.Modern, "s__echo")
	before := arrived(p)
	for _, path := range []string{"/mcp", "/mcp/s", "/tools/s__echo"} {
		for _, era := range bothEras {
			cl := c.client(era, "")
			cl.URL = strings.TrimSuffix(c.url, "/mcp") + path
			headers := []string{"Content-Type: application/json", "Accept: application/json, text/event-stream"}
			if era == wire.Legacy {
				headers = append(headers, wire.HeaderSession+": "+cl.Session)
			}
			r := cl.Raw(http.MethodPost, long, headers...)
			if r.Status != http.StatusRequestEntityTooLarge || !bytes.Contains(r.Body, []byte(`"error":{"code":-32600`)) {
				t.Errorf("%s, %s: %s", path, era, r)
			}
		}
	}
	if n := arrived(p) - before; n != 0 {
		t.Errorf("%d calls came", n)
	}
}

// tooLarge reports whether a call ended because its answer was over a limit,
// and says what that means for who thinks of making it again.
func tooLarge(r *mcptest.Reply) bool {
	return codeOf(r) == crib.TooLarge && strings.Contains(r.Text(), "look before you repeat it")
}
