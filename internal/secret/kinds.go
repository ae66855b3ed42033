package secret

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/internal/child"
	"github.com/toolcrib/toolcrib/internal/crib"
)

type envStore struct {
	of        StoreSpec
	lookupEnv func(string) (string, bool)
}

func (s envStore) spec() StoreSpec { return s.of }

func (s envStore) warnings() []string { return nil }

func (s envStore) checkName(name string) error {
	if !shellName.MatchString(name) {
		return crib.Errorf(crib.Invalid, "%q cannot name an environment variable: use letters, digits and _", name)
	}
	return nil
}

func (s envStore) lookup(_ context.Context, name string) (string, error) {
	text, _ := s.lookupEnv(name)
	if len(text) > MaxSecretBytes {
		return "", errTooLarge
	}
	return text, nil
}

type fileStore struct {
	of  StoreSpec
	dir string
}

// maxFileName is the greatest length of a secret's file name, in bytes.
const maxFileName = 128

var (
	fileName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	// Names that Windows gives to devices, with any extension.
	deviceName = regexp.MustCompile(`(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)`)
)

func (s fileStore) spec() StoreSpec { return s.of }

func (s fileStore) checkName(name string) error {
	if len(name) > maxFileName || !fileName.MatchString(name) || strings.HasSuffix(name, ".") || deviceName.MatchString(name) {
		return crib.Errorf(crib.Invalid, "%q cannot name a secret's file: use letters, digits, _, - and . (at most %d characters)", name, maxFileName)
	}
	return nil
}

// warnings names the files that are open to others than their owner. They are
// used all the same: the secrets that a container platform mounts are so.
// Windows has no such permission bits.
func (s fileStore) warnings() []string {
	entries, err := os.ReadDir(s.dir)
	if err != nil || runtime.GOOS == "windows" {
		return nil
	}
	var found []string
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(s.dir, e.Name()))
		if err != nil || !info.Mode().IsRegular() || s.checkName(e.Name()) != nil {
			continue
		}
		if mode := info.Mode().Perm(); mode&openToOthers != 0 {
			found = append(found, fmt.Sprintf("secret file %s is open to other users (mode %#o): chmod 600 it", filepath.Join(s.dir, e.Name()), mode))
		}
	}
	return found
}

// openToOthers are the permission bits that let group and world read or write.
const openToOthers = 0o066

// lookup reads the file called name. os.Root keeps it inside the folder, also
// where the file is a symbolic link.
func (s fileStore) lookup(_ context.Context, name string) (string, error) {
	root, err := os.OpenRoot(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer root.Close()
	info, err := root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("not a regular file")
	}
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxSecretBytes+1))
	if err != nil {
		return "", err
	}
	if len(text) > MaxSecretBytes {
		return "", errTooLarge
	}
	return trimNewline(string(text)), nil
}

// trimNewline takes away what editors and echo put at the end.
func trimNewline(s string) string { return strings.TrimRight(s, "\r\n") }

type execStore struct {
	of      StoreSpec
	dir     string
	timeout time.Duration
}

// maxExecName is the greatest length of a name that is given to a command, in
// bytes.
const maxExecName = 512

// execName leaves out the dash at the start, which would make an option of the
// name, and everything that a shell behind the command could read as more
// than a word.
var execName = regexp.MustCompile(`^[\p{L}\p{N}_/.@][\p{L}\p{N}_./:@ +=?,~#-]*$`)

func (s execStore) spec() StoreSpec { return s.of }

func (s execStore) warnings() []string { return nil }

func (s execStore) checkName(name string) error {
	if len(name) > maxExecName || !execName.MatchString(name) {
		return crib.Errorf(crib.Invalid, "%q cannot be given to a command as the name of a secret", name)
	}
	return nil
}

// lookup runs the command with name as its last argument and takes what it
// prints. Neither that nor what it prints to stderr is in an error, because
// both may hold secrets. What the command started ends with it.
func (s execStore) lookup(ctx context.Context, name string) (string, error) {
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	program := s.of.Command[0]
	out, exit, err := child.Output(limited, child.Options{
		Argv: append(slices.Clone(s.of.Command), name),
		Dir:  s.dir,
		Env:  os.Environ(),
	}, MaxSecretBytes)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case limited.Err() != nil && errors.Is(err, limited.Err()):
		return "", fmt.Errorf("%s did not end within %s", program, s.timeout)
	case crib.CodeOf(err) == crib.TooLarge:
		return "", errTooLarge
	case err != nil:
		return "", fmt.Errorf("run %s: %w", program, err)
	case exit != (child.Exit{}):
		return "", fmt.Errorf("%s ended with %s; run it by hand to see why", program, exit)
	}
	return trimNewline(string(out)), nil
}
