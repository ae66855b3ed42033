package bridge

import (
	"bytes"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// Crossing says that a message has to become one of another era.
func Crossing(client, server wire.Era) bool { return client != server }

// LegacyRequest makes a modern client's request fit for a legacy server: it
// takes out the members of _meta that only modern servers know, and the answers
// to what only they ask.
func LegacyRequest(m wire.Message) (wire.Message, error) {
	if m.Params.RequestState.OK() || m.Params.InputResponses.OK() {
		var err error
		if m, err = WithInputs(m, nil, nil); err != nil {
			return m, err
		}
	}
	if !m.Params.Meta.OK() {
		return m, nil
	}
	meta := wire.SetMembers(nil, m.Params.Meta.In(m.Body),
		wire.Set{Key: wire.MetaProtocolVersion}, wire.Set{Key: wire.MetaClientInfo},
		wire.Set{Key: wire.MetaClientCapabilities}, wire.Set{Key: wire.MetaLogLevel})
	if bytes.Equal(meta, []byte("{}")) {
		params := wire.SetMembers(nil, m.Params.All.In(m.Body), wire.Set{Key: "_meta"})
		return wire.ScanServer(wire.Apply(nil, m.Body, wire.Edit{At: m.Params.All, With: params}))
	}
	return wire.ScanServer(wire.Apply(nil, m.Body, wire.Edit{At: m.Params.Meta, With: meta}))
}

// ModernRequest makes a legacy client's request fit for a modern server: it
// adds the members of _meta that each modern request carries. Nil values are
// left out.
func ModernRequest(m wire.Message, info, capabilities, logLevel []byte) (wire.Message, error) {
	sets := []wire.Set{
		{Key: wire.MetaProtocolVersion, Val: wire.Quote(wire.NewestModern)},
		{Key: wire.MetaClientInfo, Val: info},
		{Key: wire.MetaClientCapabilities, Val: capabilities},
		{Key: wire.MetaLogLevel, Val: logLevel},
	}
	old := m.Params.Meta.In(m.Body)
	if old == nil {
		old = []byte("{}")
	}
	params := m.Params.All.In(m.Body)
	if params == nil {
		params = []byte("{}")
	}
	params = wire.SetMembers(nil, params, wire.Set{Key: "_meta", Val: wire.SetMembers(nil, old, sets...)})
	return wire.ScanServer(wire.SetMembers(nil, m.Body, wire.Set{Key: "params", Val: params}))
}

// cacheable are the methods whose results carry caching hints (2026-07-28,
// Caching, Cacheable Results).
func cacheable(method string) bool {
	switch method {
	case "server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read":
		return true
	}
	return false
}

// ModernResult makes a legacy server's result one for a modern client.
func ModernResult(method string, result, serverInfo []byte) []byte {
	// Whatever a legacy server says by a member of that name, it asks nothing.
	sets := append(make([]wire.Set, 0, 4), wire.Set{Key: "resultType", Val: []byte(`"complete"`)})
	if cacheable(method) {
		if wire.Get(result, "ttlMs") == nil {
			sets = append(sets, wire.Set{Key: "ttlMs", Val: []byte("0")})
		}
		sets = append(sets, wire.Set{Key: "cacheScope", Val: []byte(`"private"`)})
	}
	if serverInfo != nil {
		meta := wire.Get(result, "_meta")
		if len(meta) == 0 || meta[0] != '{' {
			meta = []byte("{}")
		}
		sets = append(sets, wire.Set{Key: "_meta", Val: wire.SetMembers(nil, meta, wire.Set{Key: wire.MetaServerInfo, Val: serverInfo})})
	}
	return wire.SetMembers(nil, result, sets...)
}

// LegacyResult makes a modern server's result one for a legacy client: it
// drops structured content that is no object, which legacy clients refuse,
// and keeps the text beside it.
func LegacyResult(method string, result []byte) []byte {
	if method != "tools/call" {
		return result
	}
	if v := wire.Get(result, "structuredContent"); len(v) > 0 && v[0] != '{' {
		return wire.SetMembers(nil, result, wire.Set{Key: "structuredContent"})
	}
	return result
}

// LegacyTool makes a modern server's tool one for a legacy client, whose
// output schemas have a root of type object.
func LegacyTool(raw []byte) []byte {
	schema := wire.Get(raw, "outputSchema")
	if schema == nil || wire.Text(wire.Get(schema, "type")) == "object" {
		return raw
	}
	return wire.SetMembers(nil, raw, wire.Set{Key: "outputSchema"})
}

// ModernError makes a legacy server's error one for a modern client: codes of
// the older revisions must not be sent any more (2026-07-28, Overview, Error
// Codes).
func ModernError(raw []byte) []byte {
	code := 0
	switch wire.ReadError(raw).Code {
	case wire.CodeResourceNotFound:
		code = wire.CodeInvalidParams
	case wire.CodeURLElicitation:
		code = wire.CodeInternal
	default:
		return raw
	}
	return wire.SetMembers(nil, raw, wire.Set{Key: "code", Val: wire.AppendInt(nil, int64(code))})
}

// crossingCapabilities are those that work across the eras. Tasks and
// extensions do not.
var crossingCapabilities = []string{"tools", "prompts", "resources", "completions", "logging", "experimental"}

func capabilitiesAcross(caps []byte) []byte {
	out := []byte("{}")
	for _, m := range wire.Members(caps) {
		for _, known := range crossingCapabilities {
			if m.Key == known {
				out = wire.SetMembers(nil, out, wire.Set{Key: m.Key, Val: m.Val.In(caps)})
			}
		}
	}
	return out
}

// InitializeResult is the answer to a legacy client's initialize on a server's
// own endpoint: the server's own words in the version that was negotiated with
// the client.
func InitializeResult(h *wire.Hello, version string) []byte {
	if h.Era == wire.Legacy {
		return wire.SetMembers(nil, h.Result, wire.Set{Key: "protocolVersion", Val: wire.Quote(version)})
	}
	info := h.Info()
	if info == nil {
		info = []byte(`{"name":"","version":""}`)
	}
	return wire.SetMembers(nil, h.Result,
		wire.Set{Key: "resultType"}, wire.Set{Key: "ttlMs"}, wire.Set{Key: "cacheScope"}, wire.Set{Key: "supportedVersions"},
		wire.Set{Key: "capabilities", Val: capabilitiesAcross(h.Capabilities())},
		wire.Set{Key: "protocolVersion", Val: wire.Quote(version)},
		wire.Set{Key: "serverInfo", Val: info})
}

// DiscoverResult is the answer to a modern client's server/discover on a
// server's own endpoint.
func DiscoverResult(h *wire.Hello) []byte {
	if h.Era == wire.Modern {
		return wire.SetMembers(nil, h.Result, wire.Set{Key: "cacheScope", Val: []byte(`"private"`)})
	}
	result := wire.SetMembers(nil, h.Result,
		wire.Set{Key: "protocolVersion"}, wire.Set{Key: "serverInfo"},
		wire.Set{Key: "supportedVersions", Val: SupportedVersions()},
		wire.Set{Key: "capabilities", Val: capabilitiesAcross(h.Capabilities())})
	return ModernResult("server/discover", result, h.Info())
}

// SupportedVersions is the raw list of the versions that the crib serves.
func SupportedVersions() []byte {
	out := []byte{'['}
	for i, v := range wire.SupportedVersions {
		if i > 0 {
			out = append(out, ',')
		}
		out = wire.AppendString(out, v)
	}
	return append(out, ']')
}
