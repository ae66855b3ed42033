package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/app"
	"github.com/toolcrib/toolcrib/internal/cli/text"
)

func TestStatusSaysWhatDeservesALook(t *testing.T) {
	st := app.Status{
		Version: "v1", PID: 7, Address: "127.0.0.1:8090", Started: time.Unix(0, 0), Workspace: "/w", Data: "/d", Isolation: "none", Anonymous: true,
		Servers: []app.ServerStatus{
			{
				Name: "both", State: "ready", Known: true, Eras: []string{"modern", "legacy"}, Target: "https://mcp.example.com/mcp",
				Tools:   []app.ToolInfo{{Name: "a", Gate: "none"}, {Name: "b", Gate: "none"}, {Name: "c", Gate: "allow"}},
				LeftOut: []app.LeftOut{{Name: "bad\x1b[2J", Why: "its x-mcp-header is not valid", Everywhere: true}, {Name: "long", Why: "no client would take its schema"}},
			},
			{Name: "sad", State: "failed", Target: "sad-server", Error: "it ended", Stderr: "first\nlast \u202ewords\n", Noise: 1},
			{Name: "slow", State: "starting", Target: "slow-server", Stderr: "fetching\n"},
			{Name: "torn", State: "broken", Error: "mcp/torn.md:1:1: error: torn"},
		},
		Shadowed: []app.Shadowed{{Name: "both", Source: "env", By: "page"}},
		Faults:   []string{"mcp/torn.md:1:1: error: torn"},
	}
	var out bytes.Buffer
	statusView{text.Screen{W: &out}, shownStatus{Status: st}}.show()
	for _, want := range []string{
		"address    http://127.0.0.1:8090/v1/mcp\n",
		"data       /d\n",
		"isolation  none: commands run as the user of the crib and can read what it can\n",
		"anonymous  on: every program of this machine may list and call tools\n",
		"both\tready\t3\t2026-07-28, to 2025-11-25\thttps://mcp.example.com/mcp\n",
		"both: 2 tools without a gate: let through without asking (a, b)\n",
		"both: bad\\x1b[2J is left out everywhere: its x-mcp-header is not valid\n",
		"both: long is left out at the address of all servers: no client would take its schema\n",
		"sad\tfailed\t?\t-\tsad-server\n",
		"sad: it ended\n",
		"sad: its last words: last \\u202ewords\n",
		"sad: passed over, because it was no message: 1 line on its standard output\n",
		"slow: its last words: fetching\n",
		"both: its definition in TOOLCRIB_MCP_SERVERS is not used, because mcp/ has the name\n",
		"mcp/torn.md:1:1: error: torn\n",
	} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("%q is not in it once:\n%s", want, out.String())
		}
	}
	for _, hidden := range []string{"\x1b", "\u202e", "modern", "legacy", "era"} {
		if strings.Contains(out.String(), hidden) {
			t.Errorf("%q is in it:\n%s", hidden, out.String())
		}
	}
}

func TestStatusSaysWhatWillChange(t *testing.T) {
	shown := shownStatus{Status: app.Status{Version: "v1", Isolation: "none", Draining: true}, OnDisk: []string{"toolcrib.yaml:1:9: error: \x1bbad"}}
	shown.Refused = &app.Refusal{Why: "mcp/a.md:1:1: error: torn\nmcp/b.md:1:1: error: too"}
	var out bytes.Buffer
	statusView{text.Screen{W: &out}, shown}.show()
	for _, want := range []string{
		"stopping   it takes nothing new, and ends when what is open has ended\n",
		"The last reload was refused (", "\n  mcp/a.md:1:1: error: torn\n  mcp/b.md:1:1: error: too\n",
		"What is configured now would be refused", "\n  toolcrib.yaml:1:9: error: \\x1bbad\n",
	} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("%q is not in it once:\n%s", want, out.String())
		}
	}
}
