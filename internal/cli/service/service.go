// Package service makes the crib a service of the person's own service
// manager: a systemd user unit on Linux, a launchd agent on macOS.
package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// Spec says what the service runs.
type Spec struct {
	Program string   `json:"program"` // absolute path
	Args    []string `json:"args"`    // of serve, without serve itself
	// Path is the PATH of whoever installs the service: a service manager has
	// a shorter one, in which npx and its like are not found.
	Path string `json:"path"`
}

func (s Spec) command() []string { return append([]string{s.Program, "serve"}, s.Args...) }

// check refuses what no unit can hold.
func (s Spec) check() error {
	for _, text := range append(s.command(), s.Path) {
		if strings.ContainsFunc(text, unicode.IsControl) || !strings.HasPrefix(s.Program, string(filepath.Separator)) && !filepath.IsAbs(s.Program) {
			return crib.Errorf(crib.Invalid, "%q cannot be part of a service: it holds a control character, or the program has no absolute path", text)
		}
	}
	return nil
}

// Run runs a program of the service manager and returns what it printed.
type Run func(ctx context.Context, name string, args ...string) (string, error)

// Manager is the person's service manager.
type Manager struct {
	File string // where the unit lies
	Name string // of the service, as its manager knows it

	run    Run
	render func(Spec) []byte
	// The commands of the manager, each one line of words.
	load, unload [][]string
	enabled      func(ctx context.Context) bool
	active       func(ctx context.Context) bool
	logs         string // how a person reads what the service says
}

// Options say where a service manager keeps its files.
type Options struct {
	GOOS       string
	Home       string
	ConfigHome string // XDG_CONFIG_HOME, "" for the default
	UID        int
	Run        Run
}

// New returns the service manager of a system. One without any that is known
// is an Unsupported error, which says what to do instead.
func New(o Options) (*Manager, error) {
	if o.Home == "" || !filepath.IsAbs(o.Home) {
		return nil, crib.Errorf(crib.Invalid, "the home folder is not known; set HOME")
	}
	switch o.GOOS {
	case "linux":
		return newSystemd(o), nil
	case "darwin":
		return newLaunchd(o), nil
	}
	return nil, crib.Errorf(crib.Unsupported, "services are made for systemd and launchd only; on %s let the task scheduler start: toolcrib serve", o.GOOS)
}

// mark begins the line of a unit that holds its Spec, and makes it ours.
const mark = "toolcrib-service: "

// marked returns the line that marks a unit. It may stand in an XML comment.
func marked(s Spec) string {
	b, err := json.Marshal(s)
	if err != nil { // strings only
		b = nil
	}
	return mark + strings.ReplaceAll(string(b), "--", `-\u002d`)
}

// read reads the unit. What is not ours is Denied.
func (m *Manager) read() (spec Spec, installed bool, err error) {
	b, err := os.ReadFile(m.File)
	if errors.Is(err, fs.ErrNotExist) {
		return spec, false, nil
	}
	if err != nil {
		return spec, false, fmt.Errorf("read %s: %w", m.File, err)
	}
	for line := range bytes.Lines(b) {
		if _, rest, ok := bytes.Cut(line, []byte(mark)); ok {
			d := json.NewDecoder(bytes.NewReader(rest)) // in XML something follows
			if err := d.Decode(&spec); err == nil {
				return spec, true, nil
			}
		}
	}
	return spec, false, crib.Errorf(crib.Denied, "%s was not written by this program; remove it yourself, or replace it with --force", m.File)
}

// Install writes the unit, and has the service started now and at each login.
// A unit that somebody else wrote is replaced only by force. It reports whether
// the manager took it: where it could not be reached, the unit lies there, and
// Steps says what to run.
func (m *Manager) Install(ctx context.Context, s Spec, force bool) (started bool, err error) {
	if err := s.check(); err != nil {
		return false, err
	}
	if _, _, err := m.read(); err != nil && !force {
		return false, err
	}
	if err := m.write(m.render(s)); err != nil {
		return false, err
	}
	for _, c := range m.load {
		if _, err := m.run(ctx, c[0], c[1:]...); err != nil {
			return false, nil //nolint:nilerr // the unit is there; the caller says what to run
		}
	}
	return true, nil
}

