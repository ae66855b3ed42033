package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/toolcrib/toolcrib/internal/bridge"
	"github.com/toolcrib/toolcrib/internal/catalog"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/gateway/task"
	"github.com/toolcrib/toolcrib/internal/policy"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// call carries one tools/call, from the principal that the door identified to
// the bytes of the answer.
func (g *Gateway) call(ctx context.Context, req *Request, sink Sink) Answer {
	began := time.Now()
	t, err := g.findTool(ctx, req)
	if err != nil {
		return g.refuseCall(req, err)
	}
	def := t.server.Def() // once: a reload may exchange it at any moment
	if d := decide(req.Principal, def, t.name, def.Offers(t.name)); !d.Allowed() {
		g.log.Info("tools/call refused", "principal", req.Principal.String(), "address", t.address().String(), "reason", d.Reason)
		return g.notAllowed(req, t, d)
	}
	if req.Era == wire.Modern && req.Header != nil && !req.Unmirrored {
		if err := wire.CheckParams(req.Header, t.params, req.Message.Params.Arguments.In(req.Message.Body)); err != nil {
			return refuse(req, wire.CodeHeaderMismatch, err.Error(), http.StatusBadRequest)
		}
	}
	if err := g.resume(req, t); err != nil {
		return refuse(req, wire.CodeInvalidParams, crib.SafeText(err), 0)
	}
	reply, err := g.carry(ctx, req, t, sink)
	if t.dialogue == nil { // it records its own end
		g.record(req, t, reply, err, time.Since(began))
	}
	if err != nil {
		return g.toolError(req, err)
	}
	return g.answer(req, t, reply)
}

// target is what a request is about, on its server.
type target struct {
	server *catalog.Server
	name   string             // of the tool or prompt, or the URI, as the server spells it
	params []wire.ParamHeader // of a tool
	at     wire.Span          // where the public name stands in the request; absent where it needs no replacing
	state  *bridge.State      // of the round before, when the client comes back with its answers

	dialogue *dialogue // that goes on at the server, nil if none does
	inputs   *inputs   // with which a legacy client's request is sent again
}

func (t *target) address() crib.Address { return crib.Address{Server: t.server.Name(), Tool: t.name} }

// findTool finds the tool that a call names. What does not exist and what is
// not offered look the same.
func (g *Gateway) findTool(ctx context.Context, req *Request) (*target, error) {
	public, ok := req.Message.Params.Name.Text(req.Message.Body)
	if !ok || public == "" {
		return nil, crib.Errorf(crib.Invalid, "tools/call needs the name of a tool")
	}
	srv, item, err := g.findItem(ctx, req, public)
	if err != nil {
		return nil, notFoundAs(unknownTool(public), err)
	}
	if item.TaskOnly && g.crosses(req, srv) {
		return nil, unknownTool(public) // as it is not listed
	}
	t := &target{server: srv, name: item.ID, params: item.Params}
	if req.aggregate() {
		t.at = req.Message.Params.Name
	}
	return t, nil
}

func (g *Gateway) findItem(ctx context.Context, req *Request, public string) (*catalog.Server, *catalog.Item, error) {
	if req.aggregate() {
		return g.cat.FindPublic(ctx, g.wantOf(req), catalog.Tools, public)
	}
	srv, err := g.cat.Server(req.Server)
	if err != nil {
		return nil, nil, err
	}
	item, err := srv.Find(ctx, g.want(req, srv), catalog.Tools, public)
	return srv, item, err
}

func unknownTool(public string) error {
	return crib.Errorf(crib.NotFound, "Unknown tool: %s", public)
}

// notFoundAs returns unknown in place of an error that says that there is
// nothing, and any other error as it is.
func notFoundAs(unknown, err error) error {
	if crib.CodeOf(err) == crib.NotFound {
		return unknown
	}
	return err
}

