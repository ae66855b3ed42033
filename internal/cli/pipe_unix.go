//go:build unix

package cli

import (
	"os/signal"
	"syscall"
)

// ignoreBrokenPipe makes a write that nobody will read an error and no end.
func ignoreBrokenPipe() { signal.Ignore(syscall.SIGPIPE) }
