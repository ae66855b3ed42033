package child

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/crib"
)

const onWindows = runtime.GOOS == "windows"

// command finds the program and makes the command, with neither the
// environment nor the PATH of the crib.
func command(o Options) (*exec.Cmd, error) {
	env := append([]string{}, o.Env...) // not nil, which would inherit everything
	dir, err := expandHome(o.Dir, env)
	if err != nil {
		return nil, err
	}
	if err := checkDir(dir); err != nil {
		return nil, err
	}
	name, err := expandHome(o.Argv[0], env)
	if err != nil {
		return nil, err
	}
	path, err := lookup(name, dir, env)
	if err != nil {
		return nil, err
	}
	if onWindows {
		if err := checkBatch(path, o.Argv[1:]); err != nil {
			return nil, err
		}
	}
	return &exec.Cmd{
		Path:        path,
		Args:        append([]string{name}, o.Argv[1:]...),
		Dir:         dir,
		Env:         env,
		SysProcAttr: attributes(),
	}, nil
}

// expandHome replaces "~/" at the start of path by the home folder of env.
func expandHome(path string, env []string) (string, error) {
	rest, ok := strings.CutPrefix(path, "~/")
	if !ok && onWindows {
		rest, ok = strings.CutPrefix(path, `~\`)
	}
	if !ok {
		return path, nil
	}
	name := "HOME"
	if onWindows {
		name = "USERPROFILE"
	}
	home := lookupEnv(env, name)
	if home == "" {
		return "", crib.Errorf(crib.Invalid, "%q cannot be expanded: %s is not set for this server; write the whole path", path, name)
	}
	return filepath.Join(home, rest), nil
}

func checkDir(dir string) error {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return crib.Errorf(crib.Unavailable, "the folder to start in cannot be used: %v", err)
	}
	if !info.IsDir() {
		return crib.Errorf(crib.Unavailable, "the folder to start in, %s, is not a folder", dir)
	}
	return nil
}

// lookup finds the program called name. A name with a separator is a file,
// relative to dir; any other is looked up in the PATH of env.
func lookup(name, dir string, env []string) (string, error) {
	if filepath.Base(name) != name || filepath.VolumeName(name) != "" {
		return lookupFile(name, dir, env)
	}
	path := lookupEnv(env, "PATH")
	for _, folder := range filepath.SplitList(path) {
		// An empty or relative folder in PATH would mean whatever folder the
		// crib happens to run in.
		found, ok := executable(filepath.Join(folder, name), env)
		if !ok {
			continue
		}
		if !filepath.IsAbs(folder) {
			return "", fmt.Errorf("%w: %w", crib.Errorf(crib.Unavailable,
				"command %q lies in %q, a relative folder of PATH, and is not run from there; write its path, such as ./%s", name, folder, name), exec.ErrDot)
		}
		return found, nil
	}
	if path == "" {
		return "", crib.Errorf(crib.Unavailable, "command %q cannot be looked up: this server has no PATH; write the whole path of the command or set PATH", name)
	}
	return "", crib.Errorf(crib.Unavailable, "command %q was not found; searched PATH=%s; install it, or write its whole path", name, path)
}

func lookupFile(name, dir string, env []string) (string, error) {
	path, err := filepath.Abs(absolute(name, dir))
	if err != nil {
		return "", crib.Errorf(crib.Unavailable, "command %q: %v", name, err)
	}
	if found, ok := executable(path, env); ok {
		return found, nil
	}
	if _, err := os.Stat(path); err == nil {
		return "", crib.Errorf(crib.Unavailable, "command %s is not an executable file", path)
	}
	if filepath.IsAbs(name) {
		return "", crib.Errorf(crib.Unavailable, "command %s does not exist", path)
	}
	return "", crib.Errorf(crib.Unavailable, "command %q does not exist: a relative path is taken from the folder that the server starts in, which makes it %s", name, path)
}

func absolute(name, dir string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// checkBatch refuses arguments that cmd.exe, which Windows runs batch files
// with, would read as commands or variables. Package exec quotes them for
// ordinary programs only.
func checkBatch(path string, args []string) error {
	ext := strings.ToLower(filepath.Ext(path))
	if ext != ".bat" && ext != ".cmd" {
		return nil
	}
	unsafe := func(arg string) bool { return strings.ContainsAny(arg, "\"%!^&|<>\r\n") }
	if i := slices.IndexFunc(args, unsafe); i >= 0 {
		return crib.Errorf(crib.Invalid, "argument %d of %s holds a character that cmd.exe interprets (one of \"%%!^&|<>); run the program behind the batch file directly", i+1, path)
	}
	return nil
}

// startError says why a program that was found could not be started.
func startError(cmd *exec.Cmd, err error) error {
	hint := ""
	if errors.Is(err, fs.ErrNotExist) {
		hint = "; perhaps the interpreter that its first line names is not installed"
	}
	return crib.Errorf(crib.Unavailable, "%s could not be started: %v%s", cmd.Path, err, hint)
}
