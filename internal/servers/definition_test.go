package servers

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/secret"
	"github.com/toolcrib/toolcrib/internal/wire"
)

func TestMatch(t *testing.T) {
	tests := []struct {
		pattern, name string
		want          bool
	}{
		{"search", "search", true},
		{"search", "Search", false},
		{"search", "search2", false},
		{"search*", "search", true},
		{"search*", "search_all", true},
		{"*search", "do_search", true},
		{"*", "", true},
		{"*", "anything.at-all/x", true},
		{"a*b*c", "abc", true},
		{"a*b*c", "aXbYc", true},
		{"a*b*c", "aXbY", false},
		{"a*b*c", "acb", false},
		{"*ab*ab", "ab", false}, // the same text cannot serve twice
		{"ab*ab", "aab", false},
		{"a*a", "a", false},
		{"*ab*ab", "abab", true},
		{"*ab", "aab", true},
		{"**", "x", true},
		{"a**b", "ab", true},
		{"vendor/*", "vendor/x/y", true},
		{"", "", true},
		{"", "x", false},
		{"a.c", "abc", false},
		{"a?c", "abc", false},
		{"[a]", "a", false},
	}
	for _, tt := range tests {
		if got := Match(tt.pattern, tt.name); got != tt.want {
			t.Errorf("Match(%q, %q) = %v", tt.pattern, tt.name, got)
		}
	}
}

func TestGateFor(t *testing.T) {
	gates := []Gate{{Pattern: "*", Effect: crib.Deny}, {Pattern: "search*", Effect: crib.Ask}, {Pattern: "search_docs", Effect: crib.Allow}, {Pattern: "search_*", Effect: crib.Allow}, {Pattern: "*_docs", Effect: crib.Allow}, {Pattern: "s*y", Effect: crib.Ask}, {Pattern: "s*x", Effect: crib.Allow}, {Pattern: "s*xy", Effect: crib.Deny}}
	reversed := append([]Gate{}, gates...)
	for i, j := 0, len(reversed)-1; i < j; i, j = i+1, j-1 {
		reversed[i], reversed[j] = reversed[j], reversed[i]
	}
	tests := []struct {
		tool    string
		effect  crib.Effect
		pattern string
	}{
		{"other", crib.Deny, "*"},
		{"search", crib.Ask, "search*"},
		{"search_docs", crib.Allow, "search_docs"}, // exact
		{"search_x", crib.Allow, "search_*"},       // the longer beginning
		{"read_docs", crib.Deny, "*"},              // no beginning each: the stricter
		{"sxy", crib.Deny, "s*xy"},                 // the same beginning: the stricter
		{"sx", crib.Allow, "s*x"},
	}
	for _, tt := range tests {
		for _, d := range []Definition{{Gates: gates}, {Gates: reversed}} {
			effect, pattern, explicit := d.GateFor(tt.tool)
			if effect != tt.effect || pattern != tt.pattern || !explicit {
				t.Errorf("GateFor(%q) = %s by %q, %v; want %s by %q", tt.tool, effect, pattern, explicit, tt.effect, tt.pattern)
			}
		}
	}
	if effect, _, explicit := (Definition{Gates: []Gate{{Pattern: "a", Effect: crib.Allow}}}).GateFor("b"); explicit || effect != "" {
		t.Errorf("a tool without a gate: %q, %v", effect, explicit)
	}
	odd := Definition{Gates: []Gate{{Pattern: "a*", Effect: "maybe"}, {Pattern: "a*b", Effect: crib.Allow}}}
	if effect, _, _ := odd.GateFor("ab"); effect == crib.Allow {
		t.Error("an unknown effect lost against allow")
	}
}

func TestOffers(t *testing.T) {
	tests := []struct {
		tools []string
		tool  string
		want  bool
	}{
		{nil, "x", true},
		{[]string{"search*", "!search_internal"}, "search_docs", true},
		{[]string{"search*", "!search_internal"}, "search_internal", false},
		{[]string{"!search_internal", "search*"}, "search_internal", false}, // the order does not count
		{[]string{"search*"}, "read", false},
		{[]string{"!drop*"}, "read", true},
		{[]string{"!drop*"}, "drop_all", false},
		{[]string{"*", "!*"}, "read", false},
		{[]string{"a", "b"}, "b", true},
	}
	for _, tt := range tests {
		if got := (Definition{Tools: tt.tools}).Offers(tt.tool); got != tt.want {
			t.Errorf("%q offers %q: %v", tt.tools, tt.tool, got)
		}
	}
}

func TestPassesMethod(t *testing.T) {
	d := Definition{Methods: []string{"vendor/*", "*", "tools/call"}}
	for m, want := range map[string]bool{"vendor/x": true, "other": true, "tools/call": false, "tools/x": false, "notifications/x": false, "ping": false, "initialize": false} {
		if got := d.PassesMethod(m); got != want {
			t.Errorf("%s: %v", m, got)
		}
	}
	if (Definition{}).PassesMethod("vendor/x") {
		t.Error("a method passes without a pattern")
	}
}

