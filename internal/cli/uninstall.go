package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/app"
	"github.com/toolcrib/toolcrib/internal/clients"
	"github.com/toolcrib/toolcrib/internal/config"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/servers"
)

// madeFile in the data folder lists the workspaces that were made here, so that
// no folder is taken away that was there before.
const madeFile = "made.json"

// dataFiles are the names of everything that the crib keeps in the data
// folder. What else is there is somebody else's and stays.
var dataFiles = []string{
	backupFolder, madeFile, startLockFile, backgroundLog,
	"lists", "tokens.json", "sealing.key", "local.token", "write.lock", "serve.lock", "serving.json", "operator.sock",
}

func (e *env) uninstallCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "uninstall", GroupID: groupClients, Args: args(cobra.NoArgs),
		Short: "Take the crib out of all clients and remove what it made",
		Long: `Take the crib out of all clients, put back the servers that it replaced there,
end the running crib, revoke all tokens, and remove the data folder and a
workspace that this program made. What is about to happen is shown first. The
program itself stays.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.uninstall(cmd.Context(), yes) },
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// removal is what uninstall will do.
type removal struct {
	clients   []*clients.Client
	running   app.Running
	runs      bool
	data      bool // there is a data folder
	workspace bool // there is a workspace, and it was made here
	kept      bool // there is a workspace that was not
}

func (e *env) uninstall(ctx context.Context, yes bool) error {
	w, err := e.openWorkspace()
	if err != nil {
		return err
	}
	r, err := e.planRemoval(w)
	if err != nil {
		return err
	}
	if !e.showRemoval(w, r) {
		fmt.Fprintln(e.out, "There is nothing to remove.")
		return nil
	}
	if err := e.confirm(ctx, yes, "Do all of this?"); err != nil {
		return err
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
		if err := stopCrib(ctx, w.cfg, r.running); err != nil {
			return err
		}
	}
	if r.workspace {
		if err := e.removeKnown(w.cfg.Workspace, w.workspaceFiles()); err != nil {
			return err
		}
	}
	if r.data {
		if err := e.removeKnown(w.cfg.Data, dataFiles); err != nil {
			return err
		}
	}
	fmt.Fprintln(e.out, "Removed. The program itself stays; delete it to be rid of all of it.")
	return nil
}

func (e *env) planRemoval(w *workspace) (removal, error) {
	var r removal
	for _, c := range clients.All() {
		if e.clientState(c, "http://"+w.cfg.Listen).State == stateRegistered || slices.ContainsFunc(e.registrations(w), func(id string) bool { return id == c.ID() }) {
			r.clients = append(r.clients, c)
		}
	}
	var err error
	if r.running, r.runs, err = app.FindRunning(w.cfg.Data); err != nil {
		return r, err
	}
	r.data = exists(w.cfg.Data)
	made, err := madeWorkspaces(w.cfg.Data)
	if err != nil {
		return r, err
	}
	if exists(w.cfg.Workspace) {
		r.workspace = slices.Contains(made, w.cfg.Workspace)
		r.kept = !r.workspace
	}
	return r, nil
}

// registrations are the clients with a registration that can be undone.
func (e *env) registrations(w *workspace) []string {
	backups, err := clients.List(w.backups())
	if err != nil {
		e.say("%v", err)
	}
	var ids []string
	for _, b := range backups {
		if id := clientOf(b.Label); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// showRemoval says what will happen, and whether anything will.
func (e *env) showRemoval(w *workspace, r removal) bool {
	var lines []string
	for _, c := range r.clients {
		lines = append(lines, "take the crib out of "+c.Title()+", and put back what it replaced")
	}
	if r.runs {
		lines = append(lines, fmt.Sprintf("end the running crib, process %d", r.running.PID))
	}
	if r.data {
		lines = append(lines, "remove the data folder "+w.cfg.Data+", and with it all tokens")
	}
	if r.workspace {
		lines = append(lines, "remove the workspace "+w.cfg.Workspace+", its pages and its keys")
	}
	for _, l := range lines {
		e.say("- %s", l)
	}
	if r.kept {
		e.say("The workspace %s was there before and stays", w.cfg.Workspace)
	}
	return len(lines) > 0
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// stopCrib ends the crib that serves the data folder and waits until it has
// let go of it.
func stopCrib(ctx context.Context, cfg *config.Config, r app.Running) error {
	if r.PID <= 0 {
		return crib.Errorf(crib.Unavailable, "a crib is running, and its process is not known; end it and try again")
	}
	p, err := os.FindProcess(r.PID)
	if err != nil {
		return fmt.Errorf("end the running crib: %w", err)
	}
	if p.Signal(syscall.SIGTERM) != nil {
		// Windows has no such signal.
		if err := p.Kill(); err != nil {
			return fmt.Errorf("end the running crib: %w", err)
		}
	}
	const slack = 10 * time.Second // for what follows the drain
	ctx, cancel := context.WithTimeout(ctx, app.Drain+slack)
	defer cancel()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		_, runs, err := app.FindRunning(cfg.Data)
		if err != nil || !runs {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return crib.Errorf(crib.Busy, "the crib of process %d has not ended; end it and try again", r.PID)
		}
	}
}

// workspaceFiles are the names of what the crib keeps in a workspace.
func (w *workspace) workspaceFiles() []string {
	names := []string{config.FileName, servers.PageDir, ignoreFile}
	if dir, err := w.secretFolder(); err == nil {
		if rel, err := filepath.Rel(w.cfg.Workspace, dir); err == nil && filepath.IsLocal(rel) {
			names = append(names, rel)
		}
	}
	return names
}

// removeKnown removes what is known in a folder, and the folder unless
// somebody else's things are in it.
func (e *env) removeKnown(dir string, names []string) error {
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("remove what is in %s: %w", dir, err)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(left) == 0 {
		return os.Remove(dir)
	}
	var others []string
	for _, entry := range left {
		others = append(others, entry.Name())
	}
	e.say("%s stays, because there is more in it: %s", dir, strings.Join(others, ", "))
	return nil
}

// rememberMade notes that the workspace was made here.
func rememberMade(data, workspace string) error {
	folder, err := app.OpenData(data)
	if err != nil {
		return err
	}
	defer folder.Close() //nolint:errcheck // nothing is open in it
	made, err := madeWorkspaces(data)
	if err != nil || slices.Contains(made, workspace) {
		return err
	}
	text, err := json.Marshal(append(made, workspace))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder.Path(), madeFile), append(text, '\n'), fileMode)
}

func madeWorkspaces(data string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(data, madeFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var made []string
	if err := json.Unmarshal(text, &made); err != nil {
		return nil, crib.Errorf(crib.Invalid, "%s in the data folder is damaged; remove it", madeFile)
	}
	return made, nil
}
