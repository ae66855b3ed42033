package mcptest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	initLine = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"elicitation":{},"roots":{}},"clientInfo":{"name":"t","version":"1"}}}`
	metaPart = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}`
)

func startPeer(t *testing.T, flags ...string) *Pipe {
	t.Helper()
	return StartPipe(t, Peer(flags...)...)
}

// startLegacy starts a peer and initializes it.
func startLegacy(t *testing.T, flags ...string) *Pipe {
	t.Helper()
	p := startPeer(t, flags...)
	p.Send(initLine)
	if got := p.Next(); !strings.Contains(got, `"protocolVersion":"2025-06-18"`) {
		t.Fatalf("initialize: %s", got)
	}
	p.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return p
}

func toolCall(id, tool, arguments string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`
}

func modernCall(id, tool, arguments, more string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{` + metaPart + `},"name":"` + tool + `","arguments":` + arguments + more + `}}`
}

func TestEchoKeepsBytes(t *testing.T) {
	const arguments = `{"id":9007199254740993,"r":1.0,"e":1e2,"s":"<&> ` + "\u2028" + ` \u00e9"}`
	p := startLegacy(t)
	p.Send(toolCall(`"a"`, "echo", arguments))
	if got, want := p.Next(), `{"jsonrpc":"2.0","id":"a","result":`+structuredResult(arguments)+"}\n"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	p.Send(modernCall("2", "echo", arguments, ""))
	if got := p.Next(); !strings.Contains(got, `"structuredContent":`+arguments) || !strings.Contains(got, `"resultType":"complete"`) {
		t.Errorf("modern: %s", got)
	}
}

func TestErasOnOnePipe(t *testing.T) {
	const (
		discover   = `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + metaPart + `}}}`
		noMeta     = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
		oldVersion = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2020-01-01","io.modelcontextprotocol/clientCapabilities":{}}}}`
	)
	for _, tc := range []struct {
		name  string
		flags []string
		lines []string
		want  []string // part of each answer
	}{
		{"dual", nil, []string{discover, initLine, noMeta}, []string{`"supportedVersions":["2025-11-25","2026-07-28"]`, `"protocolVersion":"2025-06-18"`, `"tools":[`}},
		{"first", []string{"-era=first"}, []string{discover, initLine}, []string{`"supportedVersions"`, `-32022`}},
		{"modern", []string{"-era=modern"}, []string{initLine, discover, noMeta, oldVersion},
			[]string{`"code":-32022`, `"supportedVersions":["2026-07-28"]`, `"code":-32602`, `"data":{"supported":["2026-07-28"],"requested":"2020-01-01"}`}},
		{"legacy", []string{"-era=legacy"}, []string{discover, noMeta, initLine, noMeta}, []string{`"code":-32601`, `"code":-32600`, `"result"`, `"tools":[`}},
		{"discover refused oddly", []string{"-era=legacy", "-discover-error=-32602"}, []string{discover}, []string{`"code":-32602`}},
		{"version forced", []string{"-era=legacy", "-version=2024-11-05"}, []string{initLine}, []string{`"protocolVersion":"2024-11-05"`}},
		{"silent on discover", []string{"-era=legacy", "-silent-discover"}, []string{discover, initLine}, []string{"", `"id":0`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := startPeer(t, tc.flags...)
			for i, line := range tc.lines {
				p.Send(line)
				if tc.want[i] == "" {
					continue
				}
				if got := p.Next(); !strings.Contains(got, tc.want[i]) {
					t.Errorf("%s\ngot %swant %s", line, got, tc.want[i])
				}
			}
		})
	}
}

