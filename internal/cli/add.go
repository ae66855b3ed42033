package cli

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/app"
	"github.com/toolcrib/toolcrib/internal/cli/running"
	"github.com/toolcrib/toolcrib/internal/cli/text"
	"github.com/toolcrib/toolcrib/internal/cli/workspace"
	"github.com/toolcrib/toolcrib/internal/clients"
	"github.com/toolcrib/toolcrib/internal/config"
	"github.com/toolcrib/toolcrib/internal/crib"
	pages "github.com/toolcrib/toolcrib/internal/page"
	"github.com/toolcrib/toolcrib/internal/secret"
)

// addFlags are the flags of add. They are those of claude mcp add, so that a
// line from a server's documentation works.
type addFlags struct {
	transport, scope string
	env, headers     []string
	noConnect        bool
}

func (e *env) addCommand() *cobra.Command {
	var flags addFlags
	cmd := &cobra.Command{
		Use: "add NAME (URL | -- COMMAND [ARGUMENTS])", GroupID: groupServers, Args: args(cobra.MinimumNArgs(2)),
		Short: "Add a server",
		Long: `Add a server by its address, or by the command that starts it. This writes the
page mcp/NAME.md and connects the server once, to show which tools it has.

A value of --env or --header may be:

    NAME             a secret of that name, looked up at each connection
    text             text; what looks like a key goes into the file store instead,
                     in a file that only you can read, and the page names it
    '${ env:NAME }'  a secret of one store, also in the middle of text
    '{ value: X }'   text, even if it looks like the name of a secret`,
		Example: `  toolcrib add files -- npx -y @modelcontextprotocol/server-filesystem@2026.8.31 /srv/docs
  toolcrib add github https://api.githubcopilot.com/mcp/ --header Authorization=GITHUB_TOKEN
  toolcrib add search -e API_KEY=SEARCH_KEY -- uvx search-server==1.2.0`,
		RunE: func(cmd *cobra.Command, given []string) error {
			return e.add(cmd.Context(), given, cmd.ArgsLenAtDash(), flags)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&flags.transport, "transport", "t", "", "`how` the server is reached: http, sse or stdio; without it, an address is http")
	f.StringVarP(&flags.scope, "scope", "s", "", "`scope` is accepted and not used: a server of the crib is for all clients")
	f.StringArrayVarP(&flags.env, "env", "e", nil, "`KEY=value` for the environment of a command")
	f.StringArrayVarP(&flags.headers, "header", "H", nil, "`KEY=value` or \"Key: value\" for a header")
	f.BoolVar(&flags.noConnect, "no-connect", false, "do not connect the server now")
	return cmd
}

func (e *env) add(ctx context.Context, given []string, dash int, flags addFlags) error {
	entry, fixed, err := readEntry(given, dash, flags)
	if err != nil {
		return err
	}
	if flags.scope != "" {
		e.say("--scope is not used: a server of the crib is for all clients that are registered with it")
	}
	w, err := e.openWorkspace()
	if err != nil {
		return err
	}
	if from, ok := w.Source(entry.Name); ok || w.Taken(entry.Name) {
		return crib.Errorf(crib.Invalid, "there is a server called %s already%s; remove it first, or choose another name", entry.Name, inSource(from.String()))
	}
	p, err := w.PlanOne(entry, fixed)
	if err != nil {
		return err
	}
	if err := w.Add(p); err != nil {
		return err
	}
	e.tell("Added %s: %s", p.Name, w.PagePath(p.Name))
	for _, s := range p.SecretNames() {
		e.tell("Moved a key into the file store as %s", s)
	}
	for _, note := range p.Notes {
		e.say("Note: %s", note)
	}
	return e.tryServer(ctx, w.Config, p.Name, !flags.noConnect)
}

func inSource(source string) string {
	if source == "" {
		return ""
	}
	return " (" + source + ")"
}

// tryServer tells a running crib of a server, and has it connected once to
// show its tools. That it cannot be connected is no error: its page stays.
func (e *env) tryServer(ctx context.Context, cfg *config.Config, name string, connect bool) error {
	place := e.place(cfg)
	if _, err := place.Announce(ctx); err != nil || !connect {
		return err
	}
	return place.With(ctx, func(c *running.Crib) error {
		st, err := c.Operator.Connect(ctx, name)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			e.notConnected(ctx, c, name, err)
			return nil
		}
		e.showNewTools(st)
		return nil
	})
}

func (e *env) notConnected(ctx context.Context, c *running.Crib, name string, cause error) {
	e.say("Warning: %s cannot be connected: %v", name, cause)
	if st, err := c.Operator.Status(ctx); err == nil {
		for _, s := range st.Servers {
			if s.Name == name && s.Stderr != "" {
				e.say("Its last words: %s", lastLine(s.Stderr))
			}
		}
	}
	e.say("The page stays. Mend it and look again with: toolcrib tools --server %s", name)
}

