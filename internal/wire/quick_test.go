package wire

import (
	"reflect"
	"strings"
	"testing"
)

// agree holds the quick scan against the full one: what it takes, the full one
// takes alike.
func agree(t *testing.T, b []byte) (quick bool) {
	t.Helper()
	for _, strict := range []bool{true, false} {
		got, ok := quickScan(b, strict)
		if !ok {
			continue
		}
		quick = true
		want, err := fullScan(b, strict)
		if err != nil {
			t.Fatalf("strict %v: the quick scan took %q; the full one: %v", strict, b, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("strict %v: %q\nquick: %+v\nfull:  %+v", strict, b, got, want)
		}
	}
	return quick
}

const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":%s}}`

// Values of every kind, broken in every way: the two scans agree on each, and
// what is ordinary is taken quickly.
func TestQuickScanAgrees(t *testing.T) {
	ordinary := []string{
		`{}`, `[]`, `0`, `-0`, `-1.5e+10`, `1E9`, `true`, `false`, `null`, `""`, `"é\u00e9\n"`, ` [ 1 , [ ] , { "a" : [ { } ] } ] `,
		`{"a":1,"b":{"a":1}}`, `"0123456789abcdef0123456789"`, "\"\u2028\"", `"\ud7ff"`, `"\uE000"`, `[{"a":1},{"a":1}]`,
		`{"` + strings.Repeat("x", 200) + `":1}`,
	}
	for _, v := range ordinary {
		if !agree(t, []byte(strings.ReplaceAll(call, "%s", v))) {
			t.Errorf("%s is left to the full scan", v)
		}
	}
	broken := []string{
		``, `{`, `}`, `[`, `]`, `[1,]`, `[,1]`, `[1 2]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a":1 "b":2}`, `{a:1}`, `'a'`,
		`01`, `-`, `1.`, `.5`, `1e`, `1e+`, `+1`, `0x1`, `NaN`, `tru`, `truex`, `nul`, "\"\x01\"", "\"\x7f\"", `"`, `"\`, `"\x"`, `"\u12"`, `"\u12g4"`,
		`"\ud800"`, `"\uDFFF"`, `"\ud83d\ude00"`, "\"\xc3(\"", "\"\xff\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`,
		strings.Repeat("[", 100) + strings.Repeat("]", 100), `1}}x`, `1}}{}`, "1\x00",
		`{"` + strings.Repeat(`a":1,"b`, 40) + `":1}`,
	}
	for _, v := range broken {
		agree(t, []byte(strings.ReplaceAll(call, "%s", v)))
	}
	for _, whole := range []string{
		``, ` `, `null`, `[]`, `{}`, `{"jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","method":"a"}`, `{"jsonrpc":"2.0","method":"a","params":null}`, `{"jsonrpc":"2.0","method":"a","params":[]}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":1}}`, `{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, `{"jsonrpc":"2.0","id":1.0,"result":1}`,
		`{"jsonrpc":"2.0","id":1,"ID":2,"method":"a"}`, `{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}`, `{"jsonrpc":"2.0","id":1,"x":1,"x":2,"method":"a"}`,
		`{"jsonrpc":"2.0","id":1,"method":"a","paramſ":{}}`, `{"jsonrpc":"2.0","id":1,"\u006dethod":"a"}`,
		`{"jsonrpc":"2.0","id":"a","method":"a","params":{"_meta":{"progressToken":1,"progressToken":2}}}`, `{"jsonrpc":"2.0","id":"a","method":"a","params":{"_meta":7,"Name":1}}`,
		"\ufeff{\"jsonrpc\":\"2.0\",\"method\":\"a\"}", " {\"jsonrpc\":\"2.0\",\"method\":\"a\"}\r\n ",
	} {
		agree(t, []byte(whole))
	}
	agree(t, benchCall)
	agree(t, benchAnswer)
	for i := range benchCall {
		for _, c := range []byte("\x00\"\\{}[]:,e0 \xff") {
			b := append([]byte(nil), benchCall...)
			b[i] = c
			agree(t, b)
			agree(t, b[:i])
		}
	}
}

func FuzzQuickScan(f *testing.F) {
	f.Add(benchCall)
	f.Add(benchAnswer)
	f.Add([]byte(`{"jsonrpc":"2.0","id":"x","method":"a","params":{"a":[1.5e3,-0,"\u12ab\"é"],"_meta":{"a":{"b":[]}}}}`))
	f.Add([]byte(` {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"x","data":[true,false,null]}} `))
	f.Fuzz(func(t *testing.T, b []byte) { agree(t, b) })
}
