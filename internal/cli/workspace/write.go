package workspace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/toolcrib/toolcrib/internal/clients"
	"github.com/toolcrib/toolcrib/internal/config"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/servers"
)

// What is written is for this user alone.
const (
	folderMode fs.FileMode = 0o700
	fileMode   fs.FileMode = 0o600
)

const (
	ignoreFile = ".gitignore"
	ignoreText = "# Keys are in no repository.\n/secrets/\n"
)

// MadeFile in the data folder lists the workspaces that were made here, so that
// no folder is taken away that was there before.
const MadeFile = "made.json"

// Make makes the folders of the workspace and remembers which of them, so that
// uninstall takes away no folder that was there before.
func (w *Workspace) Make() error {
	dir := w.Config.Workspace
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := rememberMade(w.Config.Data, dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, servers.PageDir), folderMode); err != nil {
		return fmt.Errorf("make the workspace: %w", err)
	}
	if secrets, err := w.SecretFolder(); err == nil {
		if err := os.MkdirAll(secrets, folderMode); err != nil {
			return fmt.Errorf("make the folder of keys: %w", err)
		}
	}
	_, err := MakeFile(filepath.Join(dir, ignoreFile), []byte(ignoreText))
	return err
}

// MakeFile makes a file, unless there is one.
func MakeFile(path string, content []byte) (made bool, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(path) //nolint:errcheck // the error that matters is at hand
	}
	return true, err
}

// create makes new files, all or none.
func create(files []clients.Change) error {
	for i, f := range files {
		made, err := MakeFile(f.Path, f.After)
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

// ReplaceFile replaces a file that is there: readers see the old or the new
// one. Of a link, what it leads to is replaced.
func ReplaceFile(path string, content []byte) (err error) {
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

// Files are the names of what the crib keeps in a workspace.
func (w *Workspace) Files() []string {
	names := []string{config.FileName, servers.PageDir, ignoreFile}
	if dir, err := w.SecretFolder(); err == nil {
		if rel, err := filepath.Rel(w.Config.Workspace, dir); err == nil && filepath.IsLocal(rel) && rel != "." {
			names = append(names, rel)
		}
	}
	return names
}

// rememberMade notes that the workspace was made here.
func rememberMade(data, workspace string) error {
	if err := os.MkdirAll(data, folderMode); err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	made, err := madeWorkspaces(data)
	if err != nil || slices.Contains(made, workspace) {
		return err
	}
	text, err := json.Marshal(append(made, workspace))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(data, MadeFile), append(text, '\n'), fileMode)
}

func madeWorkspaces(data string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(data, MadeFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var made []string
	if err := json.Unmarshal(text, &made); err != nil {
		return nil, crib.Errorf(crib.Invalid, "%s in the data folder is damaged; remove it", MadeFile)
	}
	return made, nil
}

// WasMade reports whether the workspace was made here.
func (w *Workspace) WasMade() (bool, error) {
	made, err := madeWorkspaces(w.Config.Data)
	return slices.Contains(made, w.Config.Workspace), err
}

// Add writes a planned server.
func (w *Workspace) Add(p Planned) error {
	if err := w.Make(); err != nil {
		return err
	}
	return create(p.Files)
}

// Import writes planned servers, all or none, so that they can be undone.
func (w *Workspace) Import(servers []Planned) error {
	if err := w.Make(); err != nil {
		return err
	}
	var files []clients.Change
	for _, p := range servers {
		files = append(files, p.Files...)
	}
	return w.Commit(Import, "", "", files)
}
