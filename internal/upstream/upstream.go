// Package upstream holds the crib's legs to MCP servers: stdio and Streamable
// HTTP, in both eras, and the older HTTP+SSE. It finds out what a server speaks,
// keeps one connection for whoever may share it, and carries messages as bytes.
package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolcrib/toolcrib/internal/child"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/upstream/gate"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Limits of every leg.
const (
	MaxMessage        = 16 << 20         // bytes of one message, HTTP body or event
	MaxCallTime       = time.Hour        // of one request, whatever progress it makes
	DefaultTimeout    = 60 * time.Second // without an answer or progress
	QuestionTime      = 10 * time.Minute // for the answer to a question of a server, in the place of DefaultTimeout
	StartTimeout      = 120 * time.Second
	ProbeTimeout      = 10 * time.Second // for an answer to server/discover, from the first sign of life
	MaxStarting       = 4                // children that start at one time, until they show life
	Drain             = 30 * time.Second // for requests on a leg that is replaced
	DialTimeout       = 10 * time.Second // for a connection, and for its TLS
	cancelTimeout     = 5 * time.Second  // for telling a server that a request is cancelled
	FirstBackoff      = time.Second      // between failed attempts to connect; doubles
	MaxBackoff        = 30 * time.Second
	Liveness          = time.Minute      // between questions to a leg that is not in use
	stableAfter       = 10 * time.Second // a leg that ends sooner counts as a failure to connect
	maxDrain          = 256 << 10        // bytes read of a body that does not matter
	ResumeAttempts    = 5                // to take up a broken stream again
	defaultRetryDelay = time.Second
)

// Spec says how a server is reached.
type Spec struct {
	Name    string
	URL     string   // Streamable HTTP or HTTP+SSE; else Command
	Command []string // stdio
	Dir     string   // of the process
	Inherit child.Inherit
	Era     wire.Era      // "" finds out
	Timeout time.Duration // 0 is DefaultTimeout
	Fake    bool          // answer with one echo tool and connect to nothing

	// Connect resolves secrets. It is called for each connection, so that a
	// rotated secret is used from the next connection on.
	Connect func(ctx context.Context) (Credentials, error)
	// Eras are those found the last time, empty if none is remembered.
	Eras []wire.Era

	older *atomic.Bool // spoke HTTP+SSE the last time
}

// Credentials is what a connection carries that is secret.
type Credentials struct {
	Header http.Header // of each HTTP request
	Env    []string    // KEY=value, of the child
}

// Events receives what a server says that belongs to no request of ours.
// Methods are called from the reading goroutine and must not block.
type Events interface {
	// Notification is called with a notification that no open request can
	// claim: list changes, resource updates, log messages.
	Notification(server string, leg Leg, m wire.Message)
	// Silent is called when it shows that a leg cannot tell of changes.
	Silent(server string, leg Leg)
	// Connected is called when a leg is ready; share says who shares it.
	Connected(server string, leg Leg, share Share)
	// Renewed is called when a leg that was connected has a new session.
	Renewed(server string, leg Leg)
}

// Options are shared by all servers of one crib. The zero value of a time is
// the limit of that name above.
type Options struct {
	Events       Events
	Log          *slog.Logger
	Redact       func(string) string // hides secrets in text from children; nil leaves text as it is
	Environ      []string            // of the crib, from which a child's is chosen
	Version      string              // of the crib, for clientInfo
	StartTimeout time.Duration
	ProbeTimeout time.Duration
	StopGrace    time.Duration // for each rung of ending a child
	WriteTimeout time.Duration // for a message to a child that does not read; 0 is child.DefaultWriteTimeout
	Liveness     time.Duration
	Children     *child.Registry // remembers the processes; nil does not
	Starting     chan struct{}   // one slot per child that may start at a time; nil makes MaxStarting
	Total        *gate.Total     // what all servers have open together; nil makes one
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = StartTimeout
	}
	if o.ProbeTimeout == 0 {
		o.ProbeTimeout = ProbeTimeout
	}
	if o.Liveness == 0 {
		o.Liveness = Liveness
	}
	if o.Total == nil {
		o.Total = new(gate.Total)
	}
	if o.Starting == nil {
		o.Starting = make(chan struct{}, MaxStarting)
	}
	return o
}

// Leg is a live connection to a server, in one era.
type Leg interface {
	// Hello is what the server said of itself when the leg was made.
	Hello() *wire.Hello
	// Do sends one request and waits for its answer. It sends at most once,
	// except after an answer that proves that nothing was executed. The error
	// is a *crib.Error; its code tells whether the request may have been
	// executed (Timeout, Unknown, Cancelled, TooLarge) or was not (the
	// others; but see Answered).
	Do(ctx context.Context, out *Outgoing, l Listener) (*Reply, error)
	// Notify sends a notification.
	Notify(ctx context.Context, body []byte) error
	// Open returns how many requests are waiting for their answer.
	Open() int
	// Quiet is closed when none is.
	Quiet() <-chan struct{}
	// OneStream reports whether what the server says because of several
	// requests comes on one stream, so that only being the only one proves
	// which of them it asks for.
	OneStream() bool
	// Retire says that the leg does not fit its server any more: whoever asks
	// for a leg from now on gets a new one. What is open goes on.
	Retire()
	// Retired reports whether Retire was called.
	Retired() bool
	// Done is closed when the leg can no longer be used.
	Done() <-chan struct{}
	// Close ends the leg and waits for what it started.
	Close()
}

