package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuOf is the CPU time of another process, to the nanosecond: the number of
// its clock is made of its pid (clock_getcpuclockid(3)).
func cpuOf(pid int) (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|2), &t)
	return time.Duration(t.Nano()), err
}
