package child

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"
)

// Reaping is what Reap did.
type Reaping struct {
	Ended    []string // the children of a killed crib that were ended, in words
	Warnings []string // files that were ignored, and processes that would not end
}

// Reap ends what the children of a crib that was killed left running: the
// groups, and what left them, are asked to end (SIGTERM), and killed after
// grace; 0 is DefaultStopGrace. It must be called before the first child of
// this crib starts.
//
// Only what can be proved to be a registered child is touched: a process whose
// id and time of start are those of the file, its group, and on Linux whatever
// carries the child's mark in its environment, also when the child itself is
// gone. Names of programs prove nothing. On Windows nothing is left behind: a
// job ends with the crib.
func (r *Registry) Reap(grace time.Duration) Reaping {
	setDefault(&grace, DefaultStopGrace)
	entries, warnings := r.read()
	out := Reaping{Warnings: warnings}
	if len(entries) == 0 {
		return out
	}
	found, err := pursue(processes, entries, 0, 0)
	left := found
	for _, rung := range []struct {
		signal syscall.Signal
		limit  time.Duration
	}{{syscall.SIGTERM, grace}, {syscall.SIGKILL, afterKill}} {
		if err == nil && len(left) > 0 {
			left, err = pursue(processes, left, rung.signal, rung.limit)
		}
	}
	if err != nil {
		out.Warnings = append(out.Warnings, fmt.Sprintf("children of a crib that was killed may still run: %v", err))
		return out
	}
	for _, e := range entries {
		if slices.Contains(left, e) {
			out.Warnings = append(out.Warnings, fmt.Sprintf("%s still runs %v after it was killed", e, afterKill))
			continue
		}
		if slices.Contains(found, e) {
			out.Ended = append(out.Ended, e.String())
		}
		if err := r.remove(e); err != nil {
			out.Warnings = append(out.Warnings, fmt.Sprintf("%s is gone, and its file stays: %v", e, err))
		}
	}
	return out
}

func (e entry) String() string {
	if e.Pid == 0 {
		return e.Program
	}
	return fmt.Sprintf("%s (process %d)", e.Program, e.Pid)
}

// proc is what the system says of one process.
type proc struct {
	pid, group int
	start      string // see startOf
	ended      bool   // it only waits to be collected
	mark       string // the value of Marker, "" if it has none or the system does not show it
}

// pursue signals what is left of the children, 0 being no signal, until all of
// it is gone or limit has passed, and returns those of which something lives at
// the last look. SIGKILL is sent at each look, since what is killed may just
// have started something.
func pursue(look func() ([]proc, error), entries []entry, signal syscall.Signal, limit time.Duration) (alive []entry, err error) {
	deadline := time.Now().Add(limit)
	for pause := time.Duration(0); ; pause = min(max(2*pause, lookAgain), lookSeldom) {
		time.Sleep(min(pause, time.Until(deadline)))
		all, err := look()
		if err != nil {
			return nil, fmt.Errorf("list the processes of this machine: %w", err)
		}
		alive = nil
		for _, e := range entries {
			own := e.provedIn(all)
			if !own.alive {
				continue
			}
			alive = append(alive, e)
			if signal != 0 && (pause == 0 || signal == syscall.SIGKILL) {
				own.signal(signal)
			}
		}
		if len(alive) == 0 || !time.Now().Before(deadline) {
			return alive, nil
		}
	}
}

// proved is what is certainly of one child.
type proved struct {
	mark  string
	group int   // the whole process group; 0 if it is not proved
	pids  []int // processes outside of it that carry the mark
	alive bool  // there is one that has not ended
}

// provedIn looks for what all holds of the child. Its group is its own when the
// leader is the process that was started, or when a member carries the mark:
// the number of a group is not given away again while the group has a member.
func (e entry) provedIn(all []proc) proved {
	own := proved{mark: e.Mark}
	self := os.Getpid()
	for _, p := range all {
		leads := p.pid == e.Pid && p.start == e.Start
		if e.Pid != 0 && p.group == e.Pid && (leads || p.mark == e.Mark) {
			own.group = e.Pid
		}
	}
	for _, p := range all {
		switch {
		case p.pid == self || p.ended:
		case own.group != 0 && p.group == own.group:
			own.alive = true
		case p.mark == e.Mark:
			own.alive = true
			own.pids = append(own.pids, p.pid)
		}
	}
	return own
}

func (o proved) signal(s syscall.Signal) {
	if o.group != 0 {
		signalGroup(o.group, s)
	}
	for _, pid := range o.pids {
		signalMarked(pid, o.mark, s)
	}
}
