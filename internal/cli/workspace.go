package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/internal/app"
	"github.com/toolcrib/toolcrib/internal/clients"
	"github.com/toolcrib/toolcrib/internal/config"
	"github.com/toolcrib/toolcrib/internal/crib"
	pages "github.com/toolcrib/toolcrib/internal/page"
	"github.com/toolcrib/toolcrib/internal/secret"
	"github.com/toolcrib/toolcrib/internal/servers"
)

// What commands write is for this user alone.
const (
	folderMode fs.FileMode = 0o700
	fileMode   fs.FileMode = 0o600
)

// backupFolder is where in the data folder the changes are kept that can be
// undone.
const backupFolder = "backups"

// workspace is the folder of pages and secrets, and what is defined there.
type workspace struct {
	env *env
	cfg *config.Config
	set servers.Set
}

func (e *env) openWorkspace() (*workspace, error) {
	cfg, err := e.config()
	if err != nil {
		return nil, err
	}
	set, _ := servers.Load(cfg.Definitions()) // a faulty page keeps its name, and that is all we want of it
	return &workspace{env: e, cfg: cfg, set: set}, nil
}

func (w *workspace) backups() string { return filepath.Join(w.cfg.Data, backupFolder) }

// names are the servers of the workspace that can be used, in order.
func (w *workspace) names() []string {
	var names []string
	for _, d := range w.set.All() {
		names = append(names, d.Name)
	}
	return names
}

func (w *workspace) pagePath(name string) string {
	return filepath.Join(w.cfg.Workspace, servers.PageDir, name+".md")
}

// source returns where the server of that name is defined, whether something
// is wrong with it or not.
func (w *workspace) source(name string) (servers.Source, bool) {
	if d, ok := w.set.Get(name); ok {
		return d.Source, true
	}
	for _, b := range w.set.Broken() {
		if b.Name == name {
			return b.Source, true
		}
	}
	return servers.Source{}, false
}

// taken reports whether a new server cannot have that name.
func (w *workspace) taken(name string) bool {
	if _, ok := w.source(name); ok {
		return true
	}
	_, err := os.Lstat(w.pagePath(name))
	return !errors.Is(err, fs.ErrNotExist)
}

// page returns the page that defines a server. Servers that are defined
// elsewhere are an error that says where.
func (w *workspace) page(name string) (path string, src []byte, err error) {
	if err := crib.CheckServerName(name); err != nil {
		return "", nil, err
	}
	from, ok := w.source(name)
	switch {
	case !ok:
		return "", nil, noSuchServer(name, w.names())
	case from.Kind != servers.FromPage:
		return "", nil, crib.Errorf(crib.Unsupported, "server %s is defined in %s, which this command does not change; change it there", name, from)
	}
	path = w.pagePath(name)
	src, err = os.ReadFile(path)
	if err != nil {
		return "", nil, fmt.Errorf("read the page of server %s: %w", name, err)
	}
	return path, src, nil
}

func noSuchServer(name string, known []string) error {
	if near := pages.Nearest(name, known); near != "" {
		return crib.Errorf(crib.NotFound, "there is no server %q; did you mean %s?", name, near)
	}
	if len(known) == 0 {
		return crib.Errorf(crib.NotFound, "there is no server %q; there are none yet: toolcrib add and toolcrib import make them", name)
	}
	return crib.Errorf(crib.NotFound, "there is no server %q; these are: %s", name, strings.Join(known, ", "))
}

// secretFolder is the folder of the first file store.
func (w *workspace) secretFolder() (string, error) {
	for _, s := range w.cfg.Secrets {
		if s.Kind != secret.FileStore {
			continue
		}
		if filepath.IsAbs(s.Dir) {
			return s.Dir, nil
		}
		return filepath.Join(w.cfg.Workspace, s.Dir), nil
	}
	return "", crib.Errorf(crib.Invalid, "keys go into a file store, and toolcrib.yaml lists none; add { store: file, dir: secrets } under secrets:, or put the keys into another store and name them")
}

