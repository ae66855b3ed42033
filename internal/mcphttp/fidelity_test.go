package mcphttp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/servers"
)

// The fidelity peer answers in hand-written JSON that holds what typed
// structures lose: unknown members everywhere, numbers above 2^53, 1.0 and
// 1e2, characters that encoders like to escape, odd schemas, errors with data
// and HTTP statuses. What a client gets directly and what it gets through the
// crib may differ only in what the crib must replace.

const fidelityInfo = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fake","version":"9","x-ext":"keep"},"com.x/result":{"big":9007199254740993}}`

var fidelityTools = `{"resultType":"complete","ttlMs":60000,"cacheScope":"private","x-top":"keep","_meta":{"com.x/l":1},"tools":[
{"name":"zeta","title":"Z","description":"<b>&</b>` + "\u2028" + `\u2029","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"z":{"type":"integer","maximum":9007199254740993,"x-vendor":{"k":1}},"a":{"type":"string","x-mcp-header":"Region"}},"required":["z"]},"outputSchema":{"type":"object"},"annotations":{"title":"t","readOnlyHint":true,"x-custom":"keep"},"execution":{"taskSupport":"optional"},"icons":[{"src":"https://x/i.png","mimeType":"image/png","sizes":["48x48"],"theme":"dark"}],"_meta":{"com.x/t":[1,2]},"x-unknown":"keep"},
{"name":"alpha","inputSchema":{"type":"object"},"annotations":{}},
{"name":"noschematype","inputSchema":{"properties":{"q":{"type":"string"}}}},
{"name":"boolschema","inputSchema":true},
{"name":"badhdr","inputSchema":{"type":"object","properties":{"n":{"type":"number","x-mcp-header":"N"}}}},
{"name":"unkcontent","inputSchema":{"type":"object"}},
{"name":"fields","inputSchema":{"type":"object"}},
{"name":"bignum","inputSchema":{"type":"object"}},
{"name":"mrtr","inputSchema":{"type":"object"}},
{"name":"mrtr_unknown","inputSchema":{"type":"object"}},
{"name":"customresult","inputSchema":{"type":"object"}},
{"name":"err_custom","inputSchema":{"type":"object"}},
{"name":"err_http500","inputSchema":{"type":"object"}},
{"name":"err_http429","inputSchema":{"type":"object"}},
{"name":"err_http400","inputSchema":{"type":"object"}},
{"name":"notif","inputSchema":{"type":"object"}}
]}`

const fidelityCaps = `{"tools":{"listChanged":false,"x-c":1},"prompts":{},"resources":{"subscribe":true,"listChanged":true},"completions":{},"logging":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}},"extensions":{"io.modelcontextprotocol/tasks":{"v":1}},"experimental":{"e":{"a":1}},"x-cap":{"keep":1}}`

