package clients

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolcrib/toolcrib/internal/clients/edit"
	"github.com/toolcrib/toolcrib/internal/crib"
)

// Undo takes a commit back. A file that is as Commit left it gets its old
// content and mode back byte for byte; one that the commit made is removed,
// with the folders made for it if they are empty. In a file that has changed
// since, only the entries of the commit are taken out or put back.
//
// The report has a line for each file. A file that cannot be restored does not
// keep the others from it: the error names it and its backup, which stays, and
// Undo can be tried again. Otherwise the backup is removed.
func Undo(dir, label string) (report []string, err error) {
	if err := checkLabel(label); err != nil {
		return nil, err
	}
	m, err := readManifest(dir, label)
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(dir, label)
	var errs []error
	for i, r := range m.Files {
		line, err := undoFile(folder, i, r)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		report = append(report, line)
	}
	if len(errs) > 0 {
		return report, errors.Join(errs...)
	}
	if err := os.RemoveAll(folder); err != nil {
		return report, fmt.Errorf("remove the backup: %w", err)
	}
	return report, nil
}

func undoFile(folder string, i int, r record) (string, error) {
	s, err := readStep(folder, i, r)
	if err != nil {
		return "", err
	}
	now, err := readFile(s.Path)
	if err != nil {
		return "", err
	}
	switch {
	case (now.data == nil) == (s.before == nil) && bytes.Equal(now.data, s.before):
		return s.Path + ": as it was", nil
	case contentDigest(now.data) == s.After:
		if err := s.put(s.before); err != nil {
			return "", err
		}
		if s.before == nil {
			return s.Path + ": removed", nil
		}
		return s.Path + ": restored", nil
	}
	merged, done, err := s.merge(now.data)
	if err != nil {
		return "", fmt.Errorf("%s has changed since, and its entries cannot be put back one by one: %w; compare it with %s by hand, then try again or delete that folder",
			s.Path, err, backupPath(folder, i))
	}
	s.Mode = now.mode
	if err := s.put(merged); err != nil {
		return "", err
	}
	return s.Path + ": has changed since; " + done, nil
}

// readStep reads a step as far as it is kept: without the content after.
func readStep(folder string, i int, r record) (step, error) {
	s := step{record: r}
	if !r.Before {
		return s, nil
	}
	data, err := os.ReadFile(backupPath(folder, i))
	if err != nil {
		return s, fmt.Errorf("read the backup of %s: %w", r.Path, err)
	}
	s.before = append([]byte{}, data...)
	return s, nil
}

// A merge takes the commit's entries back in a file that somebody else has
// changed.
type merge struct {
	path     string
	before   edit.Document
	now      []byte
	removed  []string
	restored []string
	left     []string // changed by somebody else, so not ours any more
}

func (s step) merge(now []byte) ([]byte, string, error) {
	if now == nil {
		return nil, "", crib.Errorf(crib.Invalid, "the file is gone")
	}
	m := merge{path: s.Path, now: now}
	var err error
	if m.before, err = edit.Parse(s.Path, s.before); err != nil {
		return nil, "", err
	}
	for _, table := range s.Tables {
		if err := m.table(table); err != nil {
			return nil, "", err
		}
	}
	doc, err := edit.Parse(s.Path, m.now)
	if err != nil {
		return nil, "", err
	}
	if s.before == nil && hollow(doc.Tree()) {
		return nil, m.done(), nil
	}
	return m.now, m.done(), nil
}

// hollow reports whether there is nothing in a table but empty tables, such as
// the commit leaves of a file that it made.
func hollow(tree map[string]any) bool {
	for _, v := range tree {
		inner, ok := v.(map[string]any)
		if !ok || !hollow(inner) {
			return false
		}
	}
	return true
}

func (m *merge) done() string {
	var parts []string
	for _, p := range []struct {
		what  string
		names []string
	}{{"taken out: ", m.removed}, {"put back: ", m.restored}, {"left as they are: ", m.left}} {
		if len(p.names) > 0 {
			parts = append(parts, p.what+strings.Join(p.names, ", "))
		}
	}
	if len(parts) == 0 {
		return "nothing of it was left to take back"
	}
	return strings.Join(parts, "; ")
}

func (m *merge) table(t tableRecord) error {
	before, err := values(m.before, t.Path)
	if err != nil {
		return err
	}
	ours := map[string]string{}
	for _, e := range t.Entries {
		ours[e.Name] = e.Digest
		if _, was := before[e.Name]; !was {
			if err := m.takeOut(t.Path, e.Name); err != nil {
				return err
			}
		}
	}
	old, err := m.before.Members(t.Path)
	if err != nil {
		return err
	}
	for _, e := range old {
		if ours[e.Name] == valueDigest(e.Value) {
			continue
		}
		if err := m.putBack(t.Path, e.Name, ours[e.Name]); err != nil {
			return err
		}
	}
	return nil
}

func (m *merge) takeOut(path []string, name string) error {
	doc, err := edit.Parse(m.path, m.now)
	if err != nil {
		return err
	}
	now, err := values(doc, path)
	if err != nil {
		return err
	}
	if _, there := now[name]; !there {
		return nil
	}
	if m.now, err = doc.Remove(path, name); err != nil {
		return err
	}
	if m.now == nil {
		m.now = []byte{}
	}
	m.removed = append(m.removed, name)
	return nil
}

// putBack restores an entry that the commit removed or changed to ours, unless
// somebody has put something else in its place. ours is its digest as the
// commit left it, "" where it left none.
func (m *merge) putBack(path []string, name, ours string) error {
	doc, err := edit.Parse(m.path, m.now)
	if err != nil {
		return err
	}
	now, err := values(doc, path)
	if err != nil {
		return err
	}
	digest := ""
	if value, there := now[name]; there {
		digest = valueDigest(value)
	}
	if digest != ours {
		m.left = append(m.left, name)
		return nil
	}
	if m.now, err = doc.Restore(path, name, m.before); err != nil {
		return err
	}
	m.restored = append(m.restored, name)
	return nil
}

func values(doc edit.Document, path []string) (map[string]any, error) {
	members, err := doc.Members(path)
	if err != nil {
		return nil, err
	}
	found := map[string]any{}
	for _, m := range members {
		found[m.Name] = m.Value
	}
	return found, nil
}
