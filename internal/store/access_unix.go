//go:build unix

package store

import (
	"io/fs"
	"os"
	"syscall"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// checkAccess refuses what belongs to another user or gives others one of the
// forbidden permissions.
func checkAccess(what string, info fs.FileInfo, forbidden fs.FileMode) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		if owner, own := int(st.Uid), os.Geteuid(); owner != own && owner != 0 {
			return crib.Errorf(crib.Denied, "%s belongs to user id %d and the crib runs as %d; give it to that user with chown", what, owner, own)
		}
	}
	mode := info.Mode().Perm()
	switch {
	case mode&forbidden&othersWrite != 0:
		return crib.Errorf(crib.Denied, "%s can be changed by other users (mode %04o); check what it holds, then take that away with chmod go-w", what, mode)
	case mode&forbidden != 0:
		return crib.Errorf(crib.Denied, "%s can be read by other users (mode %04o); take that away with chmod 600, and replace what it holds", what, mode)
	}
	return nil
}