func TestFingerprint(t *testing.T) {
	base := func() Definition {
		return Definition{
			Name:      "x",
			Transport: Transport{Command: []string{"npx", "-y"}, Dir: "d"},
			Env:       []NamedTemplate{{Name: "A", Value: secret.Reference("env", "A")}, {Name: "B", Value: secret.Literal("b")}},
			Headers:   []NamedTemplate{{Name: "H", Value: secret.Literal("h")}},
			Enabled:   true,
		}
	}
	// Fixed, because it is kept on disk: another value forgets what is known of
	// every server.
	const known = "v1:b647a5fcfc646874c94672ed38a84df354883029c2cc99467cd3841c3201ba44"
	if got := base().Fingerprint(); got != known {
		t.Errorf("Fingerprint() = %q, want %q", got, known)
	}
	same := map[string]func(*Definition){
		"name":        func(d *Definition) { d.Name = "y" },
		"source":      func(d *Definition) { d.Source = Source{FromPage, "f", 3} },
		"gates":       func(d *Definition) { d.Gates = []Gate{{Pattern: "*", Effect: crib.Ask}} },
		"tools":       func(d *Definition) { d.Tools = []string{"a"} },
		"enabled":     func(d *Definition) { d.Enabled = false },
		"description": func(d *Definition) { d.Description = "d" },
		"timeout":     func(d *Definition) { d.Timeout = time.Hour },
		"body":        func(d *Definition) { d.Body = "b" },
		"order":       func(d *Definition) { d.Env[0], d.Env[1] = d.Env[1], d.Env[0] },
		"places":      func(d *Definition) { d.Env[0].At.Line = 9 },
		"empty":       func(d *Definition) { d.Inherit.Names = nil },
	}
	for what, change := range same {
		d := base()
		change(&d)
		if d.Fingerprint() != base().Fingerprint() {
			t.Errorf("%s changes the fingerprint", what)
		}
	}
	other := map[string]func(*Definition){
		"URL":          func(d *Definition) { d.Transport = Transport{URL: "https://h"} },
		"argument":     func(d *Definition) { d.Transport.Command = []string{"npx", "-y", ""} },
		"joined":       func(d *Definition) { d.Transport.Command = []string{"npx -y"} },
		"folder":       func(d *Definition) { d.Transport.Dir = "e" },
		"reference":    func(d *Definition) { d.Env[0].Value = secret.Reference("file", "A") },
		"literal":      func(d *Definition) { d.Env[1].Value = secret.Literal("c") },
		"like a ref":   func(d *Definition) { d.Env[0].Value = secret.Literal("${ env:A }") },
		"variable":     func(d *Definition) { d.Env[0].Name = "C" },
		"header":       func(d *Definition) { d.Headers = nil },
		"header moved": func(d *Definition) { d.Env = append(d.Env, d.Headers...); d.Headers = nil },
		"inherit none": func(d *Definition) { d.Inherit.None = true },
		"inherit":      func(d *Definition) { d.Inherit.Names = []string{"A"} },
		"era":          func(d *Definition) { d.Era = wire.Legacy },
	}
	seen := map[string]string{base().Fingerprint(): "nothing"}
	for what, change := range other {
		d := base()
		change(&d)
		if before, twice := seen[d.Fingerprint()]; twice {
			t.Errorf("%s has the fingerprint of %s", what, before)
		}
		seen[d.Fingerprint()] = what
	}
}

func TestResolve(t *testing.T) {
	vars := map[string]string{"TOKEN": "t0ken", "BASIC": "Basic dTpw", "LF": "a\nb", "EMPTY": ""}
	stores, err := secret.NewStores(secret.Options{
		Specs:     []secret.StoreSpec{{Kind: secret.EnvStore}},
		LookupEnv: func(name string) (string, bool) { v, ok := vars[name]; return v, ok },
	})
	if err != nil {
		t.Fatal(err)
	}
	header := func(name, from string) Definition {
		return Definition{Name: "x", Headers: []NamedTemplate{{Name: name, Value: secret.Reference("env", from)}}}
	}
	for _, tt := range []struct {
		d    Definition
		want string
		err  string
	}{
		{header("Authorization", "TOKEN"), "Bearer t0ken", ""},
		{header("authorization", "TOKEN"), "Bearer t0ken", ""},
		{header("Authorization", "BASIC"), "Basic dTpw", ""},
		{header("X-Api-Key", "TOKEN"), "t0ken", ""},
		{header("X-Api-Key", "LF"), "", "line break"},
		{header("X-Api-Key", "NOPE"), "", "header X-Api-Key of server x: secret NOPE is not set"},
		{header("X-Api-Key", "EMPTY"), "", "secret EMPTY is not set"},
	} {
		got, err := tt.d.ResolveHeaders(t.Context(), stores)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || got != nil {
				t.Errorf("%v: %v", tt.d.Headers, err)
			}
			continue
		}
		if err != nil || len(got) != 1 || got[0].Value.Reveal() != tt.want {
			t.Errorf("%v: %v, %v", tt.d.Headers, got, err)
		}
	}
	d := Definition{Name: "x", Env: []NamedTemplate{{Name: "A", Value: secret.Reference("env", "LF")}, {Name: "B", Value: secret.Literal("")}}}
	got, err := d.ResolveEnv(t.Context(), stores)
	if err != nil || len(got) != 2 || got[0].Value.Reveal() != "a\nb" || got[1].Value.Reveal() != "" {
		t.Errorf("env: %v, %v", got, err)
	}
	d.Env[0].Value = secret.Reference("env", "NOPE")
	if _, err := d.ResolveEnv(t.Context(), stores); crib.CodeOf(err) != crib.Unavailable {
		t.Errorf("env: %v", err)
	}
	if refs := d.Refs(); !reflect.DeepEqual(refs, []secret.Ref{{Store: "env", Name: "NOPE"}}) {
		t.Errorf("Refs() = %v", refs)
	}
}
