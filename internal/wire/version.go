// Package wire reads and writes the bytes of MCP: JSON-RPC envelopes by
// offsets, Server-Sent Events, the Mcp-* headers, versions and error codes.
//
// Nothing here decodes a payload. A message is scanned once for the few
// members that the relay must know, and everything else is carried as the
// bytes that came.
package wire

// Era is the family of protocol revisions that one leg speaks.
type Era string

// The two eras. Modern is stateless, with metadata on each request; Legacy
// starts with initialize.
const (
	Modern Era = "modern" // 2026-07-28
	Legacy Era = "legacy" // 2024-11-05 to 2025-11-25
)

// The protocol versions the crib speaks.
const (
	Version20241105 = "2024-11-05"
	Version20250326 = "2025-03-26"
	Version20250618 = "2025-06-18"
	Version20251125 = "2025-11-25"
	Version20260728 = "2026-07-28"

	NewestLegacy = Version20251125
	NewestModern = Version20260728
)

// SupportedVersions is the list that server/discover returns, oldest first.
var SupportedVersions = []string{Version20241105, Version20250326, Version20250618, Version20251125, Version20260728}

// EraOf returns the era of a version that the crib speaks, or "".
func EraOf(version string) Era {
	switch version {
	case Version20241105, Version20250326, Version20250618, Version20251125:
		return Legacy
	case Version20260728:
		return Modern
	}
	return ""
}

// NegotiateLegacy returns the version that answers an initialize which asks
// for version: that one if it is a legacy version we speak, else the newest
// legacy one (2025-11-25, Lifecycle, Version Negotiation).
func NegotiateLegacy(version string) string {
	if EraOf(version) == Legacy {
		return version
	}
	return NewestLegacy
}

// JSON-RPC and MCP error codes (2026-07-28, Overview, Error Codes).
const (
	CodeParse              = -32700
	CodeInvalidRequest     = -32600
	CodeMethodNotFound     = -32601
	CodeInvalidParams      = -32602
	CodeInternal           = -32603
	CodeResourceNotFound   = -32002 // legacy only
	CodeURLElicitation     = -32042 // 2025-11-25 only
	CodeHeaderMismatch     = -32020
	CodeMissingCapability  = -32021
	CodeUnsupportedVersion = -32022
)

// IsModernError reports whether code is one that only a modern server sends,
// so that its sender need not be tried with initialize.
func IsModernError(code int) bool {
	return code == CodeHeaderMismatch || code == CodeMissingCapability || code == CodeUnsupportedVersion
}

// Reserved members of _meta (2026-07-28, Overview, _meta).
const (
	MetaProtocolVersion    = "io.modelcontextprotocol/protocolVersion"
	MetaClientInfo         = "io.modelcontextprotocol/clientInfo"
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaLogLevel           = "io.modelcontextprotocol/logLevel"
	MetaSubscriptionID     = "io.modelcontextprotocol/subscriptionId"
	MetaServerInfo         = "io.modelcontextprotocol/serverInfo"
	MetaProgressToken      = "progressToken"
)

// ExtensionTasks names the extension of tasks (SEP-2663).
const ExtensionTasks = "io.modelcontextprotocol/tasks"
