package legacy

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

var someone = crib.Principal{Kind: crib.Token, ID: "someone"}

// deaf is the Outlet of a client that does not listen.
type deaf struct{}

func (deaf) Push([]byte) {}
func (deaf) Close()      {}

func fromClient(t *testing.T, body string) wire.Message {
	t.Helper()
	m, err := wire.Scan([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func sessionOf(t *testing.T) *Session {
	t.Helper()
	m := fromClient(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	return New(someone, "", wire.NewestLegacy, m, deaf{})
}

// An id is what its bytes are: 1 and "1" are two requests.
func TestRequestsOfASession(t *testing.T) {
	s := sessionOf(t)
	var ended []string
	begin := func(id string) bool {
		return s.Begin([]byte(id), func() { ended = append(ended, id) })
	}
	for _, id := range []string{`1`, `"1"`, `"a"`} {
		if !begin(id) {
			t.Fatalf("%s was not opened", id)
		}
		if begin(id) {
			t.Fatalf("%s was opened twice", id)
		}
	}
	for _, id := range []string{`2`, `"2"`, `01`, ``, `"\u0061"`} {
		s.Cancel([]byte(id))
	}
	if len(ended) != 0 {
		t.Fatalf("%v were cancelled", ended)
	}
	s.Cancel([]byte(`"1"`))
	if fmt.Sprint(ended) != `["1"]` {
		t.Fatalf("%v were cancelled", ended)
	}
	s.Finish([]byte(`"1"`))
	s.Cancel([]byte(`"1"`))
	if len(ended) != 1 {
		t.Error("a request that has ended was cancelled")
	}
	if !begin(`"1"`) {
		t.Error("an id cannot be used again")
	}
	s.End()
	if len(ended) != 4 {
		t.Errorf("the end cancelled %v", ended)
	}
	if begin(`9`) || s.Live() {
		t.Error("a session that has ended takes requests")
	}
}

// A question is answered or withdrawn, once.
func TestQuestionsOfASession(t *testing.T) {
	type outcome struct{ answered, withdrawn int }
	answerTo := func(id string) wire.Message {
		return fromClient(t, `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`)
	}
	tests := []struct {
		name string
		do   func(s *Session, id string)
		want outcome
	}{
		{"answered", func(s *Session, id string) { s.Respond(answerTo(id)) }, outcome{1, 0}},
		{"answered twice", func(s *Session, id string) { s.Respond(answerTo(id)); s.Respond(answerTo(id)) }, outcome{1, 0}},
		{"another id", func(s *Session, _ string) { s.Respond(answerTo(`"crib-2"`)); s.Respond(answerTo(`1`)) }, outcome{0, 0}},
		{"forgotten", func(s *Session, id string) { s.Forget(id); s.Respond(answerTo(id)) }, outcome{0, 0}},
		{"withdrawn", func(s *Session, id string) { s.Withdraw(id); s.Withdraw(id); s.Respond(answerTo(id)) }, outcome{0, 1}},
		{"the session ends", func(s *Session, id string) { s.End(); s.End(); s.Respond(answerTo(id)) }, outcome{0, 1}},
		{"answered, and the session ends", func(s *Session, id string) { s.Respond(answerTo(id)); s.End() }, outcome{1, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := sessionOf(t)
			var got outcome
			id, ok := s.Ask(func(wire.Message) { got.answered++ }, func() { got.withdrawn++ })
			if !ok || id != `"crib-1"` {
				t.Fatalf("got %s, %v", id, ok)
			}
			tt.do(s, id)
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
	s := sessionOf(t)
	s.End()
	if _, ok := s.Ask(nil, nil); ok {
		t.Error("a session that has ended is asked")
	}
}

func TestSharesWith(t *testing.T) {
	s := sessionOf(t)
	other := crib.Principal{Kind: crib.Token, ID: "other"}
	tests := []struct {
		name  string
		share upstream.Share
		p     crib.Principal
		s     *Session
		want  bool
	}{
		{"everybody", upstream.Share{}, someone, nil, true},
		{"a session", s.Share(), someone, s, true},
		{"another session", upstream.Share{Owner: someone.String(), Name: sessionShare + "x"}, someone, s, false},
		{"no session", s.Share(), someone, nil, false},
		{"a principal", upstream.Share{Owner: someone.String(), Name: "{}"}, someone, nil, true},
		{"a principal whose clients can be asked", upstream.Share{Owner: someone.String(), Name: `{"roots":{}}`}, someone, nil, true},
		{"another principal whose clients can be asked", upstream.Share{Owner: someone.String(), Name: `{"roots":{}}`}, other, nil, false},
		{"a principal in a session", upstream.Share{Owner: someone.String(), Name: "{}"}, someone, s, true},
		{"another principal", upstream.Share{Owner: someone.String(), Name: "{}"}, other, nil, false},
		{"another principal with a session of that name", upstream.Share{Owner: someone.String(), Name: "{}"}, other, s, false},
	}
	for _, tt := range tests {
		if got := SharesWith(tt.share, tt.p, tt.s); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

// The one that is idle for longest makes room; one with an open request is not
// idle.
func TestSessionsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := NewSessions(time.Hour, 2)
		pass := func() { <-time.After(time.Second) }
		busy, idle, next := sessionOf(t), sessionOf(t), (*Session)(nil)
		busy.Begin([]byte("1"), func() {})
		if out := append(ss.Add(busy), ss.Add(idle)...); len(out) != 0 {
			t.Fatalf("%d sessions went", len(out))
		}
		pass()
		next = sessionOf(t)
		if out := ss.Add(next); len(out) != 1 || out[0] != idle {
			t.Fatalf("%v made room", out)
		}
		if ss.Get(idle.ID) != nil || ss.Get(busy.ID) != busy || ss.Get(next.ID) != next || len(ss.All()) != 2 {
			t.Error("the wrong ones are left")
		}
		if ss.Remove(idle.ID) != nil || ss.Remove(next.ID) != next || ss.Remove(next.ID) != nil {
			t.Error("a session can be removed other than once")
		}
	})
}

// Who opens many sessions pays for them itself: another's stays, however long
// it is idle.
func TestSessionsMakeRoomAtTheirOwnExpense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := NewSessions(time.Hour, 3)
		quiet := sessionOf(t)
		quiet.Principal = crib.Principal{Kind: crib.Token, ID: "quiet"}
		ss.Add(quiet)
		var many []*Session
		for i := range 20 {
			<-time.After(time.Second)
			many = append(many, sessionOf(t))
			out := ss.Add(many[i])
			if i >= 2 && (len(out) != 1 || out[0] != many[i-2]) {
				t.Fatalf("%v made room for number %d", out, i)
			}
		}
		if ss.Get(quiet.ID) != quiet {
			t.Error("the one session of another has ended")
		}
	})
}

// A subscription is stopped once, whoever ends it.
func TestWhatASessionIsToldOf(t *testing.T) {
	s := sessionOf(t)
	stopped := map[string]int{}
	watch := func(uri, of, name string) bool {
		return s.Subscribe(uri, Interest{"s", of}, func() { stopped[name]++ })
	}
	if !watch("crib.s+a:", "a:", "first") || !watch("crib.s+a:", "a:", "again") || !watch("crib.s+b:", "b:", "other") {
		t.Fatal("not taken")
	}
	if uri, ok := s.URIFor(Interest{"s", "a:"}); uri != "crib.s+a:" || !ok {
		t.Errorf("got %q, %v", uri, ok)
	}
	if _, ok := s.URIFor(Interest{"x", "a:"}); ok {
		t.Error("a resource of another server is told of")
	}
	s.Unsubscribe("crib.s+a:")
	s.Unsubscribe("crib.s+a:")
	s.End()
	if got := fmt.Sprint(stopped); got != "map[again:1 first:1 other:1]" {
		t.Errorf("stopped %s", got)
	}
	if watch("crib.s+c:", "c:", "late") {
		t.Error("a session that has ended is told")
	}
}

func TestASessionIsToldOfSoMuch(t *testing.T) {
	s := sessionOf(t)
	for i := range MaxSubscribed {
		if !s.Subscribe(fmt.Sprint(i), Interest{"s", fmt.Sprint(i)}, func() {}) {
			t.Fatalf("resource %d was not taken", i)
		}
	}
	if s.Subscribe("more", Interest{"s", "more"}, func() {}) {
		t.Error("more than the limit was taken")
	}
}
