package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/mcptest"
)

// toolList is a list of n tools of half a KiB each, the first of them echo.
func toolList(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`{"name":"tool_%03d","description":%q,"inputSchema":{"type":"object","properties":{"message":{"type":"string","description":"what is said"}}}}`,
			i, strings.Repeat("Does something with the message that it is given. ", 6))
	}
	list[0] = strings.Replace(list[0], "tool_000", "echo", 1)
	return "[" + strings.Join(list, ",") + "]"
}

// httpTransport is how a page reaches url.
func httpTransport(url string) string { return fmt.Sprintf("{ http: %q }", url) }

// stdioTransport starts a server with the tools of file.
func stdioTransport(t *testing.T, file string) string {
	t.Helper()
	command := mcptest.Peer("-era", "legacy", "-tools", file)
	args, err := json.Marshal(command[1:])
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("{ command: %q, args: %s }", command[0], args)
}

// toolsServer is a modern server with n tools.
func toolsServer(t *testing.T, n int) string {
	body := toolList(n)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.NewDecoder(r.Body).Decode(&m) != nil {
			return
		}
		result := `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`
		switch m.Method {
		case "server/discover":
			result = discovered
		case "tools/list":
			result = `{"resultType":"complete","ttlMs":3600000,"cacheScope":"public","tools":` + body + `}`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// silentServer takes connections and says nothing.
func silentServer(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // guards held
	var held []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			held = append(held, c)
			mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
		for _, c := range held {
			c.Close()
		}
	})
	return "http://" + l.Addr().String()
}

// crib is the program in a process of its own.
type crib struct {
	t       *testing.T
	cmd     *exec.Cmd
	address string
	token   string
	began   time.Time
}

// program is the crib's binary, built once in a folder that TestMain takes away.
var program = sync.OnceValues(func() (string, error) {
	file := filepath.Join(built, "toolcrib.exe")
	cmd := exec.Command("go", "build", "-o", file, ".")
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return file, nil
})

var built string // the folder of program

func TestMain(m *testing.M) {
	mcptest.RunPeerIfAsked()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	var err error
	if built, err = os.MkdirTemp("", "toolcrib-budget"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(built) //nolint:errcheck // in the temporary folder
	return m.Run()
}

// startCrib starts the crib with servers, each by its name and the transport of
// its page, and waits until it is ready.
func startCrib(t *testing.T, servers map[string]string) *crib {
	t.Helper()
	file, err := program()
	if err != nil {
		t.Fatal(err)
	}
	workspace, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(filepath.Join(workspace, "mcp"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, transport := range servers {
		page := fmt.Sprintf("---\nmcp:\n  transport: %s\n  gate: { \"*\": allow }\n---\n", transport)
		if err := os.WriteFile(filepath.Join(workspace, "mcp", name+".md"), []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &crib{t: t, address: l.Addr().String(), began: time.Now()}
	l.Close()
	c.cmd = exec.Command(file, "serve", "--workspace", workspace, "--data", data, "--listen", c.address)
	var log bytes.Buffer
	c.cmd.Stderr = &log
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.cmd.Process.Kill() //nolint:errcheck // its children end with their input
		c.cmd.Wait()         //nolint:errcheck // it was killed
		if t.Failed() {
			t.Log(log.String())
		}
	})
	for {
		resp, err := http.Get("http://" + c.address + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Since(c.began) > time.Minute {
			t.Fatalf("the crib does not get ready: %s", log.String())
		}
		timer := time.NewTimer(time.Millisecond)
		<-timer.C
	}
	token, err := os.ReadFile(filepath.Join(data, "local.token"))
	if err != nil {
		t.Fatal(err)
	}
	c.token = strings.TrimSpace(string(token))
	return c
}

func (c *crib) post(method, params string) string {
	c.t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://"+c.address+"/v1/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+meta+`}}`))
	if err != nil {
		c.t.Fatal(err)
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + c.token, "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method} {
		req.Header.Set(k, v)
	}
	if method == "tools/call" {
		req.Header.Set("Mcp-Name", strings.Split(params, `"`)[3])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		c.t.Fatalf("%s: %d %s %v", method, resp.StatusCode, b, err)
	}
	return string(b)
}

// A crib is ready at once, whoever of its servers never answers, and its first
// list holds what the others offer.
func TestReadyWithServersThatNeverAnswer(t *testing.T) {
	const budget, spare = 300 * time.Millisecond, 4 // others use the machine
	servers := map[string]string{}
	for i := range 20 {
		if i < 5 {
			servers[fmt.Sprintf("silent-%d", i)] = httpTransport(silentServer(t))
		} else {
			servers[fmt.Sprintf("server-%d", i)] = httpTransport(toolsServer(t, 3))
		}
	}
	c := startCrib(t, servers)
	ready := time.Since(c.began)
	list := c.post("tools/list", "")
	listed := time.Since(c.began)
	t.Logf("ready after %s, the first list after %s", ready.Round(time.Millisecond), listed.Round(time.Millisecond))
	for what, took := range map[string]time.Duration{"ready": ready, "the first list": listed} {
		if took > spare*budget {
			t.Errorf("%s after %s, over %d × %s", what, took, spare, budget)
		}
	}
	if n := strings.Count(list, `"inputSchema"`); n != 15*3 {
		t.Errorf("%d tools are listed", n)
	}
}

// Fifty servers with a thousand tools, all connected, take less than 64 MiB,
// their processes apart.
func TestResidentMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the memory of other processes can be read on Linux only")
	}
	const servers, stdio, each, budget = 50, 5, 20, 64
	file := filepath.Join(t.TempDir(), "tools.json")
	if err := os.WriteFile(file, []byte(toolList(each)), 0o600); err != nil {
		t.Fatal(err)
	}
	transports := map[string]string{}
	for i := range servers {
		name := fmt.Sprintf("server-%d", i)
		if i < stdio {
			transports[name] = stdioTransport(t, file)
		} else {
			transports[name] = httpTransport(toolsServer(t, each))
		}
	}
	c := startCrib(t, transports)
	list := ""
	for range 20 { // until all have answered
		if list = c.post("tools/list", ""); strings.Count(list, `"inputSchema"`) == servers*each {
			break
		}
	}
	if n := strings.Count(list, `"inputSchema"`); n != servers*each {
		t.Fatalf("%d tools are listed", n)
	}
	for name := range transports {
		for range 20 {
			if got := c.post("tools/call", `"name":"`+name+`__echo","arguments":{"message":"done"},`); !strings.Contains(got, "done") {
				t.Fatal(got)
			}
		}
	}
	mib, err := residentOf(c.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f MiB", mib)
	if mib > budget {
		t.Errorf("%.1f MiB, over %d", mib, budget)
	}
}
