package gateway

import (
	"context"
	"time"

	"github.com/toolcrib/toolcrib/internal/bridge"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// RootTime is how long a client may take to say which folder it works in.
const RootTime = 5 * time.Second

var errNoFolder = crib.Errorf(crib.Unavailable, "this server starts in the folder that its client works in (share: project), and this client names none; connect it by `toolcrib connect`, or let it declare roots")

// projectWant is the leg of a principal's clients that work in one folder and
// can be asked the same.
func projectWant(req *Request, may []string) upstream.Want {
	w := principalWant(req, may)
	dir := folderOf(req)
	if dir == "" {
		w.Refused, w.Live = errNoFolder, func() bool { return false }
		return w
	}
	w.Share.Name += " in " + dir
	w.Declare.Dir = dir
	return w
}

// folderOf is the folder that the client of req works in, "" if it is not
// known: as its relay says, or the first of its roots.
func folderOf(req *Request) string {
	if named := req.Header[wire.HeaderRoot]; len(named) == 1 {
		return wire.Folder(named[0])
	}
	if req.Session == nil {
		return ""
	}
	dir, _ := req.Session.Root()
	return dir
}

// locate asks a legacy client for its roots, once in its session, where that
// decides which connection serves it (2025-11-25, Roots).
func (g *Gateway) locate(ctx context.Context, req *Request, sink Sink) {
	s := req.Session
	if s == nil || req.Header[wire.HeaderRoot] != nil || !g.startsInFolder(req) {
		return
	}
	if _, known := s.Root(); known {
		return
	}
	q := bridge.Question{Method: "roots/list"}
	if !bridge.Allows(bridge.Capabilities(s.Client.Capabilities, []string{bridge.Roots}), q) {
		s.SetRoot("")
		return
	}
	came := make(chan wire.Message, 1)
	id, ok := s.Ask(func(m wire.Message) { came <- m }, func() { came <- wire.Message{} })
	if !ok {
		return
	}
	sink.Send(q.Request(id))
	late := time.NewTimer(RootTime)
	defer late.Stop()
	select {
	case m := <-came:
		s.SetRoot(firstFolder(m.Result.In(m.Body)))
		return
	case <-late.C:
		s.SetRoot("")
	case <-ctx.Done():
	}
	if s.Forget(id) {
		sink.Send(cancelled(id))
	}
}

// startsInFolder reports whether req may go to a server that starts in its
// client's folder.
func (g *Gateway) startsInFolder(req *Request) bool {
	if req.aggregate() {
		return g.cat.AnyByProject()
	}
	srv, err := g.cat.Server(req.Server)
	return err == nil && srv.Def().Dialogue.Share == servers.ShareProject
}

// firstFolder is the first of the roots in a result that is a folder here.
func firstFolder(result []byte) string {
	roots := wire.Get(result, "roots")
	for _, at := range wire.Elements(roots) {
		uri, _ := wire.GetText(at.In(roots), "uri")
		if dir := wire.Folder(uri); dir != "" {
			return dir
		}
	}
	return ""
}

// cancelled tells a client that a question of a raw id is not asked any more.
func cancelled(id string) []byte {
	return []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
}
