package secret

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// TestMain makes the test binary the command of the exec stores: no shell and
// no program of the machine is needed.
func TestMain(m *testing.M) {
	switch os.Getenv("SECRET_TEST_HELPER") {
	case "args":
		fmt.Printf("%q\n", os.Args[1:])
		os.Exit(0)
	case "empty":
		os.Exit(0)
	case "fail":
		fmt.Fprintln(os.Stderr, "stderr "+canary)
		fmt.Println(canary)
		os.Exit(3)
	case "big":
		fmt.Print(strings.Repeat("x", MaxSecretBytes+1))
		os.Exit(0)
	case "hang":
		<-time.After(time.Hour)
	case "hang with another", "print and leave another":
		leaveAnother(os.Getenv("SECRET_TEST_NOTE"))
		if os.Getenv("SECRET_TEST_HELPER") == "hang with another" {
			<-time.After(time.Hour)
		}
		fmt.Printf("line 1\n\nline 3\n")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// leaveAnother starts a process that hangs on the same pipes, and notes its id.
func leaveAnother(note string) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SECRET_TEST_HELPER=hang")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	if err := os.WriteFile(note, []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		panic(err)
	}
}

func env(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

func newStores(t *testing.T, o Options) *Stores {
	t.Helper()
	s, err := NewStores(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestResolve(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "secrets/FROM_FILE", "file value\r\n\n")
	write(t, dir, "secrets/BOTH", "file")
	write(t, dir, "secrets/BLANK", "\n")
	write(t, dir, "secrets/EMPTY_ENV", "from the file")
	write(t, dir, "secrets/dir/X", "x")
	write(t, dir, "outside", canary)
	write(t, dir, "secrets/HUGE", strings.Repeat("x", MaxSecretBytes+1))
	write(t, dir, "secrets/FULL", strings.Repeat("x", MaxSecretBytes))
	s := newStores(t, Options{
		Specs: []StoreSpec{{Kind: EnvStore}, {Kind: FileStore, Dir: "secrets"}, {Kind: FileStore, Name: "more", Dir: filepath.Join(dir, "none")}},
		Dir:   dir,
		LookupEnv: env(map[string]string{
			"TOKEN": "t0ken", "BOTH": "env", "EMPTY_ENV": "", "WILD": `"; rm x $(x) ${env:TOKEN} $$`, "NEWLINE": "a\nb\n", "OVER": strings.Repeat("x", MaxSecretBytes+1),
		}),
	})
	tests := []struct {
		in   string
		want string
		code crib.Code
		err  string
	}{
		{in: "${env:TOKEN}", want: "t0ken"},
		{in: "Bearer ${secrets:TOKEN}!", want: "Bearer t0ken!"},
		{in: "${file:FROM_FILE}", want: "file value"},
		{in: "${secrets:FROM_FILE}", want: "file value"},
		{in: "${secrets:BOTH}", want: "env"},
		{in: "${secrets:EMPTY_ENV}", want: "from the file"},
		{in: "${env:WILD}", want: `"; rm x $(x) ${env:TOKEN} $$`}, // not expanded again
		{in: "${env:NEWLINE}", want: "a\nb\n"},                    // an environment is taken as it is
		{in: "$${LIT} $$", want: "${LIT} $"},
		{in: "${file:FULL}", want: strings.Repeat("x", MaxSecretBytes)},

		{in: "${env:NOPE}", code: crib.Unavailable, err: "secret NOPE is not set, or empty, in: env"},
		{in: "${secrets:NOPE}", code: crib.Unavailable, err: "secret NOPE is not set, or empty, in: env, file:secrets, more"},
		{in: "${env:EMPTY_ENV}", code: crib.Unavailable, err: "EMPTY_ENV"},
		{in: "${file:BLANK}", code: crib.Unavailable, err: "BLANK"},
		{in: "${more:X}", code: crib.Unavailable, err: "X"},
		{in: "${vault:X}", code: crib.Invalid, err: `no secret store "vault"; the stores are: env, file:secrets, more`},
		{in: "${file:../outside}", code: crib.Invalid, err: "cannot name a secret's file"},
		{in: "${file:dir/X}", code: crib.Invalid, err: "cannot name a secret's file"},
		{in: "${file:..}", code: crib.Invalid, err: "cannot name a secret's file"},
		{in: "${file:/etc/passwd}", code: crib.Invalid, err: "cannot name a secret's file"},
		{in: "${file:con}", code: crib.Invalid, err: "cannot name a secret's file"},
		{in: "${file:NUL.txt}", code: crib.Invalid, err: "cannot name a secret's file"},
		{in: "${secrets:a/b}", code: crib.Invalid, err: "no secret store"},
		{in: "${env:A-B}", code: crib.Invalid, err: "cannot name an environment variable"},
		{in: "${file:dir}", code: crib.Unavailable, err: "could not say"},
		{in: "${file:HUGE}", code: crib.Unavailable, err: "could not say"},
		{in: "${secrets:OVER}", code: crib.Unavailable, err: "could not say"},
	}
	for _, tt := range tests {
		tmpl, err := ParseToolValue("", tt.in)
		if err != nil {
			t.Fatalf("%s: %v", tt.in, err)
		}
		v, err := s.Resolve(t.Context(), tmpl)
		if tt.err == "" {
			if err != nil || v.Reveal() != tt.want {
				t.Errorf("%s = %.80q, %v", tt.in, v.Reveal(), err)
			}
			continue
		}
		if err == nil || crib.CodeOf(err) != tt.code || !strings.Contains(crib.SafeText(err), tt.err) {
			t.Errorf("%s: error %v (%s)", tt.in, err, crib.CodeOf(err))
		}
		if err != nil && strings.Contains(crib.SafeText(err), dir) {
			t.Errorf("%s: the safe text shows a path of this machine: %s", tt.in, crib.SafeText(err))
		}
		if v.Reveal() != "" {
			t.Errorf("%s: a value beside the error", tt.in)
		}
	}
}

func TestFileStoreStaysInside(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "outside", canary)
	write(t, dir, "secrets/..data/REAL", "mounted")
	for link, target := range map[string]string{"ESCAPE": "../outside", "ABSOLUTE": filepath.Join(dir, "outside"), "INSIDE": "..data/REAL"} {
		if err := os.Symlink(target, filepath.Join(dir, "secrets", link)); err != nil {
			t.Skipf("no symbolic links here: %v", err)
		}
	}
	s := newStores(t, Options{Specs: []StoreSpec{{Kind: FileStore, Dir: "secrets"}}, Dir: dir})
	for _, name := range []string{"ESCAPE", "ABSOLUTE"} {
		v, err := s.Resolve(t.Context(), Reference("file", name))
		if err == nil || v.Reveal() != "" {
			t.Errorf("%s led outside", name)
		}
	}
	if v, err := s.Resolve(t.Context(), Reference("file", "INSIDE")); err != nil || v.Reveal() != "mounted" {
		t.Errorf("a link inside the folder: %q, %v", v.Reveal(), err)
	}
}

func TestRotationIsSeen(t *testing.T) {
	dir := t.TempDir()
	s := newStores(t, Options{Specs: []StoreSpec{{Kind: FileStore, Dir: dir}}})
	for _, want := range []string{"first", "second"} {
		write(t, dir, "TOKEN", want)
		if v, err := s.Resolve(t.Context(), Reference(AnyStore, "TOKEN")); err != nil || v.Reveal() != want {
			t.Errorf("got %q, %v; want %q", v.Reveal(), err, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no permission bits")
	}
	dir := t.TempDir()
	write(t, dir, "CLOSED", "x")
	write(t, dir, "OPEN", "x")
	if err := os.Chmod(filepath.Join(dir, "OPEN"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := newStores(t, Options{Specs: []StoreSpec{{Kind: EnvStore}, {Kind: FileStore, Dir: dir}}})
	w := s.Warnings()
	if len(w) != 1 || !strings.Contains(w[0], "OPEN") || !strings.Contains(w[0], "chmod 600") {
		t.Errorf("Warnings() = %q", w)
	}
}

func TestExecStore(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		helper  string
		name    string
		command []string
		want    string
		err     string
		code    crib.Code
	}{
		{helper: "args", name: `op://v/a b?x=1`, command: []string{self, "read", "$HOME; x"}, want: `["read" "$HOME; x" "op://v/a b?x=1"]`},
		{helper: "empty", name: "X", command: []string{self}, err: "secret X is not set, or empty", code: crib.Unavailable},
		{helper: "fail", name: "X", command: []string{self}, err: "ended with exit code 3", code: crib.Unavailable},
		{helper: "big", name: "X", command: []string{self}, err: "larger than a secret may be", code: crib.Unavailable},
		{helper: "hang", name: "X", command: []string{self}, err: "did not end within", code: crib.Unavailable},
		{helper: "args", name: "X", command: []string{"no-such-program-here"}, err: "was not found", code: crib.Unavailable},
		{helper: "args", name: "--help", command: []string{self}, err: "cannot be given to a command", code: crib.Invalid},
		{helper: "args", name: "a;b", command: []string{self}, err: "cannot be given to a command", code: crib.Invalid},
	}
	for _, tt := range tests {
		t.Run(tt.helper+" "+tt.name, func(t *testing.T) {
			t.Setenv("SECRET_TEST_HELPER", tt.helper)
			timeout := 30 * time.Second
			if tt.helper == "hang" {
				timeout = 50 * time.Millisecond
			}
			s := newStores(t, Options{Specs: []StoreSpec{{Kind: ExecStore, Name: "op", Command: tt.command}}, ExecTimeout: timeout, Dir: t.TempDir()})
			v, err := s.Resolve(t.Context(), Reference("op", tt.name))
			if tt.err == "" {
				if err != nil || v.Reveal() != tt.want {
					t.Errorf("got %q, %v", v.Reveal(), err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.err) || crib.CodeOf(err) != tt.code {
				t.Errorf("error %v (%s)", err, crib.CodeOf(err))
			}
			if err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("the error shows what the command printed: %v", err)
			}
		})
	}
}

// What a command leaves behind, whether it hung or not, ends with it, and does
// not spoil a secret that was printed.
func TestExecStoreLeavesNothingBehind(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ helper, want, err string }{
		{helper: "hang with another", err: "did not end within"},
		{helper: "print and leave another", want: "line 1\n\nline 3"},
	} {
		t.Run(tt.helper, func(t *testing.T) {
			note := filepath.Join(t.TempDir(), "pid")
			t.Setenv("SECRET_TEST_HELPER", tt.helper)
			t.Setenv("SECRET_TEST_NOTE", note)
			limit := 30 * time.Second
			if tt.err != "" {
				limit = 3 * time.Second // time enough to start the other
			}
			s := newStores(t, Options{Specs: []StoreSpec{{Kind: ExecStore, Name: "op", Command: []string{self}}}, ExecTimeout: limit, Dir: t.TempDir()})
			v, err := s.Resolve(t.Context(), Reference("op", "X"))
			if v.Reveal() != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %q, %v", v.Reveal(), err)
			}
			pid, err := os.ReadFile(note)
			if err != nil {
				t.Fatal(err)
			}
			awaitEnd(t, string(pid))
		})
	}
}

// awaitEnd waits until a process has ended, collected or not.
func awaitEnd(t *testing.T, pid string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return // nothing tells a process that nobody has collected from a living one
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("process %s still runs", pid)
		}
	}
}

func TestFailingStoreStopsResolving(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "X", "from a later store")
	s := newStores(t, Options{Specs: []StoreSpec{{Kind: ExecStore, Name: "op", Command: []string{"no-such-program-here"}}, {Kind: FileStore, Dir: dir}}, Dir: dir})
	if v, err := s.Resolve(t.Context(), Reference(AnyStore, "X")); err == nil {
		t.Errorf("resolved to %q although the first store failed", v.Reveal())
	}
}

