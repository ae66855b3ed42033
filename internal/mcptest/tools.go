package mcptest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// releasePoll is how often slow looks for its file.
const releasePoll = 2 * time.Millisecond

// toolArgs are the arguments by which a test steers a tool.
type toolArgs struct {
	Release string          `json:"release"` // slow: a file; it goes on when the file exists
	Noted   string          `json:"noted"`   // slow: a file that it writes when it is cancelled
	Ticks   *int            `json:"ticks"`   // slow: progress notifications
	Level   string          `json:"level"`   // log
	Data    json.RawMessage `json:"data"`    // log
	Lines   string          `json:"lines"`   // notify: a file; what is written to it is said
	Method  string          `json:"method"`  // notify, request
	Params  json.RawMessage `json:"params"`  // notify, request
	Count   int             `json:"count"`   // elicit, sample, roots: questions of one round
	Rounds  int             `json:"rounds"`  // elicit, sample, roots
	Mode    string          `json:"mode"`    // elicit: "url" or "url-error"
	URI     string          `json:"uri"`     // touch
	List    string          `json:"list"`    // touch
	Bytes   int             `json:"bytes"`   // big, endless
}

// tool executes one call.
type tool func(s *Server, x *exchange, args toolArgs) answer

var tools map[string]tool

func init() {
	tools = map[string]tool{
		"echo":      echo,
		"headed":    echo,
		"extra":     echo,
		"raw":       func(_ *Server, x *exchange, _ toolArgs) answer { return ok(textResult(or(x.msg.Params, ""))) },
		"env":       environment,
		"slow":      slow,
		"log":       log,
		"notify":    notify,
		"elicit":    elicit,
		"sample":    sample,
		"roots":     roots,
		"request":   request,
		"fail":      fail,
		"rpcerror":  rpcError,
		"cancelled": cancelled,
		"touch":     touch,
		"link":      link,
		"big":       big,
		"garbled":   garbled,
		"stray":     stray,
		"endless":   endless,
		"partial":   partial,
		"die":       die,
		"later":     later,
		"either":    either,
	}
}

func (s *Server) callTool(x *exchange) answer {
	name := x.par.Name
	run := tools[name]
	if run == nil {
		return refuse(wire.CodeInvalidParams, "unknown tool: %s", name)
	}
	if x.par.RequestState == "" { // a later round belongs to the same execution
		if err := s.execute(name, x.par.Arguments); err != nil {
			return refuse(wire.CodeInternal, "ledger: %v", err)
		}
	}
	var args toolArgs
	if len(x.par.Arguments) > 0 {
		_ = json.Unmarshal(x.par.Arguments, &args) // echo takes arguments of any shape
	}
	if name == s.opts.ListChangedOn {
		s.addExtraTool()
	}
	if name == s.opts.DieOn {
		return die(s, x, args)
	}
	return run(s, x, args)
}

func (s *Server) addExtraTool() {
	s.mu.Lock()
	if !strings.Contains(s.tools, extraTool) {
		s.tools = strings.TrimSuffix(s.tools, "]") + "," + extraTool + "]"
	}
	s.mu.Unlock()
	s.ListChanged("tools")
}

func echo(_ *Server, x *exchange, _ toolArgs) answer {
	return ok(structuredResult(or(x.par.Arguments, "null")))
}

func environment(_ *Server, _ *exchange, _ toolArgs) answer {
	names := map[string]bool{}
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		names[name] = true
	}
	dir, err := os.Getwd()
	if err != nil {
		return refuse(wire.CodeInternal, "%v", err)
	}
	return ok(structuredResult(fmt.Sprintf(`{"env":%s,"argv":%s,"dir":%s,"pid":%d}`,
		quoteAll(slices.Sorted(maps.Keys(names))), quoteAll(os.Args), quote(dir), os.Getpid())))
}

