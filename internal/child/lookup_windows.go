package child

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const defaultPathExt = ".COM;.EXE;.BAT;.CMD"

// executable returns the file that path means: path itself if it ends with an
// extension of PATHEXT, else path with the first extension that exists.
func executable(path string, env []string) (string, bool) {
	list := lookupEnv(env, "PATHEXT")
	if list == "" {
		list = defaultPathExt
	}
	exts := strings.Split(strings.ToLower(list), ";")
	if ext := strings.ToLower(filepath.Ext(path)); ext != "" && slices.Contains(exts, ext) && isFile(path) {
		return path, true
	}
	for _, ext := range exts {
		if ext != "" && isFile(path+ext) {
			return path + ext, true
		}
	}
	return "", false
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