func TestResolveStopsWithItsContext(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SECRET_TEST_HELPER", "hang")
	s := newStores(t, Options{Specs: []StoreSpec{{Kind: ExecStore, Name: "op", Command: []string{self}}}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Resolve(ctx, Reference("op", "X")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestResolveHeaderAndEnvRefuseControlCharacters(t *testing.T) {
	s := newStores(t, Options{Specs: []StoreSpec{{Kind: EnvStore}}, LookupEnv: env(map[string]string{
		"LF": canary + "\nX-Evil: 1", "CR": canary + "\r", "NUL": canary + "\x00", "DEL": canary + "\x7f", "TAB": "a\tb", "UMLAUT": "ä", "FINE": "fine",
	})})
	tests := []struct {
		name             string
		header, variable bool // accepted
	}{
		{"LF", false, true}, {"CR", false, true}, {"NUL", false, false}, {"DEL", false, true}, {"TAB", true, true}, {"UMLAUT", true, true}, {"FINE", true, true},
	}
	for _, tt := range tests {
		_, err := s.ResolveHeader(t.Context(), "X-Test", Reference("env", tt.name))
		if (err == nil) != tt.header {
			t.Errorf("header from %s: %v", tt.name, err)
		}
		if err != nil && (strings.Contains(err.Error(), canary) || !strings.Contains(err.Error(), tt.name)) {
			t.Errorf("header from %s: error %q", tt.name, err)
		}
		if _, err := s.ResolveEnv(t.Context(), "V", Reference("env", tt.name)); (err == nil) != tt.variable {
			t.Errorf("variable from %s: %v", tt.name, err)
		}
	}
}

func TestResolvedSecretsAreRedacted(t *testing.T) {
	var r Redactor
	s := newStores(t, Options{Specs: []StoreSpec{{Kind: EnvStore}}, Redactor: &r, LookupEnv: env(map[string]string{"T": canary})})
	if _, err := s.Resolve(t.Context(), Join(Literal("Bearer sk-abcdefghijklmnop1234 "), Reference("env", "T"))); err != nil {
		t.Fatal(err)
	}
	if got := r.RedactString("a " + canary + " b sk-abcdefghijklmnop1234"); got != "a "+Mask+" b "+Mask {
		t.Errorf("redacted to %q", got)
	}
}

func TestNewStoresRefuses(t *testing.T) {
	for _, tt := range []struct {
		specs []StoreSpec
		err   string
	}{
		{[]StoreSpec{{Kind: EnvStore}, {Kind: EnvStore}}, "two secret stores"},
		{[]StoreSpec{{Kind: FileStore, Name: "env", Dir: "x"}, {Kind: EnvStore}}, "two secret stores"},
		{[]StoreSpec{{Kind: "vault"}}, "use env, file or exec"},
		{[]StoreSpec{{Kind: FileStore}}, "needs dir"},
		{[]StoreSpec{{Kind: ExecStore}}, "needs command"},
		{[]StoreSpec{{Kind: ExecStore, Command: []string{""}}}, "needs command"},
		{[]StoreSpec{{Kind: EnvStore, Name: AnyStore}}, "all stores in order"},
		{[]StoreSpec{{Kind: EnvStore, Name: "A b"}}, "lower-case"},
	} {
		if _, err := NewStores(Options{Specs: tt.specs}); err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%v: error %v", tt.specs, err)
		}
	}
}

func TestCheckReadsNothing(t *testing.T) {
	s := newStores(t, Options{Specs: DefaultStores(), Dir: t.TempDir(), LookupEnv: func(string) (string, bool) {
		t.Error("Check looked a secret up")
		return "", false
	}})
	if err := s.Check(Ref{Store: AnyStore, Name: "NOT_SET"}); err != nil {
		t.Error(err)
	}
	if err := s.Check(Ref{Store: "op", Name: "X"}); crib.CodeOf(err) != crib.Invalid {
		t.Errorf("error %v", err)
	}
}
