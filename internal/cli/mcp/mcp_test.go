package mcp

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

func TestTexts(t *testing.T) {
	for _, tt := range []struct {
		name, result string
		want         []string
	}{
		{"texts", `{"content":[{"type":"text","text":"a"},{"type":"text","text":"b\n"}]}`, []string{"a", "b\n"}},
		{"link", `{"content":[{"type":"resource_link","uri":"file:///x","name":"x"}]}`, []string{"file:///x"}},
		{"resource with text", `{"content":[{"type":"resource","resource":{"uri":"u:x","text":"inner"}}]}`, []string{"inner"}},
		{"resource without", `{"content":[{"type":"resource","resource":{"uri":"u:x","blob":"AA=="}}]}`, []string{"[resource u:x; --json has its content]"}},
		{"image", `{"content":[{"type":"image","data":"AA==","mimeType":"image/png"}]}`, []string{"[image image/png; --json has its content]"}},
		{"something new", `{"content":[{"type":"hologram"}]}`, []string{"[hologram; --json has its content]"}},
		{"structured alone", `{"content":[],"structuredContent":{"n":1.0}}`, []string{`{"n":1.0}`}},
		{"nothing", `{}`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Texts([]byte(tt.result)); !slices.Equal(got, tt.want) {
				t.Errorf("got %q; want %q", got, tt.want)
			}
		})
	}
}

// A tool whose arguments belong into headers is called a second time with
// them: the refusal shows that nothing was executed.
func TestCallMirrorsArgumentsWhenAsked(t *testing.T) {
	var methods []string
	var region string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		m, err := wire.Scan(body)
		if err != nil {
			t.Errorf("%s: %v", body, err)
		}
		if err := wire.CheckHeaders(r.Header, &m); err != nil {
			t.Error(err)
		}
		methods = append(methods, m.Method)
		region = r.Header.Get("Mcp-Param-Region")
		id := m.ID.In(body)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case m.Method == "tools/list":
			w.Write(wire.ResultBody(id, []byte(`{"tools":[{"name":"other"},{"name":"query","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}]}`)))
		case region == "":
			w.WriteHeader(http.StatusBadRequest)
			w.Write(wire.ErrorBody(id, wire.CodeHeaderMismatch, "Mcp-Param-Region is missing", nil))
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			w.Write(wire.AppendEvent(nil, "", []byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`)))
			w.Write(wire.AppendEvent(nil, "", wire.ResultBody(id, []byte(`{"content":[{"type":"text","text":"done"}]}`))))
		}
	}))
	defer server.Close()
	c := &Client{HTTP: server.Client(), Base: server.URL}
	m, err := c.Call(t.Context(), Endpoint("db"), "query", []byte(`{"region":"eu","n":9007199254740993}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := Texts(m.Result.In(m.Body)); !slices.Equal(got, []string{"done"}) {
		t.Errorf("the answer is %q", got)
	}
	if want := []string{"tools/call", "tools/list", "tools/call"}; !slices.Equal(methods, want) || region != "eu" {
		t.Errorf("sent %q, Region %q; want %q, eu", methods, region, want)
	}
}

// A stream that ends without the answer leaves open whether the call was
// executed, and the command says so.
func TestStreamThatEndsEarly(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Write(wire.AppendEvent(nil, "", []byte(`{"jsonrpc":"2.0","id":99,"result":{}}`)))
	}))
	defer server.Close()
	c := &Client{HTTP: server.Client(), Base: server.URL}
	_, err := c.Call(t.Context(), Endpoint(""), "a__b", []byte("{}"))
	if crib.CodeOf(err) != crib.Unknown {
		t.Errorf("err = %v", err)
	}
}

// Where nobody listens, nothing was sent: the call may be made again.
func TestNobodyListens(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	c := &Client{HTTP: server.Client(), Base: server.URL}
	server.Close()
	if _, err := c.Call(t.Context(), Endpoint(""), "a__b", []byte("{}")); crib.CodeOf(err) != crib.Unavailable {
		t.Errorf("err = %v", err)
	}
}

// What the crib says of its own error decides how a command ends.
func TestErrorsOfTheCribKeepTheirCode(t *testing.T) {
	for e, want := range map[string]crib.Code{
		`{"code":-32603,"message":"m","data":{"io.toolcrib/code":"unavailable"}}`: crib.Unavailable,
		`{"code":-32602,"message":"m","data":{"io.toolcrib/code":"denied"}}`:      crib.Denied,
		`{"code":-32602,"message":"m"}`:                                           crib.Invalid,
		`{"code":-32000,"message":"m","data":"io.toolcrib/code"}`:                 crib.Internal,
		`{"code":-32000,"message":"m","data":[{"io.toolcrib/code":"denied"}]}`:    crib.Internal,
	} {
		m, err := wire.ScanServer([]byte(`{"jsonrpc":"2.0","id":1,"error":` + e + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Result(m); crib.CodeOf(err) != want || err.Error() != "m" {
			t.Errorf("%s: %s, %v", e, crib.CodeOf(err), err)
		}
	}
}
