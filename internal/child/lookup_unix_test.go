//go:build unix

package child

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// workshop makes folders with programs in them and goes there.
func workshop(t *testing.T) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"bin/tool": 0o755, "bin/data": 0o644, "home/bin/mine": 0o755, "work/run": 0o755} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho \"$0\"\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(root)
	return root
}

func TestCommandIsLookedUpForTheChild(t *testing.T) {
	root := workshop(t)
	t.Setenv("PATH", "/usr/bin:/bin") // the crib's own, which must not matter
	env := []string{"PATH=/nowhere", "HOME=" + root + "/home", "PATH=" + root + "/bin"}
	for _, tc := range []struct {
		name, command, dir string
		env                []string
		want               string // the file found, or
		refused            string // part of the error
	}{
		{name: "in the PATH of the child", command: "tool", want: "/bin/tool"},
		{name: "home", command: "~/bin/mine", want: "/home/bin/mine"},
		{name: "home of dir", command: "./mine", dir: "~/bin", want: "/home/bin/mine"},
		{name: "relative to dir", command: "./run", dir: root + "/work", want: "/work/run"},
		{name: "relative without dir", command: "work/run", want: "/work/run"},
		{name: "whole path", command: root + "/work/run", want: "/work/run"},
		{name: "only in the crib's PATH", command: "sh", refused: `command "sh" was not found; searched PATH=` + root + "/bin;"},
		{name: "no PATH", command: "tool", env: []string{"A=1"}, refused: "has no PATH"},
		{name: "not executable", command: "data", refused: "was not found"},
		{name: "not executable by path", command: "bin/data", refused: "is not an executable file"},
		{name: "relative and missing", command: "./run", refused: "the folder that the server starts in, which makes it " + root + "/run"},
		{name: "missing", command: "/nowhere/x", refused: "/nowhere/x does not exist"},
		{name: "no home", command: "~/x", env: []string{"PATH=/bin"}, refused: "HOME is not set"},
		{name: "no such folder", command: "tool", dir: root + "/none", refused: "folder to start in"},
		{name: "a file as folder", command: "tool", dir: root + "/bin/tool", refused: "is not a folder"},
		{name: "a shell's words", command: "tool && tool", refused: "was not found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.env == nil {
				tc.env = env
			}
			cmd, err := command(Options{Argv: []string{tc.command, "arg"}, Dir: tc.dir, Env: tc.env})
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refused) || crib.SafeText(err) != err.Error() {
					t.Fatalf("got %v, want an error with %q", err, tc.refused)
				}
				return
			}
			if err != nil || cmd.Path != root+tc.want {
				t.Fatalf("got %+v, %v; want %s", cmd, err, root+tc.want)
			}
		})
	}
}

func TestRelativeFolderOfPathIsExplained(t *testing.T) {
	workshop(t)
	for _, path := range []string{"bin", "/nowhere::bin"} {
		_, err := command(Options{Argv: []string{"tool"}, Env: []string{"PATH=" + path}})
		if !errors.Is(err, exec.ErrDot) || !strings.Contains(err.Error(), `"bin", a relative folder of PATH`) || crib.CodeOf(err) != crib.Unavailable {
			t.Errorf("PATH=%s: %v", path, err)
		}
	}
}

func TestStartSaysWhatIsMissing(t *testing.T) {
	root := workshop(t)
	script := filepath.Join(root, "bin", "broken")
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := Start(Options{Argv: []string{script}, OnLine: func([]byte) {}})
	if crib.CodeOf(err) != crib.Unavailable || !strings.Contains(err.Error(), "interpreter") {
		t.Errorf("got %v", err)
	}
}

func TestChildStartsInItsFolder(t *testing.T) {
	root := workshop(t)
	_, out := start(t, Options{Argv: helper("dir"), Dir: "~/work", Env: append(os.Environ(), "HOME="+root)})
	if got := out.next(t); got != root+"/work" {
		t.Errorf("started in %s", got)
	}
}
