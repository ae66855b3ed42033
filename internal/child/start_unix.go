//go:build unix && !linux

package child

import (
	"os/exec"
	"syscall"
)

// attributes put the child at the head of a process group of its own.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// awaitExit returns when the child has exited, and a function that returns
// what waiting for it gave.
func awaitExit(cmd *exec.Cmd) (reap func() error) {
	err := cmd.Wait()
	return func() error { return err }
}
