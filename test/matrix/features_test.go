package matrix

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// verdict is what a cell without a fault shows.
type verdict string

const (
	works    verdict = "ok"
	withheld verdict = "withheld"
)

var features = []struct {
	name  string
	check func(c *cell) verdict
}{
	{"tools", tools},
	{"resources", resources},
	{"templates", templates},
	{"prompts", prompts},
	{"completion", completion},
	{"logging", logging},
	{"progress", progress},
	{"cancel", cancel},
	{"elicit form", elicitForm},
	{"elicit URL", elicitURL},
	{"sampling", sampling},
	{"roots", roots},
	{"list_changed", listChanged},
	{"updates", updates},
	{"tasks", tasks},
}

func tools(c *cell) verdict {
	c.want(c.post("tools/list", `{}`).Result(), `"name":"echo"`, `"x-future":{"a":[1]}`)
	const arguments = `{"n":9007199254740993,"r":1.0,"s":"<&>\u2028"}`
	c.want(c.post("tools/call", callOf("echo", arguments)).Result(), `"structuredContent":`+arguments)
	c.want(c.post("tools/call", callOf("rpcerror", `{}`)).Message(), `"code":-32099`, `"big":9007199254740993`)
	return works
}

func resources(c *cell) verdict {
	c.want(c.post("resources/list", `{}`).Result(), `"uri":"text://hello"`, `"x-r":"keep"`)
	c.want(c.post("resources/read", `{"uri":"text://hello"}`).Result(), `"text":"text of text://hello"`)
	missing := wire.CodeInvalidParams
	if c.client == wire.Legacy && c.server == wire.Legacy {
		missing = wire.CodeResourceNotFound // as it came; the modern era has no such code
	}
	if e := c.post("resources/read", `{"uri":"none://x"}`).RPCError(); e.Code != missing {
		c.Errorf("a resource that is not there: %+v", e)
	}
	return works
}

func templates(c *cell) verdict {
	c.want(c.post("resources/templates/list", `{}`).Result(), `"uriTemplate":"text://{name}"`)
	c.want(c.post("resources/read", `{"uri":"text://some-name"}`).Result(), `"text":"text of text://some-name"`)
	return works
}

func prompts(c *cell) verdict {
	c.want(c.post("prompts/list", `{}`).Result(), `"name":"greet"`, `"x-arg":"keep"`)
	c.want(c.post("prompts/get", `{"name":"greet","arguments":{"name":"A"}}`).Result(), `"description":"d"`, `"x-m":"keep"`)
	return works
}

func completion(c *cell) verdict {
	r := c.post("completion/complete", `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"name","value":"al"}}`)
	c.want(r.Result(), `"alpha"`)
	return works
}

// logging: a client gets messages from the level on that it asks for.
func logging(c *cell) verdict {
	level := func(want string) string { return `"_meta":{"` + wire.MetaLogLevel + `":"` + want + `"}` }
	if c.client == wire.Legacy {
		c.want(c.post("logging/setLevel", `{"level":"warning"}`).Message(), `"result":{}`)
		level = func(string) string { return `"_meta":{}` }
	}
	for said, heard := range map[string]bool{"info": false, "error": true} {
		r := c.post("tools/call", callOf("log", `{"level":"`+said+`","data":{"x":1.0}}`, level("warning")))
		got := strings.Contains(strings.Join(r.Others(), ""), `"level":"`+said+`"`)
		if got != heard || r.Text() != "logged" {
			c.Errorf("a message of %s: %v", said, r)
		}
	}
	return works
}

// progress comes before the answer, under the client's own token.
func progress(c *cell) verdict {
	const token = `"mine <&>"`
	r := c.post("tools/call", callOf("slow", `{"ticks":3}`, `"_meta":{"progressToken":`+token+`}`))
	others := r.Others()
	if len(others) != 3 || r.Text() != "released" {
		c.Fatalf("%v", r)
	}
	for i, m := range others {
		c.want(m, `"progressToken":`+token, fmt.Sprintf(`"progress":%d`, i+1))
	}
	return works
}

