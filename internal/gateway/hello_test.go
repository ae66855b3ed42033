package gateway

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/toolcrib/toolcrib/internal/catalog"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/page"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

func TestClip(t *testing.T) {
	tests := []struct {
		s    string
		n    int
		want string
	}{
		{"abcdef", 5, "ab…"},
		{"abcdef", 3, "…"},
		{"abcdef", 2, ""},
		{"abcdef", 0, ""},
		{"abcdef", -7, ""},
		{"aäbc", 5, "a…"},   // the cut lies in ä
		{"aäbcd", 6, "aä…"}, // and behind it
		{"🙂🙂", 7, "🙂…"},
		{"🙂🙂", 6, "…"},
		{"\x80\x80\x80\x80\x80", 4, "…"},
	}
	for _, tt := range tests {
		got := clip(tt.s, tt.n)
		if got != tt.want {
			t.Errorf("clip(%q, %d) is %q, want %q", tt.s, tt.n, got, tt.want)
		}
		if len(got) > max(tt.n, 0) {
			t.Errorf("clip(%q, %d) has %d bytes", tt.s, tt.n, len(got))
		}
	}
}

// withInstructions is a gateway before HTTP peers that gave these
// instructions, by the names of the servers.
func withInstructions(t *testing.T, given map[string]string) *Gateway {
	t.Helper()
	var defs []servers.Definition
	for name, text := range given {
		peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Instructions: text}})
		defs = append(defs, servers.Definition{Name: name, Transport: page.Transport{URL: peer.URL}})
	}
	g := newGateway(t, defs...)
	for _, srv := range g.cat.Servers() {
		if _, err := srv.List(t.Context(), upstream.Want{Era: wire.Modern}, catalog.Tools); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// The aggregate's instructions are ours and the servers', each under its name
// and in order, and no longer than the limit.
func TestInstructions(t *testing.T) {
	room := MaxInstructions - len(ownInstructions)
	fits := strings.Repeat("x", room-len("\n\na:\n"))
	tests := []struct {
		name  string
		given map[string]string
		want  string // behind our own
	}{
		{"none", map[string]string{"a": "", "b": ""}, ""},
		{"two", map[string]string{"b": "Second.", "a": "First."}, "\n\na:\nFirst.\n\nb:\nSecond."},
		{"one that says nothing", map[string]string{"a": "", "b": "Second."}, "\n\nb:\nSecond."},
		{"just fits", map[string]string{"a": fits}, "\n\na:\n" + fits},
		{"one byte too many", map[string]string{"a": fits + "y"}, "\n\na:\n" + fits[:len(fits)-len(ellipsis)] + ellipsis},
		{"nothing left for the next", map[string]string{"a": fits, "b": "Second."}, "\n\na:\n" + fits},
		{"cut in a character", map[string]string{"a": fits[:len(fits)-4] + "ääää"}, "\n\na:\n" + fits[:len(fits)-4] + ellipsis},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := withInstructions(t, tt.given).instructions(&Request{Principal: someone, Era: wire.Modern})
			if got != ownInstructions+tt.want {
				t.Errorf("got %d bytes, which end in %q; want %d that end in %q",
					len(got), tail(got), len(ownInstructions)+len(tt.want), tail(tt.want))
			}
			if len(got) > MaxInstructions || !utf8.ValidString(got) {
				t.Errorf("%d bytes, valid %v", len(got), utf8.ValidString(got))
			}
		})
	}
}

func tail(s string) string { return s[max(0, len(s)-20):] }

func TestMethodsOf(t *testing.T) {
	ch := func(server string, k catalog.Kind) catalog.Change { return catalog.Change{Server: server, Kind: k} }
	const (
		tools     = "notifications/tools/list_changed"
		prompts   = "notifications/prompts/list_changed"
		resources = "notifications/resources/list_changed"
	)
	tests := []struct {
		name    string
		changes []catalog.Change
		server  string
		kinds   *[len(catalog.Kinds)]bool
		want    string
	}{
		{"nothing", nil, "", nil, ""},
		{"each once, in order", []catalog.Change{ch("a", catalog.Prompts), ch("b", catalog.Tools), ch("a", catalog.Tools)}, "", nil, tools + " " + prompts},
		{"resources and templates are one", []catalog.Change{ch("a", catalog.Templates), ch("a", catalog.Resources)}, "", nil, resources},
		{"templates alone", []catalog.Change{ch("a", catalog.Templates)}, "", nil, resources},
		{"of another server", []catalog.Change{ch("a", catalog.Tools)}, "b", nil, ""},
		{"of the server", []catalog.Change{ch("a", catalog.Tools), ch("b", catalog.Prompts)}, "b", nil, prompts},
		{"not wanted", []catalog.Change{ch("a", catalog.Tools), ch("a", catalog.Prompts)}, "", &[len(catalog.Kinds)]bool{catalog.Prompts: true}, prompts},
		{"nothing wanted", []catalog.Change{ch("a", catalog.Tools)}, "", &[len(catalog.Kinds)]bool{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := strings.Join(methodsOf(tt.changes, tt.server, tt.kinds), " "); got != tt.want {
				t.Errorf("got %s", got)
			}
		})
	}
}
