package child

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes put the child at the head of a process group of its own, and have
// it killed when the crib dies without a chance to end it: nobody is left then
// to climb down the ladder.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit returns when the child has exited. It leaves the reaping, which
// frees the process id, to the function that it returns: until then a signal
// to the group cannot reach a stranger.
func awaitExit(cmd *exec.Cmd) (reap func() error) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return cmd.Wait
}