// decide is the one decision about a tool, for the list and for the call, and
// about a vendor's method.
func decide(p crib.Principal, def *servers.Definition, tool string, offered bool) crib.Decision {
	q := policy.Question{Principal: p, Address: crib.Address{Server: def.Name, Tool: tool}, Offered: offered}
	if effect, pattern, explicit := def.GateFor(tool); explicit {
		q.Gate, q.Pattern = effect, pattern
	}
	return policy.Decide(q)
}

// digest binds a waiting request to the bytes of its arguments.
func digest(m wire.Message) []byte {
	sum := sha256.Sum256(m.Params.Arguments.In(m.Body))
	return sum[:]
}

// state is what a sealed state of req must agree with.
func (t *target) stateOf(req *Request) bridge.State {
	return bridge.State{
		Principal: req.Principal.String(), Server: t.server.Name(), Method: req.Message.Method,
		Name: t.name, Digest: digest(req.Message),
	}
}

// resume takes up a request whose client comes back with its answers.
func (g *Gateway) resume(req *Request, t *target) error {
	p, body := req.Message.Params, req.Message.Body
	if req.Era != wire.Modern || !p.RequestState.OK() && !p.InputResponses.OK() {
		return nil
	}
	text, ok := p.RequestState.Text(body)
	if !ok {
		return crib.Errorf(crib.Invalid, "inputResponses came without the requestState of the answer that asked for them")
	}
	s, err := g.sealer.Open(text, t.stateOf(req), time.Now())
	if err != nil {
		return err
	}
	t.state = &s
	return nil
}

// send sends the request to its server: once, and a second time only after an
// answer that proves that nothing was executed.
func (g *Gateway) send(ctx context.Context, req *Request, t *target, sink Sink) (*upstream.Reply, error) {
	if t.state != nil && t.state.Dialogue != "" {
		return g.comeBack(ctx, req, t, sink)
	}
	ticket, err := t.server.Up().Admit(ctx, len(req.Message.Body))
	if err != nil {
		return nil, err
	}
	defer func() {
		if t.dialogue == nil { // it has the ticket
			ticket.End()
		}
	}()
	want := g.want(req, t.server)
	for second := false; ; second = true {
		leg, err := t.server.Up().Leg(ctx, want)
		if err != nil {
			return nil, err
		}
		g.tellLevel(ctx, req, t.server, leg)
		ex := &exchange{g: g, req: req, server: t.server, era: leg.Hello().Era, caller: req, sink: sink}
		if ex.conversing() {
			return g.begin(ctx, ex, t, leg, want, ticket)
		}
		out, err := ex.outgoing(t)
		if err != nil {
			return nil, err
		}
		if err := g.spend(req, t, second); err != nil {
			return nil, err
		}
		out.Ticket = ticket
		reply, err := leg.Do(ctx, out, ex)
		t.server.Up().Report(ticket, err)
		ex.close()
		if t.state != nil && notExecuted(err) {
			g.sealer.Restore(*t.state)
		}
		if err != nil {
			return nil, t.cut(err)
		}
		if second || !reply.Message.Error.OK() || leg.Hello().Era != wire.Modern {
			return reply, nil
		}
		switch wire.ReadError(reply.Message.Error.In(reply.Message.Body)).Code {
		case wire.CodeHeaderMismatch: // what is known of its schema is out of date
			if req.Message.Method != "tools/call" || t.refind(ctx, want) != nil {
				return reply, nil
			}
		case wire.CodeUnsupportedVersion: // it is another server than it was
			leg.Retire()
		default:
			return reply, nil
		}
	}
}

// cut gives the error of a request that ended because its server was removed or
// switched off that for its reason. What became of the request is not changed.
func (t *target) cut(err error) error {
	if !t.server.Gone() {
		return err
	}
	const why = "server %s was removed or switched off"
	switch code := crib.CodeOf(err); code {
	case crib.Unknown:
		return crib.Errorf(code, why+"; it is not known whether the request was executed", t.server.Name())
	case crib.Unavailable:
		return crib.Errorf(code, why, t.server.Name())
	}
	return err
}

// spend uses up the state of a request that comes back with answers.
func (g *Gateway) spend(req *Request, t *target, second bool) error {
	if t.state == nil || second {
		return nil
	}
	if err := g.sealer.Spend(*t.state, time.Now()); err != nil {
		return err
	}
	return t.consented(req)
}

