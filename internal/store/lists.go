package store

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/toolcrib/toolcrib/internal/crib"
)

const (
	listsFolder = "lists"

	// MaxList is the greatest size, in bytes, of what is kept for one server.
	MaxList = 32 << 20
)

// Lists keeps the last lists of each server, as bytes that mean nothing here.
type Lists struct{ folder *Folder }

// Lists returns the lists kept in the folder.
func (f *Folder) Lists() *Lists { return &Lists{folder: f} }

// listFile returns the file of a server. The fixed beginning keeps a server
// named "con" or "nul" from being a device on Windows.
func listFile(server string) (string, error) {
	if err := crib.CheckServerName(server); err != nil {
		return "", err
	}
	return listsFolder + "/list-" + server + ".json", nil
}

// Load returns what was saved for a server, nil if nothing was.
func (l *Lists) Load(server string) ([]byte, error) {
	name, err := listFile(server)
	if err != nil {
		return nil, err
	}
	doc, err := l.folder.read(name, othersWrite)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("load lists of %s: %w", server, err)
	}
	return doc, nil
}

// Save replaces what is kept for a server. Over 32 MiB is a TooLarge error,
// and what was kept stays.
func (l *Lists) Save(server string, doc []byte) error {
	name, err := listFile(server)
	if err != nil {
		return err
	}
	if len(doc) > MaxList {
		return crib.Errorf(crib.TooLarge, "the lists of %s have %d bytes; at most %d are kept", server, len(doc), MaxList)
	}
	if err := l.folder.write(name, doc); err != nil {
		return fmt.Errorf("save lists of %s: %w", server, err)
	}
	return nil
}

// Delete forgets what is kept for a server. Nothing kept is no error.
func (l *Lists) Delete(server string) error {
	name, err := listFile(server)
	if err != nil {
		return err
	}
	if err := l.folder.remove(name); err != nil {
		return fmt.Errorf("delete lists of %s: %w", server, err)
	}
	return nil
}