// Outgoing is a request on its way to a server: the bytes of a message, and
// what in them is to be replaced.
type Outgoing struct {
	Method  string
	Src     []byte
	ID      wire.Span   // replaced by the leg's own id
	Token   wire.Span   // progress token, replaced likewise; absent if the client gave none
	Edits   []wire.Edit // everything else that is replaced
	Name    string      // for Mcp-Name; HasName tells whether there is one
	HasName bool
	Params  http.Header // Mcp-Param-*
	Header  http.Header // of the client, to be carried over: traceparent and its like
	// Read says that sending twice harms nobody (lists, discover, ping).
	Read bool
	// Owner says that the server may ask the client something because of this
	// request (tools/call, prompts/get, resources/read).
	Owner bool
	// Timeout without an answer or a sign of life; 0 is the server's own.
	Timeout time.Duration
	// Forever lifts the limits of time: the request is a stream.
	Forever bool
	// Ticket counts the bytes of the answer; nil counts nothing.
	Ticket *gate.Ticket

	direct bool // the answer is that to the HTTP request that carries it
}

// body returns the message to send with id as its id and progress token.
func (o *Outgoing) body(id int64) []byte {
	var buf [20]byte
	num := wire.AppendInt(buf[:0], id)
	var room [4]wire.Edit
	edits := append(room[:0], o.Edits...)
	if o.ID.OK() {
		edits = append(edits, wire.Edit{At: o.ID, With: num})
	}
	if o.Token.OK() {
		edits = append(edits, wire.Edit{At: o.Token, With: num})
	}
	return wire.OneLine(wire.Apply(make([]byte, 0, len(o.Src)+128), o.Src, edits...))
}

// Ticket is what a request holds while it is open at a server.
type Ticket = gate.Ticket

// Reply is a server's answer to a request.
type Reply struct {
	Message    wire.Message
	Era        wire.Era
	Status     int    // of HTTP; 0 on stdio
	RetryAfter string // of HTTP, as it came
}

// Listener receives what a server says because of one request, while that
// request is open. Its methods may be called from several goroutines and must
// not block.
type Listener interface {
	Notification(m wire.Message)
	// Request is asked of the client; answer takes a whole JSON-RPC response
	// whose id is m's, and may be called from any goroutine, once.
	Request(m wire.Message, answer func(body []byte))
}

// Nobody is the Listener of requests that the crib makes for itself.
type Nobody struct{}

// Notification drops m.
func (Nobody) Notification(wire.Message) {}

// Request declines m.
func (Nobody) Request(m wire.Message, answer func([]byte)) { answer(Decline(m)) }

// Decline is the answer to a request of a server that nobody can be asked:
// ping is answered, everything else is an error that unblocks the server.
func Decline(m wire.Message) []byte {
	id := m.ID.In(m.Body)
	if m.Method == "ping" {
		return wire.ResultBody(id, []byte("{}"))
	}
	return wire.ErrorBody(id, wire.CodeMethodNotFound, "no client can be asked "+m.Method+" on this connection", nil)
}

func (s *Spec) timeout(o *Outgoing) time.Duration {
	switch {
	case o.Timeout > 0:
		return o.Timeout
	case s.Timeout > 0:
		return s.Timeout
	}
	return DefaultTimeout
}

func unavailable(server, format string, args ...any) *crib.Error {
	return crib.Errorf(crib.Unavailable, "server %s "+format, append([]any{server}, args...)...)
}

// lost is the error for a request whose answer will not come. sent tells
// whether any byte of it may have reached the server; reading twice harms
// nobody, so a read is never unknown.
func lost(server string, out *Outgoing, sent bool, why string) *crib.Error {
	if sent && !out.Read {
		return crib.Errorf(crib.Unknown, "server %s: %s; it is not known whether the request was executed", server, why)
	}
	return crib.Errorf(crib.Unavailable, "server %s: %s", server, why)
}

// tooMuch is the error for what came in answer to out and was over a limit:
// whoever repeats the request would have it done twice.
func tooMuch(out *Outgoing, over *crib.Error) *crib.Error {
	if out.Read {
		return over
	}
	return crib.Errorf(crib.TooLarge, "%s; the request was most likely executed: look before you repeat it", over.Msg)
}

// endOfLeg is why a leg ended, in words that follow the server's name.
type endOfLeg string

func (e endOfLeg) Error() string { return string(e) }

func isEndOfLeg(err error) bool {
	end := endOfLeg("")
	return errors.As(err, &end)
}

const wasClosed = endOfLeg("its connection was closed")

// late is the error for a request that was not answered in time.
func (s *Spec) late(out *Outgoing, sent bool) *crib.Error {
	within := s.timeout(out)
	if sent && !out.Read {
		return crib.Errorf(crib.Timeout, "server %s did not answer %s within %s; it is not known whether it was executed", s.Name, out.Method, within)
	}
	return unavailable(s.Name, "did not answer %s within %s", out.Method, within)
}

// tasks are the goroutines of a leg. None is started once the leg waits for
// them.
type tasks struct {
	mu     sync.Mutex // guards closed
	closed bool
	wg     sync.WaitGroup
}

// start runs f, unless the leg is closing. It reports whether it does.
func (t *tasks) start(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.wg.Go(f)
	}
	return !t.closed
}

// wait lets nothing more start and waits for what runs.
func (t *tasks) wait() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.wg.Wait()
}
