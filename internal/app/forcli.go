package app

import (
	"errors"
	"io/fs"
	"os"

	"github.com/toolcrib/toolcrib/internal/auth"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/store"
)

// Data is a data folder as commands use it, whether a crib serves it or not.
type Data struct{ folder *store.Folder }

// OpenData opens the data folder at dir, and makes it if it is not there. Close
// releases it.
func OpenData(dir string) (*Data, error) {
	f, err := store.Open(dir)
	if err != nil {
		return nil, err
	}
	return &Data{f}, nil
}

// Close releases the folder.
func (d *Data) Close() error { return d.folder.Close() }

// Path is the absolute path of the folder.
func (d *Data) Path() string { return d.folder.Path() }

// LocalToken returns the token of this machine's own commands. It is NotFound
// before a crib has served the folder.
func (d *Data) LocalToken() (string, error) { return d.folder.LocalToken() }

// CreateToken makes a token for a client. One of that name stops working. A
// running crib learns of it when it reloads.
func (d *Data) CreateToken(name string) (string, error) {
	r, err := auth.New(auth.Options{Store: d.folder.NewTokens()})
	if err != nil {
		return "", err
	}
	return r.Create(name)
}

// RevokeToken ends a token. One that is not there is no error.
func (d *Data) RevokeToken(name string) error {
	r, err := auth.New(auth.Options{Store: d.folder.NewTokens()})
	if err != nil {
		return err
	}
	if err := r.Revoke(name); crib.CodeOf(err) != crib.NotFound {
		return err
	}
	return nil
}

// Running is the crib that serves a data folder.
type Running struct {
	PID     int
	Address string // host:port, "" while it starts
}

// FindRunning returns the crib that serves the data folder at dir, and false
// if none does. It does not make the folder.
func FindRunning(dir string) (Running, bool, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return Running{}, false, nil
	}
	f, err := store.Open(dir)
	if err != nil {
		return Running{}, false, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	h, ok, err := f.Running()
	return Running{PID: h.PID, Address: h.Address}, ok, err
}