// lookupSecret returns what a secret is without running any command: stores
// that do are not asked.
func (w *workspace) lookupSecret(name string) (string, bool) {
	quiet := slices.DeleteFunc(slices.Clone(w.cfg.Secrets), func(s secret.StoreSpec) bool { return s.Kind == secret.ExecStore })
	stores, err := secret.NewStores(secret.Options{Specs: quiet, Dir: w.cfg.Workspace, LookupEnv: w.env.lookupEnv})
	if err != nil {
		return "", false
	}
	v, err := stores.Resolve(context.Background(), secret.Reference(secret.AnyStore, name))
	if err != nil {
		return "", false
	}
	return v.Reveal(), true
}

// plan decides what becomes of servers that are to be added.
func (w *workspace) plan(entries []clients.Entry) clients.Plan {
	return clients.MakePlan(entries, clients.PlanOptions{
		Taken:        w.taken,
		SecretTaken:  func(name string) bool { _, ok := w.lookupSecret(name); return ok },
		LooksLikeKey: secret.LooksLikeKey,
		LookupEnv: func(name string) (string, bool) {
			if v, ok := w.env.lookupEnv(name); ok {
				return v, true
			}
			return w.lookupSecret(name)
		},
		URL: "http://" + w.cfg.Listen,
	})
}

// write makes new files, all or none, so that they can be undone under the
// label. The folders of the workspace are made where they are missing.
func (w *workspace) write(label string, files []clients.Change) error {
	if err := w.make(); err != nil {
		return err
	}
	return clients.Commit(w.backups(), label, files)
}

// newFile is a file that must not exist.
func newFile(path string, content []byte) clients.Change {
	return clients.Change{Path: path, After: content, Mode: fileMode}
}

// secretFiles are the files of keys.
func (w *workspace) secretFiles(secrets []clients.Secret) ([]clients.Change, error) {
	if len(secrets) == 0 {
		return nil, nil
	}
	dir, err := w.secretFolder()
	if err != nil {
		return nil, err
	}
	var files []clients.Change
	for _, s := range secrets {
		files = append(files, newFile(filepath.Join(dir, s.Name), []byte(s.Value)))
	}
	return files, nil
}

// files are the page of a server and its keys, all of them new.
func (w *workspace) files(p *planned, text string) ([]clients.Change, error) {
	page, err := p.page(text)
	if err != nil {
		return nil, err
	}
	files, err := w.secretFiles(p.Secrets)
	if err != nil {
		return nil, err
	}
	return append(files, newFile(w.pagePath(p.Name), page)), nil
}

// label names a change that can be undone. Labels of one kind are in the order
// of time.
func label(parts ...string) string {
	return strings.Join(append(parts, time.Now().UTC().Format("20060102T150405.000000000")), ".")
}

// reload makes a running crib read its configuration again. That none runs is
// no error.
func (e *env) reload(ctx context.Context, cfg *config.Config) (running bool, err error) {
	if _, running, err = app.FindRunning(cfg.Data); err != nil || !running {
		return false, err
	}
	_, err = app.Dial(cfg.Data).Reload(ctx)
	if crib.CodeOf(err) == crib.Unavailable {
		return false, nil // it ended meanwhile
	}
	if err != nil {
		return true, fmt.Errorf("the change is written, but the running crib does not take it: %w", err)
	}
	return true, nil
}

// createFiles makes new files, all or none.
func createFiles(files []clients.Change) error {
	for i, f := range files {
		made, err := makeFile(f.Path, f.After)
		if err == nil && !made {
			err = crib.Errorf(crib.Invalid, "there is a file %s already; move it away", f.Path)
		}
		if err != nil {
			for _, done := range files[:i] {
				os.Remove(done.Path) //nolint:errcheck // the error that matters is at hand
			}
			return err
		}
	}
	return nil
}
