package demo

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/goleak"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var eras = []wire.Era{wire.Modern, wire.Legacy}

// message is a raw request, with what its era asks for.
func message(era wire.Era, id, method, params string) string {
	meta := ""
	if era == wire.Modern {
		meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
		if params != "" {
			meta = "," + meta
		}
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s%s}}`, id, method, params, meta)
}

// ask has s answer a request, and returns the notifications before the answer
// too.
func ask(t *testing.T, s *server, era wire.Era, method, params string) (answer []byte, before []string) {
	t.Helper()
	m, err := wire.Scan([]byte(message(era, "1", method, params)))
	if err != nil {
		t.Fatal(err)
	}
	if got := eraOf(m, ""); got != era {
		t.Fatalf("%s is taken for %s", method, got)
	}
	answer = s.handle(t.Context(), era, m, func(b []byte) { before = append(before, string(b)) })
	return answer, before
}

func callTool(t *testing.T, s *server, tool, args string) (text string, data []byte, isError bool) {
	t.Helper()
	answer, _ := ask(t, s, wire.Modern, "tools/call", fmt.Sprintf(`"name":%q,"arguments":%s`, tool, args))
	var m struct {
		Result struct {
			Content           []struct{ Text string }
			StructuredContent json.RawMessage
			IsError           bool
		}
	}
	if err := json.Unmarshal(answer, &m); err != nil || len(m.Result.Content) != 1 {
		t.Fatalf("%s(%s): %s", tool, args, answer)
	}
	return m.Result.Content[0].Text, m.Result.StructuredContent, m.Result.IsError
}

func TestTools(t *testing.T) {
	cases := []struct {
		tool, args, text, data string
	}{
		{"convert_units", `{"value":1,"from":"in","to":"mm"}`, "1 in = 25.4 mm", `{"unit":"mm","value":25.4}`},
		{"convert_units", `{"value":0,"from":"degC","to":"degF"}`, "0 degC = 32 degF", `{"unit":"degF","value":32}`},
		{"convert_units", `{"value":-40,"from":"degF","to":"degC"}`, "-40 degF = -40 degC", `{"unit":"degC","value":-40}`},
		{"convert_units", `{"value":10,"from":"N.m","to":"lbf.ft"}`, "10 N.m = 7.375621493 lbf.ft", `{"unit":"lbf.ft","value":7.375621493}`},
		{"convert_units", `{"value":1e200,"from":"kg","to":"g"}`, "1e+200 kg = 1e+203 g", `{"unit":"g","value":1e+203}`},
		{"bolt_size", `{"thread":"M8"}`, "M8 × 1.25: tap drill 6.8 mm, clearance hole 9 mm, wrench 13 mm",
			`{"thread":"M8","pitch_mm":1.25,"tap_drill_mm":6.8,"clearance_hole_mm":9,"wrench_mm":13}`},
		{"drill_speed", `{"diameter_mm":5,"material":"steel"}`, "Start at 1590 turns per minute for a 5 mm drill in steel.", ""},
		{"sharpen_drill", `{"passes":3}`, "Sharp after 3 passes.", ""},
		{"sharpen_drill", `{}`, "Sharp after 5 passes.", ""},
	}
	s := newWorkshop(time.Microsecond)
	for _, c := range cases {
		text, data, isError := callTool(t, s, c.tool, c.args)
		if text != c.text || string(data) != c.data || isError {
			t.Errorf("%s(%s) = %q, %s, %t", c.tool, c.args, text, data, isError)
		}
	}
	text, _, _ := callTool(t, s, "roll_dice", `{"dice":3,"sides":2}`)
	var a, b, c, sum int
	if _, err := fmt.Sscanf(text, "%d %d %d (sum %d)", &a, &b, &c, &sum); err != nil || a+b+c != sum || min(a, b, c) < 1 || max(a, b, c) > 2 {
		t.Errorf("roll_dice: %q", text)
	}
}

// What a model gets wrong, it is told in words, as a result.
func TestArgumentsThatAreWrong(t *testing.T) {
	long := strings.Repeat("é", maxTitle+1)
	cases := []struct {
		server           *server
		tool, args, text string
	}{
		{newWorkshop(time.Microsecond), "convert_units", `{"value":1,"from":"in","to":"kg"}`, "in is a unit of length and kg one of mass"},
		{newWorkshop(time.Microsecond), "convert_units", `{"value":1,"from":"in","to":"parsec"}`, "the units are N.m, cm, "},
		{newWorkshop(time.Microsecond), "convert_units", `{"from":"in","to":"mm"}`, "value is missing"},
		{newWorkshop(time.Microsecond), "convert_units", `{"value":"1","from":"in","to":"mm"}`, "value must not be a string"},
		{newWorkshop(time.Microsecond), "convert_units", `{"value":1e308,"from":"kg","to":"g"}`, "too large"},
		{newWorkshop(time.Microsecond), "bolt_size", `{"thread":"M7"}`, "thread must be one of"},
		{newWorkshop(time.Microsecond), "bolt_size", `{"thread":"M8","colour":"red"}`, `unknown field "colour"`},
		{newWorkshop(time.Microsecond), "drill_speed", `{"diameter_mm":0,"material":"steel"}`, "diameter_mm must be between 0.1 and 100"},
		{newWorkshop(time.Microsecond), "drill_speed", `{"diameter_mm":1,"material":"glass"}`, "material must be one of aluminium, brass"},
		{newWorkshop(time.Microsecond), "roll_dice", `{"dice":21}`, "dice must be between 1 and 20"},
		{newWorkshop(time.Microsecond), "sharpen_drill", `{"passes":0}`, "passes must be between 1 and 20"},
		{newWorkshop(time.Microsecond), "sharpen_drill", `[]`, "the arguments cannot be read"},
		{newNotebook(), "add_note", `{"title":""}`, "the length of title must be between 1 and 200"},
		{newNotebook(), "add_note", `{"title":"` + long + `"}`, "the length of title"},
		{newNotebook(), "add_note", `{"title":"a","text":"` + strings.Repeat("b", maxText+1) + `"}`, "the length of text"},
		{newNotebook(), "list_notes", `{"all":true}`, `unknown field "all"`},
		{newNotebook(), "search_notes", `{}`, "the length of query"},
	}
	for _, c := range cases {
		text, data, isError := callTool(t, c.server, c.tool, c.args)
		if !strings.Contains(text, c.text) || data != nil || !isError {
			t.Errorf("%s(%.80s) = %q, %s, %t; want an error with %q", c.tool, c.args, text, data, isError, c.text)
		}
	}
}

func TestNotebook(t *testing.T) {
	s := newNotebook()
	if _, data, _ := callTool(t, s, "list_notes", `{}`); string(data) != `{"notes":[]}` {
		t.Errorf("an empty notebook lists %s", data)
	}
	callTool(t, s, "add_note", `{"title":"Order <M8> bolts","text":"200 & washers"}`)
	callTool(t, s, "add_note", `{"title":"Clean the lathe"}`)
	cases := []struct{ query, want string }{
		{"m8", `{"notes":[{"id":1,"title":"Order <M8> bolts","text":"200 & washers"}]}`},
		{"WASHERS", `{"notes":[{"id":1,"title":"Order <M8> bolts","text":"200 & washers"}]}`},
		{"lathe", `{"notes":[{"id":2,"title":"Clean the lathe","text":""}]}`},
		{"welder", `{"notes":[]}`},
	}
	for _, c := range cases {
		if _, data, _ := callTool(t, s, "search_notes", fmt.Sprintf(`{"query":%q}`, c.query)); string(data) != c.want {
			t.Errorf("search %s: %s, want %s", c.query, data, c.want)
		}
	}
	for range maxNotes {
		callTool(t, s, "add_note", `{"title":"more"}`)
	}
	_, data, _ := callTool(t, s, "list_notes", `{}`)
	if notes := wire.Elements(wire.Get(data, "notes")); len(notes) != maxNotes {
		t.Errorf("%d notes are kept", len(notes))
	}
	if !strings.HasPrefix(string(data), `{"notes":[{"id":3,`) {
		t.Errorf("the oldest did not make room: %.60s", data)
	}
}

// Every tool that is listed can be called, and what it returns is what its
// schemas promise.
func TestSchemas(t *testing.T) {
	examples := map[string]string{
		"convert_units": `{"value":1,"from":"ft","to":"m"}`,
		"bolt_size":     `{"thread":"M6"}`,
		"drill_speed":   `{"diameter_mm":6.5,"material":"brass"}`,
		"roll_dice":     `{"dice":2}`,
		"sharpen_drill": `{"passes":1}`,
		"add_note":      `{"title":"t"}`,
		"list_notes":    `{}`,
		"search_notes":  `{"query":"t"}`,
	}
	listed := 0
	for _, s := range []*server{newWorkshop(time.Microsecond), newNotebook()} {
		if len(s.offer.Tools) != len(s.tools) {
			t.Errorf("%s lists %d tools and has %d", s.name, len(s.offer.Tools), len(s.tools))
		}
		for _, raw := range s.offer.Tools {
			listed++
			name, _ := wire.GetText(raw, "name")
			args := examples[name]
			_, data, isError := callTool(t, s, name, args)
			if isError {
				t.Errorf("%s(%s) is an error", name, args)
			}
			checkSchema(t, name, wire.Get(raw, "inputSchema"), []byte(args))
			if out := wire.Get(raw, "outputSchema"); out != nil {
				checkSchema(t, name, out, data)
			} else if data != nil {
				t.Errorf("%s returns data without a schema", name)
			}
			if bytes.ContainsAny(raw, "\n") {
				t.Errorf("%s is defined on several lines", name)
			}
		}
	}
	if listed != len(examples) {
		t.Errorf("%d tools are listed, %d tried", listed, len(examples))
	}
}

func checkSchema(t *testing.T, name string, schema, value []byte) {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	compiled, err := c.Compile("schema.json")
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if err := compiled.Validate(v); err != nil {
		t.Errorf("%s: %s: %v", name, value, err)
	}
}

func TestWhatTheErasSay(t *testing.T) {
	s := newWorkshop(time.Microsecond)
	cases := []struct {
		era            wire.Era
		method, params string
		want           []string
	}{
		{wire.Modern, "server/discover", "", []string{`"supportedVersions":["2024-11-05",`, `"cacheScope":"public"`, `"resultType":"complete"`, `"io.modelcontextprotocol/serverInfo":{"name":"toolcrib-workshop"`, `"prompts":{}`}},
		{wire.Legacy, "initialize", `"protocolVersion":"2025-03-26"`, []string{`"protocolVersion":"2025-03-26"`, `"serverInfo":{`, `"instructions":`}},
		{wire.Legacy, "initialize", `"protocolVersion":"2026-07-28"`, []string{`"protocolVersion":"2025-11-25"`}},
		{wire.Legacy, "ping", "", []string{`"result":{}`}},
		{wire.Modern, "tools/list", "", []string{`"ttlMs":3600000`, `"resultType":"complete"`, `"tools":[{"name":"convert_units"`}},
		{wire.Modern, "resources/templates/list", "", []string{`"resourceTemplates":[]`}},
		{wire.Modern, "resources/read", `"uri":"workshop://bolts"`, []string{`"mimeType":"text/markdown"`, `| M8 | 1.25 |`, `"cacheScope":"public"`}},
		{wire.Legacy, "prompts/get", `"name":"plan_job","arguments":{"job":"a shelf","material":"oak"}`, []string{`"role":"user"`, `The job: a shelf of oak`}},
		{wire.Modern, "prompts/get", `"name":"plan_job"`, []string{`"code":-32602`, `needs the argument job`}},
		{wire.Modern, "prompts/get", `"name":"plan_job","arguments":{"job":1}`, []string{`"code":-32602`}},
		{wire.Modern, "prompts/get", `"name":"other"`, []string{`"code":-32602`, `Unknown prompt: other`}},
		{wire.Modern, "resources/read", `"uri":"workshop://nuts"`, []string{`"code":-32602`}},
		{wire.Legacy, "resources/read", `"uri":"workshop://nuts"`, []string{`"code":-32002`}},
		{wire.Modern, "tools/call", `"name":"weld"`, []string{`"code":-32602`, `Unknown tool: weld`}},
		{wire.Modern, "ping", "", []string{`"code":-32601`}},
		{wire.Legacy, "server/discover", "", []string{`"code":-32601`}},
	}
	for _, c := range cases {
		answer, _ := ask(t, s, c.era, c.method, c.params)
		for _, part := range c.want {
			if !strings.Contains(string(answer), part) {
				t.Errorf("%s %s(%s): %s lacks %s", c.era, c.method, c.params, answer, part)
			}
		}
		if strings.Contains(string(answer), `"result"`) && (c.era == wire.Modern) != strings.Contains(string(answer), "resultType") {
			t.Errorf("%s %s: %s", c.era, c.method, answer)
		}
	}
}

func TestMeta(t *testing.T) {
	s := newNotebook()
	for _, c := range []struct{ meta, want string }{
		{`{"io.modelcontextprotocol/protocolVersion":"2031-01-01","io.modelcontextprotocol/clientCapabilities":{}}`, `"code":-32022,"message":"Unsupported protocol version","data":{"requested":"2031-01-01","supported":["2024-11-05",`},
		{`{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`, `"code":-32602`},
		{`{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":[]}`, `"code":-32602`},
		{`{"io.modelcontextprotocol/protocolVersion":7}`, `"code":-32602`},
		{`{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}`, `"result":`},
		{`{}`, `"result":`},
	} {
		m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":` + c.meta + `}}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.handle(t.Context(), eraOf(m, ""), m, nil); !strings.Contains(string(got), c.want) {
			t.Errorf("%s: %s lacks %s", c.meta, got, c.want)
		}
	}
}

func TestProgressIsToldToWhoAsks(t *testing.T) {
	s := newWorkshop(time.Microsecond)
	_, before := ask(t, s, wire.Legacy, "tools/call", `"name":"sharpen_drill","arguments":{"passes":2},"_meta":{"progressToken":"p"}`)
	want := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"pass 1 of 2","progress":1,"progressToken":"p","total":2}}`
	if len(before) != 2 || before[0] != want {
		t.Errorf("%q", before)
	}
	if _, before = ask(t, s, wire.Legacy, "tools/call", `"name":"sharpen_drill"`); len(before) > 0 {
		t.Errorf("nobody asked for %q", before)
	}
}

// duplex is the two ends of a workshop's pipe.
type duplex struct {
	t   *testing.T
	in  *io.PipeWriter
	out *bufio.Reader
	end chan error
}

func startStdio(t *testing.T, pass time.Duration) *duplex {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	d := &duplex{t: t, in: inW, out: bufio.NewReader(outR), end: make(chan error, 1)}
	go func() {
		p := newPipe(newWorkshop(pass), outW, slog.New(slog.DiscardHandler))
		d.end <- p.serve(inR)
		outW.Close()
		inR.Close()
	}()
	t.Cleanup(func() {
		inW.Close()
		outR.Close()
	})
	return d
}

func (d *duplex) send(line string) {
	d.t.Helper()
	if _, err := io.WriteString(d.in, line+"\n"); err != nil {
		d.t.Fatal(err)
	}
}

func (d *duplex) receive() string {
	d.t.Helper()
	line, err := d.out.ReadString('\n')
	if err != nil {
		d.t.Fatal(err)
	}
	return line
}

func TestStdio(t *testing.T) {
	d := startStdio(t, time.Hour)
	for _, c := range []struct{ line, want string }{
		{"\r\n" + message(wire.Modern, `"1"`, "tools/call", `"name":"bolt_size","arguments":{"thread":"M3"}`) + "\r", `"id":"1","result":`},
		{message(wire.Legacy, "1", "initialize", `"protocolVersion":"2025-06-18"`), `"protocolVersion":"2025-06-18"`},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\nhello", `"id":null,"error":{"code":-32700`},
		{`[]`, `"id":null,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("x", maxLine) + `"}}`, `"id":null,"error":{"code":-32600`},
		{message(wire.Legacy, "2", "ping", ""), `"id":2,"result":{}`},
	} {
		d.send(c.line)
		if got := d.receive(); !strings.Contains(got, c.want) {
			t.Errorf("%.80s: got %s, want %s", c.line, got, c.want)
		}
	}
	// A call that takes for ever holds up nothing, and ends when it is cancelled.
	d.send(message(wire.Legacy, "3", "tools/call", `"name":"sharpen_drill"`))
	d.send(message(wire.Legacy, "4", "ping", ""))
	if got := d.receive(); !strings.Contains(got, `"id":4`) {
		t.Errorf("got %s", got)
	}
	d.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"3"}}`)
	d.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
	d.in.Close()
	if rest, err := io.ReadAll(d.out); err != nil || len(rest) > 0 {
		t.Errorf("a cancelled request was answered: %s, %v", rest, err)
	}
	if err := <-d.end; err != nil {
		t.Error(err)
	}
}

// The end of the input lets open requests finish.
func TestStdioEnds(t *testing.T) {
	var out bytes.Buffer
	in := message(wire.Modern, "1", "tools/call", `"name":"sharpen_drill","arguments":{"passes":1}`) // without a line end
	if err := Stdio(strings.NewReader(in), &out, nil); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "Sharp after 1 passes.") {
		t.Errorf("got %s", out.String())
	}
	r, w := io.Pipe()
	r.Close()
	if err := Stdio(strings.NewReader(in+"\n"), w, nil); err == nil {
		t.Error("nobody reads, and that is no error")
	}
}

func TestHTTP(t *testing.T) {
	srv := httptest.NewServer(HTTP())
	defer srv.Close()
	c := mcptest.NewClient(t, srv.URL)
	for _, era := range eras {
		if era == wire.Legacy {
			if r := c.Initialize(""); r.Status != 200 || r.Header.Get(wire.HeaderSession) != "" {
				t.Errorf("initialize: %s", r)
			}
		}
		r := c.Post(era, "tools/call", `{"name":"add_note","arguments":{"title":"by `+string(era)+`"}}`)
		if !strings.Contains(r.Text(), "is written") {
			t.Errorf("%s: %s", era, r)
		}
	}
	if r := c.Post(wire.Legacy, "tools/call", `{"name":"list_notes"}`); r.Text() != "1. by modern\n2. by legacy" {
		t.Errorf("the eras do not share the notebook: %s", r)
	}
}

func TestHTTPRefuses(t *testing.T) {
	srv := httptest.NewServer(HTTP())
	defer srv.Close()
	c := mcptest.NewClient(t, srv.URL)
	list := message(wire.Legacy, "1", "tools/list", "")
	modern := message(wire.Modern, "1", "tools/list", "")
	const json, version, method = "Content-Type: application/json", "Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/list"
	for _, c2 := range []struct {
		name, method, body string
		headers            []string
		status, code       int
	}{
		{"GET", "GET", "", nil, 405, -32600},
		{"DELETE", "DELETE", "", nil, 405, -32600},
		{"a page of a browser", "POST", list, []string{json, "Origin: http://localhost"}, 403, -32600},
		{"no JSON by its type", "POST", list, []string{"Content-Type: text/plain"}, 415, -32600},
		{"no JSON", "POST", "hello", []string{json}, 400, -32700},
		{"a batch", "POST", "[" + list + "]", []string{json}, 400, -32600},
		{"too large", "POST", list + strings.Repeat(" ", maxBody), []string{json}, 413, -32600},
		{"no headers", "POST", modern, []string{json}, 400, -32020},
		{"another method", "POST", modern, []string{json, version, "Mcp-Method: tools/call"}, 400, -32020},
		{"no _meta", "POST", list, []string{json, version, method}, 400, -32602},
		{"no such method", "POST", message(wire.Modern, "1", "x/y", ""), []string{json, version, "Mcp-Method: x/y"}, 404, -32601},
		{"no such method, legacy", "POST", message(wire.Legacy, "1", "x/y", ""), []string{json}, 200, -32601},
		{"in order", "POST", modern, []string{"Content-Type: Application/JSON; charset=utf-8", version, method}, 200, 0},
		{"in order, legacy", "POST", list, []string{json}, 200, 0},
		{"a notification", "POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, []string{json}, 202, 0},
	} {
		t.Run(c2.name, func(t *testing.T) {
			if r := c.Raw(c2.method, c2.body, c2.headers...); r.Status != c2.status || r.RPCError().Code != c2.code {
				t.Errorf("got %s, want HTTP %d with code %d", r, c2.status, c2.code)
			}
		})
	}
}
