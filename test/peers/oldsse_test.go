package peers

import (
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A real server of the older transport: the reference server in its sse mode.
func TestReferenceServerOverOldSSE(t *testing.T) {
	file := need(t, "@modelcontextprotocol", "server-everything", "dist", "index.js")
	_, port, err := net.SplitHostPort(freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(node(t), file, "sse")
	c.Env = append(c.Environ(), "PORT="+port)
	var said strings.Builder
	c.Stderr = &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		c.Process.Kill() //nolint:errcheck // it is what ends it
		c.Wait()         //nolint:errcheck // it was killed
	}()
	address := "http://127.0.0.1:" + port + "/sse"
	for deadline := time.Now().Add(patience); ; {
		if resp, err := http.Head("http://127.0.0.1:" + port + "/"); err == nil {
			resp.Body.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server does not listen: %s", said.String())
		}
		timer := time.NewTimer(20 * time.Millisecond)
		<-timer.C
	}
	p := newPerson(t)
	p.serve()
	p.crib("add", "old", address, "--transport", "sse")
	wantAll(t, p.crib("tools"), "mcp.old.echo")
	wantAll(t, p.crib("call", "mcp.old.echo", `{"message":"over the older transport"}`), "Echo: over the older transport")
	wantAll(t, p.crib("call", "mcp.old.get-sum", `{"a":2,"b":40}`), "42")
}
