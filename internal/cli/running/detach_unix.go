//go:build unix

package running

import "syscall"

// detached gives a process a session of its own: no terminal and no signal to
// this process group reaches it.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
