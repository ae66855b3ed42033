package text

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestVisibleShowsWhatHides(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"plain", "drill 5 mm, naïve ☕ 漢字\u00a0x", "drill 5 mm, naïve ☕ 漢字\u00a0x"},
		{"lines and tabs stay", "a\n\tb", "a\n\tb"},
		{"terminal sequence", "\x1b[2Jgone\x07", `\x1b[2Jgone\x07`},
		{"eight-bit control", "\u009b31m", `\x9b31m`},
		{"carriage return", "safe\rEVIL", `safe\rEVIL`},
		{"direction", "a\u202eb\u2066c", `a\u202eb\u2066c`},
		{"zero width", "a\u200bb\ufeffc\u00ad", `a\u200bb\ufeffc\xad`},
		{"tags", "a\U000e0041b", `a\U000e0041b`},
		{"selectors", "a\U000e0100b\ufe05", `a\U000e0100b\ufe05`},
		{"emoji selector stays", "✔\ufe0f", "✔\ufe0f"},
		{"fillers", "a\u3164b\u2800c", `a\u3164b\u2800c`},
		{"separators", "a\u2028b\u2029c", `a\u2028b\u2029c`},
		{"no characters", "a\xff\xc3(b", `a\xff\xc3(b`},
		{"replacement stays", "a\ufffdb", "a\ufffdb"},
		{"private", "\ue000", `\ue000`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Visible(tt.text); got != tt.want {
				t.Errorf("Visible(%q) = %q; want %q", tt.text, got, tt.want)
			}
		})
	}
}

func TestOneLine(t *testing.T) {
	if got, want := OneLine(" a\r\n\tb  c\x00 "), `a b c\x00`; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
}

// What a terminal shows of JSON is the same value.
func TestVisibleJSONKeepsTheValue(t *testing.T) {
	const value = "a\u202eb\u009bc\U000e0041d ☕ \\ \""
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	shown := VisibleJSON(string(text))
	if strings.ContainsAny(shown, "\u202e\u009b\U000e0041") {
		t.Errorf("%q hides something", shown)
	}
	var got string
	if err := json.Unmarshal([]byte(shown), &got); err != nil || got != value {
		t.Errorf("%s reads as %q, %v; want %q", shown, got, err, value)
	}
}

func FuzzVisible(f *testing.F) {
	f.Add("a\x1b[31m\u202e")
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range Visible(text) {
			if c != '\n' && c != '\t' && !shows(c) {
				t.Fatalf("Visible(%q) lets %U through", text, c)
			}
		}
	})
}
