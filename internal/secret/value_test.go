package secret

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/goccy/go-yaml"
)

const canary = "cnry-7f3a91c04d"

func TestValueNeverPrints(t *testing.T) {
	v := NewValue(canary)
	hidden := struct{ v Value }{v}
	pointer := &hidden
	list := []Value{v}
	table := map[string]Value{"k": v}

	var shown []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%p", "%w", "%10.3s"} {
		for _, x := range []any{v, &v, hidden, pointer, list, table, any(v)} {
			shown = append(shown, fmt.Sprintf(verb, x))
		}
	}
	for _, x := range []any{v, &v, hidden, list, table} {
		for _, marshal := range []func(any) ([]byte, error){json.Marshal, func(x any) ([]byte, error) { return jsonv2.Marshal(x) }, yaml.Marshal} {
			if b, err := marshal(x); err == nil {
				shown = append(shown, string(b))
			}
		}
	}
	for _, newHandler := range []func(*bytes.Buffer) slog.Handler{
		func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var b bytes.Buffer
		slog.New(newHandler(&b)).Info("x", "a", v, "b", &v, "c", hidden, "d", list, "e", table, slog.Group("g", "f", v))
		shown = append(shown, b.String())
	}
	shown = append(shown, fmt.Sprint(v), fmt.Sprintln(v), fmt.Errorf("act: %v", v).Error())
	for _, s := range shown {
		if strings.Contains(s, canary) || strings.Contains(s, fmt.Sprintf("%x", canary)) {
			t.Errorf("shown: %s", s)
		}
	}
	if v.Reveal() != canary {
		t.Errorf("Reveal() = %q", v.Reveal())
	}
	if (Value{}).Reveal() != "" {
		t.Error("the zero Value is not empty")
	}
	if got := fmt.Sprintf("%s %v", v, v); got != Mask+" "+Mask {
		t.Errorf("printed %q", got)
	}
}
