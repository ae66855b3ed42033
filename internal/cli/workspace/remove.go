package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// DataFiles are the names of what the crib keeps in the data folder. What else
// is there is somebody else's and stays.
func DataFiles() []string {
	return []string{
		BackupFolder, MadeFile,
		"lists", "children", "tokens.json", "sealing.key", "local.token", "write.lock", "serve.lock", "serving.json", "operator.sock",
	}
}

// tempSuffix ends the names, beginning with a dot, of files that a process was
// writing when it was killed.
const tempSuffix = ".tmp"

// Remove removes what is known in a folder, and the folder itself unless
// others' things are in it, whose names it returns.
func Remove(dir string, names []string) (others []string, err error) {
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("remove what is in %s: %w", dir, err)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range left {
		name := entry.Name()
		if !strings.HasPrefix(name, ".") || !strings.HasSuffix(name, tempSuffix) {
			others = append(others, name)
		} else if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return others, err
		}
	}
	if len(others) > 0 {
		return others, nil
	}
	return nil, os.Remove(dir)
}
