package wire

import (
	"errors"
	"strings"
	"testing"
)

func TestRepair(t *testing.T) {
	const head = `{"jsonrpc":"2.0","id":7,`
	const note = `"io.toolcrib/repaired":true`
	for _, tc := range []struct{ name, in, want string }{
		{"a result without _meta", `"result":{"t":"` + "\xc3(" + `"}}`, `"result":{"t":"` + "\uFFFD(" + `","_meta":{` + note + `}}}`},
		{"one with it", `"result":{"_meta":{"a":1.0},"t":"` + "\xff\xfe" + `"}}`, `"result":{"_meta":{"a":1.0,` + note + `},"t":"` + "\uFFFD" + `"}}`},
		{"a _meta that is none", `"result":{"t":"` + "\xff" + `","_meta":null}}`, `"result":{"t":"` + "\uFFFD" + `","_meta":{` + note + `}}}`},
		{"a note that says otherwise", `"result":{"_meta":{"io.toolcrib/repaired":false},"t":"` + "\xff" + `"}}`, `"result":{"_meta":{` + note + `},"t":"` + "\uFFFD" + `"}}`},
		{"a name", `"result":{"` + "\xff" + `":1}}`, `"result":{"` + "\uFFFD" + `":1,"_meta":{` + note + `}}}`},
		{"a result that is no object", `"result":"` + "\xff" + `"}`, `"result":"` + "\uFFFD" + `"}`},
		{"an error", `"error":{"code":-1,"message":"` + "\xff" + `"}}`, `"error":{"code":-1,"message":"` + "\uFFFD" + `"}}`},
		{"escapes beside it", `"result":{"t":"\ud83d` + "\xff\u2028" + `\u0000"}}`, `"result":{"t":"\ud83d` + "\uFFFD\u2028" + `\u0000","_meta":{` + note + `}}}`},
		{"what follows the result", `"result":{"t":"` + "\xff" + `"},"x":1.0}`, `"result":{"t":"` + "\uFFFD" + `","_meta":{` + note + `}},"x":1.0}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, err := ScanServer([]byte(head + tc.in))
			if err != nil {
				t.Fatal(err)
			}
			if m.Legible() {
				t.Error("it is said to be legible")
			}
			got, err := Repair(m)
			if err != nil || string(got.Body) != head+tc.want || !got.Legible() || got.Kind != ResponseKind || string(got.ID.In(got.Body)) != "7" {
				t.Errorf("got %s, %v\nwant %s", got.Body, err, head+tc.want)
			}
		})
	}
}

func TestLegible(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "é\u2028\uFFFD": true, `\ud83d`: true, `\u0000`: true, strings.Repeat("\u0301", 1<<10): true,
		"\xff": false, "\xc0\xaf": false, "\xed\xa0\x80": false, "\xf5\x80\x80\x80": false, "a\xe2\x82": false,
	} {
		m, err := ScanServer([]byte(`{"jsonrpc":"2.0","id":1,"result":{"t":"` + text + `"}}`))
		if err != nil || m.Legible() != want {
			t.Errorf("%.20q: legible %v, want %v (%v)", text, m.Legible(), want, err)
		}
	}
}

// Two names of the envelope that are one after the repair make another message
// of it, which is refused.
func TestRepairRefuses(t *testing.T) {
	m, err := ScanServer([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	m.Body = []byte(`{"jsonrpc":"2.0","id":1,"result":{},"result":"` + "\xff" + `"}`)
	if got, err := Repair(m); !errors.Is(err, ErrInvalid) {
		t.Errorf("got %s, %v", got.Body, err)
	}
}

func TestLegibleMembers(t *testing.T) {
	for _, tc := range []struct{ in, want, left string }{
		{`{ "a" : 1.0 }`, `{ "a" : 1.0 }`, ""},
		{`{"a":"` + "\xff" + `"}`, `{}`, "a"},
		{`{ "a" : 1.0, "b":{"c":["` + "\xff" + `"]} ,"d":"\ud83d"}`, `{"a" : 1.0,"d":"\ud83d"}`, "b"},
		{`{"` + "x\xff" + `":1,"b":"` + "\xc3(" + `","c":null}`, `{"c":null}`, "x\uFFFD b"},
		{`["` + "\xff" + `"]`, `{}`, ""},
	} {
		got, left := LegibleMembers([]byte(tc.in))
		if string(got) != tc.want || strings.Join(left, " ") != tc.left {
			t.Errorf("%q: got %s without %q, want %s without %q", tc.in, got, left, tc.want, tc.left)
		}
	}
}
