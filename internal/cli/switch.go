package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	pages "github.com/toolcrib/toolcrib/internal/page"
	"github.com/toolcrib/toolcrib/internal/secret"
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

func (e *env) setEnabled(ctx context.Context, name string, on bool) error {
	w, err := e.openWorkspace()
	if err != nil {
		return err
	}
	path, src, err := w.page(name)
	if err != nil {
		return err
	}
	changed, err := pages.SetEnabled(src, on)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := replaceFile(path, changed); err != nil {
		return err
	}
	word := "Disabled"
	if on {
		word = "Enabled"
	}
	return e.done(ctx, w, word+" "+name)
}

// done says what was done, and whether a running crib has it.
func (e *env) done(ctx context.Context, w *workspace, what string) error {
	running, err := e.reload(ctx, w.cfg)
	if err != nil {
		return err
	}
	if running {
		what += "; the running crib has it"
	}
	_, err = fmt.Fprintln(e.out, what)
	return err
}

// replaceFile replaces a file that is there: readers see the old or the new
// one. Of a link, what it leads to is replaced.
func replaceFile(path string, content []byte) (err error) {
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".toolcrib-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, err)
			temp.Close()           //nolint:errcheck // the error that matters is at hand
			os.Remove(temp.Name()) //nolint:errcheck // likewise
		}
	}()
	if err = temp.Chmod(info.Mode().Perm()); err != nil {
		return err
	}
	if _, err = temp.Write(content); err != nil {
		return err
	}
	if err = temp.Sync(); err != nil {
		return err
	}
	if err = temp.Close(); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}

func (e *env) remove(ctx context.Context, name string) error {
	w, err := e.openWorkspace()
	if err != nil {
		return err
	}
	path, _, err := w.page(name)
	if err != nil {
		return err
	}
	left := w.onlyNamedBy(name)
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove the page of %s: %w", name, err)
	}
	if err := e.done(ctx, w, "Removed "+name); err != nil {
		return err
	}
	for _, file := range left {
		e.say("No server names the key %s any more", file)
	}
	if from, ok := w.shadowedBy(name); ok {
		e.say("%s now means the server of that name in %s", name, from)
	}
	return nil
}

// onlyNamedBy are the files of keys that no other server than name refers to.
func (w *workspace) onlyNamedBy(name string) []string {
	dir, err := w.secretFolder()
	if err != nil {
		return nil
	}
	var own, others []secret.Ref
	for _, d := range w.set.All() {
		if d.Name == name {
			own = d.Refs()
		} else {
			others = append(others, d.Refs()...)
		}
	}
	var files []string
	for _, ref := range own {
		path := filepath.Join(dir, ref.Name)
		if _, err := os.Stat(path); err == nil && !slices.Contains(others, ref) {
			files = append(files, path)
		}
	}
	return files
}

// shadowedBy returns where a definition stands that the page of name hid.
func (w *workspace) shadowedBy(name string) (string, bool) {
	for _, s := range w.set.Shadowed() {
		if s.Name == name {
			return s.Source.String(), true
		}
	}
	return "", false
}
