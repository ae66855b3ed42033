package app

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolcrib/toolcrib/internal/config"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

func TestMain(m *testing.M) {
	mcptest.RunPeerIfAsked()
	goleak.VerifyTestMain(m)
}

// world is a workspace and a data folder.
type world struct {
	t         *testing.T
	workspace string
	data      string
	env       map[string]string
	drain     time.Duration // 0 is twenty seconds
	renew     time.Duration // 0 is RenewTime
}

func newWorld(t *testing.T) *world {
	return &world{t: t, workspace: t.TempDir(), data: filepath.Join(t.TempDir(), "data"), env: map[string]string{"HOME": t.TempDir()}}
}

func (w *world) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.workspace, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// peerPage is a page of a scriptable server.
func (w *world) peerPage(name, more string, flags ...string) {
	w.t.Helper()
	argv := mcptest.Peer(flags...)
	w.write("mcp/"+name+".md", "---\nmcp:\n  transport: { command: "+argv[0]+", args: ["+strings.Join(argv[1:], ", ")+"] }\n"+more+"---\n")
}

func (w *world) options() Options {
	drain := w.drain
	if drain == 0 {
		drain = 20 * time.Second
	}
	return Options{
		Load: config.Options{Workspace: w.workspace, Data: w.data, Listen: "127.0.0.1:0", LookupEnv: func(k string) (string, bool) {
			v, ok := w.env[k]
			return v, ok
		}},
		Version: "test", Environ: []string{"PATH=" + os.Getenv("PATH")}, Drain: drain, RenewTime: w.renew,
	}
}

// start runs a crib until stop is called; stop returns what Run returned.
func (w *world) start() (a *App, stop func() error) {
	w.t.Helper()
	a, err := New(w.options())
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	w.t.Cleanup(func() {
		if err := stop(); err != nil {
			w.t.Errorf("Run: %v", err)
		}
	})
	return a, stop
}

func (w *world) client(a *App) *mcptest.Client {
	w.t.Helper()
	d, err := OpenData(w.data)
	if err != nil {
		w.t.Fatal(err)
	}
	defer d.Close()
	token, err := d.LocalToken()
	if err != nil {
		w.t.Fatal(err)
	}
	c := mcptest.NewClient(w.t, "http://"+a.Addr()+"/v1/mcp")
	c.Header.Set("Authorization", "Bearer "+token)
	return c
}

// once keeps no connections.
var once = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := once.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestServeAndStop(t *testing.T) {
	w := newWorld(t)
	w.peerPage("tools", "")
	a, _ := w.start()
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, body := get(t, "http://"+a.Addr()+path); status != 200 || body != "ok\n" {
			t.Errorf("%s: %d %q", path, status, body)
		}
	}
	if status, _ := get(t, "http://"+a.Addr()+"/v1/tools"); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d", status)
	}
	c := w.client(a)
	r := c.Post(wire.Modern, "tools/call", `{"name":"tools__echo","arguments":{"n":9007199254740993}}`)
	if r.Text() != `{"n":9007199254740993}` {
		t.Errorf("got %s", r)
	}
	if _, err := New(w.options()); crib.CodeOf(err) != crib.Unavailable && crib.CodeOf(err) != crib.Busy {
		t.Errorf("a second crib on one data folder: %v", err)
	}
}

// A secret is resolved at connect time, reaches the child, and nothing that
// the crib says shows it.
func TestSecretsReachTheServerAlone(t *testing.T) {
	w := newWorld(t)
	w.write("secrets/PEER_KEY", "cnry-0123456789abcdef\n")
	w.peerPage("tools", "  env: { PEER_KEY: PEER_KEY, LEVEL: { value: debug } }\n")
	w.peerPage("broken", "  env: { PEER_KEY: NO_SUCH_SECRET }\n")
	a, _ := w.start()
	c := w.client(a)
	r := c.Post(wire.Modern, "tools/call", `{"name":"tools__env","arguments":{}}`)
	if !strings.Contains(r.Text(), "PEER_KEY") || !strings.Contains(r.Text(), "LEVEL") {
		t.Errorf("the child's environment: %s", r)
	}
	r = c.Post(wire.Modern, "tools/call", `{"name":"broken__echo","arguments":{}}`)
	if !strings.Contains(r.Text(), "NO_SUCH_SECRET") {
		t.Errorf("a missing secret must be named: %s", r)
	}
	if text := a.Redactor().RedactString("x cnry-0123456789abcdef y"); strings.Contains(text, "cnry-") {
		t.Errorf("the redactor does not know the secret: %s", text)
	}
}

// A reload is whole or not at all.
func TestReload(t *testing.T) {
	w := newWorld(t)
	w.peerPage("one", "")
	a, _ := w.start()
	op := Dial(w.data)
	names := func() string {
		t.Helper()
		st, err := op.Status(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, s := range st.Servers {
			out = append(out, s.Name+" "+s.State)
		}
		return strings.Join(out, ", ")
	}
	w.peerPage("two", "  enabled: false\n")
	w.write("mcp/three.md", "---\nmcp: { transport: { http: not a url } }\n---\n")
	if _, err := op.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := names(); got != "one idle, three broken, two disabled" {
		t.Errorf("got %s", got)
	}
	w.write("toolcrib.yaml", "listen: [")
	w.peerPage("four", "")
	if _, err := op.Reload(context.Background()); crib.CodeOf(err) != crib.Invalid || !strings.Contains(err.Error(), "toolcrib.yaml:1") {
		t.Errorf("a broken file: %v", err)
	}
	if got := names(); got != "one idle, three broken, two disabled" {
		t.Errorf("after a reload that was refused: %s", got)
	}
	if st, err := op.Connect(context.Background(), "one"); err != nil || len(st.Tools) == 0 || st.State != "ready" {
		t.Errorf("connect: %+v %v", st, err)
	}
	_ = a
}
