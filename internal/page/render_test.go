package page

import (
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/secret"
	"github.com/toolcrib/toolcrib/internal/wire"
)

func TestRender(t *testing.T) {
	b := NewBlock()
	b.Transport = Transport{Command: []string{"npx", "-y", "@scope/pkg@1.2.3"}}
	b.Env = []NamedTemplate{{Name: "GH", Value: secret.Reference(secret.AnyStore, "GH_TOKEN")}, {Name: "LEVEL", Value: secret.Literal("debug")}}
	b.Enabled = false
	got, err := Render(b, "My\n--- Server", "Some text.\n")
	want := `---
mcp:
  transport:
    command: npx
    args:
      - "-y"
      - "@scope/pkg@1.2.3"
  env:
    GH: GH_TOKEN
    LEVEL:
      value: debug
  enabled: false
---

# My --- Server

Some text.
`
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
}

// TestRenderHardValues writes what YAML could take for something else and
// reads it back.
func TestRenderHardValues(t *testing.T) {
	for _, text := range []string{"", " ", "a: b", "a #b", "# c", "*x", "&x", "!y", "yes", "Null", "~", "true", "12", "0x10", "1e3", "1_000", ".inf", "2001-01-01", "12:30",
		"two\nlines", "a\r\nb", "tab\t", " lead", "trail ", `C:\x "q"`, `\\srv\share`, "{a}", "[b]", "%d", "`", "'", `"`, "|", ">", "?", "-", "- x", "=", "<<", "$x", "a$$b",
		"ünï 😀", "\u2028", "\ufeff", "\x01", "---", "--- x", "\n---\nmcp: {}\n---\n", "x\n  enabled: false", "a:", ":", "https://h/?a=1&b=<>"} {
		b := NewBlock()
		b.Transport.Command = []string{"x", text, "middle", text}
		b.Env = []NamedTemplate{{Name: "A", Value: secret.Literal(text)}, {Name: "B", Value: secret.Join(secret.Literal(text), secret.Reference("op", "a/b c"))}}
		b.Description = text
		if _, err := Render(b, text, text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestRenderEveryKey(t *testing.T) {
	b := Block{
		Transport:   Transport{Command: []string{"~/bin/x"}, Dir: "~/dir"},
		Env:         []NamedTemplate{{Name: "A", Value: secret.Reference("env", "A")}},
		Gates:       []Gate{{"*", crib.Deny}, {"a*", crib.Allow}, {"b", crib.Ask}},
		Tools:       []string{"!x", "*"},
		Era:         wire.Modern,
		Timeout:     90 * time.Second,
		Inherit:     Inherit{Names: []string{"A", "B"}},
		Methods:     []string{"vendor/*"},
		Dialogue:    Dialogue{Share: ShareSession, May: []string{}},
		Description: "d",
	}
	if _, err := Render(b, "t", ""); err != nil {
		t.Error(err)
	}
	b = NewBlock()
	b.Transport.URL = "https://h/m?a=1&b=2"
	b.Headers = []NamedTemplate{{Name: "X-B", Value: secret.Literal("1")}, {Name: "Authorization", Value: secret.Reference(secret.AnyStore, "lower")}}
	out, err := Render(b, "t", "")
	if err != nil || !strings.Contains(string(out), `Authorization: "${ secrets:lower }"`) || !strings.Contains(string(out), "b=2") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestRenderRefuses(t *testing.T) {
	for name, change := range map[string]func(*Block){
		"no transport":   func(b *Block) { b.Transport = Transport{} },
		"bad URL":        func(b *Block) { b.Transport = Transport{URL: "file:///x"} },
		"bad header":     func(b *Block) { b.Headers = []NamedTemplate{{Name: "A: b\nX", Value: secret.Literal("x")}} },
		"reserved":       func(b *Block) { b.Headers = []NamedTemplate{{Name: "Host", Value: secret.Literal("x")}} },
		"invalid UTF-8":  func(b *Block) { b.Description = "\xff" },
		"short timeout":  func(b *Block) { b.Timeout = time.Millisecond },
		"unknown effect": func(b *Block) { b.Gates = []Gate{{"a", "maybe"}} },
	} {
		b := NewBlock()
		b.Transport.URL = "https://h/"
		change(&b)
		if out, err := Render(b, "t", ""); crib.CodeOf(err) != crib.Invalid || out != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
