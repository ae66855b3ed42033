package child

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// Marker is the environment variable that tells a registered child, and
// everything that it starts, from all other processes. Its value is a random
// number of each child's own. A program that is meant to outlive the crib takes
// the variable out of its environment; see Unmarked.
const Marker = "TOOLCRIB_CHILD"

const (
	entrySuffix = ".json"
	tempSuffix  = ".tmp"

	maxEntry = 4 << 10 // bytes of one file of a registry

	// sweepTime is how long the end of a child waits for what left its group.
	sweepTime = time.Second
	// lookAgain lies between the first two looks at processes that were told to
	// end, and doubles up to lookSeldom: most are gone at once, and each look
	// reads of every process of the machine.
	lookAgain  = 5 * time.Millisecond
	lookSeldom = 200 * time.Millisecond
)

var markForm = regexp.MustCompile(`^[0-9a-f]{32}$`)

// Registry keeps a file for each running child, so that the next crib can end
// what a killed one left behind. One crib at a time has it open: whoever opens
// it holds the lock of the data folder. It is safe for concurrent use.
//
// A nil Registry remembers nothing.
type Registry struct {
	root  *os.Root
	hurry context.Context
	rush  context.CancelFunc
}

// OpenRegistry opens the folder at dir and makes it, for this user alone, if
// it is not there. A folder that other users can write is a Denied error: they
// could name processes to be ended.
func OpenRegistry(dir string) (*Registry, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the folder of running children: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder of running children: %w", err)
	}
	info, err := root.Stat(".")
	if err == nil && !onWindows && info.Mode().Perm()&0o022 != 0 {
		err = crib.Errorf(crib.Denied, "%s can be written by other users; run: chmod 700 %s", dir, dir)
	}
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	r := &Registry{root: root}
	r.hurry, r.rush = context.WithCancel(context.Background())
	return r, nil
}

// Close releases the folder. Children that still run stay registered.
func (r *Registry) Close() error {
	r.rush()
	return r.root.Close()
}

// Hurry makes every Stop, now and later, kill without waiting.
func (r *Registry) Hurry() { r.rush() }

// Hurried ends with the call of Hurry.
func (r *Registry) Hurried() context.Context {
	if r == nil {
		return context.Background()
	}
	return r.hurry
}

// entry is the content of one file: what proves that a process is ours.
type entry struct {
	Mark    string `json:"mark"`
	Pid     int    `json:"pid,omitempty"`   // of the child and of its group; 0 while it starts
	Start   string `json:"start,omitempty"` // see startOf
	Program string `json:"program"`         // to be shown; arguments may be secret
}

// record is the entry of a child that this process started.
type record struct {
	registry *Registry
	entry    entry
}

// enter registers a child that is about to start. From here on its mark finds
// it, whenever the crib dies.
func (r *Registry) enter(program string) (*record, error) {
	if r == nil || !canReap {
		return nil, nil
	}
	var mark [16]byte
	rand.Read(mark[:]) //nolint:errcheck // never returns an error
	c := &record{registry: r, entry: entry{Mark: hex.EncodeToString(mark[:]), Program: filepath.Base(program)}}
	if err := r.write(c.entry); err != nil {
		return nil, crib.Errorf(crib.Unavailable, "%s is not started, since it could not be registered in the data folder: %v", program, err)
	}
	return c, nil
}

// environ is env with the mark.
func (c *record) environ(env []string) []string {
	if c == nil {
		return env
	}
	return append(Unmarked(env), Marker+"="+c.entry.Mark)
}

// Unmarked is environ without the mark, for a program that outlives its
// starter.
func Unmarked(environ []string) []string {
	kept := make([]string, 0, len(environ)+1)
	for _, e := range environ {
		if !strings.HasPrefix(e, Marker+"=") {
			kept = append(kept, e)
		}
	}
	return kept
}

// started adds who the child is. Where the system does not say, the mark alone
// has to do.
func (c *record) started(pid int) error {
	if c == nil {
		return nil
	}
	start, err := startOf(pid)
	if err != nil {
		return nil
	}
	c.entry.Pid, c.entry.Start = pid, start
	return c.registry.write(c.entry)
}

// end kills what the child started and what left its group, and forgets it. A
// process that cannot be ended now stays registered for the next crib.
func (c *record) end() {
	if c == nil {
		return
	}
	if alive, err := pursue(processes, []entry{c.entry}, syscall.SIGKILL, sweepTime); err != nil || len(alive) > 0 {
		return
	}
	c.forget()
}

func (c *record) forget() {
	if c != nil {
		_ = c.registry.remove(c.entry) // what stays names a process that is gone, and is removed at the next start
	}
}

// write replaces the file of e as a whole. It is not synced: what could lose
// it, a power cut, also ends the process.
func (r *Registry) write(e entry) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	temp := e.Mark + tempSuffix
	if err := r.root.WriteFile(temp, data, 0o600); err != nil {
		return err
	}
	return r.root.Rename(temp, e.Mark+entrySuffix)
}

func (r *Registry) remove(e entry) error { return r.root.Remove(e.Mark + entrySuffix) }

// read returns the entries, and a warning for each file that is none.
func (r *Registry) read() (entries []entry, warnings []string) {
	files, err := fs.ReadDir(r.root.FS(), ".")
	if err != nil {
		return nil, []string{fmt.Sprintf("the folder of running children cannot be read: %v", err)}
	}
	for _, f := range files {
		if mark, ok := strings.CutSuffix(f.Name(), tempSuffix); ok && markForm.MatchString(mark) {
			_ = r.root.Remove(f.Name()) // half a write of a crib that was killed; the file before it counts
			continue
		}
		e, err := r.readEntry(f.Name())
		if err != nil {
			warnings = append(warnings, fmt.Sprintf("%s is ignored: %v; remove it if nothing else needs it", filepath.Join(r.root.Name(), f.Name()), err))
			continue
		}
		entries = append(entries, e)
	}
	return entries, warnings
}

func (r *Registry) readEntry(name string) (e entry, err error) {
	// Lstat first: opening a pipe would wait for its writer.
	info, err := r.root.Lstat(name)
	if err != nil {
		return e, err
	}
	if !info.Mode().IsRegular() || !onWindows && info.Mode().Perm()&0o022 != 0 {
		return e, errors.New("it is no file that this user alone can write")
	}
	f, err := r.root.Open(name)
	if err != nil {
		return e, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxEntry+1))
	if err != nil {
		return e, err
	}
	if len(data) > maxEntry || json.Unmarshal(data, &e) != nil {
		return e, errors.New("it does not describe a child")
	}
	switch {
	case !markForm.MatchString(e.Mark) || name != e.Mark+entrySuffix:
		return e, errors.New("its mark is not its name")
	case e.Pid != 0 && e.Pid <= 1 || (e.Pid == 0) != (e.Start == ""):
		return e, errors.New("it names no process that a crib can have started")
	case e.Mark == os.Getenv(Marker):
		return e, errors.New("it is the child that started this crib")
	}
	return e, nil
}
