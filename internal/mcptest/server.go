package mcptest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// The eras that a Server can speak.
const (
	EraModern = "modern" // 2026-07-28 only; initialize is refused with -32022
	EraLegacy = "legacy" // initialize only; server/discover is refused
	EraDual   = "dual"   // both, on one pipe or address, at any time
	EraFirst  = "first"  // both, but the first request settles which
)

const serverInfo = `{"name":"mcptest","version":"1.0","x-info":"keep"}`

const defaultCapabilities = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},` +
	`"resources":{"subscribe":true,"listChanged":true},"completions":{},"logging":{},"x-cap":{"keep":1}}`

// Options say what a Server speaks and serves. The zero Options are a dual
// server with everything in order.
type Options struct {
	Era          string // "" is EraDual
	Version      string // legacy: the answer to every initialize; modern: the only version served
	Instructions string
	Capabilities string // a raw JSON object, in place of the usual one
	Tools        string // a raw JSON array to list, in place of the usual one

	PageSize   int  // items of one page of a list; 0 is all
	CursorLoop bool // every page names the same next cursor
	DupTool    bool // echo is listed twice

	DiscoverError  int           // refuse server/discover with this code, instead of -32601
	SilentDiscover bool          // never answer server/discover
	DiscoverDelay  time.Duration // before server/discover is answered

	Tasks         bool   // it makes tasks, with the tools later and either
	ListChangedOn string // a call of this tool adds the tool extra and says so
	DieOn         string // a call of this tool kills the process, or cuts the connection
	BigLine       int    // bytes of the answer of big, if its arguments do not say
	Ledger        string // a file that gets a line for each executed call, synced before the answer
}

// Server is the protocol, without a carrier.
type Server struct {
	opts Options

	mu         sync.Mutex // guards what follows
	tools      string
	conns      map[*conn]bool
	states     map[string]int // the round that a requestState continues
	serial     int            // makes ids and states
	requests   map[string]int // by method
	executions map[string]int // by tool
	cancelled  []string       // raw ids
	tasks      []job
}

// NewServer makes a Server.
func NewServer(opts Options) *Server {
	if opts.Era == "" {
		opts.Era = EraDual
	}
	if opts.Capabilities == "" {
		opts.Capabilities = defaultCapabilities
	}
	tools := opts.Tools
	if tools == "" {
		tools = toolList(opts.DupTool)
	}
	if opts.Tasks {
		tools = strings.TrimSuffix(tools, "]") + "," + taskTools + "]"
		opts.Capabilities = strings.TrimSuffix(opts.Capabilities, "}") + "," + taskCapabilities(opts.Era) + "}"
	}
	return &Server{
		opts:       opts,
		tools:      tools,
		conns:      map[*conn]bool{},
		states:     map[string]int{},
		requests:   map[string]int{},
		executions: map[string]int{},
	}
}

// Requests counts the messages with this method that came, notifications too.
func (s *Server) Requests(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[method]
}

// Executions counts how often the tool was executed.
func (s *Server) Executions(tool string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.executions[tool]
}

// Cancelled lists the ids, as they were spelled, of the requests that a client
// cancelled: with a notification, or over modern HTTP by leaving.
func (s *Server) Cancelled() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.cancelled)
}

// SetTools replaces the raw JSON array of tools that is listed. It does not
// send a notification; see ListChanged.
func (s *Server) SetTools(raw string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools = raw
}

// ListChanged tells every client that listens that a list ("tools", "prompts"
// or "resources") has changed.
func (s *Server) ListChanged(list string) {
	for _, c := range s.allConns() {
		c.listChanged(list)
	}
}

// EndListens ends every subscriptions/listen with its result.
func (s *Server) EndListens() {
	for _, c := range s.allConns() {
		c.endListens()
	}
}

func (s *Server) allConns() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.conns))
}

func (s *Server) addConn(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = true
}

func (s *Server) removeConn(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

func (s *Server) next() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serial++
	return s.serial
}

func (s *Server) noteCancelled(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelled = append(s.cancelled, id)
}

// execute counts an execution and writes it to the ledger.
func (s *Server) execute(tool string, arguments []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.executions[tool]++
	if s.opts.Ledger == "" {
		return nil
	}
	return appendLine(s.opts.Ledger, tool+"\t"+or(arguments, "{}"))
}

// appendLine adds a line to a file, durably. Opening it for each line lets
// several processes share it.
func appendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(line + "\n"); err != nil {
		f.Close()
		return err
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// exchange is one message of a client on its way through the server.
type exchange struct {
	ctx  context.Context // ends when the request is cancelled or the client is gone
	conn *conn
	msg  message
	par  params
	era  wire.Era
	send func(line []byte) // sends a message that belongs to this request
	carrier
}

// carrier is what a tool can do to the pipe or connection it is called over.
type carrier interface {
	// raw writes start and then filler, size bytes in all: without end if size
	// is 0, only start and then the end of the process if it is negative. It
	// reports false where that is not possible.
	raw(start []byte, size int) bool
	// die ends the process, or cuts the connection.
	die()
}

// answer is what a request gets. The zero answer is none: the server keeps
// silent.
type answer struct {
	result  string // a raw JSON object
	kind    string // its resultType; "" is complete
	cached  bool   // it is a list or a reading: modern results say how long it keeps
	ownMeta bool   // it has a _meta
	code    int
	errMsg  string
	data    string
}

func ok(result string) answer     { return answer{result: result} }
func listed(result string) answer { return answer{result: result, cached: true} }

func refuse(code int, format string, args ...any) answer {
	return answer{code: code, errMsg: fmt.Sprintf(format, args...)}
}

func (a answer) silent() bool { return a.result == "" && a.code == 0 }

// body returns the response, nil for silence.
func (a answer) body(id []byte, era wire.Era) []byte {
	if a.silent() {
		return nil
	}
	head := `{"jsonrpc":"2.0","id":` + or(id, "null")
	if a.code != 0 {
		data := ""
		if a.data != "" {
			data = `,"data":` + a.data
		}
		return fmt.Appendf(nil, `%s,"error":{"code":%d,"message":%s%s}}`, head, a.code, quote(a.errMsg), data)
	}
	return []byte(head + `,"result":` + a.finished(era) + `}`)
}

// finished returns the result with the members that the modern era asks for.
func (a answer) finished(era wire.Era) string {
	if era != wire.Modern {
		return a.result
	}
	more := []string{`"resultType":` + quote(cmp.Or(a.kind, "complete"))}
	if a.cached {
		more = append(more, `"ttlMs":60000,"cacheScope":"private"`)
	}
	if !a.ownMeta {
		more = append(more, `"_meta":{"`+wire.MetaServerInfo+`":`+serverInfo+`}`)
	}
	inner := strings.TrimPrefix(a.result, "{")
	if inner != "}" {
		more = append(more, "")
	}
	return "{" + strings.Join(more, ",") + inner
}

// serve takes a message and returns the answer to it, if it is a request. It
// works until the answer is there.
func (s *Server) serve(x *exchange) answer {
	s.mu.Lock()
	s.requests[x.msg.Method]++
	s.mu.Unlock()
	switch {
	case x.msg.isResponse():
		x.conn.answered(x.msg)
		return answer{}
	case !x.msg.isRequest():
		s.notified(x)
		return answer{}
	}
	ctx, forget := x.conn.began(x.ctx, string(x.msg.ID))
	defer forget()
	x.ctx = ctx
	if a := s.admit(x); !a.silent() {
		return a
	}
	handle := methods[x.era][x.msg.Method]
	if handle == nil {
		handle = methods[""][x.msg.Method]
	}
	if handle == nil {
		return refuse(wire.CodeMethodNotFound, "no method %s", x.msg.Method)
	}
	a := handle(s, x)
	if ctx.Err() != nil {
		return answer{} // a cancelled request gets none
	}
	return a
}

func (s *Server) notified(x *exchange) {
	switch x.msg.Method {
	case "notifications/cancelled":
		s.noteCancelled(string(x.par.RequestID))
		x.conn.cancel(string(x.par.RequestID))
	case "notifications/initialized":
		x.conn.setReady()
	}
}
