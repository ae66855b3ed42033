package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/cli/workspace"
	pages "github.com/toolcrib/toolcrib/internal/page"
)

func (e *env) enableCommand() *cobra.Command {
	return e.onServer(&cobra.Command{
		Use: "enable NAME", Short: "Switch a server on",
	}, func(ctx context.Context, name string) error { return e.setEnabled(ctx, name, true) })
}

func (e *env) disableCommand() *cobra.Command {
	return e.onServer(&cobra.Command{
		Use: "disable NAME", Short: "Switch a server off; it keeps its name",
		Long: "Switch a server off, at once where a crib is running. It keeps its page and its\nname, so that no other definition of that name takes its place.",
	}, func(ctx context.Context, name string) error { return e.setEnabled(ctx, name, false) })
}

func (e *env) removeCommand() *cobra.Command {
	return e.onServer(&cobra.Command{
		Use: "remove NAME", Short: "Remove a server and its page",
		Long: "Remove a server and its page, at once where a crib is running. Keys in the file\nstore stay; the command says which of them no server names any more.",
	}, e.remove)
}

// onServer makes a command that takes the name of one server.
func (e *env) onServer(cmd *cobra.Command, act func(context.Context, string) error) *cobra.Command {
	cmd.GroupID, cmd.Args = groupServers, args(cobra.ExactArgs(1))
	cmd.ValidArgsFunction = completeFirst(e.serverNames)
	cmd.RunE = func(cmd *cobra.Command, given []string) error { return act(cmd.Context(), given[0]) }
	return cmd
}

// setEnabled changes a page, which a fault in toolcrib.yaml is no reason not to
// do: a running crib says by itself whether it takes that.
func (e *env) setEnabled(ctx context.Context, name string, on bool) error {
	cfg, wrong, err := e.whereabouts()
	if err != nil {
		return err
	}
	path, src, err := workspace.Open(cfg, e.lookupEnv).Page(name)
	if err != nil {
		e.warnOf(wrong) // the server may stand in what cannot be read
		return err
	}
	changed, err := pages.SetEnabled(src, on)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := workspace.ReplaceFile(path, changed); err != nil {
		return err
	}
	word := "Disabled"
	if on {
		word = "Enabled"
	}
	if err := e.done(ctx, cfg, word+" "+name); err != nil {
		return err
	}
	e.warnOf(wrong)
	return nil
}

func (e *env) remove(ctx context.Context, name string) error {
	w, err := e.openWorkspace()
	if err != nil {
		return err
	}
	path, _, err := w.Page(name)
	if err != nil {
		return err
	}
	left := w.OnlyNamedBy(name)
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove the page of %s: %w", name, err)
	}
	if err := e.done(ctx, w.Config, "Removed "+name); err != nil {
		return err
	}
	for _, file := range left {
		e.say("No server names the key %s any more", file)
	}
	if from, ok := w.HiddenBy(name); ok {
		e.say("%s now means the server of that name in %s", name, from)
	}
	return nil
}
