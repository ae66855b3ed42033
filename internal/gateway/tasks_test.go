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
