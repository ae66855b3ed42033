package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
)

func TestRedactForms(t *testing.T) {
	const tricky = "p/ä s+w?o&r=d<\"1~\n'x"
	for _, text := range []string{canary, tricky, "12345678", "1234567é", strings.Repeat("ab", 500)} {
		var r Redactor
		r.Add(NewValue(text))
		html, _ := json.Marshal(text)
		forms := map[string]string{
			"raw":           text,
			"std":           base64.StdEncoding.EncodeToString([]byte(text)),
			"raw std":       base64.RawStdEncoding.EncodeToString([]byte(text)),
			"url":           base64.URLEncoding.EncodeToString([]byte(text)),
			"raw url":       base64.RawURLEncoding.EncodeToString([]byte(text)),
			"query":         url.QueryEscape(text),
			"path":          url.PathEscape(text),
			"json":          string(html),
			"go":            fmt.Sprintf("%q", text),
			"in basic":      base64.StdEncoding.EncodeToString([]byte("u:" + text + ";")),
			"in basic 2":    base64.StdEncoding.EncodeToString([]byte("us:" + text)),
			"in basic 3":    base64.URLEncoding.EncodeToString([]byte("use:" + text + "xy")),
			"json embedded": `{"a":` + string(html) + `}`,
		}
		for name, form := range forms {
			in := "before " + form + " after " + form
			got := r.RedactString(in)
			if strings.Count(got, Mask) < 2 || !strings.HasPrefix(got, "before ") || !strings.Contains(got, " after ") {
				t.Errorf("%q as %s: %q became %q", text, name, in, got)
			}
		}
	}
}

func TestRedactOtherSpellings(t *testing.T) {
	tests := []struct{ secret, text string }{
		{"pass/wörd", `"pass\/wörd"`},
		{"pass/wörd", `"pass/w\u00f6rd"`},
		{"pass😀word", `"pass\ud83d\ude00word"`},
		{"pass/wo rd!", "pass%2fwo%20rd!"},
		{"pass/wo rd!", "pass%2Fwo+rd%21"},
		{"Bearer 0123456789abcdef", "token 0123456789abcdef"},
		{"-----BEGIN-----\nMIIEvQIBADANBgkqhki\nG9w0BAQEFAASC\n", "> MIIEvQIBADANBgkqhki"},
	}
	for _, tt := range tests {
		var r Redactor
		r.Add(NewValue(tt.secret))
		if got := r.RedactString(tt.text); !strings.Contains(got, Mask) {
			t.Errorf("%q is shown in %q", tt.secret, got)
		}
	}
}

func TestRedactLeavesTheRest(t *testing.T) {
	var r Redactor
	in := []byte("nothing known yet")
	if got := r.Redact(in); &got[0] != &in[0] {
		t.Error("copied although no secret is known")
	}
	r.Add(NewValue("1234567")) // one short
	r.Add(NewValue(""))
	r.Add(Value{})
	if got := r.RedactString("1234567"); got != "1234567" {
		t.Errorf("a short secret was replaced: %q", got)
	}
	r.Add(NewValue("12345678"))
	r.Add(NewValue("12345678-and-more"))
	for in, want := range map[string]string{
		"":                     "",
		"1":                    "1",
		"1234567":              "1234567",
		"12345678":             Mask,
		"x12345678":            "x" + Mask,
		"12345678x":            Mask + "x",
		"1234567812345678":     Mask + Mask,
		"12345678-and-more.":   Mask + ".", // the longest first
		"12345678-and-mor":     Mask + "-and-mor",
		"12341234567812345678": "1234" + Mask + Mask,
	} {
		if got := r.RedactString(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	in = []byte("a text without")
	if got := r.Redact(in); &got[0] != &in[0] {
		t.Error("copied although nothing matched")
	}
	in = []byte("12345678!")
	if r.Redact(in); string(in) != "12345678!" {
		t.Error("the input was changed")
	}
}

func TestRedactorIsSafeForConcurrentUse(t *testing.T) {
	var r Redactor
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			text := fmt.Sprintf("secret-number-%d", i)
			r.Add(NewValue(text))
			for range 100 {
				if got := r.RedactString("x " + text); got != "x "+Mask {
					t.Errorf("%q", got)
				}
			}
		})
	}
	wg.Wait()
}

func TestHandler(t *testing.T) {
	type config struct{ Token string }
	encoded := base64.StdEncoding.EncodeToString([]byte(canary))
	for name, newHandler := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var b bytes.Buffer
		var r Redactor
		log := slog.New(NewHandler(newHandler(&b), &r)).With("early", canary).WithGroup("outer").With("second", encoded)
		r.Add(NewValue(canary)) // learnt after With
		log.Info("message "+canary, "s", canary, "err", errors.New("echo "+canary), "bytes", []byte(canary),
			"struct", config{canary}, "pointer", &config{canary}, "map", map[string]any{"k": []string{canary}}, "blob", struct{ B []byte }{[]byte(canary)},
			slog.Group("inner", "deep", canary), canary, 1, "number", 42, "nil", (*nilError)(nil))
		out := b.String()
		if strings.Contains(out, canary) || strings.Contains(out, encoded) {
			t.Errorf("%s: shown: %s", name, out)
		}
		for _, want := range []string{"42", "message " + Mask, "early", "outer", "second", "inner", "deep"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: %q is missing in %s", name, want, out)
			}
		}
	}
}

type nilError struct{ msg string }

func (e *nilError) Error() string { return e.msg }

func TestHandlerKeepsGroupsAndOrder(t *testing.T) {
	var plain, wrapped bytes.Buffer
	opts := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}
	var r Redactor
	for _, h := range []slog.Handler{slog.NewJSONHandler(&plain, opts), NewHandler(slog.NewJSONHandler(&wrapped, opts), &r)} {
		log := slog.New(h).With("a", 1).WithGroup("g").With("b", 2).WithGroup("").WithGroup("h").With("c", 3)
		log.Info("m", "d", 4, slog.Group("i", "e", 5))
		log.Info("nothing")
		slog.New(h).Debug("off")
	}
	if plain.String() != wrapped.String() {
		t.Errorf("got  %s\nwant %s", wrapped.String(), plain.String())
	}
}

func BenchmarkRedactNothing(b *testing.B) {
	var r Redactor
	for i := range 50 {
		r.Add(NewValue(fmt.Sprintf("secret-%d-%s", i, canary)))
	}
	text := bytes.Repeat([]byte(`{"name":"a tool","value":"some text"} `), 1000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r.Redact(text)
	}
}
