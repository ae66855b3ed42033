package mcptest

import (
	"fmt"
	"slices"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// The statuses of a task that the peers know.
const (
	taskWorking   = "working"
	taskCompleted = "completed"
	taskCancelled = "cancelled"
)

// taskTools are one that can be called as a task only, and one that can be called
// either way.
const taskTools = `{"name":"later","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}},` +
	`{"name":"either","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`

// taskCapabilities are the members of capabilities by which a server says that
// it makes tasks (2025-11-25, Tasks; SEP-2663).
func taskCapabilities(era string) string {
	const legacy = `"tasks":{"cancel":{},"list":{},"requests":{"tools":{"call":{}}}}`
	const modern = `"extensions":{"` + wire.ExtensionTasks + `":{}}`
	switch era {
	case EraLegacy:
		return legacy
	case EraModern:
		return modern
	}
	return legacy + "," + modern
}

// job is a task of a server. It works until its client has looked at it once.
type job struct{ id, status string }

// raw is the task as the era writes it.
func (j job) raw(era wire.Era, more string) string {
	limits := `"ttl":60000,"pollInterval":10`
	if era == wire.Modern {
		limits = `"ttlMs":60000,"pollIntervalMs":10`
	}
	return `{"taskId":` + quote(j.id) + `,"status":` + quote(j.status) +
		`,"createdAt":"2026-11-30T00:00:00Z","lastUpdatedAt":"2026-11-30T00:00:01Z",` + limits + more + `}`
}

// later answers with a task, if its client can follow one; else it refuses.
func later(s *Server, x *exchange, _ toolArgs) answer {
	switch {
	case takesTask(x):
		return s.newTask(x)
	case x.era == wire.Legacy:
		return refuse(wire.CodeMethodNotFound, "later works as a task only")
	}
	a := refuse(wire.CodeMissingCapability, "later makes a task")
	a.data = `{"requiredCapabilities":{"extensions":{"` + wire.ExtensionTasks + `":{}}}}`
	return a
}

// either answers with a task, if its client can follow one; else at once.
func either(s *Server, x *exchange, _ toolArgs) answer {
	if takesTask(x) {
		return s.newTask(x)
	}
	return ok(textResult("done at once"))
}

// takesTask reports whether the client asks for a task, as a legacy one does, or
// can follow one, as a modern one says.
func takesTask(x *exchange) bool {
	if x.era == wire.Legacy {
		return has(x.msg.Params, "task")
	}
	return has(member(string(x.par.Meta[wire.MetaClientCapabilities]), "extensions"), wire.ExtensionTasks)
}

func (s *Server) newTask(x *exchange) answer {
	j := job{fmt.Sprintf("task-%d", s.next()), taskWorking}
	s.mu.Lock()
	s.tasks = append(s.tasks, j)
	s.mu.Unlock()
	if x.era == wire.Legacy {
		return ok(`{"task":` + j.raw(x.era, "") + `}`)
	}
	a := ok(j.raw(x.era, ""))
	a.kind = "task"
	return a
}

// task answers the requests about one task. Of one that it did not make it says
// that it works: if a client hears that, nobody refused before.
func (s *Server) task(x *exchange) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.tasks, func(j job) bool { return j.id == x.par.TaskID })
	if at < 0 {
		return ok(`{"taskId":` + quote(x.par.TaskID) + `,"status":"working","x-t":"keep"}`)
	}
	switch j := &s.tasks[at]; x.msg.Method {
	case "tasks/cancel":
		return j.cancel(x.era)
	case "tasks/result":
		return j.result()
	default:
		return j.get(x.era)
	}
}

func (j *job) get(era wire.Era) answer {
	more := ""
	if era == wire.Modern && j.status == taskCompleted {
		more = `,"result":` + textResult("done later")
	}
	now := ok(j.raw(era, more))
	if j.status == taskWorking {
		j.status = taskCompleted
	}
	return now
}

func (j *job) cancel(era wire.Era) answer {
	working := j.status == taskWorking
	if working {
		j.status = taskCancelled
	}
	switch {
	case era == wire.Modern:
		return ok(`{}`)
	case !working:
		return refuse(wire.CodeInvalidParams, "the task is %s", j.status)
	}
	return ok(j.raw(era, ""))
}

// result ends the work that it would have to wait for.
func (j *job) result() answer {
	if j.status == taskCancelled {
		return refuse(wire.CodeInvalidParams, "the task is cancelled")
	}
	j.status = taskCompleted
	a := ok(`{"content":[{"type":"text","text":"done later"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":` + quote(j.id) + `}}}`)
	a.ownMeta = true
	return a
}

// listTasks lists the tasks of everybody.
func (s *Server) listTasks(x *exchange) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := ""
	for i, j := range s.tasks {
		if i > 0 {
			list += ","
		}
		list += j.raw(x.era, "")
	}
	return ok(`{"tasks":[` + list + `]}`)
}
