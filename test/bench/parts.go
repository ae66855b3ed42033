package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	_ "net/http/pprof" // for -profile
	"net/url"
	"os"
	"runtime"
	"strings"

	"github.com/toolcrib/toolcrib/internal/cli"
)

// parts are what a process of this program can be.
var parts = map[string]func(args []string) error{"upstream": upstreamPart, "proxy": proxyPart, "crib": cribPart}

// stats are what a part tells of its own memory.
type stats struct{ Mallocs, Bytes uint64 }

// tell serves stats and profiles on a port of its own, and prints its address.
func tell() error {
	http.HandleFunc("/stats", func(w http.ResponseWriter, _ *http.Request) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		json.NewEncoder(w).Encode(stats{m.Mallocs, m.TotalAlloc}) //nolint:errcheck // the reader sees it
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("stats", l.Addr())
	go http.Serve(l, nil) //nolint:errcheck // until the process ends
	return nil
}

func serve(h http.Handler) error {
	if err := tell(); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("serving", l.Addr())
	return http.Serve(l, h)
}

// proxyPart is the measure of all: what the standard library gives, with
// enough connections kept.
func proxyPart(args []string) error {
	to, err := url.Parse(args[0])
	if err != nil {
		return err
	}
	p := httputil.NewSingleHostReverseProxy(to)
	p.Transport = &http.Transport{MaxIdleConnsPerHost: 256}
	return serve(p)
}

// cribPart is the program itself, with its figures on a port beside it.
func cribPart(args []string) error {
	fs := flag.NewFlagSet("crib", flag.ContinueOnError)
	workspace, data := fs.String("workspace", "", ""), fs.String("data", "", "")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if err := tell(); err != nil {
		return err
	}
	code := cli.Main([]string{"serve", "--workspace", *workspace, "--data", *data, "--listen", "127.0.0.1:0"}, nil, os.Stdout, os.Stderr, os.Environ())
	if code != 0 {
		return fmt.Errorf("serve ended with %d", code)
	}
	return nil
}

// upstreamPart is a server that costs as little as it can: one echo tool,
// modern at /modern and with sessions at /legacy.
func upstreamPart([]string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/modern", func(w http.ResponseWriter, r *http.Request) { answer(w, r, true) })
	mux.HandleFunc("/legacy", func(w http.ResponseWriter, r *http.Request) { answer(w, r, false) })
	return serve(mux)
}

const (
	tools = `"tools":[{"name":"echo","description":"Returns the message unchanged.","inputSchema":{"type":"object","required":["message"],"properties":{"message":{"type":"string"}}}}]`

	discovered  = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":3600000,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"cheap","version":"1"}}}`
	initialized = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"cheap","version":"1"}}`
)

func answer(w http.ResponseWriter, r *http.Request, modern bool) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	// The one thing that is read of a call is where it is known to lie.
	if err := json.Unmarshal(body, &m); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header()["Content-Type"] = []string{"application/json"}
	result, status := "", http.StatusOK
	switch {
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	case m.Method == "tools/call":
		result = `{"resultType":"complete","content":[{"type":"text","text":"` + message(body) + `"}]}`
	case m.Method == "tools/list":
		result = `{"resultType":"complete","ttlMs":3600000,"cacheScope":"public",` + tools + `}`
	case m.Method == "server/discover" && modern:
		result = discovered
	case m.Method == "initialize" && !modern:
		w.Header()["Mcp-Session-Id"] = []string{"s-1"}
		result = initialized
	default:
		status = http.StatusNotFound
	}
	w.WriteHeader(status)
	if result == "" {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, m.ID)
		return
	}
	io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":`+result+`}`) //nolint:errcheck // the client counts
}

// message finds the argument of a call in its bytes.
func message(body []byte) string {
	const before = `"message":"`
	i := bytes.Index(body, []byte(before))
	if i < 0 {
		return ""
	}
	text, _, _ := strings.Cut(string(body[i+len(before):]), `"`)
	return text
}
