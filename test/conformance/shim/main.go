// Shim lets the crib be the client under test of the conformance suite: it
// starts a crib whose only server is the suite's, and drives it with an
// ordinary conformance client.
//
//	shim [-crossed] CRIB DRIVER URL
//
// The suite names the revision in MCP_CONFORMANCE_PROTOCOL_VERSION. Its server
// speaks that, and the driver too, or a revision of the other era.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

const (
	starting = 20 * time.Second // until the crib serves
	driving  = 25 * time.Second // for the driver: less than the suite's 30 for us
	grace    = 5 * time.Second  // for a program that was told to end
)

func main() {
	crossed := flag.Bool("crossed", false, "the driver speaks the other era")
	flag.Parse()
	if flag.NArg() != 3 {
		fmt.Fprintln(os.Stderr, "usage: shim [-crossed] CRIB DRIVER URL")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), flag.Arg(1), flag.Arg(2), *crossed); err != nil {
		fmt.Fprintln(os.Stderr, "shim:", err)
		os.Exit(1)
	}
}

func run(crib, driver, server string, crossed bool) (err error) {
	folder, err := os.MkdirTemp("", "toolcrib-conformance-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	modern := os.Getenv("MCP_CONFORMANCE_PROTOCOL_VERSION") >= "2026-07-28"
	address, stop, err := startCrib(crib, folder, server, modern)
	if err != nil {
		return err
	}
	defer stop()
	if modern == crossed {
		front, err := legacyFront(address)
		if err != nil {
			return err
		}
		defer front.Close()
		address = front.Addr().String()
	}
	// The suite ends the shell that started us, and nothing else.
	ctx, cancel := context.WithTimeout(context.Background(), driving)
	defer cancel()
	d := exec.CommandContext(ctx, driver, "http://"+address+"/v1/mcp/suite")
	d.Stdout, d.Stderr, d.WaitDelay = os.Stdout, os.Stderr, grace
	if err := d.Run(); err != nil {
		return fmt.Errorf("driver: %w", err)
	}
	return nil
}

const page = `---
mcp:
  transport: { http: %q }
  era: %s
  may: [elicitation, roots, sampling]
  share: session
  gate: { "*": allow }
---
`

var serving = regexp.MustCompile(`msg=serving address=(\S+)`)

// startCrib starts a crib with one server, suite, and waits until it serves.
func startCrib(crib, folder, server string, modern bool) (address string, stop func(), err error) {
	era := "legacy"
	if modern {
		era = "modern"
	}
	workspace := filepath.Join(folder, "workspace")
	if err := os.MkdirAll(filepath.Join(workspace, "mcp"), 0o700); err != nil {
		return "", nil, err
	}
	for name, text := range map[string]string{
		"toolcrib.yaml": "auth:\n  anonymous: true\n", // the driver has no token to show
		"mcp/suite.md":  fmt.Sprintf(page, server, era),
	} {
		if err := os.WriteFile(filepath.Join(workspace, name), []byte(text), 0o600); err != nil {
			return "", nil, err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := exec.CommandContext(ctx, crib, "serve", "--workspace", workspace, "--data", filepath.Join(folder, "data"), "--listen", "127.0.0.1:0")
	// Not an interrupt: a shell in the background has its children ignore those.
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = grace
	log, err := c.StderrPipe()
	if err != nil {
		cancel()
		return "", nil, err
	}
	if err := c.Start(); err != nil {
		cancel()
		return "", nil, err
	}
	found, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(log)
		for lines.Scan() {
			fmt.Fprintln(os.Stderr, lines.Text())
			if m := serving.FindStringSubmatch(lines.Text()); m != nil {
				found <- m[1]
				break
			}
		}
		io.Copy(os.Stderr, log) //nolint:errcheck // it is for people
	}()
	stop = func() {
		cancel()
		select { // Wait closes what is still being read
		case <-ended:
		case <-time.After(grace):
		}
		c.Wait() //nolint:errcheck // its log says why
	}
	select {
	case address = <-found:
		return address, stop, nil
	case <-ended:
	case <-time.After(starting):
	}
	stop()
	return "", nil, errors.New("the crib did not start")
}

// legacyFront stands before the crib and knows no server/discover, so that a
// driver which asks for it falls back to initialize.
func legacyFront(address string) (net.Listener, error) {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	proxy.FlushInterval = -1
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:errcheck // until l is closed
		if r.Header.Get("Mcp-Method") == "server/discover" {
			http.Error(w, "not found", http.StatusNotFound)
			return
		}
		r.Host = address
		proxy.ServeHTTP(w, r)
	}))
	return l, nil
}
