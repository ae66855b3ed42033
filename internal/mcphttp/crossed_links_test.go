package mcphttp_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// A legacy server that refuses to work before a link was visited makes the
// crib ask a modern client to visit it; then the server gets the request again,
// as it was.
func TestLegacyServerDemandsALink(t *testing.T) {
	for _, share := range []servers.Share{servers.ShareServer, servers.ShareSession, servers.SharePrincipal} {
		t.Run(string(share), func(t *testing.T) {
			ways(t, mcptest.EraLegacy, func(t *testing.T, w way) {
				cl := w.crib.dial(w.endpoint)
				call := w.tool("elicit", `{"mode":"url-error","n":1.0}`)
				q := turnOf(t, send(cl, call))
				if want := `{"method":"elicitation/create","params":` + w.shown(linkParams) + `}`; !slices.Equal(q.asks, []string{want}) {
					t.Errorf("asked was %q, want %s", q.asks, want)
				}
				checkSealed(t, q.state)
				if r := send(cl, call, q.answers(`{"action":"accept"}`)...); r.Text() != "signed in" {
					t.Errorf("the link was visited: %v", r)
				}
				sent := w.requests("tools/call")
				if len(sent) != 2 {
					t.Fatalf("the server got %q", sent)
				}
				first, second := wire.Get([]byte(sent[0]), "params"), wire.Get([]byte(sent[1]), "params")
				if string(first) != string(second) || string(first) != callOf("elicit", `{"mode":"url-error","n":1.0}`) {
					t.Errorf("first came %s, then %s", first, second)
				}
				if r := send(cl, call, q.answers(`{"action":"accept"}`)...); r.RPCError().Code != wire.CodeInvalidParams {
					t.Errorf("used twice: %v", r)
				}
			}, shared(share, may(everything)...))
		})
	}
}

// A link that was not visited ends the call, and one that cannot be shown is
// an error as before.
func TestLinkThatIsNotVisited(t *testing.T) {
	for _, share := range []servers.Share{servers.ShareServer, servers.ShareSession} {
		direct(t, mcptest.EraLegacy, func(t *testing.T, w way) {
			cl, plain := w.crib.dial(w.endpoint), w.crib.dial(w.endpoint)
			plain.Capabilities = `{"elicitation":{}}`
			call := w.tool("elicit", `{"mode":"url-error"}`)
			for _, answer := range []string{`{"action":"decline"}`, `{"action":"cancel"}`, `{}`} {
				w.from += len(w.news())
				q := turnOf(t, send(cl, call))
				if r := send(cl, call, q.answers(answer)...); !isError(r.Message()) || !strings.Contains(r.Text(), "declined") {
					t.Errorf("%s: %v", answer, r)
				}
				if n := len(w.requests("tools/call")); n != 1 {
					t.Errorf("%s: the server got %d calls", answer, n)
				}
				if r := send(cl, call); r.Text() != "signed in" {
					t.Errorf("%s: then %v", answer, r)
				}
			}
			if r := send(plain, call); r.RPCError().Code != wire.CodeInternal {
				t.Errorf("without links: %v", r)
			}
			if r := send(plain, call); r.Text() != "signed in" {
				t.Errorf("without links: then %v", r)
			}
		}, shared(share, may(everything)...))
	}
}

// A client that knows no links is not shown one, where the server asks all the
// same.
func TestLinkForAClientWithoutLinks(t *testing.T) {
	direct(t, mcptest.EraLegacy, func(t *testing.T, w way) {
		cl := w.crib.dial(w.endpoint)
		cl.Capabilities = `{"elicitation":{}}`
		if r := send(cl, w.tool("elicit", `{"mode":"url"}`)); !strings.Contains(given(r), `{"k1":{"error":{"code":-32601,`) {
			t.Errorf("%v", r)
		}
	}, shared(servers.ShareSession, may(everything)...))
}
