// Package gateway is the heart of the crib: the one path of a call, and of
// every other request of a client, from the bytes that came to the bytes that
// go out. It knows no transport: requests come in as messages, what belongs to
// them goes out through a Sink.
package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/internal/bridge"
	"github.com/toolcrib/toolcrib/internal/catalog"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/gateway/legacy"
	"github.com/toolcrib/toolcrib/internal/gateway/task"
	"github.com/toolcrib/toolcrib/internal/gateway/turnstile"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Limits.
const (
	SessionIdle     = time.Hour              // since the last request, after which a legacy session ends
	MaxSessions     = 10_000                 // legacy sessions; over it, one of whoever has most ends
	MaxInstructions = 4 << 10                // bytes of the aggregate's instructions, ours and the servers' together
	MaxSubscribed   = legacy.MaxSubscribed   // resources that one client is told of
	joinChanges     = 100 * time.Millisecond // changes within it become one notification
)

// Options build a Gateway. Catalog and Sealer are required.
type Options struct {
	Catalog     *catalog.Catalog
	Sealer      *bridge.Sealer
	Version     string // of the crib
	Log         *slog.Logger
	Redact      func(string) string // hides secrets in errors; nil leaves text as it is
	SessionIdle time.Duration       // 0 is SessionIdle
	MaxSessions int                 // 0 is MaxSessions
	RoundTime   time.Duration       // for a client to answer questions; 0 is bridge.RoundTime
}

// Gateway carries the requests of all clients.
type Gateway struct {
	cat       *catalog.Catalog
	sealer    *bridge.Sealer
	version   string
	log       *slog.Logger
	redact    func(string) string
	sessions  *legacy.Sessions
	news      news
	levels    *legacy.Levels
	dialogues dialogues
	roundTime time.Duration
	tasks     *task.Registry
	entrance  *turnstile.Turnstile
	life      context.Context // ends with the gateway
	end       context.CancelFunc
	work      sync.WaitGroup
}