func slow(_ *Server, x *exchange, args toolArgs) answer {
	ticks := 2
	if args.Ticks != nil {
		ticks = *args.Ticks
	}
	if token := x.par.Meta[wire.MetaProgressToken]; token != nil {
		for i := range ticks {
			x.send(notification("notifications/progress", fmt.Sprintf(
				`{"progressToken":%s,"progress":%d,"total":%d.0,"message":"tick","x-p":"keep"}`, token, i+1, ticks)))
		}
	}
	poll := time.NewTicker(releasePoll)
	defer poll.Stop()
	for args.Release != "" {
		if _, err := os.Stat(args.Release); err == nil {
			break
		}
		select {
		case <-poll.C:
		case <-x.ctx.Done():
			if err := noteEnd(x, args.Noted); err != nil {
				return refuse(wire.CodeInternal, "%v", err)
			}
			return answer{}
		}
	}
	return ok(textResult("released"))
}

// noteEnd writes a file if the client cancelled. The end of a process's input
// ends its calls too, and is not noted.
func noteEnd(x *exchange, path string) error {
	if path == "" || context.Cause(x.ctx) == errInputEnded {
		return nil
	}
	return appendLine(path, string(x.msg.ID))
}

func log(_ *Server, x *exchange, args toolArgs) answer {
	wanted := x.conn.logs(args.Level)
	if x.era == wire.Modern { // only when the request itself asks for it
		threshold := text(x.par.Meta[wire.MetaLogLevel])
		wanted = threshold != "" && atLeast(args.Level, threshold)
	}
	if wanted {
		x.send(notification("notifications/message",
			`{"level":`+quote(args.Level)+`,"logger":"mcptest","data":`+or(args.Data, "null")+`,"x-l":"keep"}`))
	}
	return ok(textResult("logged"))
}

func notify(_ *Server, x *exchange, args toolArgs) answer {
	if args.Lines != "" {
		return dictated(x, args.Lines)
	}
	x.send(notification(args.Method, or(args.Params, "{}")))
	return ok(textResult("notified"))
}

func fail(_ *Server, x *exchange, _ toolArgs) answer {
	return ok(`{"content":[{"type":"text","text":` + quote("failed: "+or(x.par.Arguments, "{}")) + `}],"isError":true,"x-e":"keep"}`)
}

func rpcError(_ *Server, x *exchange, _ toolArgs) answer {
	a := refuse(-32099, "custom <&>")
	a.data = `{"big":9007199254740993,"f":1.0,"arguments":` + or(x.par.Arguments, "null") + `}`
	return a
}

func cancelled(s *Server, _ *exchange, _ toolArgs) answer {
	return ok(textResult("[" + strings.Join(s.Cancelled(), ",") + "]"))
}

func touch(s *Server, _ *exchange, args toolArgs) answer {
	if args.List != "" {
		s.ListChanged(args.List)
		return ok(textResult("touched"))
	}
	for _, c := range s.allConns() {
		c.updated(args.URI)
	}
	return ok(textResult("touched"))
}

func link(_ *Server, _ *exchange, _ toolArgs) answer {
	return ok(`{"content":[{"type":"resource_link","uri":"text://hello","name":"hello","x-l":"keep"},` +
		`{"type":"resource","resource":{"uri":"text://hello","text":"see text://hello","x-r":"keep"}},` +
		`{"type":"resource_link","uri":"https://example.test/doc","name":"doc"},` +
		`{"type":"video","uri":"x://v"}]}`)
}

func big(s *Server, _ *exchange, args toolArgs) answer {
	size := args.Bytes
	if size == 0 {
		size = s.opts.BigLine
	}
	return ok(textResult(strings.Repeat("b", size)))
}

// endless answers with a reply that is too long for anybody.
func endless(_ *Server, x *exchange, args toolArgs) answer {
	if !x.raw([]byte(`{"jsonrpc":"2.0","id":`+string(x.msg.ID)+`,"result":{"content":[{"type":"text","text":"`), args.Bytes) {
		return refuse(wire.CodeInternal, "endless works over stdio only")
	}
	return answer{}
}

func partial(_ *Server, x *exchange, _ toolArgs) answer {
	if !x.raw([]byte(`{"jsonrpc":"2.0","id":`+string(x.msg.ID)+`,"res`), -1) {
		return refuse(wire.CodeInternal, "partial works over stdio only")
	}
	return answer{}
}

func die(_ *Server, x *exchange, _ toolArgs) answer {
	x.die()
	<-x.ctx.Done()
	return answer{}
}
