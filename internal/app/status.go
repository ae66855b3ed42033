package app

import (
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/internal/catalog"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/page"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Status is the state of a running crib, as `toolcrib status --json` prints
// it.
type Status struct {
	Version   string         `json:"version"`
	PID       int            `json:"pid"`
	Address   string         `json:"address"`
	Started   time.Time      `json:"started"`
	Workspace string         `json:"workspace"`
	Data      string         `json:"data"`
	Anonymous bool           `json:"anonymous"`
	Isolation string         `json:"isolation"` // of children: none
	Draining  bool           `json:"draining"`  // it was told to stop, and waits for open requests
	Sessions  int            `json:"sessions"`
	Servers   []ServerStatus `json:"servers"`
	Shadowed  []Shadowed     `json:"shadowed,omitempty"`
	Faults    []string       `json:"faults,omitempty"`
	// Refused is the last reload, if it was refused: what is shown here is what
	// was loaded before.
	Refused *Refusal `json:"refused,omitempty"`
}

// Shadowed is a definition that another one of the same name hides.
type Shadowed struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	By     string `json:"by"`
}

// ServerStatus is the state of one server.
type ServerStatus struct {
	Name      string     `json:"name"`
	Source    string     `json:"source"` // page, file or env
	File      string     `json:"file,omitempty"`
	Enabled   bool       `json:"enabled"`
	Transport string     `json:"transport"` // http or stdio
	Target    string     `json:"target"`    // URL without query, or command
	State     string     `json:"state"`     // idle, starting, ready, failed, disabled or broken
	Eras      []string   `json:"eras,omitempty"`
	Error     string     `json:"error,omitempty"`
	PID       int        `json:"pid,omitempty"`
	Stderr    string     `json:"stderr,omitempty"`     // last words, secrets hidden
	Noise     int        `json:"noise,omitempty"`      // lines on stdout that were no messages
	NoiseTail []string   `json:"noise_tail,omitempty"` // the last of them
	Open      int        `json:"open"`                 // requests waiting for an answer
	Known     bool       `json:"known"`                // its lists are known
	Tools     []ToolInfo `json:"tools"`
	Prompts   int        `json:"prompts"`
	Resources int        `json:"resources"`
	Templates int        `json:"templates"`
	// LetsThrough says that the definition has no gate for all tools ("*"), so
	// that a tool which no other gate names is let through.
	LetsThrough bool      `json:"lets_through"`
	LeftOut     []LeftOut `json:"left_out,omitempty"`
}

// ToolInfo is one tool of a server.
type ToolInfo struct {
	Name        string `json:"name"`    // as the server spells it
	Public      string `json:"public"`  // as clients of all servers see it; empty where it is left out there
	Address     string `json:"address"` // mcp.<server>.<tool>
	Description string `json:"description,omitempty"`
	// Gate is allow, ask or deny; "none" where no gate is set, which lets
	// calls through.
	Gate string `json:"gate"`
}

// LeftOut is an item that clients do not see, and why.
type LeftOut struct {
	Name       string `json:"name"`
	Why        string `json:"why"`
	Everywhere bool   `json:"everywhere"` // else only at the address of all servers
}

// Status tells the state of the crib.
func (a *App) Status() Status {
	st := a.current.Load()
	out := Status{
		Version: a.opts.Version, PID: os.Getpid(), Address: a.Addr(), Started: a.started,
		Workspace: st.config.Workspace, Data: st.config.Data, Anonymous: st.config.Anonymous, Isolation: "none",
		Draining: a.gw.Stopping(), Sessions: a.gw.Sessions(), Servers: []ServerStatus{}, Refused: a.refused.Load(),
	}
	for _, def := range st.set.All() {
		out.Servers = append(out.Servers, a.serverStatus(&def))
	}
	for _, b := range st.set.Broken() {
		s := ServerStatus{Name: b.Name, Source: string(b.Source.Kind), File: b.Source.File, State: "broken", Tools: []ToolInfo{}}
		if len(b.Faults) > 0 {
			s.Error = b.Faults[0].String()
		}
		out.Servers = append(out.Servers, s)
	}
	slices.SortFunc(out.Servers, func(a, b ServerStatus) int { return strings.Compare(a.Name, b.Name) })
	for _, s := range st.set.Shadowed() {
		out.Shadowed = append(out.Shadowed, Shadowed{Name: s.Name, Source: string(s.Source.Kind), By: string(s.By.Kind)})
	}
	for _, f := range st.faults {
		if f.Severity == page.Error {
			out.Faults = append(out.Faults, f.String())
		}
	}
	return out
}

func (a *App) serverStatus(def *servers.Definition) ServerStatus {
	out := ServerStatus{
		Name: def.Name, Source: string(def.Source.Kind), File: def.Source.File, Enabled: def.Enabled,
		Transport: "stdio", Target: a.redactor.RedactString(strings.Join(def.Transport.Command, " ")), State: "disabled", Tools: []ToolInfo{},
	}
	if def.Transport.IsHTTP() {
		out.Transport, out.Target = "http", plainURL(def.Transport.URL)
	}
	out.LetsThrough = !slices.ContainsFunc(def.Gates, func(g servers.Gate) bool { return g.Pattern == "*" })
	srv, err := a.cat.Server(def.Name)
	if err != nil {
		return out
	}
	up := srv.Up().State()
	out.State, out.Error, out.PID, out.Stderr, out.Noise, out.Open = string(up.Phase), a.redactor.RedactString(up.Error), up.PID, up.Stderr, up.Noise, up.Open
	out.NoiseTail = up.NoiseTail
	for _, e := range up.Eras {
		out.Eras = append(out.Eras, string(e))
	}
	if l := srv.Last(catalog.Tools); l != nil {
		out.Known = true
		out.Tools = toolInfos(def, l)
	}
	for k, n := range map[catalog.Kind]*int{catalog.Prompts: &out.Prompts, catalog.Resources: &out.Resources, catalog.Templates: &out.Templates} {
		if l := srv.Last(k); l != nil {
			*n = len(l.Items)
		}
	}
	for _, p := range srv.Problems() {
		out.LeftOut = append(out.LeftOut, LeftOut{Name: p.ID, Why: p.Why, Everywhere: p.Every})
	}
	return out
}

func toolInfos(def *servers.Definition, l *catalog.List) []ToolInfo {
	out := make([]ToolInfo, 0, len(l.Items))
	for _, it := range l.Items {
		info := ToolInfo{Name: it.ID, Address: crib.Address{Server: def.Name, Tool: it.ID}.String(), Gate: "none"}
		if it.Public != nil {
			info.Public = it.PublicID
		}
		info.Description, _ = wire.GetText(it.Own, "description")
		if effect, _, explicit := def.GateFor(it.ID); explicit {
			info.Gate = string(effect)
		}
		out = append(out, info)
	}
	return out
}

// plainURL is a URL without what may hold a key.
func plainURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "a URL that cannot be read"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}