var fidelityResults = map[string]string{
	"server/discover":          `{"resultType":"complete","ttlMs":1000,"cacheScope":"public","supportedVersions":["2026-07-28","2025-11-25"],"capabilities":` + fidelityCaps + `,"instructions":"do","x-disc":"keep",` + fidelityInfo + `}`,
	"initialize":               `{"protocolVersion":"2025-11-25","serverInfo":{"name":"fake","version":"9","websiteUrl":"https://x","description":"d","x-ext":"keep"},"capabilities":` + fidelityCaps + `,"instructions":"do","x-init":"keep","_meta":{"com.x/i":1}}`,
	"tools/list":               fidelityTools,
	"prompts/list":             `{"resultType":"complete","ttlMs":5,"cacheScope":"private","prompts":[{"name":"p","arguments":[{"name":"a","x-arg":"keep"}],"x-p":"keep"}]}`,
	"resources/list":           `{"resultType":"complete","ttlMs":5,"cacheScope":"private","resources":[{"uri":"x://r","name":"r","size":0,"annotations":{"priority":0.5,"lastModified":"2026-01-01T00:00:00Z","x-a":1},"x-r":"keep"}]}`,
	"resources/templates/list": `{"resultType":"complete","ttlMs":5,"cacheScope":"private","resourceTemplates":[{"uriTemplate":"x://t/{id}","name":"t","x-t":"keep"}]}`,
	"resources/read":           `{"resultType":"complete","ttlMs":1234,"cacheScope":"private","contents":[{"uri":"x://r","text":"","x-r":"keep","_meta":{"com.x/a":1}}],"x-top":"keep"}`,
	"prompts/get":              `{"resultType":"complete","description":"d","messages":[{"role":"user","content":{"type":"text","text":"t","x-c":"keep"},"x-m":"keep"}],"x-top":"keep"}`,
	"completion/complete":      `{"resultType":"complete","completion":{"values":["a"],"total":0,"hasMore":false,"x-c":"keep"},"x-top":"keep"}`,
	"vendor/custom":            `{"resultType":"complete","any":{"x":1}}`,
	"tasks/get":                `{"resultType":"complete","any":{"x":1}}`,

	"call zeta":         `{"resultType":"complete",` + fidelityInfo + `,"content":[{"type":"text","text":"ok <&> ` + "\u2028" + ` \u2028 \/"}],"isError":false}`,
	"call unkcontent":   `{"resultType":"complete","content":[{"type":"video","uri":"x://v"},{"type":"text","text":"ok"}]}`,
	"call fields":       `{"resultType":"complete","x-top":"keep","content":[{"type":"text","text":"a","x-f":"keep","annotations":{"priority":0,"audience":["user"],"x-a":"keep"},"_meta":{"com.x/c":1}},{"type":"resource","resource":{"uri":"x://e","text":"","mimeType":"text/plain","x-r":"keep"}},{"type":"image","data":"aGk=","mimeType":"image/png","x-i":1}],"structuredContent":null}`,
	"call bignum":       `{"resultType":"complete","content":[],"structuredContent":{"n":9007199254740993,"f":1.0,"e":1e2,"z":1,"a":2}}`,
	"call mrtr":         `{"resultType":"input_required","requestState":"st<&>","inputRequests":{"k":{"method":"elicitation/create","params":{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{"x":{"type":"string","x-ui":"keep"}}},"x-p":"keep"},"x-q":"keep"}},"x-top":"keep"}`,
	"call mrtr_unknown": `{"resultType":"input_required","requestState":"s","inputRequests":{"k":{"method":"vendor/thing","params":{"a":1}}}}`,
	"call customresult": `{"resultType":"task","task":{"taskId":"t1","status":"working","ttl":60000,"createdAt":"2026-11-30T00:00:00Z"}}`,
}

var fidelityErrors = map[string]struct {
	status int
	body   string
}{
	"err_custom":  {200, `{"code":-32099,"message":"custom <&>","data":{"k":[1,{"big":9007199254740993}]},"x-e":"keep"}`},
	"err_http500": {500, `{"code":-32050,"message":"five","data":{"k":1}}`},
	"err_http429": {429, `{"code":-32051,"message":"slow down","data":{"retryAfterMs":7000}}`},
	"err_http400": {400, `{"code":-32021,"message":"need cap","data":{"requiredCapabilities":{"sampling":{},"x-ext":{"a":1}}}}`},
}

// fidelityPeer is the upstream; it keeps what it received.
type fidelityPeer struct {
	mu  sync.Mutex // guards got
	got []string
}

func (p *fidelityPeer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	b, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name string
			Meta map[string]json.RawMessage `json:"_meta"`
		}
	}
	json.Unmarshal(b, &m) //nolint:errcheck // DELETE has no body
	if m.Method != "" {
		p.mu.Lock()
		p.got = append(p.got, string(b))
		p.mu.Unlock()
	}
	if len(m.ID) == 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	key := m.Method
	if m.Method == "initialize" {
		w.Header().Set("Mcp-Session-Id", "S1")
	}
	if m.Method == "tools/call" {
		key = "call " + m.Params.Name
		if e, ok := fidelityErrors[m.Params.Name]; ok {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(e.status)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":%s}`, m.ID, e.body)
			return
		}
		if m.Params.Name == "notif" {
			notifyAndAnswer(w, m.ID, m.Params.Meta["progressToken"])
			return
		}
	}
	result, ok := fidelityResults[key]
	switch {
	case !ok && m.Method != "tools/call":
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"nope"}}`, m.ID)
		return
	case !ok:
		result = `{"resultType":"complete","content":[]}`
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func notifyAndAnswer(w http.ResponseWriter, id, token json.RawMessage) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, ev := range []string{
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(token) + `,"progress":0,"total":3,"message":"m","x-p":"keep","_meta":{"com.x/p":1}}}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"l","data":{"big":9007199254740993},"x-l":"keep"}}`,
		`{"jsonrpc":"2.0","method":"notifications/vendor/thing","params":{"a":1}}`,
		`{"jsonrpc":"2.0","id":` + string(id) + `,"result":{"resultType":"complete","content":[{"type":"text","text":"done"}]}}`,
	} {
		fmt.Fprintf(w, "event: message\ndata: %s\n\n", ev)
		w.(http.Flusher).Flush()
	}
}

// fidelityDriver is a raw client.
type fidelityDriver struct {
	t                 *testing.T
	url, era, token   string
	session, lastSeal string
	seen              []string
}

var stateField = regexp.MustCompile(`"requestState":\s*("(?:[^"\\]|\\.)*")`)

