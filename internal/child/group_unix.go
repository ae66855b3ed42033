//go:build unix

package child

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// group is the process group that the child leads.
type group struct {
	mu   sync.Mutex // guards pgid
	pgid int        // 0 before the start and after the end: the number may be another's then
}

func (g *group) begin(p *os.Process) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pgid = p.Pid
	return nil
}

// terminate asks every process of the group to end.
func (g *group) terminate() { g.signal(unix.SIGTERM) }

// kill ends every process of the group.
func (g *group) kill() { g.signal(unix.SIGKILL) }

// end kills what is left of the group. Later signals do nothing.
func (g *group) end() {
	g.kill()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pgid = 0
}

func (g *group) signal(sig unix.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pgid > 0 {
		_ = unix.Kill(-g.pgid, sig) // the only error is that nobody is left
	}
}

// signalGroup signals every process of a group that this process did not begin.
func signalGroup(pgid int, s syscall.Signal) {
	_ = unix.Kill(-pgid, s) // the only error is that nobody is left
}

func signalName(s *os.ProcessState) string {
	status, ok := s.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return ""
	}
	return unix.SignalName(status.Signal())
}
