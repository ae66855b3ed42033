package matrix

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
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
	if c.client.era == wire.Legacy && c.server.era == wire.Legacy {
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

// completion is of an argument of a prompt, and of a template's.
func completion(c *cell) verdict {
	for _, ref := range []string{`{"type":"ref/prompt","name":"greet"}`, `{"type":"ref/resource","uri":"text://{name}"}`} {
		r := c.post("completion/complete", `{"ref":`+ref+`,"argument":{"name":"name","value":"al"}}`)
		c.want(r.Result(), `"values":["alpha"]`, `"total":1`, `"x-ref":`+ref)
	}
	return works
}

// logging: a client gets messages from the level on that it asks for. A modern
// one asks with each request, and without that gets none.
func logging(c *cell) verdict {
	asking := `"_meta":{"` + wire.MetaLogLevel + `":"warning"}`
	if c.client.era == wire.Modern {
		c.logged("error", `"_meta":{}`, false)
	} else {
		c.want(c.post("logging/setLevel", `{"level":"warning"}`).Message(), `"result":{}`)
		asking = `"_meta":{}`
	}
	c.logged("info", asking, false)
	c.logged("warning", asking, true)
	c.logged("error", asking, true)
	return works
}

// logged fails the cell unless a message of the level is heard, or not.
func (c *cell) logged(level, meta string, heard bool) {
	c.Helper()
	r := c.post("tools/call", callOf("log", `{"level":"`+level+`","data":{"x":1.0}}`, meta))
	got := 0
	for _, m := range r.Others() {
		c.want(m, `"method":"notifications/message"`, `"level":"`+level+`"`, `"data":{"x":1.0}`)
		got++
	}
	if (got == 1) != heard || got > 1 || r.Text() != "logged" {
		c.Errorf("%d messages of %s with %s: %v", got, level, meta, r)
	}
}

// progress comes before the answer, under the client's own token, and grows.
func progress(c *cell) verdict {
	const token = `"mine <&>"`
	r := c.post("tools/call", callOf("slow", `{"ticks":3}`, `"_meta":{"progressToken":`+token+`}`))
	others := r.Others()
	if len(others) != 3 || r.Events[len(r.Events)-1].Data != r.Message() || r.Text() != "released" {
		c.Fatalf("%v", r)
	}
	for i, m := range others {
		c.want(m, `"method":"notifications/progress"`, `"progressToken":`+token, fmt.Sprintf(`"progress":%d,"total":3.0`, i+1), `"message":"tick"`)
	}
	return works
}

// cancel reaches the server while its tool runs: the tool itself sees that it was
// cancelled, and its client gets no result.
func cancel(c *cell) verdict {
	noted := filepath.Join(c.TempDir(), "noted")
	s := c.open("tools/call", callOf("slow", fmt.Sprintf(`{"ticks":1,"release":"/none","noted":%q}`, noted), `"_meta":{"progressToken":1}`))
	defer s.close()
	c.want(s.next(), "notifications/progress")
	if _, err := os.Stat(noted); err == nil {
		c.Error("it ended before it was cancelled")
	}
	c.cancel(s)
	mcptest.Eventually(c, "the tool's end", func() bool {
		_, err := os.Stat(noted)
		return err == nil
	})
	for _, m := range s.rest() {
		if wire.Get([]byte(m), "result") != nil {
			c.Errorf("it was answered: %s", m)
		}
	}
	return works
}

// asked makes a call in which the server asks, answers, and returns what the
// server got. check looks at the raw params of the question.
func (c *cell) asked(tool, arguments, method, answer string, check func(params string)) string {
	c.Helper()
	if c.client.era == wire.Legacy {
		return c.askedOnStream(callOf(tool, arguments), method, answer, check)
	}
	first := []byte(c.post("tools/call", callOf(tool, arguments)).Result())
	if kind, _ := wire.GetText(first, "resultType"); kind != "input_required" {
		c.Fatalf("the client was told %s", first)
	}
	questions := wire.Get(first, "inputRequests")
	members := wire.Members(questions)
	if len(members) != 1 {
		c.Fatalf("the client was asked %s", questions)
	}
	q := members[0].Val.In(questions)
	if got, _ := wire.GetText(q, "method"); got != method {
		c.Fatalf("the client was asked %s", q)
	}
	check(string(wire.Get(q, "params")))
	retry := callOf(tool, arguments, `"requestState":`+string(wire.Get(first, "requestState")),
		`"inputResponses":{`+string(wire.Quote(members[0].Key))+`:`+answer+`}`)
	return string(wire.Get([]byte(c.post("tools/call", retry).Result()), "structuredContent"))
}

// askedOnStream is asked for a legacy client: the question is a request of the
// server, and the call's answer comes behind the client's.
func (c *cell) askedOnStream(params, method, answer string, check func(params string)) string {
	c.Helper()
	s := c.open("tools/call", params)
	defer s.close()
	q := []byte(s.next())
	if got, _ := wire.GetText(q, "method"); got != method {
		c.Fatalf("the client was told %s", q)
	}
	check(string(wire.Get(q, "params")))
	c.respond(string(wire.Get(q, "id")), answer)
	for {
		if m := []byte(s.next()); wire.Get(m, "method") == nil {
			return string(wire.GetPath(m, "result", "structuredContent"))
		}
	}
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
		if id := wire.Get([]byte(params), "elicitationId"); (id != nil) != (c.client.era == wire.Legacy) {
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
func (c *cell) news(filter string) stream {
	if c.client.era == wire.Legacy {
		return c.standing()
	}
	s := c.open("subscriptions/listen", `{"notifications":`+filter+`}`)
	c.want(s.next(), "notifications/subscriptions/acknowledged", filter)
	return s
}

// hears waits for a notification.
func (c *cell) hears(s stream, method string) string {
	c.Helper()
	for {
		m := s.next()
		if got, _ := wire.GetText([]byte(m), "method"); got == method {
			return m
		}
	}
}

// listChanged: the tool fail adds another one to the server's list.
func listChanged(c *cell) verdict {
	s := c.news(`{"toolsListChanged":true}`)
	defer s.close()
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
	defer s.close()
	if c.client.era == wire.Legacy {
		c.want(c.post("resources/subscribe", `{"uri":"`+uri+`"}`).Message(), `"result":{}`)
	}
	quit := make(chan struct{})
	var touching sync.WaitGroup
	touching.Go(func() {
		beat := time.NewTicker(20 * time.Millisecond)
		defer beat.Stop()
		for {
			select {
			case <-quit:
				return
			case <-beat.C:
				c.post("tools/call", callOf("touch", `{"uri":"text://other"}`)) // nobody asked for this one
				c.post("tools/call", callOf("touch", `{"uri":"`+uri+`"}`))
			}
		}
	})
	defer touching.Wait()
	defer close(quit)
	c.want(c.hears(s, "notifications/resources/updated"), `"uri":"`+uri+`"`)
	return works
}
