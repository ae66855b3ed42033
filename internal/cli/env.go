package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/toolcrib/toolcrib/internal/cli/text"
	"github.com/toolcrib/toolcrib/internal/clients"
	"github.com/toolcrib/toolcrib/internal/config"
	"github.com/toolcrib/toolcrib/internal/crib"
)

// env is the world that a command runs in, and the flags that every command
// has.
type env struct {
	in       io.Reader
	out, err io.Writer
	environ  []string
	vars     map[string]string
	flags    struct{ workspace, data, listen string }
}

func newEnv(in io.Reader, out, err io.Writer, environ []string) *env {
	e := &env{in: in, out: out, err: err, environ: environ, vars: map[string]string{}}
	for _, kv := range environ {
		// Windows has variables whose names begin with "=".
		if name, value, ok := strings.Cut(kv, "="); ok && name != "" {
			e.vars[name] = value
		}
	}
	return e
}

func (e *env) getenv(name string) string { return e.vars[name] }

func (e *env) lookupEnv(name string) (string, bool) {
	v, ok := e.vars[name]
	return v, ok
}

// home is the person's home folder, "" if it is not known.
func (e *env) home() string {
	if runtime.GOOS == "windows" {
		return e.getenv("USERPROFILE")
	}
	return e.getenv("HOME")
}

// clients is where the configuration files of clients are looked for.
func (e *env) clients() clients.Env {
	dir, err := os.Getwd()
	if err != nil {
		dir = "" // leaves the files of projects out
	}
	return clients.Env{Home: e.home(), Getenv: e.getenv, GOOS: runtime.GOOS, Dir: dir}
}

// screen is where results go.
func (e *env) screen() text.Screen { return text.NewScreen(e.out, e.getenv) }

// tell writes a line of the result.
func (e *env) tell(format string, args ...any) { printLine(e.out, fmt.Sprintf(format, args...)) }

// say tells a person something beside the result.
func (e *env) say(format string, args ...any) { printLine(e.err, fmt.Sprintf(format, args...)) }

// printLine writes a line, all of it to be seen. A reader that has left needs
// none.
func printLine(to io.Writer, line string) { _, _ = io.WriteString(to, text.Visible(line)+"\n") }

// confirm asks a question whose answer is no unless it is yes. Where nobody can
// be asked, yes must have been said by flag.
func (e *env) confirm(ctx context.Context, yes bool, question string) error {
	if yes {
		return nil
	}
	if !text.IsTerminal(e.in) {
		return usagef("nobody can be asked here; write --yes if this is what you want")
	}
	_, _ = io.WriteString(e.err, text.Visible(question)+" [y/N] ")
	answer, err := e.readLine(ctx)
	if err != nil {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return &exitError{exitRefused, crib.Errorf(crib.Denied, "nothing was changed")}
}

// readLine reads one line. The read of a terminal cannot be ended from
// outside; it is left behind when ctx ends, and with it the process.
func (e *env) readLine(ctx context.Context) (string, error) {
	type line struct {
		text string
		err  error
	}
	got := make(chan line, 1)
	go func() {
		text, err := bufio.NewReader(e.in).ReadString('\n')
		if err == io.EOF {
			err = nil
		}
		got <- line{text, err}
	}()
	select {
	case l := <-got:
		return l.text, l.err
	case <-ctx.Done():
		e.say("")
		return "", ctx.Err()
	}
}

// placeFlags are the flags with which another start of this program finds the
// same workspace and data, where they are not the default.
func placeFlags(cfg *config.Config) []string {
	var flags []string
	if cfg.Source(config.KeyWorkspace) != config.Default {
		flags = append(flags, config.FlagWorkspace, cfg.Workspace)
	}
	if cfg.Source(config.KeyData) != config.Default {
		flags = append(flags, config.FlagData, cfg.Data)
	}
	return flags
}
