package clients

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

func TestValueDigestsTellValuesApart(t *testing.T) {
	values := []any{
		nil, "", "1", json.Number("1"), int64(1), 1.5, math.Inf(1), true, "true", "<nil>",
		time.Date(2026, 7, 28, 0, 0, 0, 0, time.UTC), "2026-07-28 00:00:00 +0000 UTC",
		[]any{}, []any{"a", "b"}, []any{"b", "a"}, []any{"a b"}, []any{[]any{"a"}, "b"}, []any{[]any{"a", "b"}},
		map[string]any{}, map[string]any{"a": "b"}, map[string]any{"a": "b", "c": "d"}, map[string]any{"a": map[string]any{"b": "c"}},
		map[string]any{"a": nil}, map[string]any{"a": []any{}}, "\"a\"\nstring \"b\"", []any{"a\"\nstring \"b"},
	}
	seen := map[string]any{}
	for _, v := range values {
		digest := valueDigest(v)
		if other, ok := seen[digest]; ok {
			t.Errorf("%#v and %#v are one", v, other)
		}
		seen[digest] = v
	}
}

func TestValueDigestsDoNotDependOnTheLayout(t *testing.T) {
	var a, b any
	for text, to := range map[string]*any{`{"x":1,"y":["é",{"z":null}]}`: &a, `{ "y": ["\u00e9", {"z": null}], "x": 1 }`: &b} {
		if err := json.Unmarshal([]byte(text), to); err != nil {
			t.Fatal(err)
		}
	}
	if valueDigest(a) != valueDigest(b) {
		t.Error("the same value has two digests")
	}
}

func TestNoFileIsNotAnEmptyFile(t *testing.T) {
	if contentDigest(nil) != "" || contentDigest([]byte{}) == "" {
		t.Errorf("got %q and %q", contentDigest(nil), contentDigest([]byte{}))
	}
}
