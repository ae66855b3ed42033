package matrix

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/mcpstdio"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

const clientInfo = `{"name":"matrix","version":"1"}`

// piped is a client of what `toolcrib connect` runs. On a pipe only an answer
// says what it belongs to, so everything else is heard on every open stream.
type piped struct {
	t      testing.TB
	era    wire.Era
	in     io.Writer
	lastID atomic.Int64

	mu      sync.Mutex             // guards both below
	streams map[string]*pipeStream // by the raw id of their request; "" is the standing one
	ended   bool
}

func newPiped(t testing.TB, era wire.Era, url, token string) *piped {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c := &piped{t: t, era: era, in: inW, streams: make(map[string]*pipeStream)}
	var work sync.WaitGroup
	work.Go(func() {
		defer c.end()
		for lines := bufio.NewReader(outR); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			c.deliver(strings.TrimSuffix(line, "\n"))
		}
	})
	work.Go(func() {
		defer outW.Close()
		defer inR.Close()
		err := mcpstdio.Run(context.Background(), mcpstdio.Options{
			In: inR, Out: outW, URL: url, Grace: time.Second,
			Token: func(context.Context) (string, error) { return token, nil },
		})
		if err != nil {
			t.Errorf("the relay: %v", err)
		}
	})
	t.Cleanup(func() {
		inW.Close()
		work.Wait()
	})
	return c
}

// deliver takes a message of the crib.
func (c *piped) deliver(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if wire.Get([]byte(line), "method") != nil {
		for _, s := range c.streams {
			s.messages <- line
		}
		return
	}
	id := string(wire.Get([]byte(line), "id"))
	if s := c.streams[id]; s != nil {
		s.messages <- line
		close(s.messages)
		delete(c.streams, id)
	}
}

// end ends every stream: nothing more comes.
func (c *piped) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, s := range c.streams {
		close(s.messages)
	}
	clear(c.streams)
}

// listen makes the stream of a request.
func (c *piped) listen(id string) *pipeStream {
	s := &pipeStream{c: c, request: id, messages: make(chan string, 1000)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		close(s.messages)
		return s
	}
	c.streams[id] = s
	return s
}

// write sends a message without its frame.
func (c *piped) write(members string) error {
	_, err := io.WriteString(c.in, `{"jsonrpc":"2.0",`+members+"}\n")
	return err
}

func (c *piped) hello() *mcptest.Reply {
	if c.era == wire.Modern {
		return c.post("server/discover", `{}`)
	}
	r := c.post("initialize", `{"protocolVersion":"`+wire.NewestLegacy+`","capabilities":`+capabilities+`,"clientInfo":`+clientInfo+`}`)
	c.post("notifications/initialized", `{}`)
	return r
}

func (c *piped) post(method, params string) *mcptest.Reply {
	if strings.HasPrefix(method, "notifications/") {
		return &mcptest.Reply{Err: c.write(`"method":"` + method + `","params":` + params)}
	}
	s, err := c.ask(method, params)
	if err != nil {
		return &mcptest.Reply{Err: err}
	}
	defer s.close()
	r := &mcptest.Reply{Events: []mcptest.Event{}}
	patience := time.After(mcptest.Patience)
	for {
		select {
		case message, more := <-s.messages:
			if !more {
				return r
			}
			r.Events = append(r.Events, mcptest.Event{Data: message})
		case <-patience:
			r.Err = errors.New("no answer came")
			return r
		}
	}
}

func (c *piped) open(method, params string) stream {
	s, err := c.ask(method, params)
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// ask sends a request, with what the era has every request say.
func (c *piped) ask(method, params string) (*pipeStream, error) {
	if c.era == wire.Modern {
		meta := wire.Get([]byte(params), "_meta")
		if meta == nil {
			meta = []byte(`{}`)
		}
		meta = wire.SetMembers(nil, meta,
			wire.Set{Key: wire.MetaProtocolVersion, Val: wire.Quote(wire.NewestModern)},
			wire.Set{Key: wire.MetaClientInfo, Val: []byte(clientInfo)},
			wire.Set{Key: wire.MetaClientCapabilities, Val: []byte(capabilities)})
		params = string(wire.SetMembers(nil, []byte(params), wire.Set{Key: "_meta", Val: meta}))
	}
	id := fmt.Sprint(c.lastID.Add(1))
	s := c.listen(id)
	if err := c.write(`"id":` + id + `,"method":"` + method + `","params":` + params); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (c *piped) cancel(s stream) { c.post("notifications/cancelled", `{"requestId":`+s.id()+`}`) }

func (c *piped) respond(id, result string) {
	if err := c.write(`"id":` + id + `,"result":` + result); err != nil {
		c.t.Error(err)
	}
}

func (c *piped) standing() stream { return c.listen("") }

type pipeStream struct {
	c        *piped
	request  string
	messages chan string // closed behind the answer
}

func (s *pipeStream) id() string { return s.request }

func (s *pipeStream) next() string {
	s.c.t.Helper()
	select {
	case message, more := <-s.messages:
		if !more {
			s.c.t.Fatal("the stream ended")
		}
		return message
	case <-time.After(mcptest.Patience):
		s.c.t.Fatal("no message came")
	}
	return ""
}

func (s *pipeStream) rest() (messages []string) {
	for {
		select {
		case m, more := <-s.messages:
			if !more {
				return messages
			}
			messages = append(messages, m)
		default:
			return messages
		}
	}
}

func (s *pipeStream) close() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.c.streams[s.request] == s {
		delete(s.c.streams, s.request)
	}
}
