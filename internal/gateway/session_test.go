package gateway

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolcrib/toolcrib/internal/catalog"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/gateway/legacy"
	"github.com/toolcrib/toolcrib/internal/page"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// asking is a legacy client's call to a server, and what comes of it.
type asking struct {
	*exchange
	sink    *ear
	answers []string // that the server got
}

// newAsking opens a call of a client with these capabilities at a server with
// this dialogue, which the client reaches on the aggregate or on its own.
func newAsking(t *testing.T, aggregate bool, capabilities string, d page.Dialogue) *asking {
	t.Helper()
	g := newGateway(t, servers.Definition{Name: "s", Dialogue: d})
	a := &asking{sink: &ear{}}
	req := &Request{Principal: someone, Era: wire.Legacy, Server: "s", Session: sessionOf(t, &ear{}, capabilities),
		Message: fromClient(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":"p"}}}`)}
	if aggregate {
		req.Server = ""
	}
	a.exchange = &exchange{g: g, req: req, caller: req, server: serverOf(t, g, "s"), sink: a.sink, era: wire.Legacy}
	return a
}

func (a *asking) ask(t *testing.T, body string) {
	t.Helper()
	a.Request(fromServer(t, body), func(b []byte) { a.answers = append(a.answers, string(b)) })
}

// expect fails unless the client and the server got exactly this.
func (a *asking) expect(t *testing.T, client, server string) {
	t.Helper()
	if got := strings.Join(a.sink.take(), "\n"); got != client {
		t.Errorf("the client got  %s\nwant            %s", got, client)
	}
	if got := strings.Join(a.answers, "\n"); got != server {
		t.Errorf("the server got  %s\nwant            %s", got, server)
	}
	a.answers = nil
}

// ownDialogue lets a server ask for everything on a connection of its own.
var ownDialogue = page.Dialogue{Share: page.ShareSession, May: []string{page.MayElicitation, page.MayRoots, page.MaySampling}}

const (
	asksMe    = `{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"Sure?","n":1.0}}`
	brought   = `{"jsonrpc":"2.0","id":"crib-1","method":"elicitation/create","params":{"message":"Sure?","n":1.0}}`
	reply     = `{"jsonrpc":"2.0","result":{"action":"accept","n":1e2},"id":"crib-1"}`
	delivered = `{"jsonrpc":"2.0","result":{"action":"accept","n":1e2},"id":7}`
	declined  = `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no client can be asked elicitation/create on this connection"}}`
	takenBack = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"r"}}`
)

func TestTheLifeOfAQuestion(t *testing.T) {
	begin := func(t *testing.T, aggregate bool) *asking {
		a := newAsking(t, aggregate, `{"elicitation":{}}`, ownDialogue)
		a.ask(t, asksMe)
		return a
	}
	t.Run("answered", func(t *testing.T) {
		a := begin(t, false)
		a.expect(t, brought, "")
		a.req.Session.Respond(fromClient(t, reply))
		a.expect(t, "", delivered)
		a.req.Session.Respond(fromClient(t, reply))
		a.close()
		a.expect(t, "", "")
	})
	t.Run("signed on the aggregate", func(t *testing.T) {
		begin(t, true).expect(t, strings.Replace(brought, "Sure?", "[s] Sure?", 1), "")
	})
	t.Run("taken back by the server", func(t *testing.T) {
		a := begin(t, false)
		a.Notification(fromServer(t, takenBack))
		a.expect(t, brought+"\n"+strings.Replace(takenBack, "7", `"crib-1"`, 1), "")
		a.req.Session.Respond(fromClient(t, reply))
		a.Notification(fromServer(t, takenBack))
		a.close()
		a.expect(t, "", "")
	})
	t.Run("taken back under an id that was not asked", func(t *testing.T) {
		a := begin(t, false)
		a.Notification(fromServer(t, strings.Replace(takenBack, "7", `"7"`, 1)))
		a.expect(t, brought, "")
	})
	t.Run("the call ends", func(t *testing.T) {
		a := begin(t, false)
		a.close()
		a.expect(t, brought, declined)
		a.req.Session.Respond(fromClient(t, reply))
		a.expect(t, "", "")
	})
	t.Run("the session ends", func(t *testing.T) {
		a := begin(t, false)
		a.req.Session.End()
		a.close()
		a.expect(t, brought, declined)
	})
	t.Run("asked behind the end of the call", func(t *testing.T) {
		a := newAsking(t, false, `{"elicitation":{}}`, ownDialogue)
		a.close()
		a.ask(t, asksMe)
		a.expect(t, "", declined)
	})
	t.Run("asked behind the end of the session", func(t *testing.T) {
		a := newAsking(t, false, `{"elicitation":{}}`, ownDialogue)
		a.req.Session.End()
		a.ask(t, asksMe)
		a.expect(t, "", declined)
	})
}

// Who may not ask is declined, and the client hears nothing of it.
func TestWhoMayAsk(t *testing.T) {
	tests := []struct {
		name, capabilities string
		d                  page.Dialogue
		body               string
		asked              bool
	}{
		{"elicitation", `{"elicitation":{}}`, ownDialogue, asksMe, true},
		{"roots", `{"roots":{}}`, ownDialogue, `{"jsonrpc":"2.0","id":7,"method":"roots/list"}`, true},
		{"sampling", `{"sampling":{}}`, ownDialogue, `{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{}}`, true},
		{"one connection for each caller", `{"elicitation":{}}`, page.Dialogue{Share: page.SharePrincipal, May: ownDialogue.May}, asksMe, true},
		{"one connection for all", `{"elicitation":{}}`, page.Dialogue{Share: page.ShareServer, May: ownDialogue.May}, asksMe, false},
		{"not on the page", `{"elicitation":{},"sampling":{}}`, page.Dialogue{Share: page.ShareSession, May: []string{page.MaySampling}}, asksMe, false},
		{"not by the client", `{"roots":{}}`, ownDialogue, asksMe, false},
		{"nothing that exists", `{"elicitation":{}}`, ownDialogue, `{"jsonrpc":"2.0","id":7,"method":"vendor/ask","params":{}}`, false},
		{"two messages in one", `{"elicitation":{}}`, ownDialogue, `{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"a","message":"b"}}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newAsking(t, false, tt.capabilities, tt.d)
			a.ask(t, tt.body)
			if got := len(a.sink.take()) == 1; got != tt.asked || (len(a.answers) == 1) == tt.asked {
				t.Errorf("the client was asked: %v; the server got %v", got, a.answers)
			}
			a.close()
		})
	}
	t.Run("a client of the modern era", func(t *testing.T) {
		a := newAsking(t, false, `{"elicitation":{}}`, ownDialogue)
		a.req.Era, a.req.Session = wire.Modern, nil
		a.ask(t, asksMe)
		a.expect(t, "", declined)
	})
}

