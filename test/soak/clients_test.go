package soak

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// habit is what a client does beside waiting for its answers.
type habit string

const (
	patient habit = "patient"
	leaves  habit = "leaves"  // in the middle of some calls
	dawdles habit = "dawdles" // reads long answers slowly
	revokes habit = "revokes" // cancels some calls
	forgets habit = "forgets" // its session, and opens a new one
)

var habits = []habit{patient, leaves, dawdles, revokes, forgets}

const (
	hasty    = 30 * time.Millisecond // a client that leaves waits so long
	longText = 200_000               // bytes of an answer that is read slowly
	sip      = 32 << 10              // bytes that a slow reader takes at once
	between  = 20 * time.Millisecond // two calls of a client
)

// client is one client of the soak, at the endpoint of all servers or of one.
type client struct {
	books   *books
	number  int
	era     wire.Era
	habit   habit
	rng     *rand.Rand
	all     []*upstream
	only    *upstream // whose endpoint; nil is that of all
	peer    *mcptest.Client
	patient time.Duration
	calls   int
}

// newClient makes client number n. Which one it is decides what it does, the
// seed what it does when.
func newClient(t testing.TB, c *cribProcess, b *books, fleet []*upstream, n int, seed uint64, patience time.Duration) *client {
	cl := &client{
		books: b, number: n, all: fleet, patient: patience,
		era: []wire.Era{wire.Modern, wire.Legacy}[n%2], habit: habits[n/2%len(habits)], rng: rand.New(rand.NewPCG(seed, uint64(n)+1000)),
	}
	server := ""
	if n%3 == 0 {
		cl.only = fleet[n/3*7%len(fleet)] // seven leads to servers of every kind
		server = cl.only.name
	}
	cl.peer = c.client(t, server)
	cl.peer.Timeout = patience
	return cl
}

