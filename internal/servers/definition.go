// Package servers knows which MCP servers are defined: in pages, in
// toolcrib.yaml and in the environment, which definition of a name wins, and
// what each one offers.
package servers

import (
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/secret"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// DefaultTimeout is how long a call may take where the definition does not
// say.
const DefaultTimeout = 60 * time.Second

// SourceKind says where a definition was written. Pages win over the file, the
// file over the environment.
type SourceKind string

// The kinds of sources.
const (
	FromPage SourceKind = "page" // mcp/<name>.md
	FromFile SourceKind = "file" // an entry under tools: in toolcrib.yaml
	FromEnv  SourceKind = "env"  // an entry of TOOLCRIB_MCP_SERVERS
)

// Source is where a definition was written.
type Source struct {
	Kind SourceKind
	File string
	Line int // from 1; 0 where there are no lines
}

// Definition is one MCP server as it was defined. It holds names of secrets,
// never their values, and is not changed after it was loaded.
type Definition struct {
	Name        string
	Source      Source
	Transport   Transport
	Headers     []NamedTemplate // HTTP only, by name
	Env         []NamedTemplate // stdio only, by name
	Gates       []Gate
	Tools       []string // patterns of what is offered at all; none: every tool
	Enabled     bool
	Description string        // put before each tool's own description
	Era         wire.Era      // "" is: find out
	Timeout     time.Duration // of one call
	Inherit     Inherit
	Methods     []string // patterns of vendor methods that are let through
	Dialogue    Dialogue
	Body        string // the page's text below the front matter
}

// Transport is how a server is reached: by URL, or by a command that is
// started. Exactly one of URL and Command is set.
type Transport struct {
	URL     string
	Command []string // program and arguments; "~/" at the start of the program is the home folder
	Dir     string   // folder the command starts in, "" is the workspace; "~/" as above
}

// IsHTTP reports whether the server is reached by URL.
func (t Transport) IsHTTP() bool { return t.URL != "" }

// NamedTemplate is a header or an environment variable.
type NamedTemplate struct {
	Name  string
	Value secret.Template
}

// Gate says what becomes of calls to the tools that Pattern matches.
type Gate struct {
	Pattern string
	Effect  crib.Effect
}

// Inherit says what of the crib's own environment a command gets.
type Inherit struct {
	None  bool     // only PATH
	Names []string // beside the base variables
}

// Share says who shares one connection to a server.
type Share string

// The ways to share.
const (
	ShareServer    Share = "server"    // everybody: the default
	SharePrincipal Share = "principal" // one connection for each caller
	ShareSession   Share = "session"   // one connection for each session of a client
)

// The requests that a server may be allowed to make of a client.
const (
	MayElicitation = "elicitation"
	MayRoots       = "roots"
	MaySampling    = "sampling"
)

// Dialogue is what a server may ask of clients, and who shares a connection
// to it.
type Dialogue struct {
	Share Share
	May   []string // of MayElicitation, MayRoots, MaySampling
}