// Steps are what Install has the manager do, for a person to run.
func (m *Manager) Steps() []string {
	var lines []string
	for _, c := range m.load {
		lines = append(lines, strings.Join(c, " "))
	}
	return lines
}

// Logs is the command that shows what the service says.
func (m *Manager) Logs() string { return m.logs }

func (m *Manager) write(b []byte) error {
	if err := os.MkdirAll(filepath.Dir(m.File), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", m.File, err)
	}
	f, err := os.CreateTemp(filepath.Dir(m.File), ".toolcrib-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", m.File, err)
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), m.File)
	}
	if err != nil {
		os.Remove(f.Name()) //nolint:errcheck // what failed is told
		return fmt.Errorf("write %s: %w", m.File, err)
	}
	return nil
}

// Uninstall stops the service and removes its unit. It reports whether there
// was one.
func (m *Manager) Uninstall(ctx context.Context) (was bool, err error) {
	_, installed, err := m.read()
	if err != nil || !installed {
		return false, err
	}
	for _, c := range m.unload {
		m.run(ctx, c[0], c[1:]...) //nolint:errcheck // a manager that is not there runs nothing either
	}
	if err := os.Remove(m.File); err != nil {
		return true, fmt.Errorf("remove %s: %w", m.File, err)
	}
	for _, c := range m.load[:1] { // the manager reads its units again
		m.run(ctx, c[0], c[1:]...) //nolint:errcheck // likewise
	}
	return true, nil
}

// Installed reports whether a unit of ours is there.
func (m *Manager) Installed() bool {
	_, installed, err := m.read()
	return err == nil && installed
}

// State is what is known of the service.
type State struct {
	Installed bool   `json:"installed"`
	File      string `json:"file"`
	Enabled   bool   `json:"enabled"` // it is started at each login
	Running   bool   `json:"running"`
	Spec
	// Missing says that the program is not where the service expects it.
	Missing bool `json:"missing"`
}

// State tells what is known of the service.
func (m *Manager) State(ctx context.Context) (State, error) {
	st := State{File: m.File}
	spec, installed, err := m.read()
	if err != nil || !installed {
		return st, err
	}
	st.Installed, st.Spec = true, spec
	st.Enabled, st.Running = m.enabled(ctx), m.active(ctx)
	info, err := os.Stat(spec.Program)
	st.Missing = err != nil || info.IsDir()
	return st, nil
}

// Commands is a Run that starts programs with the given environment.
func Commands(environ []string) Run {
	return func(ctx context.Context, name string, args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Env = environ
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(said.String()))
		}
		return string(out), err
	}
}

// Describe tells a person what is known of the service, and what could be done
// about it. here is the program that asks, path its PATH.
func (m *Manager) Describe(st State, here, path string) (facts, advice []string) {
	if !st.Installed {
		return []string{"There is no service; toolcrib service install makes one: " + st.File}, nil
	}
	yes := map[bool]string{true: "yes", false: "no"}
	facts = []string{
		"file      " + st.File, "at login  " + yes[st.Enabled], "running   " + yes[st.Running],
		"program   " + st.Program, "PATH      " + st.Path,
	}
	switch {
	case st.Missing:
		advice = append(advice, "The program is not there any more; install it again, then: toolcrib service install")
	case !sameFile(here, st.Program):
		advice = append(advice, "This is another program than the service runs; to have the service run this one: toolcrib service install")
	}
	if st.Path != path {
		advice = append(advice, "PATH is another one here; to have the service use it: toolcrib service install")
	}
	if !st.Running {
		advice = append(advice, "Why it does not run: "+m.logs)
	}
	return facts, advice
}

func sameFile(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errors.Join(errA, errB) == nil && os.SameFile(x, y)
}