// run calls until ctx ends, and leaves as its habit is.
func (cl *client) run(ctx context.Context) {
	tick := time.NewTicker(between)
	defer tick.Stop()
	for ctx.Err() == nil {
		if cl.enter() {
			cl.call()
		}
		if cl.habit == forgets && cl.rng.IntN(20) == 0 {
			cl.peer.Session = ""
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	if cl.peer.Session != "" && cl.habit != forgets {
		cl.peer.Delete()
	}
}

// enter opens a session where the client needs one and has none. At the
// endpoint of a server that is not there it gets none.
func (cl *client) enter() bool {
	if cl.era == wire.Modern || cl.peer.Session != "" {
		return true
	}
	cl.peer.Initialize("")
	return cl.peer.Session != ""
}

func (cl *client) call() {
	u := cl.only
	if u == nil {
		u = cl.all[cl.rng.IntN(len(cl.all))]
	}
	cl.calls++
	token := fmt.Sprintf("c%d-%d", cl.number, cl.calls)
	tool, arguments := "echo", `{"token":"`+token+`"}`
	if cl.habit == dawdles && u.kind == healthy {
		tool, arguments = "big", fmt.Sprintf(`{"token":"%s","bytes":%d}`, token, longText)
	}
	if cl.habit == revokes && cl.rng.IntN(3) == 0 {
		tool = "slow"
		arguments = `{"token":"` + token + `","release":"/nowhere"}`
	}
	if cl.only == nil {
		tool = u.name + "__" + tool
	}
	params := `{"name":"` + tool + `","arguments":` + arguments + `}`
	began := time.Now()
	v, why := cl.perform(params, token)
	cl.books.note(u, token, v, why, time.Since(began))
}

// perform makes the call in the way of the client's habit.
func (cl *client) perform(params, token string) (verdict, string) {
	switch {
	case strings.Contains(params, `"/nowhere"`):
		return cl.revoke(params, token)
	case strings.Contains(params, `"bytes"`):
		return cl.dawdle(params)
	case cl.habit == leaves && cl.rng.IntN(3) == 0:
		cl.peer.Timeout = time.Duration(cl.rng.Int64N(int64(hasty)))
		defer func() { cl.peer.Timeout = cl.patient }()
		r := cl.peer.Post(cl.era, "tools/call", params)
		if r.Err != nil {
			return left, ""
		}
		return cl.judge(r, token)
	}
	began := time.Now()
	r := cl.peer.Post(cl.era, "tools/call", params)
	if r.Err != nil && time.Since(began) >= cl.patient {
		return gaveUp, ""
	}
	return cl.judge(r, token)
}

// judge reads an answer. A session that ended is opened again.
func (cl *client) judge(r *mcptest.Reply, token string) (verdict, string) {
	if r.Status == http.StatusNotFound && cl.era == wire.Legacy {
		cl.peer.Session = ""
	}
	return read(r, token)
}

// revoke starts a call that never ends by itself and cancels it: with a
// notification, or over modern HTTP by leaving.
func (cl *client) revoke(params, token string) (verdict, string) {
	id := fmt.Sprint(1_000_000 + cl.calls)
	answer := make(chan *mcptest.Stream, 1)
	if cl.era == wire.Modern {
		cl.peer.Timeout = hasty
		defer func() { cl.peer.Timeout = cl.patient }()
	}
	go func() { answer <- cl.peer.OpenID(cl.era, id, "tools/call", params) }()
	if cl.era == wire.Legacy {
		pause := time.NewTimer(hasty)
		defer pause.Stop()
		<-pause.C // the call is likely under way; where it is not, nobody will cancel it
		cl.peer.Post(wire.Legacy, "notifications/cancelled", `{"requestId":`+id+`}`)
	}
	s := <-answer
	s.Close()
	switch {
	case s.Err != nil, s.Status == http.StatusAccepted, len(s.Body) == 0:
		return left, "" // a cancelled request gets no answer
	}
	return read(&s.Reply, token)
}

// dawdle reads a long answer slowly, and all of it.
func (cl *client) dawdle(params string) (verdict, string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*cl.patient)
	defer cancel()
	body, headers := cl.request(params)
	rq, err := http.NewRequestWithContext(ctx, http.MethodPost, cl.peer.URL, strings.NewReader(body))
	if err != nil {
		return wrong, err.Error()
	}
	rq.Header = headers
	rs, err := slowReader.Do(rq)
	if err != nil {
		return wrong, err.Error()
	}
	defer rs.Body.Close()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var text strings.Builder
	for {
		_, err := io.CopyN(&text, rs.Body, sip)
		if err == io.EOF {
			break
		}
		if err != nil {
			return wrong, fmt.Sprintf("no whole answer: %v", err)
		}
		<-tick.C
	}
	if strings.Count(text.String(), strings.Repeat("b", longText)) == 1 {
		return completed, ""
	}
	if strings.Contains(text.String(), wire.MetaCode) {
		return uncertain, ""
	}
	return wrong, fmt.Sprintf("HTTP %d, %d bytes: %.200s", rs.StatusCode, text.Len(), text.String())
}

// slowReader keeps no connections: each slow answer has its own.
var slowReader = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// request is the request that mcptest.Client would send.
func (cl *client) request(params string) (string, http.Header) {
	h := cl.peer.Header.Clone()
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json, text/event-stream")
	if cl.era == wire.Legacy {
		h.Set(wire.HeaderSession, cl.peer.Session)
		h.Set(wire.HeaderProtocolVersion, cl.peer.Version)
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + `}`, h
	}
	name, _ := wire.GetText([]byte(params), "name")
	h.Set(wire.HeaderProtocolVersion, wire.NewestModern)
	h.Set(wire.HeaderMethod, "tools/call")
	h.Set(wire.HeaderName, name)
	meta := `{"_meta":{"` + wire.MetaProtocolVersion + `":"` + wire.NewestModern + `","` + wire.MetaClientInfo + `":{"name":"slow","version":"1"},"` +
		wire.MetaClientCapabilities + `":{}},`
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + meta + params[1:] + `}`, h
}
