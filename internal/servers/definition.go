// Package servers knows which MCP servers are defined: in pages, in
// toolcrib.yaml and in the environment, which definition of a name wins, and
// what each one offers.
package servers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/internal/page"
	"github.com/toolcrib/toolcrib/internal/secret"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// DefaultTimeout is how long a call may take where the definition does not
// say.
const DefaultTimeout = page.DefaultTimeout

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
	File string // relative to the workspace, or TOOLCRIB_MCP_SERVERS
	Line int    // from 1; 0 where there are no lines
}

func (s Source) String() string {
	if s.Line == 0 {
		return s.File
	}
	return fmt.Sprintf("%s:%d", s.File, s.Line)
}

// The parts of a definition are those of a page's block.
type (
	Transport     = page.Transport
	NamedTemplate = page.NamedTemplate
	Gate          = page.Gate
	Inherit       = page.Inherit
	Share         = page.Share
	Dialogue      = page.Dialogue
)

// The ways to share a connection, and what a server may ask of a client.
const (
	ShareServer    = page.ShareServer
	ShareProject   = page.ShareProject
	SharePrincipal = page.SharePrincipal
	ShareSession   = page.ShareSession

	MayElicitation = page.MayElicitation
	MayRoots       = page.MayRoots
	MaySampling    = page.MaySampling
)

// Definition is one MCP server as it was defined. It holds names of secrets,
// never their values, and is not changed after it was loaded.
type Definition struct {
	Name        string
	Source      Source
	Transport   Transport
	Headers     []NamedTemplate // HTTP only, sorted by name
	Env         []NamedTemplate // commands only, sorted by name
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

func define(name string, src Source, b page.Block, body string) Definition {
	return Definition{
		Name: name, Source: src, Body: body,
		Transport: b.Transport, Headers: b.Headers, Env: b.Env, Inherit: b.Inherit, Era: b.Era, Timeout: b.Timeout,
		Gates: b.Gates, Tools: b.Tools, Methods: b.Methods, Dialogue: b.Dialogue,
		Enabled: b.Enabled, Description: b.Description,
	}
}

// fingerprintVersion begins every fingerprint, so that a change of what is
// digested is never taken for a change of a server.
const fingerprintVersion = "v1"

// Fingerprint is a digest of everything that decides which process is started
// or which address is reached, and how it is spoken to: transport, headers,
// variables and era. Secrets enter by name, so it survives their rotation, and
// it is the same after a restart. What the crib decides on its own side of the
// connection, such as gates, timeout and sharing, is not in it.
func (d Definition) Fingerprint() string {
	type pair struct{ Name, Value string }
	pairs := func(list []NamedTemplate) []pair {
		out := []pair{}
		for _, n := range list {
			out = append(out, pair{n.Name, n.Value.Source()})
		}
		slices.SortFunc(out, func(a, b pair) int { return strings.Compare(a.Name, b.Name) })
		return out
	}
	// JSON keeps the parts apart: no two definitions have the same text.
	text, err := json.Marshal([]any{d.Transport.URL, d.Transport.Command, d.Transport.Dir, pairs(d.Headers), pairs(d.Env),
		d.Inherit.None, d.Inherit.Names, d.Era})
	if err != nil {
		panic(fmt.Sprintf("text always encodes: %v", err))
	}
	sum := sha256.Sum256(text)
	return fingerprintVersion + ":" + hex.EncodeToString(sum[:])
}

// Refs returns the secrets that d needs, in order, each once.
func (d Definition) Refs() []secret.Ref {
	var refs []secret.Ref
	for _, n := range slices.Concat(d.Headers, d.Env) {
		for _, r := range n.Value.Refs() {
			if !slices.Contains(refs, r) {
				refs = append(refs, r)
			}
		}
	}
	return refs
}

// NamedValue is a header or variable with its secrets looked up.
type NamedValue struct {
	Name  string
	Value secret.Value
}

// ResolveHeaders looks up the secrets of d's headers. An Authorization whose
// value has no scheme becomes a Bearer (RFC 6750, section 2.1).
func (d Definition) ResolveHeaders(ctx context.Context, stores *secret.Stores) ([]NamedValue, error) {
	var out []NamedValue
	if len(d.Transport.Command) > 0 {
		return nil, nil // they have no effect
	}
	for _, h := range d.Headers {
		v, err := stores.ResolveHeader(ctx, h.Name, h.Value)
		if err != nil {
			return nil, fmt.Errorf("header %s of server %s: %w", h.Name, d.Name, err)
		}
		if strings.EqualFold(h.Name, authorization) && !strings.Contains(strings.TrimSpace(v.Reveal()), " ") {
			v = secret.NewValue("Bearer " + strings.TrimSpace(v.Reveal()))
		}
		out = append(out, NamedValue{h.Name, v})
	}
	return out, nil
}

// ResolveEnv looks up the secrets of d's variables.
func (d Definition) ResolveEnv(ctx context.Context, stores *secret.Stores) ([]NamedValue, error) {
	var out []NamedValue
	if d.Transport.IsHTTP() {
		return nil, nil // they have no effect
	}
	for _, e := range d.Env {
		v, err := stores.ResolveEnv(ctx, e.Name, e.Value)
		if err != nil {
			return nil, fmt.Errorf("variable %s of server %s: %w", e.Name, d.Name, err)
		}
		out = append(out, NamedValue{e.Name, v})
	}
	return out, nil
}

const authorization = "Authorization"
