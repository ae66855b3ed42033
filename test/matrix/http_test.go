package matrix

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// talker is an MCP client of one era, on either transport.
type talker interface {
	// hello opens the conversation, and returns what the crib says of itself.
	hello() *mcptest.Reply
	// post sends a request, or a notification, and waits for the answer. It does
	// not fail the test.
	post(method, params string) *mcptest.Reply
	// open sends a request whose answer is read message by message.
	open(method, params string) stream
	// cancel gives up a request, as the era and the transport have it.
	cancel(s stream)
	// respond answers a request of the server. id and result are raw.
	respond(id, result string)
	// standing is where a legacy client hears what belongs to no request.
	standing() stream
}

// stream is messages, one after another.
type stream interface {
	id() string   // of its request, raw; "" if there is none
	next() string // fails the test if none comes
	// rest is what came after that, of a request that has ended.
	rest() []string
	close()
}

const capabilities = `{"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true},"sampling":{},"extensions":{"` + wire.ExtensionTasks + `":{}}}`

// overHTTP is a client of the HTTP endpoint.
type overHTTP struct {
	*mcptest.Client
	era    wire.Era
	lastID atomic.Int64
}

func newOverHTTP(t testing.TB, era wire.Era, url string) *overHTTP {
	c := &overHTTP{Client: mcptest.NewClient(t, url), era: era}
	c.Capabilities = capabilities
	t.Cleanup(func() {
		if c.Session != "" {
			c.Delete()
		}
	})
	return c
}

func (c *overHTTP) hello() *mcptest.Reply {
	if c.era == wire.Legacy {
		return c.Initialize("")
	}
	return c.post("server/discover", `{}`)
}

func (c *overHTTP) post(method, params string) *mcptest.Reply { return c.Post(c.era, method, params) }

func (c *overHTTP) open(method, params string) stream {
	id := fmt.Sprintf(`"open-%d"`, c.lastID.Add(1))
	return &httpStream{c.OpenID(c.era, id, method, params), id}
}

func (c *overHTTP) cancel(s stream) {
	if c.era == wire.Modern {
		s.close()
		return
	}
	c.post("notifications/cancelled", `{"requestId":`+s.id()+`}`)
}

func (c *overHTTP) respond(id, result string) { c.Respond(id, result) }

func (c *overHTTP) standing() stream { return &httpStream{c.Get(), ""} }

type httpStream struct {
	*mcptest.Stream
	request string
}

func (s *httpStream) id() string   { return s.request }
func (s *httpStream) next() string { return s.Next().Data }
func (s *httpStream) rest() (messages []string) {
	for {
		e, more := s.Any()
		if !more {
			return messages
		}
		messages = append(messages, e.Data)
	}
}
func (s *httpStream) close() { s.Close() }
