package mcptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// conn is what a server knows of one client: the other end of a pipe, a legacy
// session, or one modern HTTP request.
type conn struct {
	push func(line []byte) // sends what belongs to no request

	mu      sync.Mutex // guards what follows
	version string     // negotiated by initialize; "" before
	ready   bool       // notifications/initialized came
	settled wire.Era   // by the first request, for EraFirst
	caps    json.RawMessage
	level   string
	uris    map[string]bool
	listens map[string]listening // by the id of the request
	asked   map[string]chan message
	open    map[string]context.CancelFunc // requests that are running, by id
}

// listening is one subscriptions/listen.
type listening struct {
	filter filter
	send   func(line []byte)
	end    chan struct{} // closed when the server ends it
}

func newConn(push func(line []byte)) *conn {
	return &conn{
		push:    push,
		uris:    map[string]bool{},
		listens: map[string]listening{},
		asked:   map[string]chan message{},
		open:    map[string]context.CancelFunc{},
	}
}

func (c *conn) initialize(version string, caps json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version, c.caps = version, caps
}

func (c *conn) isInitialized() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version != ""
}

func (c *conn) setReady() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = true
}

// settle returns the era of the first request.
func (c *conn) settle(era wire.Era) wire.Era {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settled == "" {
		c.settled = era
	}
	return c.settled
}

func (c *conn) setLevel(level string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.level = level
}

func (c *conn) subscribe(uri string, on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uris[uri] = on
}

// listen begins a subscription. The acknowledgement goes out first, and a change
// that comes after it is not missed.
func (c *conn) listen(id string, ack []byte, f filter, send func(line []byte)) (end <-chan struct{}, forget func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	send(ack)
	l := listening{f, send, make(chan struct{})}
	c.listens[id] = l
	return l.end, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.listens, id)
	}
}

// endListens ends every subscriptions/listen as a server does that shuts down.
func (c *conn) endListens() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, l := range c.listens {
		close(l.end)
		delete(c.listens, id)
	}
}

// began notes a running request, so that it can be cancelled.
func (c *conn) began(parent context.Context, id string) (ctx context.Context, forget func()) {
	ctx, cancel := context.WithCancel(parent)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[id] = cancel
	return ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, id)
		cancel()
	}
}

func (c *conn) cancel(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.open[id]; cancel != nil {
		cancel()
	}
}

var errGone = errors.New("the client went away or cancelled")

// ask sends a request to the client with send and waits for the response.
func (c *conn) ask(ctx context.Context, id, method, params string, send func(line []byte)) (message, error) {
	got := make(chan message, 1)
	c.mu.Lock()
	c.asked[id] = got
	c.mu.Unlock()
	send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%s,"params":%s}`, id, quote(method), params))
	select {
	case m := <-got:
		return m, nil
	case <-ctx.Done():
		return message{}, errGone
	}
}

// answered hands a response to whoever asked.
func (c *conn) answered(m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := c.asked[string(m.ID)]; got != nil {
		delete(c.asked, string(m.ID))
		got <- m
	}
}

// logs reports whether a message of this level is to be sent to the client.
func (c *conn) logs(level string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return atLeast(level, c.level)
}

var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// atLeast reports whether level is as severe as threshold; with no threshold
// everything is.
func atLeast(level, threshold string) bool {
	return slices.Index(levels, level) >= slices.Index(levels, threshold)
}

// declared reports whether the client declared a capability with initialize.
func (c *conn) declared(capability string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return has(c.caps, capability)
}

// listChanged tells the client that a list has changed, if it listens.
func (c *conn) listChanged(list string) {
	method := "notifications/" + list + "/list_changed"
	c.tell(method, `{`, func(f filter) bool {
		return map[string]bool{"tools": f.Tools, "prompts": f.Prompts, "resources": f.Resources}[list]
	}, func() bool { return c.ready })
}

// updated tells the client that a resource has changed, if it listens.
func (c *conn) updated(uri string) {
	c.tell("notifications/resources/updated", `{"uri":`+quote(uri)+`,`, func(f filter) bool {
		return slices.Contains(f.URIs, uri)
	}, func() bool { return c.uris[uri] })
}

// tell sends a notification to every listen that wants it, and to a legacy
// client that does. params is unfinished: "{" or "{member,".
func (c *conn) tell(method, params string, wanted func(filter) bool, wantedByLegacy func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, l := range c.listens {
		if wanted(l.filter) {
			l.send(notification(method, params+`"_meta":{"`+wire.MetaSubscriptionID+`":`+id+`}}`))
		}
	}
	if wantedByLegacy() {
		c.push(notification(method, params+`"x-note":"keep"}`))
	}
}
