package app

import "syscall"

// errRefused is the error of a socket that nobody listens at: WSAECONNREFUSED,
// for which package syscall has no name.
const errRefused = syscall.Errno(10061)
