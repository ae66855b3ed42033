package cli

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// detached gives a process no console and a group of its own.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP}
}

// ignoreBrokenPipe does nothing: a write that nobody will read is an error
// here anyway.
func ignoreBrokenPipe() {}
