package child

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// canReap says that the system tells enough of a process to prove whose it is.
const canReap = true

// stateZombie is SZOMB of <sys/proc.h>.
const stateZombie = 5

// startOf says when the process started, to the microsecond.
func startOf(pid int) (string, error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return "", fmt.Errorf("ask for process %d: %w", pid, err)
	}
	return procOf(info).start, nil
}

// processes returns every process. Their environments, and so their marks, are
// not shown: a group without its leader cannot be proved.
func processes() ([]proc, error) {
	infos, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, err
	}
	all := make([]proc, 0, len(infos))
	for i := range infos {
		all = append(all, procOf(&infos[i]))
	}
	return all, nil
}

func procOf(info *unix.KinfoProc) proc {
	start := info.Proc.P_starttime
	return proc{
		pid:   int(info.Proc.P_pid),
		group: int(info.Eproc.Pgid),
		start: fmt.Sprintf("%d.%06d", start.Sec, start.Usec),
		ended: info.Proc.P_stat == stateZombie,
	}
}

// signalMarked is never called: no mark is seen.
func signalMarked(int, string, syscall.Signal) {}
