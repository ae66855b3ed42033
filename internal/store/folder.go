// Package store keeps what must outlive a process in files of the data
// folder: tokens, the last lists of each server, keys, and the lock that lets
// one crib at a time serve the folder.
package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/toolcrib/toolcrib/internal/crib"
)

const (
	folderMode fs.FileMode = 0o700
	fileMode   fs.FileMode = 0o600

	othersWrite fs.FileMode = 0o022 // may no file have
	othersAny   fs.FileMode = 0o077 // may no file with a secret have

	writeLockFile = "write.lock"

	// writeLockWait is how long to wait for another process that is writing.
	// Each holds the lock for one small file.
	writeLockWait  = 10 * time.Second
	writeLockRetry = 5 * time.Millisecond

	// maxFile is the greatest size, in bytes, of a file that is read whole.
	maxFile = 64 << 20

	// tempAge is how old a temporary file must be to be one that a killed
	// process left behind.
	tempAge = time.Hour

	tempSuffix = ".tmp"
)

// Folder is the data folder of one crib. Several processes may have it open.
// It is safe for concurrent use.
type Folder struct {
	path string // absolute
	root *os.Root
}

// Open opens the data folder at dir and makes it, for this user alone, if it
// is not there. A folder that other users can write is a Denied error: they
// could give themselves tokens.
func Open(dir string) (*Folder, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open data folder %s: %w", dir, err)
	}
	if err := os.MkdirAll(abs, folderMode); err != nil {
		return nil, fmt.Errorf("make data folder: %w", err)
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("open data folder: %w", err)
	}
	f := &Folder{path: abs, root: root}
	if err := f.prepare(); err != nil {
		_ = root.Close()
		return nil, fmt.Errorf("open data folder %s: %w", abs, err)
	}
	return f, nil
}

func (f *Folder) prepare() error {
	info, err := f.root.Stat(".")
	if err != nil {
		return err
	}
	if err := checkAccess("the data folder", info, othersWrite); err != nil {
		return err
	}
	if err := f.root.Mkdir(listsFolder, folderMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if info, err = f.root.Stat(listsFolder); err != nil {
		return err
	}
	if !info.IsDir() {
		return crib.Errorf(crib.Invalid, "%s in the data folder is no folder; move it away", listsFolder)
	}
	return checkAccess(listsFolder+" in the data folder", info, othersWrite)
}

// Path returns the absolute path of the folder.
func (f *Folder) Path() string { return f.path }

// Close releases the folder. It does not end a Lock.
func (f *Folder) Close() error { return f.root.Close() }

// read returns the content of a file that nobody could have tampered with:
// one with none of the forbidden bits in its mode. A missing one is
// fs.ErrNotExist.
func (f *Folder) read(name string, forbidden fs.FileMode) ([]byte, error) {
	data, _, err := f.readInfo(name, forbidden)
	return data, err
}

func (f *Folder) readInfo(name string, forbidden fs.FileMode) ([]byte, fs.FileInfo, error) {
	file, err := f.root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, crib.Errorf(crib.Invalid, "%s in the data folder is no regular file; move it away", name)
	}
	if err := checkAccess(name+" in the data folder", info, forbidden); err != nil {
		return nil, nil, err
	}
	if info.Size() > maxFile {
		return nil, nil, crib.Errorf(crib.TooLarge, "%s in the data folder has %d bytes; at most %d are read", name, info.Size(), maxFile)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile))
	return data, info, err
}

// write replaces a file so that, whatever happens, there is either the old
// content or the new, never a part; and once it returns, the new content
// survives a power cut.
func (f *Folder) write(name string, data []byte) error {
	dir, base := path.Split(name)
	temp := path.Join(dir, "."+base+"."+rand.Text()+tempSuffix)
	if err := f.writeTemp(temp, data); err != nil {
		_ = f.root.Remove(temp)
		return err
	}
	if err := f.root.Rename(temp, name); err != nil {
		_ = f.root.Remove(temp)
		return err
	}
	return f.syncFolder(dir)
}

func (f *Folder) writeTemp(name string, data []byte) error {
	file, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// syncFolder makes a rename or a removal durable. Windows has no such call and
// needs none: its file systems journal both.
func (f *Folder) syncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := f.root.Open(path.Join(".", dir))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// remove deletes a file; a missing one is no error.
func (f *Folder) remove(name string) error {
	err := f.root.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.syncFolder(path.Dir(name))
}

// exclusively runs act while no other process or goroutine is in exclusively
// for the same folder.
func (f *Folder) exclusively(act func() error) error {
	lock := f.newFlock(writeLockFile)
	ctx, cancel := context.WithTimeout(context.Background(), writeLockWait)
	defer cancel()
	if _, err := lock.TryLockContext(ctx, writeLockRetry); err != nil {
		if ctx.Err() != nil {
			return crib.Errorf(crib.Busy, "another process has been writing the data folder for %v; try again when it is done", writeLockWait)
		}
		return fmt.Errorf("lock data folder: %w", err)
	}
	err := act()
	return errors.Join(err, lock.Close())
}

func (f *Folder) newFlock(name string) *flock.Flock {
	return flock.New(filepath.Join(f.path, name), flock.SetPermissions(fileMode))
}

// sweep removes temporary files of processes that were killed while writing.
func (f *Folder) sweep(now time.Time) error {
	for _, dir := range []string{".", listsFolder} {
		entries, err := fs.ReadDir(f.root.FS(), dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), ".") || !strings.HasSuffix(e.Name(), tempSuffix) {
				continue
			}
			info, err := e.Info()
			if err != nil || now.Sub(info.ModTime()) < tempAge {
				continue // gone, or still being written
			}
			if err := f.root.Remove(path.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}
