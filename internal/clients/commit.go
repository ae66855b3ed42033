package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// Backups hold other programs' keys, so nobody else may read them.
const (
	backupFolderMode fs.FileMode = 0o700
	backupFileMode   fs.FileMode = 0o600
)

const manifestName = "manifest.json"

// A folder that a client reads is made as the client would make it, without
// giving its content away.
const newFolderMode fs.FileMode = 0o700

// A manifest is the record of one commit, in a folder of the commit's label.
type manifest struct {
	Version int       `json:"version"`
	Label   string    `json:"label"`
	Time    time.Time `json:"time"`
	Files   []record  `json:"files"`
}

const manifestVersion = 2

// A record is one file of a commit. Its content before stands beside the
// manifest, in a file called by its number. What the commit wrote holds keys
// that are in no other file but the one that it changed, so only digests of it
// are kept: enough to know it again.
type record struct {
	Path    string        `json:"path"` // symbolic links followed
	Mode    fs.FileMode   `json:"mode"`
	Before  bool          `json:"before"`          // the file existed before
	After   string        `json:"after,omitempty"` // digest of the content; "" when the commit removed the file
	Folders []string      `json:"folders,omitempty"`
	Tables  []tableRecord `json:"tables,omitempty"`
}

// A step is a record with its content.
type step struct {
	record
	before, after []byte // nil when there is no file
}

// Backup names a commit that can be undone.
type Backup struct {
	Label string
	Time  time.Time
	Files []string
}

var labelText = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

func checkLabel(label string) error {
	if !labelText.MatchString(label) || strings.HasSuffix(label, staging) {
		return crib.Errorf(crib.Invalid, "%.120q cannot name a backup; use up to 100 letters, digits, dots, dashes and underscores", label)
	}
	return nil
}

// staging ends the name of a backup that is being written.
const staging = ".part"

// Commit applies changes, all or none, and keeps what Undo needs under
// dir/label, which must be new. A file that is not any more what its change
// was made from is not touched: the error is of code Busy and nothing has
// changed. The backup is on the disk before the first file is written, so that
// Undo works after a crash too.
func Commit(dir, label string, changes []Change) error {
	if err := checkLabel(label); err != nil {
		return err
	}
	steps, err := prepare(changes)
	if err != nil || len(steps) == 0 {
		return err
	}
	if err := writeBackup(dir, label, steps); err != nil {
		return err
	}
	for i, s := range steps {
		if err := s.apply(); err != nil {
			return rollBack(dir, label, steps[:i+1], err)
		}
	}
	return nil
}

func prepare(changes []Change) ([]step, error) {
	var steps []step
	for _, c := range changes {
		if c.Before == nil && c.After == nil {
			continue
		}
		target, err := followed(c.Path)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(steps, func(s step) bool { return s.Path == target }) {
			return nil, crib.Errorf(crib.Invalid, "%s would be changed twice in one commit; change it once", target)
		}
		s := step{
			record: record{Path: target, Mode: c.Mode.Perm(), Before: c.Before != nil, After: contentDigest(c.After)},
			before: c.Before, after: c.After,
		}
		if s.Tables, err = tableRecords(c); err != nil {
			return nil, err
		}
		if s.Mode == 0 {
			s.Mode = newFileMode
		}
		if err := s.unchanged(s.before); err != nil {
			return nil, err
		}
		s.Folders = missingFolders(filepath.Dir(target))
		steps = append(steps, s)
	}
	return steps, nil
}

// followed is the file behind symbolic links: people keep their settings in a
// repository and link to it.
func followed(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", path, err)
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	if err != nil {
		return "", fmt.Errorf("look at %s: %w", path, err)
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		return path, nil
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", crib.Errorf(crib.Invalid, "%s is a link that leads nowhere; remove it or make what it names", path)
	}
	return target, nil
}

// missingFolders are the folders that have to be made for a path, outermost
// first.
func missingFolders(dir string) []string {
	var missing []string
	for {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, dir)
		dir = filepath.Dir(dir)
	}
	slices.Reverse(missing)
	return missing
}

// unchanged reports, as an error of code Busy, that the file is not want.
func (s step) unchanged(want []byte) error {
	now, err := readFile(s.Path)
	if err != nil {
		return err
	}
	if (now.data == nil) != (want == nil) || !bytes.Equal(now.data, want) {
		return crib.Errorf(crib.Busy, "%s has changed in the meantime; close the program that it belongs to and try again", s.Path)
	}
	return nil
}

