// Package crib is the vocabulary that every other package shares: who calls,
// what is called, what was decided, and which errors may be shown to a caller.
// It imports nothing of the project.
package crib

import (
	"regexp"
	"strings"
)

// MaxServerName is the greatest length of a server name in bytes.
const MaxServerName = 31

var serverName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// CheckServerName reports, as an Invalid error, why name cannot name a server.
//
// The rule leaves "_", "." and "--" out of every server name, so that public
// names and addresses built from one can be taken apart again.
func CheckServerName(name string) error {
	if len(name) > MaxServerName {
		return Errorf(Invalid, "server name %q has %d characters; at most %d are allowed", name, len(name), MaxServerName)
	}
	if !serverName.MatchString(name) {
		return Errorf(Invalid, "server name %q: use lower-case letters, digits and single dashes between them, such as my-server", name)
	}
	return nil
}

// Address names a tool of a server: mcp.<server>.<tool>. Policy and records
// use it; the name that a model sees is derived from it.
type Address struct {
	Server string
	Tool   string // as the server spells it
}

func (a Address) String() string { return "mcp." + a.Server + "." + a.Tool }

// ParseAddress reads mcp.<server>.<tool>. A tool may contain dots, a server
// name cannot.
func ParseAddress(s string) (Address, error) {
	rest, ok := strings.CutPrefix(s, "mcp.")
	server, tool, found := strings.Cut(rest, ".")
	if !ok || !found || tool == "" || CheckServerName(server) != nil {
		return Address{}, Errorf(Invalid, "%q is not an address; write mcp.<server>.<tool>, such as mcp.files.read_file", s)
	}
	return Address{Server: server, Tool: tool}, nil
}

// PrincipalKind says what sort of caller a principal is.
type PrincipalKind string

// The kinds of principals.
const (
	Anonymous PrincipalKind = "anonymous" // no credential; loopback only
	Token     PrincipalKind = "token"     // a client with a bearer token
)

// Principal is who calls. It comes from a credential, never from arguments.
type Principal struct {
	Kind PrincipalKind
	ID   string // unique among principals of one crib; stable over restarts
}

func (p Principal) String() string { return string(p.Kind) + ":" + p.ID }

// Effect is what a decision allows.
type Effect string

// The effects of a decision. The zero Effect is no decision and must be
// treated as Deny.
const (
	Allow Effect = "allow"
	Ask   Effect = "ask"
	Deny  Effect = "deny"
)

// Decision is the outcome of a policy question, with the rule that made it.
type Decision struct {
	Effect Effect
	Reason string
}

// Allowed reports whether d lets a call pass without asking anyone.
func (d Decision) Allowed() bool { return d.Effect == Allow }
