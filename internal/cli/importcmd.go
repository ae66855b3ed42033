package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/cli/text"
	"github.com/toolcrib/toolcrib/internal/cli/workspace"
	"github.com/toolcrib/toolcrib/internal/clients"
	"github.com/toolcrib/toolcrib/internal/crib"
)

func (e *env) importCommand() *cobra.Command {
	var yes, undo bool
	cmd := &cobra.Command{
		Use: "import [CLIENT | FILE]", GroupID: groupServers, Args: args(cobra.MaximumNArgs(1)),
		Short: "Take over the servers of the clients on this machine",
		Long: `Take over the servers of the clients on this machine, of one client, or of one
configuration file. Nothing is changed there: each server becomes a page in the
workspace, and its keys go into the file store, in files that only you can read.
What will be written is shown first.

Then "toolcrib client add CLIENT --replace" makes a client use the crib instead.
--undo takes back the last import, and every such replacement since.

Clients: ` + strings.Join(clientNames(), ", ") + ".",
		RunE: func(cmd *cobra.Command, given []string) error {
			switch {
			case undo && len(given) > 0:
				return usagef("--undo takes back the last import whole; write: toolcrib import --undo")
			case undo:
				return e.undoImport(cmd.Context())
			}
			return e.importServers(cmd.Context(), strings.Join(given, ""), yes)
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&undo, "undo", false, "take the last import back")
	cmd.ValidArgsFunction = func(_ *cobra.Command, given []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(given) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list, _ := words(clientNames(), typed)
		return list, cobra.ShellCompDirectiveDefault // or a file
	}
	return cmd
}

func (e *env) importServers(ctx context.Context, from string, yes bool) error {
	w, err := e.openWorkspace()
	if err != nil {
		return err
	}
	entries, err := e.readEntries(from)
	if err != nil {
		return err
	}
	found := w.Plan(entries)
	e.preview(found)
	if len(found.Take) == 0 {
		e.tell("There is nothing to take over.")
		return nil
	}
	keys := 0
	for _, p := range found.Take {
		keys += len(p.Secrets)
	}
	question := fmt.Sprintf("Write %s to %s", text.Count(len(found.Take), "page"), w.Config.Workspace)
	if keys > 0 {
		question += fmt.Sprintf(" and %s to the file store", text.Count(keys, "key"))
	}
	if err := e.confirm(ctx, yes, question+"?"); err != nil {
		return err
	}
	if err := w.Import(found.Take); err != nil {
		return err
	}
	if err := e.done(ctx, w.Config, "Took over "+text.Count(len(found.Take), "server")); err != nil {
		return err
	}
	e.tell("See their tools with: toolcrib tools. Let a client use them with: toolcrib client add CLIENT --replace")
	return nil
}

// readEntries reads the servers of a client, of a file, or of every client.
func (e *env) readEntries(from string) ([]clients.Entry, error) {
	where := e.clients()
	if from != "" {
		client, err := clients.ByID(from)
		if err == nil {
			return client.Read(where)
		}
		if _, statErr := os.Stat(from); errors.Is(statErr, fs.ErrNotExist) {
			return nil, crib.Errorf(crib.NotFound, "%q is neither a client nor a file; clients are %s", from, strings.Join(clientNames(), ", "))
		}
		return clients.ReadFile(where, from)
	}
	var entries []clients.Entry
	for _, c := range clients.All() {
		found, err := c.Read(where)
		if err != nil {
			e.say("%s: %v", c.Title(), err)
		}
		entries = append(entries, found...)
	}
	return entries, nil
}

// preview shows what will be written and what will not.
func (e *env) preview(found workspace.Sorted) {
	s := e.screen()
	if len(found.Take) > 0 {
		var rows [][]text.Cell
		for _, p := range found.Take {
			name := text.Cell{Text: p.Name}
			if !p.Block.Enabled {
				name = text.Dim.Cell(p.Name + " (off)")
			}
			rows = append(rows, []text.Cell{name, {Text: p.From()}, {Text: strings.Join(p.SecretNames(), " ")}, {Text: p.Target()}})
		}
		s.Table([]string{"SERVER", "FROM", "KEYS MOVED", "WHERE"}, rows)
	}
	for _, p := range found.Take {
		for _, note := range p.Notes {
			s.Line(s.Styled(text.Amber, text.OneLine(p.Name+": "+note)))
		}
	}
	for _, l := range found.Left {
		s.Line(s.Styled(text.Dim, text.OneLine(fmt.Sprintf("%s (%s) is not taken over: %s", l.Name, l.From, l.Reason))))
	}
}

// undoImport takes the last import back, and before it what was done since to
// clients whose servers the crib replaced.
func (e *env) undoImport(ctx context.Context) error {
	w, err := e.openWorkspace()
	if err != nil {
		return err
	}
	backups, err := w.Backups()
	if err != nil {
		return err
	}
	last := -1
	for i, b := range backups {
		if b.Kind == workspace.Import {
			last = i
		}
	}
	if last < 0 {
		return crib.Errorf(crib.NotFound, "there is no import to take back")
	}
	for _, b := range backups[last:] {
		if b.Kind != workspace.Replace {
			continue
		}
		if _, err := e.undoClient(w, b.Client, backups[last].Time); err != nil {
			return err
		}
	}
	if err := e.undo(w, backups[last]); err != nil {
		return err
	}
	return e.done(ctx, w.Config, "The import is taken back")
}

// undo takes one change back and tells what became of each file. The token of
// a client that is not registered any more ends.
func (e *env) undo(w *workspace.Workspace, b workspace.Backup) error {
	report, err := w.Undo(b)
	for _, line := range report {
		e.tell("%s", line)
	}
	if err != nil || !b.Registers() {
		return err
	}
	return revokeToken(w.Config, tokenName(b.Client, b.Server))
}
