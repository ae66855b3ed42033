package clients_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/clients"
)

func TestEveryClientUnderstandsBracesAndDefaults(t *testing.T) {
	const entry = `{"type": "stdio", "command": "c", "env": {"A": "${X:-d}", "B": "${HOME:-/x}/y", "C": "${X}", "D": "${X:-}"}}`
	for _, c := range clients.All() {
		table := map[string]string{"vscode": "servers", "zed": "context_servers", "opencode": "mcp"}[c.ID()]
		if table == "" {
			table = "mcpServers"
		}
		content := fmt.Sprintf(`{%q: {"s": %s}}`, table, entry)
		switch c.ID() {
		case "codex":
			content = "[mcp_servers.s]\ncommand = 'c'\n[mcp_servers.s.env]\nA = '${X:-d}'\nB = '${HOME:-/x}/y'\nC = '${X}'\nD = '${X:-}'\n"
		case "opencode":
			content = strings.NewReplacer(`"stdio"`, `"local"`, `"c"`, `["c"]`, `"env"`, `"environment"`).Replace(content)
		}
		env := emptyMachine(t)
		write(t, c.Files(env)[0], content, 0o600)
		entries, err := c.Read(env)
		if err != nil || len(entries) != 1 {
			t.Errorf("%s: %+v, %v", c.ID(), entries, err)
			continue
		}
		var got []string
		for _, kv := range entries[0].Env {
			got = append(got, show(kv.Value))
		}
		if want := []string{`<X or "d">`, `<HOME or "/x">"/y"`, `<X>`, `<X or "">`}; !slices.Equal(got, want) || len(entries[0].Problems) > 0 {
			t.Errorf("%s: %q, want %q; %q", c.ID(), got, want, entries[0].Problems)
		}
	}
}

func TestAnEditorsReferencesHaveDefaultsToo(t *testing.T) {
	env := emptyMachine(t)
	c, err := clients.ByID("cursor")
	if err != nil {
		t.Fatal(err)
	}
	write(t, c.Files(env)[0], `{"mcpServers": {"s": {"command": "c", "args": ["${env:X:-d}", "${userHome}", "${env:a.b:-hush}"]}}}`, 0o600)
	entries, err := c.Read(env)
	if err != nil || len(entries) != 1 || len(entries[0].Args) != 3 {
		t.Fatal(entries, err)
	}
	e := entries[0]
	if show(e.Args[0]) != `<X or "d">` || show(e.Args[1]) != fmt.Sprintf("%q", env.Home) {
		t.Errorf("got %s, %s", show(e.Args[0]), show(e.Args[1]))
	}
	if len(e.Problems) != 1 || strings.Contains(e.Problems[0], "hush") {
		t.Errorf("the problems are %q", e.Problems)
	}
}
