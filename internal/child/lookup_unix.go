//go:build unix

package child

import (
	"os"

	"golang.org/x/sys/unix"
)

// executable reports whether path is a file that the crib may execute.
func executable(path string, _ []string) (string, bool) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return "", false
	}
	return path, unix.Access(path, unix.X_OK) == nil
}
