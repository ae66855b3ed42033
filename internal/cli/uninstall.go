package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/app"
	"github.com/toolcrib/toolcrib/internal/cli/running"
	"github.com/toolcrib/toolcrib/internal/cli/service"
	"github.com/toolcrib/toolcrib/internal/cli/workspace"
	"github.com/toolcrib/toolcrib/internal/clients"
	"github.com/toolcrib/toolcrib/internal/config"
)

func (e *env) uninstallCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "uninstall", GroupID: groupClients, Args: args(cobra.NoArgs),
		Short: "Take the crib out of all clients and remove what it made",
		Long: `Take the crib out of all clients, put back the servers that it replaced there,
remove its service, end the running crib, revoke all tokens, and remove the data folder and a
workspace that this program made. What is about to happen is shown first. The
program itself stays.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.uninstall(cmd.Context(), yes) },
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// removal is what uninstall will do.
type removal struct {
	service   *service.Manager // nil where there is no service of ours
	clients   []*clients.Client
	now       app.Running // the running crib, if runs
	runs      bool
	data      bool // there is a data folder
	workspace bool // there is a workspace, and it was made here
	kept      bool // there is a workspace that was not
}

func (e *env) uninstall(ctx context.Context, yes bool) error {
	// A fault in toolcrib.yaml must not keep it where it is.
	cfg, _ := config.Load(e.load())
	if cfg.Workspace == "" || cfg.Data == "" {
		_, err := e.config()
		return err
	}
	w := workspace.Open(cfg, e.lookupEnv)
	r, err := e.planRemoval(w)
	if err != nil {
		return err
	}
	if !e.showRemoval(w, r) {
		e.tell("There is nothing to remove.")
		return nil
	}
	if err := e.confirm(ctx, yes, "Do all of this?"); err != nil {
		return err
	}
	return e.carryOut(ctx, w, r)
}

func (e *env) carryOut(ctx context.Context, w *workspace.Workspace, r removal) error {
	if r.service != nil { // first: its manager would start what is ended
		if _, err := r.service.Uninstall(ctx); err != nil {
			return err
		}
	}
	for _, c := range r.clients {
		if _, err := e.undoClient(w, c.ID(), time.Time{}); err != nil {
			return err
		}
		if _, err := e.unregister(c, w); err != nil {
			return err
		}
	}
	if r.runs {
		if err := e.place(w.Config).Stop(ctx, r.now); err != nil {
			return err
		}
	}
	if r.workspace {
		if err := e.removeKnown(w.Config.Workspace, w.Files()); err != nil {
			return err
		}
	}
	if r.data {
		if err := e.removeKnown(w.Config.Data, append(workspace.DataFiles(), running.StartLockFile, running.BackgroundLog)); err != nil {
			return err
		}
	}
	e.tell("Removed. The program itself stays; delete it to be rid of all of it.")
	return nil
}

func (e *env) planRemoval(w *workspace.Workspace) (removal, error) {
	var r removal
	if m, err := e.serviceManager(); err == nil && m.Installed() {
		r.service = m
	}
	for _, c := range clients.All() {
		if e.clientState(c, "http://"+w.Config.Listen).State == stateRegistered || slices.ContainsFunc(e.registrations(w), func(id string) bool { return id == c.ID() }) {
			r.clients = append(r.clients, c)
		}
	}
	var err error
	if r.now, r.runs, err = app.FindRunning(w.Config.Data); err != nil {
		return r, err
	}
	r.data = exists(w.Config.Data)
	made, err := w.WasMade()
	if err != nil {
		return r, err
	}
	if exists(w.Config.Workspace) {
		r.workspace, r.kept = made, !made
	}
	return r, nil
}

// registrations are the clients with a registration that can be undone.
func (e *env) registrations(w *workspace.Workspace) []string {
	backups, err := w.Backups()
	if err != nil {
		e.say("%v", err)
	}
	var ids []string
	for _, b := range backups {
		if b.Registers() {
			ids = append(ids, b.Client)
		}
	}
	return ids
}

// showRemoval says what will happen, and whether anything will.
func (e *env) showRemoval(w *workspace.Workspace, r removal) bool {
	var lines []string
	for _, c := range r.clients {
		lines = append(lines, "take the crib out of "+c.Title()+", and put back what it replaced")
	}
	if r.service != nil {
		lines = append(lines, "stop the service and remove "+r.service.File)
	}
	if r.runs {
		lines = append(lines, fmt.Sprintf("end the running crib, process %d", r.now.PID))
	}
	if r.data {
		lines = append(lines, "remove the data folder "+w.Config.Data+", and with it all tokens")
	}
	if r.workspace {
		lines = append(lines, "remove the workspace "+w.Config.Workspace+", its pages and its keys")
	}
	for _, l := range lines {
		e.say("- %s", l)
	}
	if r.kept {
		e.say("The workspace %s was there before and stays", w.Config.Workspace)
	}
	return len(lines) > 0
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// removeKnown removes what is known in a folder, and the folder unless
// somebody else's things are in it.
func (e *env) removeKnown(dir string, names []string) error {
	others, err := workspace.Remove(dir, names)
	if len(others) > 0 {
		e.say("%s stays, because there is more in it: %s", dir, strings.Join(others, ", "))
	}
	return err
}