// What a server tells because of a call reaches its client: progress under the
// client's own token, log messages from the level on that it wants.
func TestNotificationsOfACall(t *testing.T) {
	const (
		progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":12,"progress":1.0}}`
		info     = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`
		other    = `{"jsonrpc":"2.0","method":"notifications/vendor","params":{"x":1.0}}`
	)
	a := newAsking(t, false, `{}`, ownDialogue)
	for _, n := range []string{progress, info, other} {
		a.Notification(fromServer(t, n))
	}
	a.expect(t, strings.Replace(progress, "12", `"p"`, 1)+"\n"+info+"\n"+other, "")

	a.req.Session.SetLevel("warning")
	a.Notification(fromServer(t, info))
	a.Notification(fromServer(t, strings.Replace(info, "info", "error", 1)))
	a.expect(t, strings.Replace(info, "info", "error", 1), "")

	a.req.Message = fromClient(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`)
	a.Notification(fromServer(t, progress))
	a.expect(t, "", "") // it gave no token
	a.req.Era, a.req.Session = wire.Modern, nil
	a.Notification(fromServer(t, info))
	a.expect(t, "", "") // it asked for no log
	a.req.Message = fromClient(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"io.modelcontextprotocol/logLevel":"info"}}}`)
	a.Notification(fromServer(t, info))
	a.Notification(fromServer(t, strings.Replace(info, "info", "debug", 1)))
	a.expect(t, info, "")
}

// Anybody else's session, and one of another endpoint, look as if there were
// none.
func TestASessionIsItsOwners(t *testing.T) {
	g := newGateway(t)
	s := sessionOf(t, &ear{}, `{}`)
	g.sessions.Add(s)
	if got, err := g.Session(someone, "", s.ID); got != s || err != nil {
		t.Fatalf("got %v, %v", got, err)
	}
	_, none := g.Session(someone, "", "no-such-session")
	for name, err := range map[string]error{
		"another principal": second(g.Session(crib.Principal{Kind: crib.Token, ID: "other"}, "", s.ID)),
		"another kind":      second(g.Session(crib.Principal{Kind: crib.Anonymous, ID: someone.ID}, "", s.ID)),
		"another endpoint":  second(g.Session(someone, "s", s.ID)),
	} {
		if crib.CodeOf(err) != crib.NotFound || err.Error() != none.Error() {
			t.Errorf("%s: got %v, want %v", name, err, none)
		}
	}
	g.EndSession(s)
	g.EndSession(s)
	if _, err := g.Session(someone, "", s.ID); crib.CodeOf(err) != crib.NotFound {
		t.Errorf("a session that has ended: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// A change reaches who asked for it, under the name that they used, and nobody
// whose connection it did not come on.
func TestTold(t *testing.T) {
	g := newGateway(t)
	mine, others, modern := &ear{}, &ear{}, &ear{}
	s, o := sessionOf(t, mine, `{}`), sessionOf(t, others, `{}`)
	for _, x := range []*Session{s, o} {
		g.sessions.Add(x)
		x.Subscribe("crib.s+a:", legacy.Interest{Server: "s", URI: "a:"}, func() {})
	}
	defer g.news.add(&subscription{principal: someone, id: []byte(`"l"`), resources: map[legacy.Interest]string{{Server: "s", URI: "a:"}: "crib.s+a:"}, sink: modern})()
	const (
		updated = `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:","x":1.0}}`
		known   = `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"crib.s+a:","x":1.0}}`
		listen  = `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"crib.s+a:","x":1.0,"_meta":{"io.modelcontextprotocol/subscriptionId":"l"}}}`
		log     = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`
	)
	tests := []struct {
		name, server         string
		share                upstream.Share
		body                 string
		mine, others, modern string
	}{
		{"a change for all", "s", upstream.Share{}, updated, known, known, listen},
		{"a change on the connection of one session", "s", s.Share(), updated, known, "", ""},
		{"a change on the connection of a principal", "s", upstream.Share{Owner: someone.String(), Name: "{}"}, updated, known, known, listen},
		{"a change on that of another one", "s", upstream.Share{Owner: "token x", Name: "{}"}, updated, "", "", ""},
		{"a change of another server", "x", upstream.Share{}, updated, "", "", ""},
		{"a log message on a shared connection", "s", upstream.Share{}, log, "", "", ""},
		{"a log message on a session's own", "s", s.Share(), log, log, "", ""},
	}
	for _, tt := range tests {
		g.Told(tt.server, tt.share, fromServer(t, tt.body))
		for who, got := range map[*ear]string{mine: tt.mine, others: tt.others, modern: tt.modern} {
			if heard := strings.Join(who.take(), "\n"); heard != got {
				t.Errorf("%s: got %s, want %s", tt.name, heard, got)
			}
		}
	}
}

// Changes that come close together are told once.
func TestChangesAreJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t)
		all, own := &ear{}, &ear{}
		s, o := sessionOf(t, all, `{}`), sessionOf(t, own, `{}`)
		o.Server = "b"
		g.sessions.Add(s)
		g.sessions.Add(o)
		for range 3 {
			g.news.changed(catalog.Change{Server: "a", Kind: catalog.Tools})
			<-time.After(joinChanges / 10)
		}
		<-time.After(2 * joinChanges)
		if got := all.take(); len(got) != 1 || got[0] != `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` {
			t.Errorf("got %v", got)
		}
		if got := own.take(); len(got) != 0 {
			t.Errorf("another server's endpoint got %v", got)
		}
		g.Close()
		g.cat.Close()
	})
}

// A session that is not used ends; a question that was answered is use.
func TestSessionsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t)
		outlet := &ear{}
		s := sessionOf(t, outlet, `{}`)
		g.sessions.Add(s)
		<-time.After(SessionIdle / 2)
		s.Respond(fromClient(t, `{"jsonrpc":"2.0","id":"crib-9","result":{}}`))
		<-time.After(SessionIdle * 3 / 4)
		if g.Sessions() != 1 {
			t.Error("a session that is used has ended")
		}
		<-time.After(SessionIdle / 2)
		if g.Sessions() != 0 || s.Live() || outlet.closed != 1 {
			t.Errorf("%d sessions, live %v, closed %d times", g.Sessions(), s.Live(), outlet.closed)
		}
	})
}
