package child

import (
	"errors"
	"fmt"
	"os/exec"
)

// Exit says how a child ended.
type Exit struct {
	Code   int    // the exit code, -1 if a signal ended the child
	Signal string // such as SIGKILL; empty if the child exited by itself
	Err    error  // the system could not say how the child ended
}

// String says it in words, such as "exit code 1" or "ended by SIGKILL".
func (e Exit) String() string {
	switch {
	case e.Err != nil:
		return fmt.Sprintf("ended, the system does not say how: %v", e.Err)
	case e.Signal != "":
		return "ended by " + e.Signal
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

func exitOf(cmd *exec.Cmd, err error) Exit {
	if _, isExit := errors.AsType[*exec.ExitError](err); err != nil && !isExit {
		return Exit{Code: -1, Err: err}
	}
	return Exit{Code: cmd.ProcessState.ExitCode(), Signal: signalName(cmd.ProcessState)}
}
