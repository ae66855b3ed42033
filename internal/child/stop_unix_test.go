//go:build unix

package child

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func escape(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

func killSelf() { unix.Kill(os.Getpid(), unix.SIGKILL) }

func TestStopClimbsDownTheLadder(t *testing.T) {
	for _, tc := range []struct {
		helper string
		grace  time.Duration // long where the child must go at this rung
		want   Exit
	}{
		{"polite", patience, Exit{}},
		{"deaf", 2 * time.Second, Exit{Code: -1, Signal: "SIGTERM"}},
		{"stubborn", 50 * time.Millisecond, Exit{Code: -1, Signal: "SIGKILL"}},
	} {
		t.Run(tc.helper, func(t *testing.T) {
			t.Parallel()
			p, out := start(t, Options{Argv: helper(tc.helper), StopGrace: tc.grace})
			out.next(t)
			if err := p.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := p.Exit(); got != tc.want {
				t.Errorf("exit %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestStopIsImpatientWhenItsContextEnds(t *testing.T) {
	p, out := start(t, Options{Argv: helper("stubborn"), StopGrace: time.Hour})
	out.next(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if got := p.Exit().Signal; got != "SIGKILL" {
		t.Errorf("ended by %q", got)
	}
}

// A launcher's own child ignores everything but SIGKILL. However the launcher
// goes, that child goes too.
func TestGrandchildrenEndWithTheChild(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(t *testing.T, p *Process)
		args []string
	}{
		{"stopped", func(t *testing.T, p *Process) {
			if err := p.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
		}, []string{"wait", "stubborn"}},
		{"launcher was killed", func(t *testing.T, p *Process) { unix.Kill(p.Pid(), unix.SIGKILL) }, []string{"wait", "stubborn"}},
		{"launcher left", func(t *testing.T, p *Process) {}, []string{"exit", "stubborn"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, out := start(t, Options{Argv: helper(append([]string{"launcher"}, tc.args...)...), StopGrace: 200 * time.Millisecond})
			pid := number(t, out.next(t))
			tc.end(t, p)
			waitFor(t, "done", p.Done())
			eventually(t, "the end of the grandchild", func() bool { return !exists(pid) })
		})
	}
}

func TestWhatALauncherLeftIsToldToEnd(t *testing.T) {
	p, out := start(t, Options{Argv: helper("launcher", "exit", "farewell")})
	waitFor(t, "done", p.Done())
	close(out)
	if got := <-out; got != "bye" {
		t.Errorf("its last words are %q", got)
	}
}

func TestProcessThatLeftTheGroupDelaysNobody(t *testing.T) {
	p, out := start(t, Options{Argv: helper("launcher", "exit", "stubborn", "escape"), StopGrace: 50 * time.Millisecond})
	pid := number(t, out.next(t))
	defer unix.Kill(pid, unix.SIGKILL)
	waitFor(t, "done", p.Done())
	if !exists(pid) {
		t.Error("the process did not leave the group: the test shows nothing")
	}
}

func TestLeftoverDoesNotHoldUpTheNewsOfAnExit(t *testing.T) {
	p, out := start(t, Options{Argv: helper("launcher", "wait", "stubborn"), StopGrace: time.Hour})
	out.next(t)
	begin := time.Now()
	unix.Kill(p.Pid(), unix.SIGKILL)
	waitFor(t, "done", p.Done())
	if took := time.Since(begin); took > 10*drainGrace {
		t.Errorf("it took %v to hear of the exit", took)
	}
	if got := p.Exit().String(); got != "ended by SIGKILL" {
		t.Errorf("exit: %s", got)
	}
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// exists reports whether the process runs. A zombie that nobody has collected
// yet has ended.
func exists(pid int) bool {
	if errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return !os.IsNotExist(err) || !hasProc()
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

func hasProc() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}
