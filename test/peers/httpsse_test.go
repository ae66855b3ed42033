package peers

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// sseServer is the reference server over HTTP+SSE, the transport of 2024-11-05.
type sseServer struct {
	t       *testing.T
	address string
	cmd     *exec.Cmd
	reading sync.WaitGroup // of what it prints
}

func startSSE(t *testing.T) *sseServer {
	t.Helper()
	s := &sseServer{t: t, address: freeAddress(t)}
	s.start()
	t.Cleanup(s.kill)
	return s
}

// start starts the server and waits until it listens.
func (s *sseServer) start() {
	s.t.Helper()
	_, port, err := net.SplitHostPort(s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.cmd = exec.Command(node(s.t), need(s.t, "@modelcontextprotocol", "server-everything", "dist", "index.js"), "sse")
	s.cmd.Env = append(os.Environ(), "PORT="+port)
	out, err := s.cmd.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	ready := make(chan struct{})
	s.reading.Go(func() {
		tell := sync.OnceFunc(func() { close(ready) })
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "running on port") {
				tell()
			}
		}
	})
	select {
	case <-ready:
	case <-time.After(patience):
		s.t.Fatal("the reference server does not listen")
	}
}

// kill ends the server at once, and with it every stream.
func (s *sseServer) kill() {
	s.cmd.Process.Kill() //nolint:errcheck // it may have ended
	s.reading.Wait()
	s.cmd.Wait() //nolint:errcheck // it was killed
}

// A real server that speaks only HTTP+SSE is found out by its address, and
// clients of both generations have all of it: lists, calls, progress, prompts
// and resources.
func TestHTTPSSE(t *testing.T) {
	p := newPerson(t)
	server := startSSE(t)
	p.serve()
	p.crib("add", "everything", "http://"+server.address+"/sse")
	wantAll(t, p.crib("tools"), "mcp.everything.echo", "mcp.everything.trigger-long-running-operation")
	wantAll(t, p.crib("call", "mcp.everything.echo", `{"message":"hello"}`), "Echo: hello")
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			need(t, "@modelcontextprotocol", "sdk", "package.json")
			need(t, "@modelcontextprotocol", "client", "package.json")
			checkReport(t, p.script("sdk.mjs", "CRIB_ERA="+era, "CRIB_URL=http://"+p.status().Address+"/v1/mcp", "CRIB_TOKEN="+p.token()))
		})
	}
}

// The end of the server ends a call that it works on, at once and honestly, and
// the next call finds the server again when it is back.
func TestHTTPSSEServerEnds(t *testing.T) {
	p := newPerson(t)
	server := startSSE(t)
	p.serve()
	p.crib("add", "everything", "http://"+server.address+"/sse", "--transport", "sse")
	type end struct {
		out string
		err error
	}
	ended := make(chan end, 1)
	go func() {
		out, err := p.run(p.bin, "call", "mcp.everything.trigger-long-running-operation", `{"duration":3600,"steps":7200}`)
		ended <- end{out, err}
	}()
	p.until("the call is open", func() bool { return strings.Contains(p.crib("status", "--json"), `"open": 1`) })
	server.kill()
	select {
	case e := <-ended:
		if e.err == nil || !strings.Contains(e.out, "not known whether the request was executed") {
			t.Errorf("%v\n%s", e.err, e.out)
		}
	case <-time.After(patience / 2):
		t.Error("the call goes on without its server")
	}
	server.start()
	p.until("the server is found again", func() bool {
		out, err := p.run(p.bin, "call", "mcp.everything.echo", `{"message":"back"}`)
		return err == nil && strings.Contains(out, "Echo: back")
	})
}
