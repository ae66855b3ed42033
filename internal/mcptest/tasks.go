package mcptest

import (
	"fmt"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// taskTools are one that can be called as a task only, and one beside it.
const taskTools = `{"name":"later","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}},{"name":"ended","inputSchema":{"type":"object"}}`

// taskCapabilities are the members of capabilities by which a server of each era
// says that it makes tasks (2025-11-25, Tasks; SEP-2663).
const taskCapabilities = `"tasks":{"cancel":{},"list":{},"requests":{"tools":{"call":{}}}},"extensions":{"io.modelcontextprotocol/tasks":{}}`

// later answers with a task that is completed at once, if its client can follow
// one; else it refuses.
func later(s *Server, x *exchange, _ toolArgs) answer {
	id := fmt.Sprintf("task-%d", s.next())
	s.mu.Lock()
	s.tasks = append(s.tasks, id)
	s.mu.Unlock()
	if x.era == wire.Legacy {
		if !has(x.msg.Params, "task") {
			return refuse(wire.CodeMethodNotFound, "later works as a task only")
		}
		return ok(`{"task":` + s.taskOf(id) + `}`)
	}
	if !has([]byte(or(member(or(x.par.Meta[wire.MetaClientCapabilities], "{}"), "extensions"), "{}")), "io.modelcontextprotocol/tasks") {
		return refuse(wire.CodeMissingCapability, "later makes a task")
	}
	a := ok(`{` + s.taskMembers(id) + `}`)
	a.kind = "task"
	return a
}

func (s *Server) taskMembers(id string) string {
	return `"taskId":` + quote(id) + `,"status":"completed","createdAt":"2026-11-30T00:00:00Z","lastUpdatedAt":"2026-11-30T00:00:01Z"`
}

func (s *Server) taskOf(id string) string {
	return `{` + s.taskMembers(id) + `,"ttl":60000,"pollInterval":10}`
}

// task answers the requests about one task.
func (s *Server) task(x *exchange) answer {
	id := x.par.TaskID
	result := textResult("done later")
	switch {
	case !s.knowsTask(id):
		return ok(`{"taskId":` + quote(id) + `,"status":"working","x-t":"keep"}`) // of whatever a test made up
	case x.msg.Method == "tasks/result":
		return ok(result)
	case x.era == wire.Legacy:
		return ok(s.taskOf(id))
	case x.msg.Method == "tasks/cancel":
		return ok(`{}`)
	}
	return ok(`{` + s.taskMembers(id) + `,"ttlMs":60000,"result":` + result + `}`)
}

func (s *Server) knowsTask(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.tasks {
		if known == id {
			return true
		}
	}
	return false
}

// listTasks lists the tasks of everybody.
func (s *Server) listTasks(*exchange) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := ""
	for _, id := range s.tasks {
		if list != "" {
			list += ","
		}
		list += s.taskOf(id)
	}
	return ok(`{"tasks":[` + list + `]}`)
}
