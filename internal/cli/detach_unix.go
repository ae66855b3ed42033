//go:build unix

package cli

import (
	"os/signal"
	"syscall"
)

// detached gives a process a session of its own: no terminal and no signal to
// this process group reaches it.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// ignoreBrokenPipe makes a write that nobody will read an error and no end.
func ignoreBrokenPipe() { signal.Ignore(syscall.SIGPIPE) }
