package gateway

import (
	"bytes"
	"context"
	"strconv"
	"time"

	"github.com/toolcrib/toolcrib/internal/bridge"
	"github.com/toolcrib/toolcrib/internal/catalog"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// list answers the four list methods. A list always comes whole: the crib has
// drained the servers' pages, and gives out no cursor.
func (g *Gateway) list(ctx context.Context, req *Request, k catalog.Kind) Answer {
	if cursor, ok := req.Message.Params.Cursor.Text(req.Message.Body); ok && cursor != "" {
		return refuse(req, wire.CodeInvalidParams, "the cursor is not one that the crib gave; ask without one", 0)
	}
	if req.aggregate() {
		return Answer{Body: g.listAll(ctx, req, k)}
	}
	srv, err := g.cat.Server(req.Server)
	if err != nil {
		return g.failure(req, err)
	}
	got, err := srv.List(ctx, g.want(req, srv), k)
	if err != nil {
		return g.failure(req, err)
	}
	return Answer{Body: g.listOne(req, got, k)}
}

// listOne answers with the list of one server: its own first page with all of
// its items and no cursor, and every other member as it came. A list can be
// great, so it is written once, into a frame that is made without it.
func (g *Gateway) listOne(req *Request, got catalog.Listed, k catalog.Kind) []byte {
	l := got.List
	head := l.Head
	if head == nil {
		head = []byte("{}")
		if req.Era == wire.Modern {
			head = []byte(`{"resultType":"complete"}`)
		}
	}
	sets := []wire.Set{{Key: k.Member(), Val: []byte("[]")}, {Key: "nextCursor"}}
	if req.Era == wire.Modern {
		sets = append(sets, wire.Set{Key: "ttlMs", Val: ttl(got)}, wire.Set{Key: "cacheScope", Val: []byte(`"private"`)})
	}
	head = wire.SetMembers(nil, head, sets...)
	if req.Era == wire.Modern && l.Era == wire.Legacy {
		head = bridge.ModernResult(k.Method(), head, g.helloInfo(req, got.Server))
	}
	frame := wire.ResultBody(req.id(), head)
	at := bytes.LastIndex(frame, head) + emptyList(head, k)
	visible := g.visible(req, got, k)
	size := len(frame)
	for _, it := range visible {
		size += len(it.Own) + len(",")
	}
	out := append(make([]byte, 0, size), frame[:at]...)
	for i, it := range visible {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, shown(req, l, it.Own, it.OwnAcross)...)
	}
	return append(out, frame[at:]...)
}

// emptyList is the place between the brackets of the empty list in head.
func emptyList(head []byte, k catalog.Kind) int {
	for _, m := range wire.Members(head) {
		if m.Key == k.Member() {
			return m.Val.From + len("[")
		}
	}
	return len(head) // it was set: this is never reached
}

// listAll answers with the list of all servers, in order of their names, each
// in the order it gave. What a server that cannot be asked gave the last time
// is still shown, and said to be stale.
func (g *Gateway) listAll(ctx context.Context, req *Request, k catalog.Kind) []byte {
	var stale, missing []string
	least := []byte(nil)
	lists := g.cat.Lists(ctx, g.wantOf(req), k)
	visible := make([][]*catalog.Item, len(lists))
	size := 512 // bytes around the items
	for i, got := range lists {
		if got.List == nil {
			missing = append(missing, got.Server.Name())
			continue
		}
		if got.Stale {
			stale = append(stale, got.Server.Name())
		}
		if t := ttl(got); least == nil || number(t) < number(least) {
			least = t
		}
		visible[i] = g.visible(req, got, k)
		for _, it := range visible[i] {
			size += len(it.Public) + len(",")
		}
	}
	out := append(make([]byte, 0, size), `{"jsonrpc":"2.0","id":`...)
	out = append(append(out, req.id()...), `,"result":{"`...)
	out = append(append(out, k.Member()...), `":[`...)
	first := len(out)
	for i, got := range lists {
		for _, it := range visible[i] {
			if it.Public == nil {
				continue
			}
			if len(out) > first {
				out = append(out, ',')
			}
			out = append(out, shown(req, got.List, it.Public, it.PublicAcross)...)
		}
	}
	out = append(out, ']')
	if req.Era == wire.Modern {
		if least == nil || missing != nil {
			least = []byte("0")
		}
		out = append(out, `,"resultType":"complete","cacheScope":"private","ttlMs":`...)
		out = append(out, least...)
	}
	return append(g.appendListMeta(out, req, stale, missing), "}}"...)
}