// cancel reaches the server while its tool runs: by a notification of a legacy
// client, and by the end of a modern client's connection.
func cancel(c *cell) verdict {
	release := filepath.Join(c.TempDir(), "release")
	s := c.OpenID(c.client, `"doomed"`, "tools/call", callOf("slow", `{"ticks":1,"release":"`+release+`"}`, `"_meta":{"progressToken":1}`))
	defer s.Close()
	if first := s.Next().Data; !strings.Contains(first, "notifications/progress") {
		c.Fatalf("it began with %s", first)
	}
	if c.client == wire.Modern {
		s.Close()
	} else {
		c.Raw("POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"doomed"}}`,
			"Content-Type: application/json", "Mcp-Session-Id: "+c.Session)
		if event, more := s.Any(); more && strings.Contains(event.Data, "released") {
			c.Errorf("it was answered: %s", event.Data)
		}
	}
	mcptest.Eventually(c, "the end at the server", func() bool { return c.post("tools/call", callOf("ended", `{}`)).Text() == "1" })
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		c.Fatal(err)
	}
	return works
}

// asked makes a call in which the server asks, answers, and returns what the
// server got. check looks at the raw params of the question.
func (c *cell) asked(tool, arguments, method, answer string, check func(params string)) string {
	c.Helper()
	params := callOf(tool, arguments)
	if c.client == wire.Legacy {
		s := c.open("tools/call", params)
		defer s.Close()
		q := []byte(s.Next().Data)
		if got, _ := wire.GetText(q, "method"); got != method {
			c.Fatalf("the client was told %s", q)
		}
		check(string(wire.Get(q, "params")))
		c.Respond(string(wire.Get(q, "id")), answer)
		for {
			if m := []byte(s.Next().Data); wire.Get(m, "method") == nil {
				return string(wire.GetPath(m, "result", "structuredContent"))
			}
		}
	}
	first := []byte(c.post("tools/call", params).Result())
	if kind, _ := wire.GetText(first, "resultType"); kind != "input_required" {
		c.Fatalf("the client was told %s", first)
	}
	questions := wire.Get(first, "inputRequests")
	for _, m := range wire.Members(questions) {
		q := m.Val.In(questions)
		if got, _ := wire.GetText(q, "method"); got != method {
			c.Fatalf("the client was asked %s", q)
		}
		check(string(wire.Get(q, "params")))
		params = callOf(tool, arguments, `"requestState":`+string(wire.Get(first, "requestState")),
			`"inputResponses":{`+string(wire.Quote(m.Key))+`:`+answer+`}`)
	}
	return string(wire.Get([]byte(c.post("tools/call", params).Result()), "structuredContent"))
}

// wantAnswer fails the cell unless the server got the answer byte for byte.
func (c *cell) wantAnswer(got, answer string) {
	c.Helper()
	if got != `{"k1":`+answer+`}` {
		c.Errorf("the server got %s, want %s", got, answer)
	}
}

func elicitForm(c *cell) verdict {
	const answer = `{"action":"accept","content":{"name":"A <&> B","n":9007199254740993}}`
	c.wantAnswer(c.asked("elicit", `{}`, "elicitation/create", answer, func(params string) {
		c.want(params, `"message":"Who are <you>?"`, `"x-ui":"keep"`)
	}), answer)
	return works
}

func elicitURL(c *cell) verdict {
	const answer = `{"action":"accept"}`
	c.wantAnswer(c.asked("elicit", `{"mode":"url"}`, "elicitation/create", answer, func(params string) {
		c.want(params, `"url":"https://example.test/sign-in"`)
		if id := wire.Get([]byte(params), "elicitationId"); (id != nil) != (c.client == wire.Legacy) {
			c.Errorf("its id is %s", id)
		}
	}), answer)
	return works
}

func sampling(c *cell) verdict {
	const answer = `{"role":"assistant","content":{"type":"text","text":"4"},"model":"m","x":1.0}`
	c.wantAnswer(c.asked("sample", `{}`, "sampling/createMessage", answer, func(params string) {
		c.want(params, `"maxTokens":9007199254740993`)
	}), answer)
	return works
}

