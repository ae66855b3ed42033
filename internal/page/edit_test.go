package page

import (
	"bytes"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/crib"
)

func TestSetEnabled(t *testing.T) {
	tests := []struct {
		name    string
		before  string
		enabled bool
		after   string
	}{
		{"change", "mcp:\n  transport: { stdio: x }\n  enabled: true # why\n", false, "mcp:\n  transport: { stdio: x }\n  enabled: false # why\n"},
		{"back", "mcp:\n  enabled: false\n  transport: { stdio: x }\n", true, "mcp:\n  enabled: true\n  transport: { stdio: x }\n"},
		{"spelling", "mcp:\n  enabled:    True   # x\n  transport: { stdio: x }\n", false, "mcp:\n  enabled:    false   # x\n  transport: { stdio: x }\n"},
		{"insert", "# c\nmcp: # d\n    # e\n    transport: { stdio: x }\n", false, "# c\nmcp: # d\n    # e\n    enabled: false\n    transport: { stdio: x }\n"},
		{"insert in one line", "mcp: { transport: { stdio: ä } } # c\n", false, "mcp: { enabled: false, transport: { stdio: ä } } # c\n"},
		{"change in one line", "mcp: { description: äöü😀, enabled: true, transport: { stdio: x } }\n", false, "mcp: { description: äöü😀, enabled: false, transport: { stdio: x } }\n"},
		{"insert in braces", "mcp: {\n  transport: { stdio: x },\n}\n", false, "mcp: {\n  enabled: false,\n  transport: { stdio: x },\n}\n"},
		{"metadata", "metadata:\n  a: b\n  mcp:\n    transport: { stdio: x }\n", false, "metadata:\n  a: b\n  mcp:\n    enabled: false\n    transport: { stdio: x }\n"},
		{"nothing to do", "mcp: { transport: { stdio: x } }\n", true, "mcp: { transport: { stdio: x } }\n"},
		{"another enabled", "other: { enabled: true }\nmcp:\n  transport: { stdio: x }\n  enabled: true\n", false, "other: { enabled: true }\nmcp:\n  transport: { stdio: x }\n  enabled: false\n"},
	}
	for _, tt := range tests {
		for form, change := range map[string]func(string) string{
			"LF":   func(s string) string { return s },
			"CRLF": func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
			"BOM":  func(s string) string { return "\ufeff" + s },
		} {
			const body = "---\n# Title\nenabled: true\n"
			before, want := change("---\n"+tt.before+body), change("---\n"+tt.after+body)
			got, err := SetEnabled([]byte(before), tt.enabled)
			if err != nil || string(got) != want {
				t.Errorf("%s, %s: %v\n got %q\nwant %q", tt.name, form, err, got, want)
			}
		}
	}
}

func TestSetEnabledRefuses(t *testing.T) {
	for _, tt := range []struct {
		src  string
		code crib.Code
	}{
		{"no front matter", crib.Invalid},
		{"---\nmcp: { transport: { stdio: x }, enabled: yes }\n---\n", crib.Invalid},
		{"---\nmcp: # {\n  transport: { stdio: x }\n---\n", crib.Unsupported},
	} {
		src := []byte(tt.src)
		out, err := SetEnabled(src, false)
		if crib.CodeOf(err) != tt.code || out != nil || string(src) != tt.src {
			t.Errorf("%q: %q, %v", tt.src, out, err)
		}
	}
}

func FuzzSetEnabled(f *testing.F) {
	f.Add([]byte("---\nmcp: { transport: { stdio: x } }\n---\n"), true)
	f.Add([]byte("---\nmcp:\n  enabled: false\n  transport: { http: https://h }\n---\nx"), true)
	f.Fuzz(func(t *testing.T, src []byte, enabled bool) {
		kept := bytes.Clone(src)
		out, err := SetEnabled(src, enabled)
		if !bytes.Equal(kept, src) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			return
		}
		if p, faults := Parse("x", out); Faulty(faults) || p.Block.Enabled != enabled {
			t.Errorf("%q became %q", src, out)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("---\nmcp:\n  transport: { http: https://mcp.example.com/v1 }\n  headers: { Authorization: EXAMPLE_MCP_TOKEN }\n---\n# x\n"))
	f.Add([]byte("\ufeff---\r\nmcp:\r\n  transport: { command: npx, args: [-y, \"@a/b@1\"] }\r\n  env: { A: { value: x }, B: \"${ env:B }\" }\r\n---\r\n"))
	f.Add([]byte("---\nmcp: { transport: { stdio: 'a \"b c\"' }, gate: { \"*\": ask }, timeout: 5s, may: [] }\n---"))
	f.Fuzz(func(t *testing.T, src []byte) {
		p, faults := Parse("f", src)
		for _, fault := range faults {
			if fault.Msg == "" || fault.Line < 0 || fault.Col < 0 {
				t.Errorf("fault %#v", fault)
			}
		}
		if Faulty(faults) {
			return
		}
		if tr := p.Block.Transport; (tr.URL == "") == (len(tr.Command) == 0) {
			t.Errorf("transport %+v", tr)
		}
		// What was understood can be written down and means the same.
		out, err := Render(p.Block, "t", "")
		if err != nil {
			return
		}
		if again, faults := Parse("f", out); Faulty(faults) || !sameBlock(p.Block, again.Block) {
			t.Errorf("rendered %q", out)
		}
	})
}
