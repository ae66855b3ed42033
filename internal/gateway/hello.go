package gateway

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolcrib/toolcrib/internal/bridge"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/gateway/legacy"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// aggregateCapabilities do not depend on which servers are there: they come
// and go, and a client reads this once. The tasks of its era follow.
const aggregateCapabilities = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"completions":{},"logging":{}`

// Tasks are between sides of the same era, and so said in the words of each. No
// list of them goes across servers.
const (
	legacyTasks = `,"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}}`
	modernTasks = `,"extensions":{"` + wire.ExtensionTasks + `":{}}}`
)

const ownInstructions = "Tools of several servers behind one address. The part of a tool's or prompt's name before the double underscore names its server."

// discover answers server/discover (2026-07-28, Discovery).
func (g *Gateway) discover(ctx context.Context, req *Request) Answer {
	if req.aggregate() {
		g.cat.Warm(g.wantOf(req))
		result := slices.Concat([]byte(`{"resultType":"complete","supportedVersions":`), bridge.SupportedVersions(),
			[]byte(`,"capabilities":`+aggregateCapabilities+modernTasks+`,"instructions":`), wire.Quote(g.instructions(req)),
			[]byte(`,"ttlMs":60000,"cacheScope":"private","_meta":{"`+wire.MetaServerInfo+`":`), g.info(), []byte("}}"))
		return Answer{Body: wire.ResultBody(req.id(), result)}
	}
	h, err := g.serverHello(ctx, req)
	if err != nil {
		return g.failure(req, err)
	}
	return Answer{Body: wire.ResultBody(req.id(), bridge.DiscoverResult(h))}
}

// Initialize opens a legacy session (2025-11-25, Lifecycle). outlet takes what
// belongs to no request; it is closed when the session ends.
func (g *Gateway) Initialize(ctx context.Context, req *Request, outlet Outlet) (*Session, Answer) {
	if !g.entrance.Enter(false) {
		return nil, turnedAway(req)
	}
	defer g.entrance.Leave()
	p, body := req.Message.Params, req.Message.Body
	asked, ok := p.ProtocolVersion.Text(body)
	if !ok {
		return nil, refuse(req, wire.CodeInvalidParams, "initialize needs protocolVersion", 0)
	}
	if !req.aggregate() {
		if _, err := g.cat.Server(req.Server); err != nil {
			return nil, g.failure(req, err)
		}
	}
	s := legacy.New(req.Principal, req.Server, wire.NegotiateLegacy(asked), req.Message, outlet)
	req.Session = s
	result, err := g.initializeResult(ctx, req)
	if err != nil || ctx.Err() != nil {
		g.endSession(s) // the client left: nobody else would end what was begun for it
		return nil, g.failure(req, err)
	}
	for _, old := range g.sessions.Add(s) {
		g.endSession(old)
	}
	return s, Answer{Body: wire.ResultBody(req.id(), result)}
}

func (g *Gateway) initializeResult(ctx context.Context, req *Request) ([]byte, error) {
	if req.aggregate() {
		g.cat.Warm(g.wantOf(req))
		return slices.Concat([]byte(`{"protocolVersion":`), wire.Quote(req.Session.Version),
			[]byte(`,"capabilities":`+aggregateCapabilities+legacyTasks+`,"serverInfo":`), g.info(),
			[]byte(`,"instructions":`), wire.Quote(g.instructions(req)), []byte("}")), nil
	}
	if folderOf(req) == "" && g.startsInFolder(req) {
		// It cannot be asked for its roots before it has an answer.
		return slices.Concat([]byte(`{"protocolVersion":`), wire.Quote(req.Session.Version),
			[]byte(`,"capabilities":`+aggregateCapabilities+legacyTasks+`,"serverInfo":`), g.info(), []byte("}")), nil
	}
	h, err := g.serverHello(ctx, req)
	if err != nil {
		return nil, err
	}
	return bridge.InitializeResult(h, req.Session.Version), nil
}

// serverHello is what a server says of itself: what it said the last time, or
// else what it says now.
func (g *Gateway) serverHello(ctx context.Context, req *Request) (*wire.Hello, error) {
	srv, err := g.cat.Server(req.Server)
	if err != nil {
		return nil, err
	}
	if h := srv.Hello(g.want(req, srv)); h != nil {
		return h, nil
	}
	leg, err := srv.Up().Leg(ctx, g.want(req, srv))
	if err != nil {
		return nil, err
	}
	return leg.Hello(), nil
}

// info is the crib's own serverInfo.
func (g *Gateway) info() []byte {
	return slices.Concat([]byte(`{"name":"toolcrib","title":"Toolcrib","version":`), wire.Quote(g.version), []byte("}"))
}

// instructions are the crib's own and those that the servers gave the last
// time, each under its server's name, MaxInstructions in all.
func (g *Gateway) instructions(req *Request) string {
	var b strings.Builder
	b.WriteString(ownInstructions)
	for _, srv := range g.cat.Servers() {
		h := srv.Hello(g.want(req, srv))
		if h == nil || h.Instructions() == "" {
			continue
		}
		part := "\n\n" + srv.Name() + ":\n" + h.Instructions()
		if room := MaxInstructions - b.Len(); len(part) > room {
			part = clip(part, room)
			b.WriteString(part)
			break
		}
		b.WriteString(part)
	}
	return b.String()
}

const ellipsis = "…"

// clip shortens s to at most n bytes, between characters.
func clip(s string, n int) string {
	if n < len(ellipsis) {
		return ""
	}
	n -= len(ellipsis)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + ellipsis
}

// subscribe answers resources/subscribe and resources/unsubscribe of a legacy
// client.
func (g *Gateway) subscribe(ctx context.Context, req *Request) Answer {
	uri, ok := req.Message.Params.URI.Text(req.Message.Body)
	if !ok || uri == "" {
		return refuse(req, wire.CodeInvalidParams, req.Message.Method+" needs a uri", 0)
	}
	if req.Message.Method == "resources/unsubscribe" {
		req.Session.Unsubscribe(uri)
		return Answer{Body: wire.ResultBody(req.id(), []byte("{}"))}
	}
	t, err := g.findResource(ctx, req, uri)
	if err != nil {
		return g.failure(req, err)
	}
	stop, err := t.server.SubscribeResource(ctx, g.want(req, t.server), t.name)
	if err != nil {
		return g.failure(req, err)
	}
	if !req.Session.Subscribe(uri, legacy.Interest{Server: t.server.Name(), URI: t.name}, stop) {
		stop()
		return g.failure(req, crib.Errorf(crib.Busy, "a client is told of at most %d resources", MaxSubscribed))
	}
	return Answer{Body: wire.ResultBody(req.id(), []byte("{}"))}
}

// findResource tells whose resource uri is.
func (g *Gateway) findResource(ctx context.Context, req *Request, uri string) (*target, error) {
	if req.aggregate() {
		return g.findPublic(ctx, req, uri, false)
	}
	srv, err := g.cat.Server(req.Server)
	if err != nil {
		return nil, err
	}
	return &target{server: srv, name: uri}, nil
}