const driverMeta = `"traceparent":"00-aa-bb-01","com.x/req":{"big":9007199254740993},"progressToken":"tok"`

func (d *fidelityDriver) post(method, params string, header map[string]string) {
	d.t.Helper()
	meta := driverMeta
	if d.era == "modern" {
		meta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"drv","version":"1","x-ci":"keep"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"x-cc":{"a":1}},"io.modelcontextprotocol/logLevel":"debug",` + meta
	}
	switch {
	case method == "initialize":
		params = `{"protocolVersion":"2025-11-25","clientInfo":{"name":"drv","version":"1"},"capabilities":{"elicitation":{},"x-cc":{"a":1}},"_meta":{"com.x/i":1}}`
	case params == "":
		params = `{"_meta":{` + meta + `}}`
	default:
		params = `{"_meta":{` + meta + `},` + params[1:]
	}
	body := `{"jsonrpc":"2.0","id":"id-1","method":"` + method + `","params":` + params + `}`
	if strings.HasPrefix(method, "notifications/") {
		body = `{"jsonrpc":"2.0","method":"` + method + `"}`
	}
	req, err := http.NewRequest(http.MethodPost, d.url, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if d.token != "" {
		req.Header.Set("Authorization", "Bearer "+d.token)
	}
	if d.era == "modern" {
		req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		req.Header.Set("Mcp-Method", method)
	} else if method != "initialize" {
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
		req.Header.Set("Mcp-Session-Id", d.session)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := (&http.Client{Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		d.t.Fatalf("%s: %v", method, err)
	}
	defer resp.Body.Close()
	if s := resp.Header.Get("Mcp-Session-Id"); s != "" {
		d.session = s
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatalf("%s: %v", method, err)
	}
	if m := stateField.FindSubmatch(b); m != nil {
		d.lastSeal = string(m[1])
	}
	d.note(fmt.Sprintf("%s %s: HTTP %d %s retry-after=%q", method, header["Mcp-Name"], resp.StatusCode, resp.Header.Get("Content-Type"), resp.Header.Get("Retry-After")), b)
}

// note keeps one answer, with what may differ blanked out and everything else
// as it was spelled.
func (d *fidelityDriver) note(head string, body []byte) {
	d.seen = append(d.seen, head)
	if bytes.HasPrefix(body, []byte("{")) {
		d.seen = append(d.seen, canonical(d.t, string(body)))
		return
	}
	for line := range strings.SplitSeq(string(body), "\n") {
		line = strings.TrimPrefix(line, "data: ")
		if line = strings.TrimSpace(line); line == "" || !strings.HasPrefix(line, "{") {
			continue
		}
		d.seen = append(d.seen, canonical(d.t, line))
	}
}

var mayDiffer = map[string]bool{"requestState": true, "cacheScope": true, "ttlMs": true}

// canonical sorts members and keeps every literal as it was spelled.
func canonical(t *testing.T, line string) string {
	var walk func(raw json.RawMessage) string
	walk = func(raw json.RawMessage) string {
		raw = bytes.TrimSpace(raw)
		switch raw[0] {
		case '{':
			var m map[string]json.RawMessage
			if err := json.Unmarshal(raw, &m); err != nil {
				t.Fatal(err)
			}
			keys := make([]string, 0, len(m))
			for k := range m {
				if !mayDiffer[k] {
					keys = append(keys, k)
				}
			}
			var b strings.Builder
			for _, k := range slices.Sorted(slices.Values(keys)) {
				fmt.Fprintf(&b, "%q:%s,", k, walk(m[k]))
			}
			return "{" + b.String() + "}"
		case '[':
			var list []json.RawMessage
			if err := json.Unmarshal(raw, &list); err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			for _, x := range list {
				if !strings.Contains(string(x), `"badhdr"`) {
					b.WriteString(walk(x) + ",")
				}
			}
			return "[" + b.String() + "]"
		}
		return string(raw)
	}
	return walk(json.RawMessage(line))
}

func (d *fidelityDriver) drive() {
	if d.era == "legacy" {
		d.post("initialize", "", nil)
		d.post("notifications/initialized", "", nil)
	} else {
		d.post("server/discover", "", nil)
	}
	for _, m := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
		d.post(m, "", nil)
	}
	call := func(name, extra string, header map[string]string) {
		h := map[string]string{"Mcp-Name": name}
		for k, v := range header {
			h[k] = v
		}
		d.post("tools/call", `{"name":"`+name+`","arguments":{"z":9007199254740993,"b":1.0,"e":1e2,"a":"us"}`+extra+`}`, h)
	}
	call("zeta", `,"x-param":"keep","task":{"ttl":5}`, map[string]string{"Mcp-Param-Region": "us"})
	for _, n := range []string{"unkcontent", "fields", "bignum", "mrtr", "mrtr_unknown", "customresult", "err_custom", "err_http500", "err_http429", "err_http400", "notif", "noschematype"} {
		if d.era == "legacy" && strings.HasPrefix(n, "mrtr") {
			continue
		}
		call(n, "", nil)
		if n == "mrtr" {
			call("mrtr", `,"requestState":`+d.lastSeal+`,"inputResponses":{"k":{"action":"accept","content":{"n":9007199254740993},"x-r":"keep"}}`, nil)
		}
	}
	d.post("resources/read", `{"uri":"x://r"}`, map[string]string{"Mcp-Name": "x://r"})
	d.post("resources/read", `{"uri":"x://unlisted"}`, map[string]string{"Mcp-Name": "x://unlisted"})
	d.post("prompts/get", `{"name":"p","arguments":{"a":"b"}}`, map[string]string{"Mcp-Name": "p"})
	d.post("completion/complete", `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"v"}}`, nil)
	d.post("vendor/custom", `{"a":1}`, nil)
	d.post("tasks/get", `{"taskId":"t1"}`, map[string]string{"Mcp-Name": "t1"})
}

// What a client gets from a server of its own era through the crib is what it
// gets from it directly, and the server gets what the client sent.
func TestFidelity(t *testing.T) {
	for _, era := range []string{"modern", "legacy"} {
		t.Run(era, func(t *testing.T) {
			direct, behind := &fidelityPeer{}, &fidelityPeer{}
			ds, bs := httptest.NewServer(direct), httptest.NewServer(behind)
			defer ds.Close()
			defer bs.Close()
			c := newCrib(t, cribOptions{}, httpServer("fake", bs.URL, func(d *servers.Definition) { d.Methods = []string{"vendor/*"} }))
			one := &fidelityDriver{t: t, url: ds.URL, era: era}
			two := &fidelityDriver{t: t, url: c.url + "/fake", era: era, token: c.token}
			one.drive()
			two.drive()
			compare(t, "client", one.seen, two.seen)
			compare(t, "server", calls(t, direct.got), calls(t, behind.got))
		})
	}
}

// calls are the requests of a client as a server got them, without what is the
// crib's to choose.
func calls(t *testing.T, got []string) []string {
	var out []string
	for _, body := range got {
		if !strings.Contains(body, "com.x/req") || strings.Contains(body, `/list"`) || strings.Contains(body, "server/discover") {
			continue
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal([]byte(body), &m); err != nil {
			t.Fatal(err)
		}
		delete(m, "id")
		b, err := json.Marshal(map[string]any{"method": m["method"]})
		if err != nil {
			t.Fatal(err)
		}
		params := regexp.MustCompile(`"progressToken":("tok"|\d+)`).ReplaceAllString(string(m["params"]), `"progressToken":0`)
		out = append(out, string(b)+params)
	}
	return out
}

func compare(t *testing.T, who string, want, got []string) {
	t.Helper()
	for i := range max(len(want), len(got)) {
		var w, g string
		if i < len(want) {
			w = want[i]
		}
		if i < len(got) {
			g = got[i]
		}
		if w != g {
			t.Errorf("%s, line %d:\ndirect  %s\nthrough %s", who, i, w, g)
		}
	}
}
