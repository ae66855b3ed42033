package matrix

import (
	"strings"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// tasks are made, followed and cancelled between sides of one era, by the
// principal that called and by nobody else. Across the eras they are not
// offered, and neither is a tool that works only so.
func tasks(c *cell) verdict {
	list := c.post("tools/list", `{}`).Result()
	c.want(list, `"name":"either"`)
	if c.crosses() {
		c.noTasks(list)
		return sameEra
	}
	c.want(list, `"name":"later"`)
	advertised := wire.ExtensionTasks
	if c.client.era == wire.Legacy {
		advertised = `"tasks":{"cancel":{},"list":{}`
		c.want(c.post("tools/call", callOf("either", `{}`)).Text(), "done at once")
	}
	c.want(c.greeting, advertised)
	for _, tool := range []string{"later", "either"} {
		id := c.makeTask(tool)
		c.refuseStranger(id)
		c.wantResult(id)
	}
	id := c.makeTask("later")
	c.wantNoError(c.post("tasks/cancel", `{"taskId":`+id+`}`))
	c.want(c.post("tasks/get", `{"taskId":`+id+`}`).Result(), `"taskId":`+id, `"status":"cancelled"`)
	c.refuse(c.talker, `"task-999"`) // of which the server itself would tell
	return works
}

// noTasks is what holds across the eras. A tool that works without a task, too,
// is there and works so.
func (c *cell) noTasks(list string) {
	for _, offered := range []string{wire.ExtensionTasks, `"tasks"`} {
		if strings.Contains(c.greeting, offered) {
			c.Errorf("%s is advertised: %s", offered, c.greeting)
		}
	}
	if strings.Contains(list, `"name":"later"`) {
		c.Errorf("a tool is listed that works as a task only: %s", list)
	}
	if r := c.post("tools/call", callOf("later", `{}`, `"task":{"ttl":60000}`)); r.RPCError().Code != wire.CodeInvalidParams {
		c.Errorf("a tool was called that works as a task only: %v", r)
	}
	c.want(c.post("tools/call", callOf("either", `{}`)).Text(), "done at once")
	c.refuse(c.talker, `"task-1"`)
}

// makeTask calls a tool that answers with a task, and returns its raw id.
func (c *cell) makeTask(tool string) string {
	c.Helper()
	var more []string
	if c.client.era == wire.Legacy {
		more = append(more, `"task":{"ttl":60000}`)
	}
	r := c.post("tools/call", callOf(tool, `{}`, more...))
	made := []byte(r.Result())
	if c.client.era == wire.Legacy {
		made = wire.Get(made, "task")
	} else {
		c.want(string(made), `"resultType":"task"`)
	}
	id := string(wire.Get(made, "taskId"))
	if id == "" {
		c.Fatalf("%s made no task: %v", tool, r)
	}
	c.want(string(made), `"status":"working"`)
	return id
}

// wantResult follows a task to its end.
func (c *cell) wantResult(id string) {
	c.Helper()
	get := func() string { return c.post("tasks/get", `{"taskId":`+id+`}`).Result() }
	c.want(get(), `"taskId":`+id, `"status":"working"`)
	state := get()
	c.want(state, `"status":"completed"`)
	if c.client.era == wire.Legacy {
		c.want(c.post("tasks/list", `{}`).Result(), `"taskId":`+id)
		state = c.post("tasks/result", `{"taskId":`+id+`}`).Result()
	}
	c.want(state, `"text":"done later"`)
}

// refuseStranger: to another principal it looks as if there were no such task.
func (c *cell) refuseStranger(id string) {
	c.Helper()
	other := newOverHTTP(c, c.client.era, c.crib.url(c.page()))
	if c.client.over == "http" {
		other.Header.Set("Authorization", "Bearer "+c.crib.token)
	}
	other.hello()
	c.refuse(other, id)
	if list := other.post("tasks/list", `{}`).Result(); strings.Contains(list, id) {
		c.Errorf("a stranger's list has it: %s", list)
	}
}

// refuse fails the cell unless who asks about a task is refused. The server says
// of every task that there is such a one.
func (c *cell) refuse(who talker, id string) {
	c.Helper()
	for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/result"} {
		if r := who.post(method, `{"taskId":`+id+`}`); r.RPCError().Code == 0 {
			c.Errorf("%s of %s was not refused: %v", method, id, r)
		}
	}
}

func (c *cell) wantNoError(r *mcptest.Reply) {
	c.Helper()
	if r.Result() == "" {
		c.Errorf("%v", r)
	}
}
