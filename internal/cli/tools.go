package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/app"
	"github.com/toolcrib/toolcrib/internal/cli/mcp"
	"github.com/toolcrib/toolcrib/internal/cli/running"
	"github.com/toolcrib/toolcrib/internal/cli/text"
	"github.com/toolcrib/toolcrib/internal/cli/workspace"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

func (e *env) toolsCommand() *cobra.Command {
	var server string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "tools", GroupID: groupUse, Args: args(cobra.NoArgs),
		Short: "List the tools of all servers, or of one",
		Long: `List the tools of all servers, or of one. Servers are connected for it where
that was not done before. If no crib is running, one is started until the list
is printed.

With --json each tool has its definition as the server gave it.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.tools(cmd.Context(), server, asJSON) },
	}
	cmd.Flags().StringVar(&server, "server", "", "only the tools of this `server`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	e.completeFlag(cmd, "server", e.serverNames)
	return cmd
}

// listedTool is a tool as the command prints it.
type listedTool struct {
	Address    string          `json:"address"`
	Name       string          `json:"name"` // as clients of all servers see it, "" where they do not
	Gate       string          `json:"gate"`
	Definition json.RawMessage `json:"definition"`
}

func (e *env) tools(ctx context.Context, server string, asJSON bool) error {
	cfg, err := e.config()
	if err != nil {
		return err
	}
	return e.place(cfg).With(ctx, func(c *running.Crib) error { return e.listTools(ctx, c, server, asJSON) })
}

func (e *env) listTools(ctx context.Context, c *running.Crib, server string, asJSON bool) error {
	st, err := c.Operator.Status(ctx)
	if err != nil {
		return err
	}
	asked, err := askedServers(st, server)
	if err != nil {
		return err
	}
	lists := listAll(ctx, c.MCP, asked)
	if err := e.missing(lists); err != nil {
		return err
	}
	// What became known by asking, such as names for clients, is in a new status.
	if st, err = c.Operator.Status(ctx); err != nil {
		return err
	}
	tools := gatherTools(st, lists)
	if asJSON {
		return e.writeJSON(tools)
	}
	e.showTools(tools)
	return nil
}

// askedServers are the names of the servers to list: one, or all that are
// enabled.
func askedServers(st app.Status, only string) ([]string, error) {
	var names, known []string
	for _, s := range st.Servers {
		known = append(known, s.Name)
		switch {
		case s.Name == only && !s.Enabled:
			return nil, crib.Errorf(crib.Unavailable, "server %s is disabled; enable it with: toolcrib enable %s", only, only)
		case s.Enabled && (only == "" || s.Name == only):
			names = append(names, s.Name)
		}
	}
	if only != "" && names == nil {
		return nil, workspace.NoSuchServer(only, known)
	}
	return names, nil
}

// toolList is what one server answered.
type toolList struct {
	server string
	tools  []mcp.Tool
	err    error
}

// listAll asks servers for their tools, all at one time.
func listAll(ctx context.Context, c *mcp.Client, names []string) []toolList {
	lists := make([]toolList, len(names))
	var asking sync.WaitGroup
	for i, name := range names {
		asking.Go(func() {
			lists[i].server = name
			lists[i].tools, lists[i].err = c.Tools(ctx, mcp.Endpoint(name))
		})
	}
	asking.Wait()
	return lists
}

func gatherTools(st app.Status, lists []toolList) []listedTool {
	infos := map[string]app.ToolInfo{}
	for _, s := range st.Servers {
		for _, t := range s.Tools {
			infos[t.Address] = t
		}
	}
	out := []listedTool{}
	for _, l := range lists {
		for _, t := range l.tools {
			address := crib.Address{Server: l.server, Tool: t.Name}.String()
			info := infos[address]
			out = append(out, listedTool{Address: address, Name: info.Public, Gate: info.Gate, Definition: t.Raw})
		}
	}
	return out
}

func (e *env) showTools(tools []listedTool) {
	gates := map[string]text.Cell{
		noGate:             text.Amber.Cell("none"),
		string(crib.Ask):   text.Plain.Cell("ask"),
		string(crib.Allow): text.Plain.Cell("allow"),
		string(crib.Deny):  text.Red.Cell("deny"),
	}
	var rows [][]text.Cell
	for _, t := range tools {
		description, _ := wire.GetText(t.Definition, "description")
		rows = append(rows, []text.Cell{{Text: t.Address}, gates[t.Gate], {Text: description}})
	}
	if rows == nil {
		e.say("There are no tools. Take over the servers of your clients with: toolcrib import")
		return
	}
	s := e.screen()
	s.Table([]string{"ADDRESS", "GATE", "DESCRIPTION"}, rows)
	if n := len(slices.DeleteFunc(slices.Clone(tools), func(t listedTool) bool { return t.Gate != noGate })); n > 0 && s.Width > 0 {
		s.Line("", s.Styled(text.Dim, fmt.Sprintf("%s without a gate: let through without asking", text.Count(n, "tool"))))
	}
}

// missing tells of the servers that could not be listed. It is an error if
// those are all that were asked.
func (e *env) missing(lists []toolList) error {
	var failed []toolList
	for _, l := range lists {
		if l.err != nil {
			failed = append(failed, l)
		}
	}
	if len(failed) > 0 && len(failed) == len(lists) {
		return fmt.Errorf("list the tools of %s: %w", failed[0].server, failed[0].err)
	}
	for _, l := range failed {
		e.say("The tools of %s are not listed: %v", l.server, l.err)
	}
	return nil
}
