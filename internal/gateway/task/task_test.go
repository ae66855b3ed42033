package task

import (
	"fmt"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

var someone = crib.Principal{Kind: crib.Token, ID: "someone"}

// A task is its principal's alone, for as long as its server keeps it.
func TestTasksAreOwned(t *testing.T) {
	ts := NewRegistry()
	now := time.Now()
	other := crib.Principal{Kind: crib.Token, ID: "other"}
	if !ts.Add(someone, "a", Task{Server: "s", Began: now, Expires: now.Add(time.Minute)}) {
		t.Fatal("not taken")
	}
	if ts.Add(someone, "a", Task{Server: "x", Began: now, Expires: now.Add(time.Minute)}) {
		t.Error("an id at two servers is taken")
	}
	if !ts.Add(other, "a", Task{Server: "x", Began: now, Expires: now.Add(time.Minute)}) {
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
		got, ok := ts.Get(tt.p, tt.id, now.Add(tt.at))
		if ok != (tt.want != "") || ok && got.Server != tt.want {
			t.Errorf("%s of %s after %s: %+v, %v", tt.id, tt.p, tt.at, got, ok)
		}
	}
	if p, _, ok := ts.Caller("x", "a"); !ok || p != other {
		t.Errorf("the task at x is %s's", p)
	}
}

// The oldest make room, and of those whose time is over nothing is kept.
func TestTasksAreBounded(t *testing.T) {
	ts := NewRegistry()
	now := time.Now()
	for i := range Max + 10 {
		at := now.Add(time.Duration(i) * time.Second)
		ts.Add(someone, fmt.Sprint(i), Task{Server: "s", Began: at, Expires: now.Add(MaxTime)})
	}
	if n := len(ts.of[someone]); n != Max {
		t.Errorf("%d are kept", n)
	}
	if _, ok := ts.Get(someone, "9", now); ok {
		t.Error("the oldest is kept")
	}
	if _, ok := ts.Get(someone, "10", now); !ok {
		t.Error("more than the oldest is gone")
	}
	late := now.Add(2 * MaxTime)
	ts.Add(someone, "late", Task{Server: "s", Began: late, Expires: late.Add(time.Minute)})
	if n := len(ts.of[someone]); n != 1 {
		t.Errorf("%d are kept whose time is over", n-1)
	}
}

// What is a task is told by the words of its era.
func TestIn(t *testing.T) {
	for _, tt := range []struct {
		name   string
		era    wire.Era
		result string
		want   string
	}{
		{"modern", wire.Modern, `{"resultType":"task","taskId":"1"}`, `{"resultType":"task","taskId":"1"}`},
		{"modern, with another id", wire.Modern, `{"resultType":"task","taskId":7}`, `{"resultType":"task","taskId":7}`},
		{"modern, without an id", wire.Modern, `{"resultType":"task"}`, ``},
		{"modern, as it was before", wire.Modern, `{"resultType":"task","task":{"taskId":"1"}}`, `{"taskId":"1"}`},
		{"modern, a result that speaks of one", wire.Modern, `{"resultType":"complete","taskId":"1"}`, ``},
		{"legacy", wire.Legacy, `{"task":{"taskId":"1"}}`, `{"taskId":"1"}`},
		{"legacy, in the words of the other era", wire.Legacy, `{"resultType":"task","taskId":"1"}`, ``},
		{"legacy, a task without an id", wire.Legacy, `{"task":{}}`, ``},
		{"an ordinary result", wire.Legacy, `{"content":[]}`, ``},
	} {
		if got := In(tt.era, []byte(tt.result)); string(got) != tt.want {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
}