func (s step) apply() error {
	if err := s.unchanged(s.before); err != nil {
		return err
	}
	return s.put(s.after)
}

// put makes the file hold data; nil removes it and the folders made for it.
func (s step) put(data []byte) error {
	if data == nil {
		if err := os.Remove(s.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", s.Path, err)
		}
		removeEmpty(s.Folders)
		return syncFolder(filepath.Dir(s.Path))
	}
	for _, dir := range s.Folders {
		if err := os.Mkdir(dir, newFolderMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make the folder of %s: %w", s.Path, err)
		}
	}
	return writeFile(s.Path, data, s.Mode)
}

// removeEmpty removes folders that hold nothing, innermost first.
func removeEmpty(folders []string) {
	for _, dir := range slices.Backward(folders) {
		if os.Remove(dir) != nil {
			return // somebody uses it
		}
	}
}

// writeFile replaces a file in one step: readers see the old or the new one.
func writeFile(path string, data []byte, mode fs.FileMode) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".toolcrib-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, err)
			_ = tmp.Close()
			_ = os.Remove(tmp.Name())
		}
	}()
	if err = keepOwner(tmp, path); err != nil {
		return err
	}
	if err = tmp.Chmod(mode); err != nil {
		return err
	}
	if _, err = tmp.Write(data); err != nil {
		return err
	}
	if err = tmp.Sync(); err != nil {
		return err
	}
	if err = tmp.Close(); err != nil {
		return err
	}
	if err = os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// rollBack restores the files of steps, the last of which may be half done.
func rollBack(dir, label string, steps []step, cause error) error {
	var errs []error
	for _, s := range slices.Backward(steps) {
		if s.unchanged(s.after) != nil {
			continue // not written yet, or by somebody else
		}
		if err := s.put(s.before); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("%w; putting the other files back did not work either, their copies are in %s: %w", cause, filepath.Join(dir, label), errors.Join(errs...))
	}
	for _, s := range steps {
		removeEmpty(s.Folders)
	}
	if err := os.RemoveAll(filepath.Join(dir, label)); err != nil {
		return fmt.Errorf("%w (and the backup could not be removed: %w)", cause, err)
	}
	return cause
}

// writeBackup makes dir/label complete in one step.
func writeBackup(dir, label string, steps []step) error {
	folder := filepath.Join(dir, label)
	if _, err := os.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
		return crib.Errorf(crib.Invalid, "there is a backup called %q already; undo it first or use another name", label)
	}
	part := folder + staging
	if err := os.RemoveAll(part); err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	if err := os.MkdirAll(part, backupFolderMode); err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	m := manifest{Version: manifestVersion, Label: label, Time: time.Now().UTC()}
	for i, s := range steps {
		m.Files = append(m.Files, s.record)
		if s.before == nil {
			continue
		}
		if err := writeFile(backupPath(part, i), s.before, backupFileMode); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	if err := writeFile(filepath.Join(part, manifestName), text, backupFileMode); err != nil {
		return err
	}
	if err := os.Rename(part, folder); err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	return syncFolder(dir)
}

// backupPath is the content before of the file with that number.
func backupPath(folder string, i int) string {
	return filepath.Join(folder, fmt.Sprintf("%d.before", i))
}

// List returns the commits that can be undone, the oldest first.
func List(dir string) ([]Backup, error) {
	folders, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the backups: %w", err)
	}
	var list []Backup
	for _, f := range folders {
		if !f.IsDir() || checkLabel(f.Name()) != nil {
			continue
		}
		m, err := readManifest(dir, f.Name())
		if err != nil {
			return nil, err
		}
		b := Backup{Label: m.Label, Time: m.Time}
		for _, r := range m.Files {
			b.Files = append(b.Files, r.Path)
		}
		list = append(list, b)
	}
	slices.SortStableFunc(list, func(a, b Backup) int { return a.Time.Compare(b.Time) })
	return list, nil
}

func readManifest(dir, label string) (manifest, error) {
	var m manifest
	path := filepath.Join(dir, label, manifestName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, crib.Errorf(crib.NotFound, "there is no backup called %q", label)
	}
	if err != nil {
		return m, fmt.Errorf("read the backup: %w", err)
	}
	if err := json.Unmarshal(text, &m); err != nil || m.Version != manifestVersion {
		return m, crib.Errorf(crib.Invalid, "%s is not a list of files that this version can read", path)
	}
	return m, nil
}
