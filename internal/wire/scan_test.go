package wire

import (
	"errors"
	"testing"
)

func TestScanFindsMembers(t *testing.T) {
	body := []byte(` {"jsonrpc" : "2.0","id":9007199254740993,"method":"tools/call","params":{ "_meta" : { "progressToken" : "t", "x":1 },"name":"a\u0062","arguments":{"n":1.0}}}`)
	m, err := Scan(body)
	if err != nil {
		t.Fatal(err)
	}
	for what, got := range map[string]string{
		"9007199254740993":                 string(m.ID.In(body)),
		`{"n":1.0}`:                        string(m.Params.Arguments.In(body)),
		`"t"`:                              string(m.Meta.ProgressToken.In(body)),
		`{ "progressToken" : "t", "x":1 }`: string(m.Params.Meta.In(body)),
		`{ "_meta" : { "progressToken" : "t", "x":1 },"name":"a\u0062","arguments":{"n":1.0}}`: string(m.Params.All.In(body)),
	} {
		if got != what {
			t.Errorf("got %s, want %s", got, what)
		}
	}
	if name, _ := m.Params.Name.Text(body); name != "ab" || m.Method != "tools/call" || m.Kind != RequestKind {
		t.Errorf("name %q method %q kind %d", name, m.Method, m.Kind)
	}
}

func TestScanEmptyObjects(t *testing.T) {
	body := []byte(`{"jsonrpc":"2.0","id":"x","method":"ping","params":{"_meta":{ }}}`)
	m, err := Scan(body)
	if err != nil || string(m.Params.Meta.In(body)) != "{ }" || string(m.Params.All.In(body)) != `{"_meta":{ }}` {
		t.Fatalf("%v %s %s", err, m.Params.Meta.In(body), m.Params.All.In(body))
	}
}

// Shapes by which one reader could be made to see another message than the
// next one.
func TestScanRefusesSmuggling(t *testing.T) {
	for _, tc := range []struct {
		body string
		want error
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list","METHOD":"tools/call"}`, ErrInvalid},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"safe","Name":"danger"}}`, ErrInvalid},
		{`{"jsonrpc":"2.0","id":1,"method":"a","param\u017f":{}}`, ErrInvalid},
		{`{"jsonrpc":"2.0","id":1,"method":"a","paramſ":{}}`, ErrInvalid},
		{`{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}`, ErrInvalid},
		{`{"jsonrpc":"2.0","id":1,"method":"a","\u006dethod":"b"}`, ErrInvalid},
		{`{"jsonrpc":"2.0","id":1,"method":"a","params":{"name":"x","n\u0061me":"y"}}`, ErrInvalid},
		{`{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"a":1,"a":2}}}`, ErrInvalid},
		{`{"jsonrpc":"2.0","id":1,"method":"a","params":{"arguments":{"a":1,"a":2}}}`, ErrInvalid},
		{`{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"IO.modelcontextprotocol/protocolVersion":"x"}}}`, ErrInvalid},
		{`{"jsonrpc":"2.0","id":1,"method":"a","params":{"_META":{}}}`, ErrInvalid},
		{`{"jsonrpc":"2.0","id":1,"method":"a","result":{}}`, ErrInvalid},
		{`{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, ErrInvalid},
		{`{"jsonrpc":"2.0","id":1,"method":"a"} {"jsonrpc":"2.0"}`, ErrParse},
		{` [{"jsonrpc":"2.0","id":1,"method":"a"}]`, ErrBatch},
		{`[]`, ErrBatch},
		{`{"jsonrpc":"2.0","id":null,"method":"a"}`, ErrInvalid},
		{`{"jsonrpc":"2.0","id":1.5,"method":"a"}`, ErrInvalid},
		{`{"jsonrpc":"2.0","id":{},"method":"a"}`, ErrInvalid},
		{`{"jsonrpc":"2.0","id":1,"method":"a","params":[1]}`, ErrInvalid},
		{`{"jsonrpc":"1.0","id":1,"method":"a"}`, ErrInvalid},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":{\"arguments\":\"\xff\"}}", ErrParse},
		{`{"jsonrpc":"2.0","id":1,"method":"a"`, ErrParse},
		{`42`, ErrInvalid},
		{``, ErrParse},
	} {
		if _, err := Scan([]byte(tc.body)); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.body, err, tc.want)
		}
	}
}

func TestScanServerCarriesWhatItNeedNotKnow(t *testing.T) {
	m, err := ScanServer([]byte(`{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}`))
	if err != nil || m.Kind != ResponseKind {
		t.Fatal(err)
	}
	if _, err := ScanServer([]byte(`{"jsonrpc":"2.0","id":1,"id":2,"result":{}}`)); err == nil {
		t.Fatal("an envelope with two ids was taken")
	}
	m, err = ScanServer([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`))
	if err != nil || m.Kind != ResponseKind || m.ID.OK() {
		t.Fatal(err, m.Kind, m.ID)
	}
}

func TestSetMembersKeepsTheRest(t *testing.T) {
	got := string(SetMembers(nil, []byte(`{ "a" : 1.0, "b":"<&\u2028>" ,"c":null}`), Set{"a", nil}, Set{"c", []byte("2")}, Set{"d", []byte(`"x"`)}))
	if want := `{"b":"<&\u2028>","c":2,"d":"x"}`; got != want {
		t.Fatalf("got %s want %s", got, want)
	}
}

func FuzzScan(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":1},"name":"x","arguments":{}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"a","result":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Scan(b)
		if err != nil {
			return
		}
		// What was found must lie where it is said to lie.
		again, err := Scan(Apply(nil, b, Edit{At: m.ID, With: m.ID.In(b)}))
		if err != nil || again.Method != m.Method {
			t.Fatalf("a message that was taken is refused when copied: %v", err)
		}
	})
}
