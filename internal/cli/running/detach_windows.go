package running

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// detached gives a process no console and a group of its own.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP}
}
