package wire

// Members of _meta, and of the data of errors, that are the crib's own.
const (
	MetaCode        = "io.toolcrib/code"        // the code of an error of the crib
	MetaStale       = "io.toolcrib/stale"       // servers whose part of a list is the last that is known
	MetaUnavailable = "io.toolcrib/unavailable" // servers of which no list is known
)

// HeaderRelay marks requests that `toolcrib connect` puts on HTTP for a client
// on stdio; its value is RelayStdio. Such a client mirrors no arguments into
// headers (2026-07-28, Tools, x-mcp-header), so none are asked for. Whoever
// else sends it gains nothing: the crib decides on the body alone.
const (
	HeaderRelay = "Toolcrib-Relay"
	RelayStdio  = "stdio"
)

// HeaderRoot names the folder that a client of `toolcrib connect` works in, as
// a file URI: that of the relay, which the client started.
const HeaderRoot = "Toolcrib-Root"

// Era tells the era of a client's message by what it says of itself. A _meta
// that names a modern version, or one that nobody knows, makes it modern.
func (m *Message) Era() Era {
	if !m.Meta.ProtocolVersion.OK() {
		return Legacy
	}
	if v, ok := m.Meta.ProtocolVersion.Text(m.Body); ok && EraOf(v) == Legacy {
		return Legacy
	}
	return Modern
}

// Repeatable reports whether sending a request of this method twice does
// nothing twice. What is not known does.
func Repeatable(method string) bool {
	switch method {
	case "initialize", "ping", "server/discover", "subscriptions/listen", "logging/setLevel",
		"tools/list", "prompts/list", "resources/list", "resources/templates/list",
		"prompts/get", "resources/read", "completion/complete", "resources/subscribe", "resources/unsubscribe",
		"tasks/get", "tasks/list":
		return true
	}
	return false
}
