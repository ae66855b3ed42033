package cli_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/toolcrib/toolcrib/internal/app"
	"github.com/toolcrib/toolcrib/internal/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"toolcrib": func() {
		code := cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ())
		if len(os.Args) == 2 && os.Args[1] == "demo-server" {
			syscall.Exit(code) // without the second that the race detector sleeps at an end
		}
		os.Exit(code)
	}})
}

// TestScripts runs the transcripts in testdata/script: the program as people
// and scripts use it, each in a home folder of its own.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("..", "..", "testdata", "script"),
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setUpScript,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    exits,
			"ready":    ready,
			"gone":     gone,
			"copyTree": copyTree,
			"sameTree": sameTree,
			"mode":     mode,
		},
	})
}

func setUpScript(env *testscript.Env) error {
	home := filepath.Join(env.WorkDir, "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	program, err := exec.LookPath("toolcrib")
	if err != nil {
		return err
	}
	// The path of a socket is short: the data folder must not be deep.
	data, err := os.MkdirTemp("", "tc")
	if err != nil {
		return err
	}
	folder := filepath.Join(data, "data")
	env.Defer(func() {
		// A script that failed may leave the crib that it started.
		if running, ok, err := app.FindRunning(folder); err == nil && ok {
			if p, err := os.FindProcess(running.PID); err == nil {
				p.Kill()
			}
		}
		os.RemoveAll(data)
	})
	for name, value := range map[string]string{
		"HOME": home, "USERPROFILE": home, "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": "", "APPDATA": "",
		"PROGRAM": program, "PROGRAM_DIR": filepath.Dir(program),
		"TOOLCRIB_WORKSPACE": filepath.Join(env.WorkDir, "ws"),
		"TOOLCRIB_DATA":      folder,
		"TOOLCRIB_LISTEN":    "127.0.0.1:0",
		"GORACE":             "atexit_sleep_ms=0",
	} {
		env.Setenv(name, value)
	}
	return nil
}

// exits CODE COMMAND…: the command ends with this exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARGUMENTS")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d; %d was expected", got, want)
	}
}

// patience is how long a script waits for something to become true.
const patience = 30 * time.Second

// waitFor looks again and again, and fails the script when its patience ends.
func waitFor(ts *testscript.TestScript, what string, look func() bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !look() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			ts.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// ready: a crib serves the data folder and says that it is ready. Its address
// is $ADDRESS from then on.
func ready(ts *testscript.TestScript, _ bool, _ []string) {
	waitFor(ts, "a crib that is ready", func() bool {
		running, ok, err := app.FindRunning(ts.Getenv("TOOLCRIB_DATA"))
		ts.Check(err)
		if !ok || running.Address == "" {
			return false
		}
		resp, err := http.Get("http://" + running.Address + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		io.Copy(io.Discard, resp.Body)
		ts.Setenv("ADDRESS", running.Address)
		return resp.StatusCode == http.StatusOK
	})
}

// gone: no crib serves the data folder.
func gone(ts *testscript.TestScript, _ bool, _ []string) {
	waitFor(ts, "the end of the crib", func() bool {
		_, ok, err := app.FindRunning(ts.Getenv("TOOLCRIB_DATA"))
		ts.Check(err)
		return !ok
	})
}

// copyTree FROM TO copies a folder.
func copyTree(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.CopyFS(ts.MkAbs(args[1]), os.DirFS(ts.MkAbs(args[0]))))
}

// sameTree A B: the folders hold the same folders and files, byte for byte.
func sameTree(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: [!] sameTree A B")
	}
	a, b := tree(ts, args[0]), tree(ts, args[1])
	if (a == b) == neg {
		ts.Fatalf("%s:\n%s\n%s:\n%s", args[0], a, args[1], b)
	}
}

func tree(ts *testscript.TestScript, dir string) string {
	dir = ts.MkAbs(dir)
	var b strings.Builder
	ts.Check(filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		b.WriteString("-- " + filepath.ToSlash(rel) + " --\n")
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		b.WriteString(string(text) + "\n")
		return err
	}))
	return b.String()
}

// mode MODE FILE…: the files have these permissions, where the system has any.
func mode(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.ParseUint(args[0], 8, 32)
	ts.Check(err)
	for _, name := range args[1:] {
		info, err := os.Stat(ts.MkAbs(name))
		ts.Check(err)
		if got := info.Mode().Perm(); os.PathSeparator == '/' && got != os.FileMode(want) {
			ts.Fatalf("%s has mode %o; %s was expected", name, got, args[0])
		}
	}
}
