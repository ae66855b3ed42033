//go:build linux

package app

import (
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// canary begins every secret of this test, and stands nowhere else.
const canary = "cnry-"

// blabbers answer a call with the credential that it came with, in as many ways
// as there are tools.
var blabbers = map[string]func(http.ResponseWriter, string){
	"html": func(w http.ResponseWriter, auth string) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "<h1>no such key: %s</h1>", auth)
	},
	"text":    refuseWith(http.StatusBadRequest),
	"denied":  refuseWith(http.StatusUnauthorized),
	"scope":   refuseWith(http.StatusForbidden),
	"busy":    refuseWith(http.StatusTooManyRequests),
	"moved":   refuseWith(http.StatusTemporaryRedirect),
	"garbled": refuseWith(http.StatusOK),
	"stream": func(w http.ResponseWriter, auth string) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: %s\ndata: {%q\n\n", auth, auth)
	},
	"line": func(w http.ResponseWriter, auth string) {
		if conn, buf, err := http.NewResponseController(w).Hijack(); err == nil {
			fmt.Fprintf(buf, "HTTP/1.1 %s\r\n\r\n", auth)
			buf.Flush()
			conn.Close()
		}
	},
}

func refuseWith(status int) func(http.ResponseWriter, string) {
	return func(w http.ResponseWriter, auth string) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("WWW-Authenticate", `Bearer error_description="`+auth+`"`)
		w.Header().Set("Location", "/mcp?key="+auth)
		w.Header().Set("Set-Cookie", "key="+auth)
		w.WriteHeader(status)
		fmt.Fprintf(w, "{%q", auth)
	}
}

// blabber is a server of all blabbers.
func blabber(t *testing.T) *mcptest.HTTP {
	t.Helper()
	var tools []string
	for name := range blabbers {
		tools = append(tools, `{"name":"`+name+`","inputSchema":{"type":"object"}}`)
	}
	p := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
	p.SetTools("[" + strings.Join(tools, ",") + "]")
	p.Script(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if method, _ := wire.GetText(body, "method"); method != "tools/call" {
			return false
		}
		blabbers[wire.Text(wire.GetPath(body, "params", "name"))](w, r.Header.Get("Authorization"))
		return true
	})
	return p
}

// Secrets of every source, sent to servers that say them again wherever they
// can, are in nothing that the crib says or keeps, and on no command line.
func TestSecretsAreNowhereElse(t *testing.T) {
	s := &served{world: newWorld(t), program: buildProgram(t)}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	s.env["ENV_KEY"] = canary + "from-the-environment"
	s.write("secrets/FILE_KEY", canary+"from-a-file\n")
	s.write("print.sh", "case $1 in GOOD*) echo "+canary+"from-a-command;; *) echo "+canary+"told-on-stderr >&2; exit 3;; esac\n")
	s.write("toolcrib.yaml", `
secrets:
  - { store: env }
  - { store: file, dir: secrets }
  - { store: exec, command: [sh, print.sh] }
tools:
  - name: literal
    from: mcp:`+blabber(t).URL+`
    params: { mcp_auth_token: `+canary+`in-the-configuration }
`)
	for name, key := range map[string]string{"env": "ENV_KEY", "file": "FILE_KEY", "exec": "GOOD_KEY"} {
		s.write("mcp/"+name+".md", "---\nmcp:\n  transport: { http: "+blabber(t).URL+" }\n  headers: { Authorization: "+key+" }\n---\n")
	}
	s.write("mcp/missing.md", "---\nmcp:\n  transport: { http: "+blabber(t).URL+" }\n  headers: { Authorization: BAD_KEY }\n---\n")
	s.write("mcp/absent.md", "---\nmcp:\n  transport: { http: \"http://"+closed.Addr().String()+"/mcp?api_key="+canary+"in-a-query\" }\n---\n")
	s.write("mcp/dies.md", "---\nmcp:\n  transport: { command: sh, args: [-c, 'env >&2; exit 3'] }\n  env: { FILE_KEY: FILE_KEY, ENV_KEY: ENV_KEY }\n---\n")
	s.write("mcp/wrong.md", "---\nmcp:\n  transport: { http: \"http://127.0.0.1:1\" }\n  headers: { Authorization: Bearer "+canary+"in-plain-text }\n  heders: { A: "+canary+"misspelt }\n---\n")

	seen := map[string]string{}
	check, _ := s.command("check").CombinedOutput()
	seen["check"] = string(check)
	s.serve("--log-level", "debug")
	c := s.dial()
	for _, server := range []string{"env", "file", "exec", "literal"} {
		for tool := range blabbers {
			for _, era := range []wire.Era{wire.Modern, wire.Legacy} {
				if era == wire.Legacy {
					c.Initialize("")
				}
				r := c.Post(era, "tools/call", `{"name":"`+server+`__`+tool+`","arguments":{}}`)
				seen[fmt.Sprintf("the answer to %s on %s, %s", tool, server, era)] = fmt.Sprint(r.Header, r)
				if !strings.Contains(r.String(), server) {
					t.Errorf("%s on %s: %s", tool, server, r)
				}
			}
		}
	}
	for _, server := range []string{"missing", "absent", "dies", "wrong"} {
		r := c.Post(wire.Modern, "tools/call", `{"name":"`+server+`__echo","arguments":{}}`)
		seen["the answer of "+server] = fmt.Sprint(r.Header, r)
	}
	for _, header := range []string{canary + "alone", "Bearer " + canary + "bearer", "Basic " + canary + "basic", canary + "scheme x"} {
		r := mcptest.NewClient(t, c.URL).Raw(http.MethodPost, `{}`, "Authorization: "+header)
		if r.Status != http.StatusUnauthorized {
			t.Errorf("%s: %s", header, r)
		}
		seen["the refusal of "+header[len(canary):]] = fmt.Sprint(r.Header, r)
	}
	for _, args := range [][]string{{"status"}, {"status", "--json"}, {"tools"}, {"tools", "--json"}, {"call", "env.html"}, {"call", "dies.echo"}} {
		out, _ := s.command(args...).CombinedOutput()
		seen[strings.Join(args, " ")] = string(out)
	}
	s.remember(seen)
	seen["the log"] = s.log.String()
	for where, text := range seen {
		if i := strings.Index(text, canary); i >= 0 {
			t.Errorf("%s: …%s…", where, text[max(0, i-200):min(len(text), i+100)])
		}
	}
	if !strings.Contains(seen["the log"], "[redacted]") && !strings.Contains(seen["the answer of dies"], "[redacted]") {
		t.Error("nothing was hidden: the test shows nothing")
	}
}

// remember adds what the crib keeps in files, and the command lines of all
// processes.
func (s *served) remember(seen map[string]string) {
	s.t.Helper()
	err := filepath.WalkDir(s.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		seen[path] = string(b)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(lines) == 0 {
		s.t.Fatal(lines, err)
	}
	for _, path := range lines {
		if b, err := os.ReadFile(path); err == nil { // it has not ended
			seen[path] = string(b)
		}
	}
}
