//go:build !windows

package app

import "syscall"

// errRefused is the error of a socket that nobody listens at.
const errRefused = syscall.ECONNREFUSED