func TestPipeOddities(t *testing.T) {
	p := startLegacyAfter(t, []string{"-banner", `Starting\u2026\r\n\n[1,2]\n`, "-bom", "-crlf", "-noise", "-stderr=5"}, "\uFEFFStarting…\r\n", "\n", "[1,2]\n")
	for _, want := range noise {
		if got := p.Next(); got != want+"\r\n" {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	Eventually(t, "stderr at the start and before the answer", func() bool { return p.Stderr() == strings.Repeat("e", 10) })
	p.CloseInput()
	if code := p.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// startLegacyAfter starts a peer that writes lines first.
func startLegacyAfter(t *testing.T, flags []string, lines ...string) *Pipe {
	t.Helper()
	p := startPeer(t, flags...)
	for _, want := range lines {
		if got := p.Next(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	p.Send(initLine)
	if got := p.Next(); !strings.HasSuffix(got, "}\r\n") {
		t.Errorf("got %q", got)
	}
	return p
}

func TestExits(t *testing.T) {
	for _, tc := range []struct {
		name  string
		flags []string
		send  []string
		code  int
	}{
		{"unless initialize", []string{"-exit-unless-initialize"}, []string{`{"jsonrpc":"2.0","id":1,"method":"server/discover"}`}, 1},
		{"at the end of input", []string{"-exit-code=3"}, nil, 3},
		{"in a call", []string{"-die-on=echo"}, []string{initLine, toolCall("1", "echo", "{}")}, -1},
		{"behind half a reply", []string{"-exit-code=4"}, []string{initLine, toolCall("1", "partial", "{}")}, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := startPeer(t, tc.flags...)
			for _, line := range tc.send {
				p.Send(line)
			}
			if tc.send == nil {
				p.CloseInput()
			}
			if code := p.ExitCode(); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
		})
	}
}

func TestLedgerRecordAndStarts(t *testing.T) {
	dir := t.TempDir()
	ledger, record, starts := filepath.Join(dir, "ledger"), filepath.Join(dir, "record"), filepath.Join(dir, "starts")
	p := startLegacy(t, "-ledger", ledger, "-record", record, "-starts", starts)
	line := toolCall("1", "big", `{"bytes": 70000}`)
	p.Send(line)
	if got := p.Next(); len(got) < 70000 {
		t.Errorf("a line of %d bytes", len(got))
	}
	for file, want := range map[string]string{
		ledger: "big\t{\"bytes\": 70000}\n",
		record: initLine + "\n" + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + line + "\n",
		starts: fmt.Sprintln(p.Pid()),
	} {
		got, err := os.ReadFile(file)
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", file, got, err, want)
		}
	}
}

func TestCancelAndProgress(t *testing.T) {
	release := filepath.Join(t.TempDir(), "never")
	p := startLegacy(t)
	p.Send(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow","arguments":{"release":` + quote(release) + `,"ticks":1},"_meta":{"progressToken":"7"}}}`)
	if got := p.Next(); !strings.Contains(got, `"params":{"progressToken":"7","progress":1,`) {
		t.Errorf("progress: %s", got)
	}
	p.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	p.Send(toolCall("8", "cancelled", "{}"))
	if got := p.Next(); !strings.Contains(got, `"id":8`) || !strings.Contains(got, `"text":"[7]"`) {
		t.Errorf("after cancelling: %s", got)
	}
}

func TestEndlessLineEndsWhenItsSizeSays(t *testing.T) {
	p := startLegacy(t)
	p.Send(toolCall("1", "endless", `{"bytes":200000}`))
	if got := p.Next(); len(got) != 200001 || !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":1,`) {
		t.Errorf("%d bytes: %.60s", len(got), got)
	}
	p.Send(toolCall("2", "echo", `{}`))
	if got := p.Next(); !strings.Contains(got, `"id":2`) {
		t.Errorf("the next call: %s", got)
	}
}

func TestAskingInBothEras(t *testing.T) {
	p := startLegacy(t)
	p.Send(toolCall("1", "elicit", `{"count":2}`))
	for range 2 {
		var ask struct {
			ID     json.RawMessage
			Method string
		}
		decode(t, p.Next(), &ask)
		if ask.Method != "elicitation/create" {
			t.Fatalf("asked %q", ask.Method)
		}
		p.Send(`{"jsonrpc":"2.0","id":` + string(ask.ID) + `,"result":{"action":"accept","n":1.0}}`)
	}
	if got := p.Next(); !strings.Contains(got, `"structuredContent":{"k1":{"action":"accept","n":1.0},"k2":{"action":"accept","n":1.0}}`) {
		t.Errorf("legacy: %s", got)
	}
	p.Send(toolCall("2", "sample", `{}`))
	if got := p.Next(); !strings.Contains(got, "declared no sampling") {
		t.Errorf("without the capability: %s", got)
	}

	state := ""
	for range 2 {
		more := ""
		if state != "" {
			more = `,"requestState":` + state + `,"inputResponses":{"k1":{"action":"decline"}}`
		}
		p.Send(modernCall(`"m"`, "elicit", `{"rounds":2}`, more))
		var reply struct {
			Result struct {
				ResultType   string
				RequestState json.RawMessage
			}
		}
		decode(t, p.Next(), &reply)
		if reply.Result.ResultType != "input_required" {
			t.Fatalf("modern: %+v", reply)
		}
		state = string(reply.Result.RequestState)
	}
	p.Send(modernCall(`"m"`, "elicit", `{"rounds":2}`, `,"requestState":`+state+`,"inputResponses":{"k1":{"x":1e2}}`))
	if got := p.Next(); !strings.Contains(got, `"structuredContent":{"k1":{"x":1e2}}`) {
		t.Errorf("modern: %s", got)
	}
	p.Send(modernCall("3", "roots", `{}`, ""))
	if got := p.Next(); !strings.Contains(got, `-32021`) {
		t.Errorf("modern without the capability: %s", got)
	}
}

func decode(t *testing.T, raw string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(raw), into); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
}

func TestChangesReachWhoListens(t *testing.T) {
	p := startLegacy(t, "-list-changed-on=raw")
	p.Send(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"text://hello"}}`)
	p.Next()
	p.Send(`{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{` + metaPart + `},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["text://hello"]}}}`)
	if got := p.Next(); !strings.Contains(got, `"method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"l"}`) {
		t.Fatalf("listen: %s", got)
	}
	p.Send(toolCall("2", "touch", `{"uri":"text://hello"}`))
	got := p.Next() + p.Next()
	if strings.Count(got, `"method":"notifications/resources/updated"`) != 2 || strings.Count(got, `"subscriptionId":"l"`) > 1 {
		t.Errorf("touch: %s", got)
	}
	p.Next()
	p.Send(toolCall("3", "raw", `{}`))
	if got := p.Next() + p.Next(); strings.Count(got, `"method":"notifications/tools/list_changed"`) != 2 {
		t.Errorf("list_changed: %s", got)
	}
	p.Next()
	p.Send(`{"jsonrpc":"2.0","id":4,"method":"tools/list"}`)
	if got := p.Next(); !strings.Contains(got, `"name":"extra"`) {
		t.Errorf("the list afterwards: %s", got)
	}
}

