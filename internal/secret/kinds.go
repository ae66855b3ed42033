package secret

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
)

type envStore struct {
	of        StoreSpec
	lookupEnv func(string) (string, bool)
}

func (s envStore) spec() StoreSpec { return s.of }

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

func (s execStore) checkName(name string) error {
	if len(name) > maxExecName || !execName.MatchString(name) {
		return crib.Errorf(crib.Invalid, "%q cannot be given to a command as the name of a secret", name)
	}
	return nil
}

// lookup runs the command with name as its last argument and takes what it
// prints. What it prints to stderr is dropped, because it may hold secrets.
func (s execStore) lookup(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	args := append(append([]string{}, s.of.Command[1:]...), name)
	cmd := exec.CommandContext(ctx, s.of.Command[0], args...)
	cmd.Dir = s.dir
	out := &limitedBuffer{}
	cmd.Stdout = out
	// A grandchild that keeps the pipe open must not hold the crib.
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", err
	}
	if out.over {
		return "", errTooLarge
	}
	return trimNewline(out.buf.String()), nil
}

// limitedBuffer keeps the first MaxSecretBytes bytes and remembers that there
// were more.
type limitedBuffer struct {
	buf  bytes.Buffer
	over bool
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if room := MaxSecretBytes - b.buf.Len(); len(p) > room {
		b.over = true
		b.buf.Write(p[:room])
		return len(p), nil
	}
	return b.buf.Write(p)
}
