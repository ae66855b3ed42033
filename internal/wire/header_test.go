package wire

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHeaderEncoding(t *testing.T) {
	for text, header := range map[string]string{
		"us-west1":                  "us-west1",
		"us west 1":                 "us west 1",
		"":                          "",
		"file:///a/b%20c.txt?x=1&y": "file:///a/b%20c.txt?x=1&y",
		"=?base64?":                 "=?base64?",
		"=?BASE64?abc?=":            "=?BASE64?abc?=",
		"a=?base64?abc?=":           "a=?base64?abc?=",
		"Hello, 世界":                 "=?base64?SGVsbG8sIOS4lueVjA==?=",
		" padded ":                  "=?base64?IHBhZGRlZCA=?=",
		" us-west1":                 "=?base64?IHVzLXdlc3Qx?=",
		"us-west1 ":                 "=?base64?dXMtd2VzdDEg?=",
		" ":                         "=?base64?IA==?=",
		"\tindented":                "=?base64?CWluZGVudGVk?=",
		"in\tside":                  "=?base64?aW4Jc2lkZQ==?=",
		"line1\nline2":              "=?base64?bGluZTEKbGluZTI=?=",
		"line1\r\nline2":            "=?base64?bGluZTENCmxpbmUy?=",
		"\x00":                      "=?base64?AA==?=",
		"\x7f":                      "=?base64?fw==?=",
		"=?base64?literal?=":        "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",
		"=?base64??=":               "=?base64?PT9iYXNlNjQ/Pz0=?=",
		"=?base64?=":                "=?base64?PT9iYXNlNjQ/PQ==?=",
	} {
		if got := EncodeHeader(text); got != header {
			t.Errorf("%q is encoded as %q, want %q", text, got, header)
		}
		if got, err := DecodeHeader(header); got != text || err != nil {
			t.Errorf("%q is decoded as %q, %v, want %q", header, got, err, text)
		}
	}
}

func TestDecodeHeaderTakes(t *testing.T) {
	for header, text := range map[string]string{
		"=?base64?SGVsbG8=?=": "Hello", // need not have been encoded
		"=?base64??=":         "",
		"=?BASE64?SGVsbG8=?=": "=?BASE64?SGVsbG8=?=",
		"=?base64?SGVsbG8=":   "=?base64?SGVsbG8=",
		"SGVsbG8=?=":          "SGVsbG8=?=",
		"=?base64?=":          "=?base64?=", // the marks must not overlap
		"in\tside":            "in\tside",
	} {
		if got, err := DecodeHeader(header); got != text || err != nil {
			t.Errorf("%q is decoded as %q, %v, want %q", header, got, err, text)
		}
	}
}

func TestDecodeHeaderRefuses(t *testing.T) {
	for what, header := range map[string]string{
		"no padding":            "=?base64?SGVsbG8?=",
		"characters":            "=?base64?SGVs!!!bG8=?=",
		"URL alphabet":          "=?base64?_-8=?=",
		"a space in it":         "=?base64?SGVs bG8=?=",
		"bits behind the text":  "=?base64?SGVsbG9=?=",
		"not UTF-8":             "=?base64?/w==?=",
		"a line end":            "a\nb",
		"a CR in base64":        "=?base64?SGVs\rbG8=?=",
		"NUL":                   "a\x00",
		"DEL":                   "a\x7f",
		"UTF-8 without base64":  "日本",
		"Latin-1":               "R\xe9gion",
		"a control in the mark": "=?base64?\x01?=",
	} {
		if got, err := DecodeHeader(header); err == nil {
			t.Errorf("%s: %q is decoded as %q", what, header, got)
		}
	}
}

func FuzzHeaderEncoding(f *testing.F) {
	f.Add("plain")
	f.Add("=?base64?x?=")
	f.Add(" \tü")
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "?")
		header := EncodeHeader(s)
		if header != strings.Trim(header, " \t") {
			t.Fatalf("%q is encoded as %q, which HTTP trims", s, header)
		}
		if got, err := DecodeHeader(header); got != s || err != nil {
			t.Fatalf("%q came back as %q, %v", s, got, err)
		}
	})
}

// message scans a request with the method and params given.
func message(t testing.TB, method, params string) *Message {
	t.Helper()
	m, err := Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":` + string(Quote(method)) + `,"params":` + params + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return &m
}

