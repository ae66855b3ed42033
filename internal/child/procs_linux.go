package child

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// canReap says that the system tells enough of a process to prove whose it is.
const canReap = true

// Fields of /proc/PID/stat behind the name of the program (proc_pid_stat(5)).
const (
	statState = 0
	statGroup = 2
	statStart = 19
)

var bootID = sync.OnceValues(func() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
})

// startOf says when the process started: the id of the boot, and the ticks
// since. No two processes with one id have it in common.
func startOf(pid int) (string, error) {
	p, err := readProc(pid)
	return p.start, err
}

// processes returns every process that can be seen. One that ends meanwhile is
// left out.
func processes() ([]proc, error) {
	folder, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []proc
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		p, err := readProc(pid)
		if err != nil {
			continue
		}
		p.mark = markOf(pid)
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, errors.New("/proc shows none")
	}
	return all, nil
}

func readProc(pid int) (proc, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return proc{}, err
	}
	boot, err := bootID()
	if err != nil {
		return proc{}, err
	}
	return parseStat(pid, string(text), boot)
}

// parseStat reads a line of /proc/PID/stat. The name of the program, in
// brackets, may hold brackets and blanks itself.
func parseStat(pid int, text, boot string) (proc, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) <= statStart {
		return proc{}, fmt.Errorf("the state of process %d cannot be read", pid)
	}
	group, err := strconv.Atoi(fields[statGroup])
	if err != nil {
		return proc{}, fmt.Errorf("the group of process %d cannot be read: %w", pid, err)
	}
	return proc{
		pid: pid, group: group,
		start: boot + "/" + fields[statStart],
		ended: strings.Contains("ZX", fields[statState]),
	}, nil
}

// markOf returns the mark in the environment with which the process was
// started, "" if it has none or is another user's.
func markOf(pid int) string {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return ""
	}
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if mark, ok := bytes.CutPrefix(entry, []byte(Marker+"=")); ok {
			return string(mark)
		}
	}
	return ""
}

// signalMarked signals the process if it carries the mark. It is held while
// that is looked up, so that its number cannot become another's.
func signalMarked(pid int, mark string, s syscall.Signal) {
	p, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	defer p.Release() //nolint:errcheck // it was not waited for
	if markOf(pid) == mark {
		_ = p.Signal(s) // the only error is that it has ended
	}
}