// New makes a Gateway.
func New(o Options) (*Gateway, error) {
	if o.Catalog == nil || o.Sealer == nil {
		return nil, errors.New("gateway: Catalog and Sealer are required")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.SessionIdle == 0 {
		o.SessionIdle = SessionIdle
	}
	if o.MaxSessions == 0 {
		o.MaxSessions = MaxSessions
	}
	if o.RoundTime == 0 {
		o.RoundTime = bridge.RoundTime
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	g := &Gateway{cat: o.Catalog, sealer: o.Sealer, version: o.Version, log: o.Log, redact: o.Redact, tasks: task.NewRegistry(), levels: legacy.NewLevels(), roundTime: o.RoundTime}
	g.life, g.end = context.WithCancel(context.Background())
	g.sessions = legacy.NewSessions(o.SessionIdle, o.MaxSessions)
	g.news.init()
	g.dialogues.init()
	g.entrance = turnstile.New(g.life)
	stop := g.cat.Subscribe(g.news.changed)
	g.work.Go(func() {
		defer stop()
		g.sessions.Expire(g.life, g.endSession)
	})
	g.work.Go(g.tellChanges)
	return g, nil
}

// Drain lets in no new requests, and ends what is only a stream, so that what
// is left are requests with an end of their own. What belongs to these still
// passes: cancellations, and answers to questions of servers.
func (g *Gateway) Drain() {
	g.entrance.Stop()
	for _, s := range g.sessions.All() {
		s.Outlet().Close()
	}
}

// Stopping reports whether Drain was called.
func (g *Gateway) Stopping() bool { return g.entrance.Stopped() }

// Drained is closed when Drain was called and no request is open any more.
func (g *Gateway) Drained() <-chan struct{} { return g.entrance.Empty() }

// Close ends all sessions, and with them their requests.
func (g *Gateway) Close() {
	g.Drain()
	g.end()
	g.sessions.CloseAll()
	g.work.Wait()
}

// Request is one message of a client.
type Request struct {
	Principal crib.Principal
	Server    string // whose own endpoint it came to; "" is the aggregate
	Era       wire.Era
	Session   *Session // legacy only
	Message   wire.Message
	// Header are the HTTP headers it came with, nil if it came otherwise.
	Header http.Header
	// Unmirrored says that the client speaks stdio and its request was put on
	// HTTP by a relay that knows no schemas: the body alone counts.
	Unmirrored bool
}

func (r *Request) id() []byte { return r.Message.ID.In(r.Message.Body) }

// aggregate reports whether names and URIs are the crib's.
func (r *Request) aggregate() bool { return r.Server == "" }

// Answer is the response to a request.
type Answer struct {
	Body       []byte
	Status     int    // of HTTP, 0 is 200
	RetryAfter string // of HTTP
}

// Sink takes what is sent to the client because of one request, before its
// answer. Send must not block, and may be called from several goroutines.
type Sink interface {
	Send(body []byte)
}

// Handle answers a request. For a modern client the end of ctx cancels it; a
// legacy client's request goes on without it (2025-11-25, Transports: a
// disconnect is no cancellation).
func (g *Gateway) Handle(ctx context.Context, req *Request, sink Sink) Answer {
	if !g.entrance.Enter(continues(req)) {
		return turnedAway(req)
	}
	defer g.entrance.Leave()
	if req.Era == wire.Legacy {
		detached, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		if !req.Session.Begin(req.id(), cancel) {
			return refuse(req, wire.CodeInvalidRequest, "a request with this id is already open in this session", http.StatusBadRequest)
		}
		defer req.Session.Finish(req.id())
		g.locate(detached, req, sink)
		return g.dispatch(detached, req, sink)
	}
	return g.dispatch(ctx, req, sink)
}

func (g *Gateway) dispatch(ctx context.Context, req *Request, sink Sink) Answer {
	switch req.Message.Method {
	case "tools/call":
		return g.call(ctx, req, sink)
	case "prompts/get", "resources/read", "completion/complete":
		return g.relay(ctx, req, sink)
	case "tools/list":
		return g.list(ctx, req, catalog.Tools)
	case "prompts/list":
		return g.list(ctx, req, catalog.Prompts)
	case "resources/list":
		return g.list(ctx, req, catalog.Resources)
	case "resources/templates/list":
		return g.list(ctx, req, catalog.Templates)
	}
	if req.Era == wire.Modern {
		switch req.Message.Method {
		case "server/discover":
			return g.discover(ctx, req)
		case "subscriptions/listen":
			return g.listen(ctx, req, sink)
		}
	} else {
		switch req.Message.Method {
		case "ping":
			return Answer{Body: wire.ResultBody(req.id(), []byte("{}"))}
		case "logging/setLevel":
			return g.setLevel(ctx, req)
		case "resources/subscribe", "resources/unsubscribe":
			return g.subscribe(ctx, req)
		}
	}
	if isTask(req.Message.Method) {
		return g.aboutTask(ctx, req, sink)
	}
	return g.vendor(ctx, req, sink)
}

// Notification takes a notification of a client.
func (g *Gateway) Notification(req *Request) {
	m := req.Message
	if req.Session == nil {
		return
	}
	switch m.Method {
	case "notifications/cancelled":
		req.Session.Cancel(m.Params.RequestID.In(m.Body))
	case "notifications/roots/list_changed":
		req.Session.ForgetRoot()
		g.tellRootsChanged(req)
	}
}

// wantOf is want of req for any server.
func (g *Gateway) wantOf(req *Request) func(*catalog.Server) upstream.Want {
	return func(srv *catalog.Server) upstream.Want { return g.want(req, srv) }
}

// want says which leg to srv serves req.
func (g *Gateway) want(req *Request, srv *catalog.Server) upstream.Want {
	w := upstream.Want{Era: req.Era}
	d := srv.Def().Dialogue
	switch {
	case d.Share == servers.ShareSession && req.Session != nil:
		w.Share, w.Live = req.Session.Share(), req.Session.Live
	case d.Share == servers.ShareProject:
		return projectWant(req, d.May)
	case d.Share == servers.ShareSession || d.Share == servers.SharePrincipal:
		return principalWant(req, d.May)
	default:
		return w
	}
	w.Declare = upstream.Declaration{Info: req.Session.Client.Info, Capabilities: bridge.Permitted(req.Session.Client.Capabilities, d.May)}
	return w
}

// principalWant is the leg of a principal's clients that can be asked the same.
func principalWant(req *Request, may []string) upstream.Want {
	caps := bridge.Capabilities(declared(req), may)
	w := upstream.Want{Era: req.Era, Share: upstream.Share{Owner: req.Principal.String(), Name: string(caps)}}
	if req.Session != nil {
		w.Declare = upstream.Declaration{Info: req.Session.Client.Info, Capabilities: bridge.Permitted(req.Session.Client.Capabilities, may)}
	} else {
		w.Declare = upstream.Declaration{Info: req.Message.Meta.ClientInfo.In(req.Message.Body), Capabilities: caps}
	}
	return w
}

// refuse answers with a JSON-RPC error.
func refuse(req *Request, code int, text string, status int) Answer {
	return Answer{Body: wire.ErrorBody(req.id(), code, text, nil), Status: status}
}

// methodNotFound is the answer to a method that the crib does not serve here
// (2026-07-28, Streamable HTTP, Protocol Version Header: 404).
func methodNotFound(req *Request) Answer {
	status := 0
	if req.Era == wire.Modern {
		status = http.StatusNotFound
	}
	return refuse(req, wire.CodeMethodNotFound, "method "+req.Message.Method+" is not served here", status)
}

// failure is the answer to a request other than a call that could not be
// carried.
func (g *Gateway) failure(req *Request, err error) Answer {
	code := crib.CodeOf(err)
	rpc := wire.CodeInternal
	switch {
	case code == crib.NotFound && req.Era == wire.Legacy && strings.HasPrefix(req.Message.Method, "resources/"):
		rpc = wire.CodeResourceNotFound
	case code == crib.NotFound || code == crib.Invalid:
		rpc = wire.CodeInvalidParams
	case code == crib.Unsupported:
		rpc = wire.CodeMethodNotFound
	}
	data := append([]byte(`{"`+wire.MetaCode+`":`), wire.Quote(string(code))...)
	return Answer{Body: wire.ErrorBody(req.id(), rpc, g.redact(crib.SafeText(err)), append(data, '}'))}
}