func notification(t testing.TB, method string) *Message {
	t.Helper()
	m, err := Scan([]byte(`{"jsonrpc":"2.0","method":` + string(Quote(method)) + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return &m
}

func TestMirrorName(t *testing.T) {
	for _, tc := range []struct {
		method, params, want string
		ok                   bool
	}{
		{"tools/call", `{"name":"a\u0062","uri":"no"}`, "ab", true},
		{"tools/call", `{"name":""}`, "", true},
		{"tools/call", `{"arguments":{"name":"no"}}`, "", false},
		{"tools/call", `{"name":1}`, "", false},
		{"prompts/get", `{"name":"review"}`, "review", true},
		{"resources/read", `{"uri":"file:///ü","name":"no"}`, "file:///ü", true},
		{"resources/subscribe", `{"uri":"file:///a"}`, "", false},
		{"tasks/get", `{"taskId":"t1"}`, "t1", true},
		{"tasks/cancel", `{"taskId":"t1","name":"no"}`, "t1", true},
		{"tasks/list", `{}`, "", false},
		{"tools/list", `{"name":"no"}`, "", false},
		{"completion/complete", `{"name":"no"}`, "", false},
	} {
		got, ok := MirrorName(message(t, tc.method, tc.params))
		if got != tc.want || ok != tc.ok {
			t.Errorf("%s %s: got %q, %t", tc.method, tc.params, got, ok)
		}
	}
	m, err := Scan([]byte(`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if name, ok := MirrorName(&m); ok {
		t.Errorf("a notification carries the name %q", name)
	}
}

const metaModern = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`

// headers makes a header from name and value in turn, adding each.
func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// checkRefusal reports whether err is what the case wants: no error for "",
// else a *HeaderError whose message contains want.
func checkRefusal(t *testing.T, what string, err error, want string) {
	t.Helper()
	var refused *HeaderError
	switch {
	case want == "":
		if err != nil {
			t.Errorf("%s: refused: %v", what, err)
		}
	case !errors.As(err, &refused):
		t.Errorf("%s: got error %v, want a HeaderError", what, err)
	case !strings.Contains(refused.Msg, want):
		t.Errorf("%s: the message %q does not say %q", what, refused.Msg, want)
	}
}

func TestCheckHeaders(t *testing.T) {
	call := message(t, "tools/call", `{"name":"foo",`+metaModern+`}`)
	read := message(t, "resources/read", `{"uri":"file:///世界",`+metaModern+`}`)
	task := message(t, "tasks/get", `{"taskId":"t1",`+metaModern+`}`)
	list := message(t, "tools/list", `{`+metaModern+`}`)
	const version, other = "2026-07-28", "2025-11-25"
	base := func(method string, more ...string) http.Header {
		return headers(append([]string{HeaderProtocolVersion, version, HeaderMethod, method}, more...)...)
	}
	for _, tc := range []struct {
		what   string
		header http.Header
		m      *Message
		want   string
	}{
		{"a call", base("tools/call", HeaderName, "foo"), call, ""},
		{"names of headers in any case", headers("MCP-PROTOCOL-VERSION", version, "mcp-method", "tools/call", "mCP-name", "foo"), call, ""},
		{"spaces around a value", base("tools/call", HeaderName, " \tfoo "), call, ""},
		{"an encoded name", base("tools/call", HeaderName, "=?base64?Zm9v?="), call, ""},
		{"an encoded URI", base("resources/read", HeaderName, EncodeHeader("file:///世界")), read, ""},
		{"a list", base("tools/list"), list, ""},
		{"a name that is not asked for", base("tools/list", HeaderName, "foo"), list, ""},
		{"a prompt", base("prompts/get", HeaderName, "p"), message(t, "prompts/get", `{"name":"p",`+metaModern+`}`), ""},
		{"an empty name", base("tools/call", HeaderName, ""), message(t, "tools/call", `{"name":"",`+metaModern+`}`), ""},
		{"a task without a name", base("tasks/get"), task, ""},
		{"a task with its name", base("tasks/get", HeaderName, "t1"), task, ""},
		{"no version in _meta", base("tools/list"), message(t, "tools/list", `{}`), ""},
		{"a notification without a method", headers(HeaderProtocolVersion, version), notification(t, "notifications/x"), ""},
		{"a notification", base("notifications/x"), notification(t, "notifications/x"), ""},

		{"no version", headers(HeaderMethod, "tools/list"), list, "Mcp-Protocol-Version header is missing"},
		{"no version anywhere", headers(HeaderMethod, "tools/list"), message(t, "tools/list", `{}`), "Mcp-Protocol-Version header is missing"},
		{"an empty version", headers(HeaderProtocolVersion, "", HeaderMethod, "tools/list"), list, "Mcp-Protocol-Version header is missing"},
		{"another version", headers(HeaderProtocolVersion, other, HeaderMethod, "tools/list"), list, `"2025-11-25"`},
		{"an encoded version", headers(HeaderProtocolVersion, "=?base64?MjAyNi0wNy0yOA==?=", HeaderMethod, "tools/list"), list, "mismatch"},
		{"a version that is no string", base("tools/list"), message(t, "tools/list", `{"_meta":{"io.modelcontextprotocol/protocolVersion":20260728}}`), "mismatch"},
		{"two versions", base("tools/list", HeaderProtocolVersion, other), list, "occurs 2 times"},

		{"no method", headers(HeaderProtocolVersion, version, HeaderName, "foo"), call, "Mcp-Method header is missing"},
		{"another method", base("prompts/get", HeaderName, "foo"), call, `"prompts/get"`},
		{"a method in other case", base("TOOLS/CALL", HeaderName, "foo"), call, "Mcp-Method"},
		{"an encoded method", base(EncodeHeader("tools/call "), HeaderName, "foo"), call, "mismatch"},
		{"two methods", base("tools/call", HeaderMethod, "tools/list", HeaderName, "foo"), call, "occurs 2 times"},
		{"another method of a notification", base("notifications/y"), notification(t, "notifications/x"), "Mcp-Method"},

		{"no name", base("tools/call"), call, "Mcp-Name header is missing"},
		{"no URI", base("resources/read"), read, "Mcp-Name header is missing"},
		{"another name", base("tools/call", HeaderName, "bar"), call, `"bar"`},
		{"a name in other case", base("tools/call", HeaderName, "Foo"), call, "mismatch"},
		{"an empty name for one", base("tools/call", HeaderName, ""), call, "mismatch"},
		{"a name that the body has not", base("tools/call", HeaderName, ""), message(t, "tools/call", `{`+metaModern+`}`), "mismatch"},
		{"a name that is no string", base("tools/call", HeaderName, "1"), message(t, "tools/call", `{"name":1,`+metaModern+`}`), "mismatch"},
		{"neither has a name", base("tools/call"), message(t, "tools/call", `{`+metaModern+`}`), "Mcp-Name header is missing"},
		{"bad base64", base("tools/call", HeaderName, "=?base64?Zm9?="), call, "base64"},
		{"a name in raw UTF-8", base("resources/read", HeaderName, "file:///世界"), read, "not allowed"},
		{"two names", base("tools/call", HeaderName, "foo", HeaderName, "bar"), call, "occurs 2 times"},
		{"one name twice", base("tools/call", HeaderName, "foo", HeaderName, "foo"), call, "occurs 2 times"},
		{"another task", base("tasks/get", HeaderName, "t2"), task, `"t2"`},
	} {
		checkRefusal(t, tc.what, CheckHeaders(tc.header, tc.m), tc.want)
	}
}

// What EncodeHeader makes must come through a real HTTP connection unchanged.
func TestHeadersCrossHTTP(t *testing.T) {
	texts := []string{"plain", "", "in side", " padded ", "\ttab\t", "世界", "a\r\nX-Injected: 1", "=?base64?x?=", "\x00\x7f"}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := DecodeHeader(r.Header.Get(HeaderName))
		if err != nil || r.Header.Get("X-Injected") != "" || len(r.Header.Values(HeaderName)) != 1 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set(HeaderName, EncodeHeader(text))
	}))
	defer srv.Close()
	for _, text := range texts {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(HeaderName, EncodeHeader(text))
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got, err := DecodeHeader(resp.Header.Get(HeaderName)); resp.StatusCode != http.StatusOK || got != text || err != nil {
			t.Errorf("%q came back as %q, %v, with status %d", text, got, err, resp.StatusCode)
		}
	}
}
