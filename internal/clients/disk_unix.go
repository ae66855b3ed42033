//go:build unix

package clients

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// keepOwner gives a new file the owner of the one that it will replace, or of
// the folder that it is made in: under sudo it would be root's otherwise, and
// the client could not write it any more.
func keepOwner(tmp *os.File, path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		info, err = os.Stat(filepath.Dir(path))
	}
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) == os.Geteuid() {
		return nil
	}
	return tmp.Chown(int(owner.Uid), int(owner.Gid))
}

// syncFolder makes a rename survive a power cut.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was removed with its last file
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
