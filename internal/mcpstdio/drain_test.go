package mcpstdio_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/toolcrib/toolcrib/internal/mcpstdio"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// While the crib stops, the client of the relay reads that, and its open calls
// go on: their questions, their cancellation, their answers. Behind the restart
// it needs no new pipe.
func TestCribThatStops(t *testing.T) {
	peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: mcptest.EraLegacy}})
	c := newCrib(t, map[string]string{"peer": peer.URL})
	p := c.connect("", func(o *mcpstdio.Options) {
		o.Ensure = func(context.Context) error {
			if conn, err := net.Dial("tcp", c.addr); err == nil {
				return conn.Close()
			}
			return c.start()
		}
	})
	p.initialize()
	release := filepath.Join(t.TempDir(), "release")
	slow := `"params":{"name":"peer__slow","arguments":{"release":` + string(wire.Quote(release)) + `}}}`
	p.send(`{"jsonrpc":"2.0","id":"held","method":"tools/call",` + slow)
	p.send(`{"jsonrpc":"2.0","id":"dropped","method":"tools/call",` + slow)
	p.send(`{"jsonrpc":"2.0","id":"asks","method":"tools/call","params":{"name":"peer__elicit","arguments":{}}}`)
	question := p.until(`"method":"elicitation/create"`)
	mcptest.Eventually(t, "the calls are open", func() bool { return peer.Executions("slow") == 2 })
	c.gw.Load().Drain()

	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"peer__echo","arguments":{},` + meta + `}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"peer__echo","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":3,"method":"server/discover","params":{` + meta + `}}`,
	} {
		p.send("%s", line)
		p.until(`"id":`+string(wire.Get([]byte(line), "id")), "the crib is stopping", `"io.toolcrib/code":"unavailable"`)
	}
	p.send(`{"jsonrpc":"2.0","id":%s,"result":{"action":"decline"}}`, wire.Get([]byte(question), "id"))
	p.until(`"id":"asks"`, "decline")
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"dropped"}}`)
	mcptest.Eventually(t, "the server knows of the cancellation", func() bool { return len(peer.Cancelled()) == 1 })
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.until(`"id":"held"`, "released")
	<-c.gw.Load().Drained()
	if n := peer.Executions("echo"); n != 0 {
		t.Errorf("what was refused was executed %d times", n)
	}

	c.stop()
	p.send(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"peer__echo","arguments":{}}}`)
	p.until(`"id":9`, `"result"`)
}
