package gateway

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// A task is its principal's alone, for as long as its server keeps it.
func TestTasksAreOwned(t *testing.T) {
	var ts tasks
	ts.init()
	now := time.Now()
	other := crib.Principal{Kind: crib.Token, ID: "other"}
	if !ts.add(someone, "a", task{server: "s", began: now, expires: now.Add(time.Minute)}) {
		t.Fatal("not taken")
	}
	if ts.add(someone, "a", task{server: "x", began: now, expires: now.Add(time.Minute)}) {
		t.Error("an id at two servers is taken")
	}
	if !ts.add(other, "a", task{server: "x", began: now, expires: now.Add(time.Minute)}) {
		t.Error("an id is one principal's only")
	}
	for _, tt := range []struct {
		p    crib.Principal
		id   string
		at   time.Duration
		want string // the server
	}{
		{someone, "a", 0, "s"}, {other, "a", 0, "x"}, {someone, "b", 0, ""}, {someone, "a", time.Minute, ""},
	} {
		got, ok := ts.get(tt.p, tt.id, now.Add(tt.at))
		if ok != (tt.want != "") || ok && got.server != tt.want {
			t.Errorf("%s of %s after %s: %+v, %v", tt.id, tt.p, tt.at, got, ok)
		}
	}
	if p, _, ok := ts.caller("x", "a"); !ok || p != other {
		t.Errorf("the task at x is %s's", p)
	}
}

// The oldest make room, and of those whose time is over nothing is kept.
func TestTasksAreBounded(t *testing.T) {
	var ts tasks
	ts.init()
	now := time.Now()
	for i := range MaxTasks + 10 {
		at := now.Add(time.Duration(i) * time.Second)
		ts.add(someone, fmt.Sprint(i), task{server: "s", began: at, expires: now.Add(TaskTime)})
	}
	if n := len(ts.of[someone]); n != MaxTasks {
		t.Errorf("%d are kept", n)
	}
	if _, ok := ts.get(someone, "9", now); ok {
		t.Error("the oldest is kept")
	}
	if _, ok := ts.get(someone, "10", now); !ok {
		t.Error("more than the oldest is gone")
	}
	late := now.Add(2 * TaskTime)
	ts.add(someone, "late", task{server: "s", began: late, expires: late.Add(time.Minute)})
	if n := len(ts.of[someone]); n != 1 {
		t.Errorf("%d are kept whose time is over", n-1)
	}
}

// What is a task is told by the words of its era, and nothing else is.
func TestTaskIn(t *testing.T) {
	plain := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`
	asTask := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","task":{}}}`
	for _, tt := range []struct {
		name, request string
		era           wire.Era
		result        string
		is            bool
	}{
		{"modern", plain, wire.Modern, `{"resultType":"task","taskId":"1"}`, true},
		{"modern, a result that speaks of one", plain, wire.Modern, `{"resultType":"complete","taskId":"1"}`, false},
		{"modern, in the words of the other era", asTask, wire.Modern, `{"task":{"taskId":"1"}}`, false},
		{"legacy", asTask, wire.Legacy, `{"task":{"taskId":"1"}}`, true},
		{"legacy, not asked for", plain, wire.Legacy, `{"task":{"taskId":"1"}}`, false},
		{"legacy, an ordinary result", asTask, wire.Legacy, `{"content":[]}`, false},
	} {
		req := &Request{Principal: someone, Era: tt.era, Message: fromClient(t, tt.request)}
		if got := taskIn(req, tt.era, []byte(tt.result)); (got != nil) != tt.is {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
}

// Nobody reaches a task of somebody else, or one that the crib does not know.
func TestATaskOfNobody(t *testing.T) {
	g := newGateway(t, servers.Definition{Name: "s"})
	now := time.Now()
	g.tasks.add(crib.Principal{Kind: crib.Token, ID: "other"}, "theirs", task{server: "s", began: now, expires: now.Add(time.Hour)})
	g.tasks.add(someone, "elsewhere", task{server: "x", began: now, expires: now.Add(time.Hour)})
	for _, id := range []string{`"theirs"`, `"unknown"`, `"elsewhere"`, `""`, `7`} {
		for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel", "tasks/result"} {
			m := fromClient(t, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"taskId":`+id+`}}`)
			got := g.dispatch(t.Context(), &Request{Principal: someone, Server: "s", Era: wire.Modern, Message: m}, &ear{})
			if !strings.Contains(string(got.Body), `"code":-32602`) {
				t.Errorf("%s of %s: %s", method, id, got.Body)
			}
		}
	}
}