// notExecuted reports whether an error proves that nothing was executed.
func notExecuted(err error) bool {
	if err == nil || upstream.Answered(err) {
		return false
	}
	switch crib.CodeOf(err) {
	case crib.Unavailable, crib.Unauthorized, crib.Busy:
		return true
	}
	return false
}

// refind looks the tool up again in a new list.
func (t *target) refind(ctx context.Context, want upstream.Want) error {
	if err := t.server.Relist(ctx, want, catalog.Tools); err != nil {
		return err
	}
	item, err := t.server.Find(ctx, want, catalog.Tools, t.name)
	if err != nil {
		return err
	}
	t.params = item.Params
	return nil
}

// record writes down how a request ended that went to a server.
func (g *Gateway) record(req *Request, t *target, reply *upstream.Reply, err error, took time.Duration) {
	outcome := "completed"
	switch {
	case err != nil:
		outcome = string(crib.CodeOf(err))
	case reply.Message.Error.OK():
		outcome = "failed"
	}
	level := slog.LevelInfo
	if outcome == "completed" {
		level = slog.LevelDebug
	}
	if !g.log.Enabled(context.Background(), level) {
		return
	}
	about := slog.String("address", t.address().String())
	if req.Message.Method != "tools/call" {
		about = slog.Group("", "server", t.server.Name(), "name", t.name)
	}
	g.log.LogAttrs(context.Background(), level, req.Message.Method, slog.String("principal", req.Principal.String()), about,
		slog.String("outcome", outcome), slog.Duration("took", took))
}

// answer makes the server's answer the client's: with the client's id, and
// apart from what the crib must replace, with the bytes that came.
func (g *Gateway) answer(req *Request, t *target, reply *upstream.Reply) Answer {
	m := reply.Message
	out := Answer{Status: statusFor(req, reply), RetryAfter: reply.RetryAfter}
	crossing := bridge.Crossing(req.Era, reply.Era)
	if m.Error.OK() {
		e := m.Error.In(m.Body)
		if links := t.links(req, reply); links != nil {
			return g.putLinks(req, t, links)
		}
		if crossing && req.Era == wire.Modern {
			e = bridge.ModernError(e)
		}
		out.Body = withID(req.id(), m, wire.Edit{At: m.Error, With: e})
		return out
	}
	result := m.Result.In(m.Body)
	if reply.Era == wire.Modern && bridge.AsksForInput(result) {
		asked, err := g.inputRequired(req, t, result, false)
		if err != nil {
			return g.trouble(req, err)
		}
		out.Body = withID(req.id(), m, wire.Edit{At: m.Result, With: asked})
		return out
	}
	switch method := req.Message.Method; {
	case method == "tools/call":
		if raw := task.In(reply.Era, result); raw != nil {
			if err := g.keepTask(req, t, raw, crossing); err != nil {
				return g.toolError(req, err)
			}
		}
	case isTask(method):
		own, err := g.ofTask(req, t, result)
		if err != nil {
			return g.failure(req, err)
		}
		out.Body = withID(req.id(), m, wire.Edit{At: m.Result, With: own})
		return out
	}
	var edits []wire.Edit
	if req.aggregate() {
		edits = catalog.SpliceResult(t.server.Name(), req.Message.Method, result)
	}
	switch {
	case crossing && req.Era == wire.Modern:
		result = bridge.ModernResult(req.Message.Method, wire.Apply(nil, result, edits...), g.helloInfo(req, t.server))
	case crossing:
		result = bridge.LegacyResult(req.Message.Method, wire.Apply(nil, result, edits...))
	case req.Message.Method == "resources/read" && req.Era == wire.Modern:
		sets := []wire.Set{{Key: "cacheScope", Val: []byte(`"private"`)}}
		if t.state != nil { // what it depends on is in no cache's key (2026-07-28, Caching, Cache Key)
			sets = append(sets, wire.Set{Key: "ttlMs", Val: []byte("0")})
		}
		result = wire.SetMembers(nil, wire.Apply(nil, result, edits...), sets...)
	case len(edits) == 0:
		out.Body = withID(req.id(), m)
		return out
	default:
		result = wire.Apply(nil, result, edits...)
	}
	out.Body = withID(req.id(), m, wire.Edit{At: m.Result, With: result})
	return out
}