func TestPages(t *testing.T) {
	p := startLegacy(t, "-page-size=15")
	cursor, pages := "", 0
	for range 10 {
		p.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + cursor + `}}`)
		var page struct {
			Result struct {
				Tools      []json.RawMessage
				NextCursor json.RawMessage
			}
		}
		decode(t, p.Next(), &page)
		pages++
		if page.Result.NextCursor == nil {
			break
		}
		cursor = `"cursor":` + string(page.Result.NextCursor)
	}
	if pages != 2 {
		t.Errorf("%d pages", pages)
	}
}

func TestPeerThatWillNotGo(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	p := startLegacy(t, "-ignore-eof", "-ignore-term", "-grandchild", "-starts", starts)
	defer killGrandchild(t, starts)
	p.CloseInput()
	if !p.Quiet(50 * time.Millisecond) {
		t.Error("it said something")
	}
	select {
	case <-p.ended:
		t.Error("it went")
	default:
	}
}

func killGrandchild(t *testing.T, starts string) {
	t.Helper()
	raw, err := os.ReadFile(starts)
	if err != nil {
		t.Fatal(err)
	}
	var pid, grandchild int
	if _, err := fmt.Sscan(string(raw), &pid, &grandchild); err != nil {
		t.Fatal(err)
	}
	process, err := os.FindProcess(grandchild)
	if err == nil {
		err = process.Kill()
	}
	if err != nil {
		t.Error(err)
	}
}
