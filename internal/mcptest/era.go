package mcptest

import (
	"time"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// handler answers one request.
type handler func(s *Server, x *exchange) answer

// methods are the requests that a server knows: by era, and under "" those
// that both have.
var methods = map[wire.Era]map[string]handler{}

func init() {
	methods[""] = map[string]handler{
		"tools/list":               (*Server).listTools,
		"tools/call":               (*Server).callTool,
		"prompts/list":             list("prompts", prompts),
		"prompts/get":              (*Server).getPrompt,
		"resources/list":           list("resources", resources),
		"resources/templates/list": list("resourceTemplates", templates),
		"resources/read":           (*Server).readResource,
		"completion/complete":      (*Server).complete,
		"tasks/get":                (*Server).task,
		"tasks/cancel":             (*Server).task,
		"vendor/echo":              func(_ *Server, x *exchange) answer { return ok(`{"params":` + or(x.msg.Params, "null") + `}`) },
	}
	methods[wire.Legacy] = map[string]handler{
		"initialize":            (*Server).initialize,
		"server/discover":       (*Server).refuseDiscover,
		"ping":                  func(*Server, *exchange) answer { return ok(`{}`) },
		"logging/setLevel":      (*Server).setLevel,
		"resources/subscribe":   (*Server).subscribe,
		"resources/unsubscribe": (*Server).subscribe,
		"tasks/list":            (*Server).listTasks,
		"tasks/result":          (*Server).task,
	}
	methods[wire.Modern] = map[string]handler{
		"server/discover":      (*Server).discover,
		"subscriptions/listen": (*Server).listen,
	}
}

// eraOf says in which era the server reads a message. A legacy server does not
// look at the reserved _meta; a modern one takes everything for modern.
func (s *Server) eraOf(m message, p params, c *conn) wire.Era {
	switch s.opts.Era {
	case EraLegacy:
		return wire.Legacy
	case EraModern:
		return wire.Modern
	}
	era := wire.Legacy
	if p.Meta[wire.MetaProtocolVersion] != nil {
		era = wire.Modern
	}
	if s.opts.Era == EraFirst && m.isRequest() {
		return c.settle(era)
	}
	return era
}

// admit refuses what the era does not allow before any method is looked at.
func (s *Server) admit(x *exchange) answer {
	if x.era == wire.Modern {
		return s.admitModern(x)
	}
	switch x.msg.Method {
	case "initialize", "ping", "server/discover":
		return answer{}
	}
	if !x.conn.isInitialized() {
		return refuse(wire.CodeInvalidRequest, "%s came before initialize", x.msg.Method)
	}
	return answer{}
}

// admitModern checks the reserved _meta (2026-07-28, Overview, _meta).
func (s *Server) admitModern(x *exchange) answer {
	version := x.par.version()
	if x.msg.Method == "initialize" {
		return s.unsupported(x.par.ProtocolVersion)
	}
	if x.par.Meta[wire.MetaProtocolVersion] == nil {
		return refuse(wire.CodeInvalidParams, "_meta has no %s", wire.MetaProtocolVersion)
	}
	if version != s.modernVersion() {
		return s.unsupported(version)
	}
	if len(x.par.Meta[wire.MetaClientCapabilities]) == 0 {
		return refuse(wire.CodeInvalidParams, "_meta has no %s", wire.MetaClientCapabilities)
	}
	return answer{}
}

func (s *Server) unsupported(requested string) answer {
	a := refuse(wire.CodeUnsupportedVersion, "unsupported protocol version")
	a.data = `{"supported":` + quoteAll(s.versions()) + `,"requested":` + quote(requested) + `}`
	return a
}

func (s *Server) modernVersion() string {
	if s.opts.Era == EraModern && s.opts.Version != "" {
		return s.opts.Version
	}
	return wire.NewestModern
}

// versions is what server/discover offers.
func (s *Server) versions() []string {
	if s.opts.Era == EraModern {
		return []string{s.modernVersion()}
	}
	return []string{s.legacyVersion(wire.NewestLegacy), wire.NewestModern}
}

func (s *Server) legacyVersion(requested string) string {
	if s.opts.Version != "" && s.opts.Era != EraModern {
		return s.opts.Version
	}
	return wire.NegotiateLegacy(requested)
}

func (s *Server) initialize(x *exchange) answer {
	version := s.legacyVersion(x.par.ProtocolVersion)
	x.conn.initialize(version, x.par.Capabilities)
	return ok(`{"protocolVersion":` + quote(version) + `,"capabilities":` + s.opts.Capabilities +
		`,"serverInfo":` + serverInfo + s.instructions() + `,"x-init":"keep"}`)
}

func (s *Server) instructions() string {
	if s.opts.Instructions == "" {
		return ""
	}
	return `,"instructions":` + quote(s.opts.Instructions)
}

func (s *Server) refuseDiscover(x *exchange) answer {
	if s.opts.SilentDiscover {
		return answer{}
	}
	s.delayDiscover(x)
	if s.opts.DiscoverError != 0 {
		return refuse(s.opts.DiscoverError, "discover is refused")
	}
	return refuse(wire.CodeMethodNotFound, "no method server/discover")
}

func (s *Server) discover(x *exchange) answer {
	if s.opts.SilentDiscover {
		return answer{}
	}
	s.delayDiscover(x)
	if s.opts.DiscoverError != 0 {
		return refuse(s.opts.DiscoverError, "discover is refused")
	}
	return listed(`{"supportedVersions":` + quoteAll(s.versions()) + `,"capabilities":` + s.opts.Capabilities +
		s.instructions() + `,"x-disc":"keep"}`)
}

func (s *Server) delayDiscover(x *exchange) {
	if s.opts.DiscoverDelay <= 0 {
		return
	}
	timer := time.NewTimer(s.opts.DiscoverDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-x.ctx.Done():
	}
}

func (s *Server) setLevel(x *exchange) answer {
	x.conn.setLevel(x.par.Level)
	return ok(`{}`)
}

func (s *Server) subscribe(x *exchange) answer {
	if x.par.URI == "" {
		return refuse(wire.CodeInvalidParams, "no uri")
	}
	x.conn.subscribe(x.par.URI, x.msg.Method == "resources/subscribe")
	return ok(`{}`)
}

// listen serves subscriptions/listen until it is cancelled (2026-07-28,
// Subscriptions).
func (s *Server) listen(x *exchange) answer {
	if x.par.Notifications == nil {
		return refuse(wire.CodeInvalidParams, "no notifications")
	}
	id := string(x.msg.ID)
	meta := `"_meta":{"` + wire.MetaSubscriptionID + `":` + id + `}`
	agreed := x.par.Notifications.raw()
	ack := notification("notifications/subscriptions/acknowledged", `{`+meta+`,"notifications":`+agreed+`}`)
	end, forget := x.conn.listen(id, ack, *x.par.Notifications, x.send)
	defer forget()
	select {
	case <-end:
	case <-x.ctx.Done():
	}
	return answer{result: `{` + meta + `}`, ownMeta: true}
}

// raw returns the filter as it is acknowledged.
func (f filter) raw() string {
	out := `{`
	for _, member := range []struct {
		name string
		on   bool
	}{{"toolsListChanged", f.Tools}, {"promptsListChanged", f.Prompts}, {"resourcesListChanged", f.Resources}} {
		if member.on {
			out += quote(member.name) + `:true,`
		}
	}
	return out + `"resourceSubscriptions":` + quoteAll(f.URIs) + `}`
}