// appendListMeta appends the _meta of an aggregate list.
func (g *Gateway) appendListMeta(out []byte, req *Request, stale, missing []string) []byte {
	var sets []wire.Set
	if req.Era == wire.Modern {
		sets = append(sets, wire.Set{Key: wire.MetaServerInfo, Val: g.info()})
	}
	if stale != nil {
		sets = append(sets, wire.Set{Key: wire.MetaStale, Val: stringList(stale)})
	}
	if missing != nil {
		sets = append(sets, wire.Set{Key: wire.MetaUnavailable, Val: stringList(missing)})
	}
	if sets == nil {
		return out
	}
	return append(append(out, `,"_meta":`...), wire.SetMembers(nil, []byte("{}"), sets...)...)
}

func stringList(list []string) []byte {
	out := []byte{'['}
	for _, s := range list {
		out = appendItem(out, wire.Quote(s))
	}
	return append(out, ']')
}

func appendItem(list, item []byte) []byte {
	if len(list) > 1 {
		list = append(list, ',')
	}
	return append(list, item...)
}

// visible are the items of a list that the principal may call.
func (g *Gateway) visible(req *Request, got catalog.Listed, k catalog.Kind) []*catalog.Item {
	if k != catalog.Tools {
		return got.List.Items
	}
	def := got.Server.Def() // once: a reload may exchange it at any moment
	out := make([]*catalog.Item, 0, len(got.List.Items))
	for _, it := range got.List.Items {
		if it.TaskOnly && bridge.Crossing(req.Era, got.List.Era) {
			continue // tasks do not cross
		}
		if decide(req.Principal, def, it.ID, def.Offers(it.ID)).Allowed() {
			out = append(out, it)
		}
	}
	return out
}

// shown is an item in the client's era. The catalog has both forms: a list may
// hold thousands of items, and none of them is read here.
func shown(req *Request, l *catalog.List, raw, across []byte) []byte {
	if bridge.Crossing(req.Era, l.Era) {
		return across
	}
	return raw
}

// ttl is how much longer a list may be used, in milliseconds; 0 for a stale
// one (2026-07-28, Caching).
func ttl(got catalog.Listed) []byte {
	left := got.List.TTL
	switch {
	case got.Stale:
		left = 0
	case left < 0:
		left = catalog.LegacyTTL
	default:
		left = max(0, time.Until(got.List.Fetched.Add(left)))
	}
	return wire.AppendInt(nil, left.Milliseconds())
}

func number(raw []byte) int64 {
	n, _ := strconv.ParseInt(string(raw), 10, 64)
	return n
}

// Tool is a tool as GET /v1/tools lists it.
type Tool struct {
	Name        string
	Description string
	Parameters  []byte // raw JSON Schema
}

// Tools lists the tools of all servers that p may call.
func (g *Gateway) Tools(ctx context.Context, p crib.Principal) []Tool {
	req := &Request{Principal: p, Era: wire.Modern}
	var out []Tool
	for _, got := range g.cat.Lists(ctx, g.wantOf(req), catalog.Tools) {
		if got.List == nil {
			continue
		}
		for _, it := range g.visible(req, got, catalog.Tools) {
			if it.Public == nil {
				continue
			}
			text, _ := wire.GetText(it.Public, "description")
			out = append(out, Tool{Name: it.PublicID, Description: text, Parameters: wire.Get(it.Public, "inputSchema")})
		}
	}
	return out
}
