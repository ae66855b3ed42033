// Package workspace is the folder of pages and keys as commands change it: what
// is defined there, how servers that are to be added become pages, and how
// what was written is taken back.
package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/clients"
	"github.com/toolcrib/toolcrib/internal/config"
	"github.com/toolcrib/toolcrib/internal/crib"
	pages "github.com/toolcrib/toolcrib/internal/page"
	"github.com/toolcrib/toolcrib/internal/secret"
	"github.com/toolcrib/toolcrib/internal/servers"
)

// Workspace is the folder of pages and keys, and what is defined there.
type Workspace struct {
	Config *config.Config
	Set    servers.Set

	lookupEnv func(string) (string, bool)
}

// Open reads what is defined. A definition that something is wrong with keeps
// its name, and that is all that is wanted of it here.
func Open(cfg *config.Config, lookupEnv func(string) (string, bool)) *Workspace {
	set, _ := servers.Load(cfg.Definitions())
	return &Workspace{Config: cfg, Set: set, lookupEnv: lookupEnv}
}

// Names are the servers of the workspace that can be used, in order.
func (w *Workspace) Names() []string {
	var names []string
	for _, d := range w.Set.All() {
		names = append(names, d.Name)
	}
	return names
}

// PagePath is where the page of a server stands.
func (w *Workspace) PagePath(name string) string {
	return filepath.Join(w.Config.Workspace, servers.PageDir, name+".md")
}

// Source returns where the server of that name is defined, whether something
// is wrong with it or not.
func (w *Workspace) Source(name string) (servers.Source, bool) {
	if d, ok := w.Set.Get(name); ok {
		return d.Source, true
	}
	for _, b := range w.Set.Broken() {
		if b.Name == name {
			return b.Source, true
		}
	}
	return servers.Source{}, false
}

// Taken reports whether a new server cannot have that name.
func (w *Workspace) Taken(name string) bool {
	if _, ok := w.Source(name); ok {
		return true
	}
	_, err := os.Lstat(w.PagePath(name))
	return !errors.Is(err, fs.ErrNotExist)
}

// Page returns the page that defines a server. Servers that are defined
// elsewhere are an error that says where.
func (w *Workspace) Page(name string) (path string, src []byte, err error) {
	if err := crib.CheckServerName(name); err != nil {
		return "", nil, err
	}
	from, ok := w.Source(name)
	switch {
	case !ok:
		return "", nil, NoSuchServer(name, w.Names())
	case from.Kind != servers.FromPage:
		return "", nil, crib.Errorf(crib.Unsupported, "server %s is defined in %s, which this command does not change; change it there", name, from)
	}
	path = w.PagePath(name)
	src, err = os.ReadFile(path)
	if err != nil {
		return "", nil, fmt.Errorf("read the page of server %s: %w", name, err)
	}
	return path, src, nil
}

// NoSuchServer is the NotFound error of a name that none of known is.
func NoSuchServer(name string, known []string) error {
	if near := pages.Nearest(name, known); near != "" {
		return crib.Errorf(crib.NotFound, "there is no server %q; did you mean %s?", name, near)
	}
	if len(known) == 0 {
		return crib.Errorf(crib.NotFound, "there is no server %q; there are none yet: toolcrib add and toolcrib import make them", name)
	}
	return crib.Errorf(crib.NotFound, "there is no server %q; these are: %s", name, strings.Join(known, ", "))
}

// SecretFolder is the folder of the first file store.
func (w *Workspace) SecretFolder() (string, error) {
	for _, s := range w.Config.Secrets {
		if s.Kind != secret.FileStore {
			continue
		}
		if filepath.IsAbs(s.Dir) {
			return s.Dir, nil
		}
		return filepath.Join(w.Config.Workspace, s.Dir), nil
	}
	return "", crib.Errorf(crib.Invalid, "keys go into a file store, and toolcrib.yaml lists none; add { store: file, dir: secrets } under secrets:, or put the keys into another store and name them")
}

// lookupSecret returns what a secret is without running any command: stores
// that do are not asked.
func (w *Workspace) lookupSecret(name string) (string, bool) {
	quiet := slices.DeleteFunc(slices.Clone(w.Config.Secrets), func(s secret.StoreSpec) bool { return s.Kind == secret.ExecStore })
	stores, err := secret.NewStores(secret.Options{Specs: quiet, Dir: w.Config.Workspace, LookupEnv: w.lookupEnv})
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
func (w *Workspace) plan(entries []clients.Entry) clients.Plan {
	return clients.MakePlan(entries, clients.PlanOptions{
		Taken:        w.Taken,
		SecretTaken:  func(name string) bool { _, ok := w.lookupSecret(name); return ok },
		LooksLikeKey: isKey,
		LookupEnv: func(name string) (string, bool) {
			if v, ok := w.lookupEnv(name); ok {
				return v, true
			}
			return w.lookupSecret(name)
		},
		URL: "http://" + w.Config.Listen,
	})
}

// OnlyNamedBy are the files of keys that no other server than name refers to.
func (w *Workspace) OnlyNamedBy(name string) []string {
	dir, err := w.SecretFolder()
	if err != nil {
		return nil
	}
	var own, others []string // names: two stores may both mean the file
	for _, d := range w.Set.All() {
		for _, ref := range d.Refs() {
			if d.Name == name {
				own = append(own, ref.Name)
			} else {
				others = append(others, ref.Name)
			}
		}
	}
	var files []string
	for _, key := range own {
		path := filepath.Join(dir, key)
		if _, err := os.Stat(path); err == nil && !slices.Contains(others, key) {
			files = append(files, path)
		}
	}
	return files
}

// HiddenBy returns where a definition stands that the page of name hid.
func (w *Workspace) HiddenBy(name string) (string, bool) {
	for _, s := range w.Set.Shadowed() {
		if s.Name == name {
			return s.Source.String(), true
		}
	}
	return "", false
}

// leastKey is how long a value is, in bytes, that is a key because of its name.
const leastKey = 4

// isKey reports whether a value that a person or a client's file gives belongs
// in a store: it looks like a key, or its name says that it is one. A page is
// read by more people than a client's own file.
func isKey(name, value string) bool {
	if secret.LooksLikeKey(name, value) {
		return true
	}
	if len(value) < leastKey || value == "true" || value == "false" || strings.ContainsAny(value, "/\\") {
		return false
	}
	words := strings.FieldsFunc(strings.ToUpper(name), func(r rune) bool { return r == '_' || r == '-' || r == '.' })
	for i, w := range words {
		switch w {
		case "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "APIKEY", "CREDENTIALS", "AUTHORIZATION":
			return true
		case "KEY":
			if i > 0 { // API_KEY, X-Api-Key, AUTH_KEY
				return true
			}
		}
	}
	return false
}
