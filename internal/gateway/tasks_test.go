package gateway

import (
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/gateway/task"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/wire"
)

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
	g.tasks.Add(crib.Principal{Kind: crib.Token, ID: "other"}, "theirs", task.Task{Server: "s", Began: now, Expires: now.Add(time.Hour)})
	g.tasks.Add(someone, "elsewhere", task.Task{Server: "x", Began: now, Expires: now.Add(time.Hour)})
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