// withID returns the response m with the client's id and the edits made.
func withID(id []byte, m wire.Message, edits ...wire.Edit) []byte {
	if !m.ID.OK() {
		return wire.SetMembers(nil, wire.Apply(nil, m.Body, edits...), wire.Set{Key: "id", Val: id})
	}
	return wire.Apply(make([]byte, 0, len(m.Body)+len(id)), m.Body, append(edits, wire.Edit{At: m.ID, With: id})...)
}

// helloInfo is the serverInfo of the server that answered req.
func (g *Gateway) helloInfo(req *Request, srv *catalog.Server) []byte {
	if h := srv.Hello(g.want(req, srv)); h != nil {
		return h.Info()
	}
	return nil
}

// statusFor is the HTTP status of an answer: the server's own where both sides
// speak the same era, else the one that the client's era gives the error. A
// 404 would tell a legacy client that its session is gone.
func statusFor(req *Request, reply *upstream.Reply) int {
	if !reply.Message.Error.OK() {
		return 0
	}
	if reply.Status >= 400 && req.Era == reply.Era && !(req.Era == wire.Legacy && reply.Status == http.StatusNotFound) {
		return reply.Status
	}
	if req.Era == wire.Legacy {
		return 0
	}
	switch code := wire.ReadError(reply.Message.Error.In(reply.Message.Body)).Code; {
	case code == wire.CodeMethodNotFound:
		return http.StatusNotFound
	case wire.IsModernError(code):
		return http.StatusBadRequest
	}
	return 0
}

// trouble answers a request that could not be carried, in the form that its
// method gives such answers.
func (g *Gateway) trouble(req *Request, err error) Answer {
	if req.Message.Method == "tools/call" {
		return g.toolError(req, err)
	}
	return g.failure(req, err)
}

// toolError tells the model why its call brought no result. A server in
// trouble is a tool's error, never the end of the conversation.
func (g *Gateway) toolError(req *Request, err error) Answer {
	if errors.Is(err, bridge.ErrState) { // another request was faster in spending it
		return refuse(req, wire.CodeInvalidParams, crib.SafeText(err), 0)
	}
	if code := crib.CodeOf(err); code == crib.Cancelled || errors.Is(err, context.Canceled) {
		return refuse(req, wire.CodeInternal, crib.SafeText(err), 0)
	}
	kind := ""
	if req.Era == wire.Modern {
		kind = `"resultType":"complete",`
	}
	result := slices.Concat([]byte(`{`+kind+`"content":[{"type":"text","text":`), wire.Quote(g.redact(crib.SafeText(err))),
		[]byte(`}],"isError":true,"_meta":{"`+wire.MetaCode+`":`), wire.Quote(string(crib.CodeOf(err))), []byte("}}"))
	return Answer{Body: wire.ResultBody(req.id(), result)}
}

// refuseCall answers a call whose tool was not found.
func (g *Gateway) refuseCall(req *Request, err error) Answer {
	switch crib.CodeOf(err) {
	case crib.NotFound, crib.Invalid:
		return refuse(req, wire.CodeInvalidParams, crib.SafeText(err), 0)
	}
	return g.toolError(req, err)
}

// notAllowed answers a call that was refused. A tool that is denied looks as
// if there were none.
func (g *Gateway) notAllowed(req *Request, t *target, d crib.Decision) Answer {
	if d.Effect == crib.Ask {
		return g.toolError(req, crib.Errorf(crib.Denied, "%s needs the approval of a person for each call, which this crib cannot ask for; an owner may set its gate to allow", t.address()))
	}
	public, _ := req.Message.Params.Name.Text(req.Message.Body)
	return refuse(req, wire.CodeInvalidParams, "Unknown tool: "+public, 0)
}
