package child

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// group is the job object that the child and everything it starts belong to.
// The system ends the job when the crib dies.
type group struct {
	mu  sync.Mutex // guards job
	job windows.Handle
}

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}

// begin puts the child into a new job. A child that could not be put there is
// killed, since what it starts could not be ended.
func (g *group) begin(p *os.Process) error {
	job, err := newJob()
	if err != nil {
		endUngrouped(p)
		return err
	}
	var assign error
	err = p.WithHandle(func(handle uintptr) {
		assign = windows.AssignProcessToJobObject(job, windows.Handle(handle))
	})
	if err == nil {
		err = assign
	}
	if err != nil {
		endUngrouped(p)
		_ = windows.CloseHandle(job)
		return fmt.Errorf("assign to a job object: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.job = job
	return nil
}

// endUngrouped kills and collects a child that has no job. Errors mean that it
// has ended already.
func endUngrouped(p *os.Process) {
	_ = p.Kill()
	_, _ = p.Wait()
}

func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, fmt.Errorf("create a job object: %w", err)
	}
	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err != nil {
		_ = windows.CloseHandle(job)
		return 0, fmt.Errorf("set up a job object: %w", err)
	}
	return job, nil
}

// terminate does nothing: Windows has no request to end for a process without
// a console.
func (g *group) terminate() {}

// kill ends every process of the job.
func (g *group) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.job != 0 {
		_ = windows.TerminateJobObject(g.job, 1) // the only error is that nobody is left
	}
}

// end kills what is left of the job. Later kills do nothing.
func (g *group) end() {
	g.kill()
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = windows.CloseHandle(g.job)
	g.job = 0
}

// awaitExit returns when the child has exited, and a function that returns
// what waiting for it gave.
func awaitExit(cmd *exec.Cmd) (reap func() error) {
	err := cmd.Wait()
	return func() error { return err }
}

// signalGroup is never called: a job leaves no orphans.
func signalGroup(int, syscall.Signal) {}

func signalName(*os.ProcessState) string { return "" }