func roots(c *cell) verdict {
	const answer = `{"roots":[{"uri":"file:///home","x":1.0}]}`
	c.wantAnswer(c.asked("roots", `{}`, "roots/list", answer, func(string) {}), answer)
	return works
}

// news is where the client hears of changes: its standing stream, or a
// subscription.
func (c *cell) news(filter string) *mcptest.Stream {
	if c.client == wire.Legacy {
		return c.Get()
	}
	s := c.open("subscriptions/listen", `{"notifications":`+filter+`}`)
	c.want(s.Next().Data, "notifications/subscriptions/acknowledged", filter)
	return s
}

// hears waits for a notification.
func (c *cell) hears(s *mcptest.Stream, method string) string {
	c.Helper()
	for {
		data := s.Next().Data
		if got, _ := wire.GetText([]byte(data), "method"); got == method {
			return data
		}
	}
}

// listChanged: the tool fail adds another one to the server's list.
func listChanged(c *cell) verdict {
	s := c.news(`{"toolsListChanged":true}`)
	defer s.Close()
	if before := c.post("tools/list", `{}`).Result(); strings.Contains(before, `"name":"extra"`) {
		c.Errorf("it is there before: %s", before)
	}
	c.post("tools/call", callOf("fail", `{}`))
	for { // it may hear of the list's first coming, too
		c.hears(s, "notifications/tools/list_changed")
		if strings.Contains(c.post("tools/list", `{}`).Result(), `"name":"extra"`) {
			return works
		}
	}
}

// updates: who asked for it hears that a resource changed. From when on a
// server tells is not known, so it changes until somebody heard.
func updates(c *cell) verdict {
	const uri = "text://hello"
	s := c.news(`{"resourceSubscriptions":["` + uri + `"]}`)
	defer s.Close()
	if c.client == wire.Legacy {
		c.want(c.post("resources/subscribe", `{"uri":"`+uri+`"}`).Message(), `"result":{}`)
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		beat := time.NewTicker(20 * time.Millisecond)
		defer beat.Stop()
		for {
			select {
			case <-quit:
				return
			case <-beat.C:
				c.post("tools/call", callOf("touch", `{"uri":"`+uri+`"}`))
			}
		}
	}()
	c.want(c.hears(s, "notifications/resources/updated"), `"uri":"`+uri+`"`)
	close(quit)
	<-done
	return works
}

// tasks are made and followed between sides of one era. Across the eras they are
// not offered, and neither is a tool that works only so.
func tasks(c *cell) verdict {
	list := c.post("tools/list", `{}`).Result()
	call := callOf("later", `{}`, `"task":{"ttl":60000}`)
	if c.client != c.server {
		if strings.Contains(list, `"name":"later"`) {
			c.Errorf("the tool is listed: %s", list)
		}
		if r := c.post("tools/call", call); r.RPCError().Code != wire.CodeInvalidParams {
			c.Errorf("the tool was called: %v", r)
		}
		return withheld
	}
	c.want(list, `"name":"later"`)
	made := []byte(c.post("tools/call", call).Result())
	if c.client == wire.Legacy {
		made = wire.Get(made, "task")
	}
	id := string(wire.Get(made, "taskId"))
	if id == "" {
		c.Fatalf("the call made %s", made)
	}
	headers := []string{}
	if c.client == wire.Modern {
		headers = append(headers, wire.HeaderName+": "+wire.Text([]byte(id)))
	}
	state := c.Post(c.client, "tasks/get", `{"taskId":`+id+`}`, headers...).Result()
	c.want(state, `"status":"completed"`)
	if c.client == wire.Legacy {
		c.want(c.post("tasks/list", `{}`).Result(), `"taskId":`+id)
		state = c.post("tasks/result", `{"taskId":`+id+`}`).Result()
	}
	c.want(state, "done later")
	for _, stranger := range []string{`"task-999"`, `""`} {
		r := c.Post(c.client, "tasks/get", `{"taskId":`+stranger+`}`, append(headers, wire.HeaderName+": "+wire.Text([]byte(stranger)))...)
		if r.RPCError().Code == 0 {
			c.Errorf("a task of nobody: %v", r)
		}
	}
	return works
}
