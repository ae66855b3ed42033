package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/cli/reference"
	"github.com/toolcrib/toolcrib/internal/crib"
)

// The exit codes of every command. They are a promise to scripts.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnavailable = 3
	exitTool        = 4
	exitRefused     = 5
)

func exitMeanings() []reference.Exit {
	return []reference.Exit{
		{Code: exitOK, Meaning: "It worked."},
		{Code: exitFailed, Meaning: "It was tried and did not work; the message says what to do next."},
		{Code: exitUsage, Meaning: "The command line or the configuration is wrong, or names something that does not exist."},
		{Code: exitUnavailable, Meaning: "Nothing is running, or a server cannot be reached."},
		{Code: exitTool, Meaning: "The tool itself answered with an error."},
		{Code: exitRefused, Meaning: "Refused by policy, such as the gate of a tool, or answered with no at a question."},
	}
}

// exitError is an error with an exit code of its own. Where err is nil,
// everything was said already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usagef is the error of a wrong command line.
func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// codeExits says how a command ends that met an error of this kind.
var codeExits = map[crib.Code]int{
	crib.Invalid:      exitUsage,
	crib.NotFound:     exitUsage,
	crib.Denied:       exitRefused,
	crib.Unavailable:  exitUnavailable,
	crib.Unauthorized: exitUnavailable,
}

// exitCode is how a command ends that returned err.
func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	var own *exitError
	if errors.As(err, &own) {
		return own.code
	}
	if code, ok := codeExits[crib.CodeOf(err)]; ok {
		return code
	}
	return exitFailed
}

// report tells a person about err. The text of an error may hold what a
// server said.
func (e *env) report(err error) {
	var own *exitError
	switch {
	case errors.As(err, &own) && own.err == nil:
		return
	case errors.Is(err, context.Canceled):
		e.say("toolcrib: interrupted")
		return
	}
	e.say("toolcrib: %s", strings.ReplaceAll(err.Error(), "\n", "\n  "))
}

func exitCodesTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("How commands end, for scripts:\n\n")
	for _, m := range exitMeanings() {
		fmt.Fprintf(&b, "  %d  %s\n", m.Code, m.Meaning)
	}
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: strings.TrimSuffix(b.String(), "\n")}
}
