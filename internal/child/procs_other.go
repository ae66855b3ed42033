//go:build !linux && !darwin

package child

import (
	"errors"
	"syscall"
)

// canReap is false: nothing is registered. On Windows nothing has to be, since
// a job ends with the crib; elsewhere nothing of a process proves whose it is.
const canReap = false

func startOf(int) (string, error) { return "", errors.ErrUnsupported }

func processes() ([]proc, error) { return nil, nil }

func signalMarked(int, string, syscall.Signal) {}