func (e *env) showNewTools(st app.ServerStatus) {
	var names []string
	for _, t := range st.Tools {
		names = append(names, t.Name)
	}
	line := st.Name + " has " + text.Count(len(names), "tool")
	if names != nil {
		line += ": " + strings.Join(names, ", ")
	}
	e.tell("%s", line)
	for _, line := range gateNotes(st) {
		e.say("%s; gate: on the page says otherwise", line)
	}
}

// readEntry reads the command line of add. dash is how many arguments stood
// before "--", -1 if there was none.
func readEntry(given []string, dash int, flags addFlags) (clients.Entry, workspace.Fixed, error) {
	var fixed workspace.Fixed
	entry := clients.Entry{Source: clients.Source{Name: given[0]}}
	if err := crib.CheckServerName(given[0]); err != nil {
		return entry, fixed, err
	}
	if dash == 0 || dash > 2 {
		return entry, fixed, usagef("write the name first, then -- and the command: toolcrib add NAME -- COMMAND ARGUMENTS")
	}
	if err := readWhere(&entry, given[1:], dash, flags.transport); err != nil {
		return entry, fixed, err
	}
	if entry.Transport == clients.Stdio && flags.headers != nil {
		return entry, fixed, usagef("--header is for servers with an address; give a command its keys with --env")
	}
	if entry.Transport != clients.Stdio && flags.env != nil {
		return entry, fixed, usagef("--env is for commands; give a server with an address its keys with --header")
	}
	var err error
	if entry.Env, fixed.Env, err = readValues(flags.env, "=", "--env KEY=value"); err != nil {
		return entry, fixed, err
	}
	entry.Headers, fixed.Headers, err = readValues(flags.headers, ":=", `--header "Key: value" or --header KEY=value`)
	return entry, fixed, err
}

// readWhere reads how the server is reached.
func readWhere(entry *clients.Entry, rest []string, dash int, transport string) error {
	address := strings.HasPrefix(rest[0], "http://") || strings.HasPrefix(rest[0], "https://")
	switch transport {
	case "stdio":
		entry.Transport = clients.Stdio
	case "http", "sse":
		entry.Transport = clients.Transport(transport)
	case "":
		entry.Transport = clients.Stdio
		if address && dash < 0 {
			entry.Transport = clients.HTTP
		}
	default:
		return usagef("--transport %q: write http, sse or stdio", transport)
	}
	if entry.Transport == clients.Stdio {
		entry.Command = clients.Text(rest[0])
		for _, arg := range rest[1:] {
			entry.Args = append(entry.Args, clients.Text(arg))
		}
		return nil
	}
	if len(rest) > 1 {
		return usagef("a server with an address takes no arguments; write: toolcrib add NAME URL")
	}
	entry.URL = clients.Text(rest[0])
	return pages.CheckURL(rest[0])
}

var (
	secretName = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
	justText   = regexp.MustCompile(`^\{\s*value:\s*(.*?)\s*\}$`)
	authScheme = regexp.MustCompile(`^([A-Za-z]+ +)([A-Z][A-Z0-9_]*)$`)
)

// readValues reads the values of --env or --header: those that may be keys,
// and those that are written so that nothing is left to decide.
func readValues(given []string, separators, form string) (kvs []clients.KV, fixed []pages.NamedTemplate, err error) {
	for _, written := range given {
		i := strings.IndexAny(written, separators)
		if i <= 0 {
			return nil, nil, usagef("write %s", form)
		}
		name, value := strings.TrimSpace(written[:i]), written[i+1:]
		if separators != "=" {
			value = strings.TrimSpace(value)
		}
		if slices.ContainsFunc(kvs, func(kv clients.KV) bool { return kv.Name == name }) {
			return nil, nil, usagef("%s is given twice", name)
		}
		switch {
		case strings.Contains(value, "${"):
			t, err := secret.ParsePageValue(value)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", name, err)
			}
			fixed = append(fixed, pages.NamedTemplate{Name: name, Value: t})
		case justText.MatchString(value):
			fixed = append(fixed, pages.NamedTemplate{Name: name, Value: secret.Literal(justText.FindStringSubmatch(value)[1])})
		default:
			kvs = append(kvs, clients.KV{Name: name, Value: readValue(name, value)})
		}
	}
	return kvs, fixed, nil
}

// readValue reads a value that is the name of a secret, alone or behind the
// scheme of an Authorization, or text.
func readValue(name, value string) clients.Value {
	if secretName.MatchString(value) {
		return clients.Variable(value)
	}
	if m := authScheme.FindStringSubmatch(value); m != nil && strings.EqualFold(name, "Authorization") {
		return append(clients.Text(m[1]), clients.Part{Var: m[2]})
	}
	return clients.Text(value)
}
