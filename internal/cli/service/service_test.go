package service

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/crib"
)

var odd = Spec{
	Program: `/home/a b/"x"\bin/50%/$HOME/toolcrib`,
	Args:    []string{"--workspace", `/w/"quoted" \ back`, "--data", "/d/100% $PATH ${X} $$", "--listen", "[::1]:8090", "ü", "a;b|c&d<e>f'g", "--", "-->"},
	Path:    `/usr/bin:/home/a b/$x:/%h:"q"\`,
}

// words reads a line of a unit as systemd does (systemd.syntax(7)).
func words(t *testing.T, line string, variables bool) []string {
	t.Helper()
	var out []string
	var word strings.Builder
	quoted := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '"':
			quoted = !quoted
			if !quoted {
				text := strings.ReplaceAll(word.String(), "%%", "%")
				if variables && len(out) > 0 {
					text = strings.ReplaceAll(text, "$$", "$")
				}
				out = append(out, text)
				word.Reset()
			}
		case !quoted && c != ' ':
			t.Fatalf("%q stands outside quotes in %s", c, line)
		case quoted && c == '\\':
			i++
			word.WriteByte(line[i])
		case quoted:
			word.WriteByte(c)
		}
	}
	return out
}

func lineOf(t *testing.T, unit []byte, key string) string {
	t.Helper()
	for line := range strings.Lines(string(unit)) {
		if rest, ok := strings.CutPrefix(line, key+"="); ok {
			return strings.TrimSuffix(rest, "\n")
		}
	}
	t.Fatalf("no %s in %s", key, unit)
	return ""
}

// What the unit says is what systemd runs, whatever characters are in it.
func TestSystemdUnit(t *testing.T) {
	unit := systemdUnit(odd)
	if got := words(t, lineOf(t, unit, "ExecStart"), true); !slices.Equal(got, odd.command()) {
		t.Errorf("it runs %q\nwant    %q", got, odd.command())
	}
	if got := words(t, lineOf(t, unit, "Environment"), false); !slices.Equal(got, []string{"PATH=" + odd.Path}) {
		t.Errorf("its environment is %q", got)
	}
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not there; the unit is not shown to systemd itself")
		return
	}
	file := filepath.Join(t.TempDir(), "toolcrib.service")
	plain := Spec{Program: verify, Args: []string{"--workspace", "/w"}, Path: "/usr/bin"}
	if err := os.WriteFile(file, systemdUnit(plain), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(verify, "--user", "verify", file)
	c.Env = append(c.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
	if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze: %v: %s", err, out)
	}
}

// The agent is XML that says the same.
func TestLaunchdAgent(t *testing.T) {
	d := xml.NewDecoder(bytes.NewReader(plist(odd, "/Users/a&b/toolcrib.log")))
	var texts []string
	for {
		tok, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := tok.(xml.CharData); ok && strings.TrimSpace(string(c)) != "" {
			texts = append(texts, string(c))
		}
	}
	all := strings.Join(texts, "\x00")
	if !strings.Contains(all, strings.Join(odd.command(), "\x00")) || !strings.Contains(all, "PATH\x00"+odd.Path) {
		t.Errorf("it says %q", texts)
	}
}

// manager is a service manager of a kind in an empty home, whose commands are
// noted.
func manager(t *testing.T, goos string, fails error) (*Manager, *[]string) {
	t.Helper()
	var ran []string
	m, err := New(Options{GOOS: goos, Home: t.TempDir(), UID: 501, Run: func(_ context.Context, name string, args ...string) (string, error) {
		ran = append(ran, strings.Join(append([]string{name}, args...), " "))
		switch {
		case fails != nil:
			return "", fails
		case slices.Contains(args, "is-enabled"):
			return "enabled\n", nil
		case slices.Contains(args, "is-active"):
			return "active\n", nil
		}
		return "state = running\n", nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return m, &ran
}

func TestInstallAndBack(t *testing.T) {
	for _, goos := range []string{"linux", "darwin"} {
		m, ran := manager(t, goos, nil)
		if st, err := m.State(t.Context()); err != nil || st.Installed {
			t.Errorf("%s: before: %+v, %v", goos, st, err)
		}
		for range 2 { // again changes nothing
			started, err := m.Install(t.Context(), odd, false)
			if err != nil || !started {
				t.Fatalf("%s: %v, %v", goos, started, err)
			}
		}
		if len(*ran) < 2*len(m.load) {
			t.Errorf("%s: only %q ran", goos, *ran)
		}
		st, err := m.State(t.Context())
		want, _ := json.Marshal(odd)
		if got, _ := json.Marshal(st.Spec); err != nil || !st.Installed || !st.Running || !st.Enabled || !st.Missing || !bytes.Equal(got, want) {
			t.Errorf("%s: %+v, %v", goos, st, err)
		}
		if was, err := m.Uninstall(t.Context()); !was || err != nil {
			t.Errorf("%s: uninstall: %v, %v", goos, was, err)
		}
		if _, err := os.Stat(m.File); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the unit is still there", goos)
		}
		if was, err := m.Uninstall(t.Context()); was || err != nil {
			t.Errorf("%s: uninstall again: %v, %v", goos, was, err)
		}
		left, _ := os.ReadDir(filepath.Dir(m.File))
		if len(left) != 0 {
			t.Errorf("%s: left: %v", goos, left)
		}
	}
}

// A unit of somebody else is neither replaced nor removed.
func TestAForeignUnitStays(t *testing.T) {
	m, ran := manager(t, "linux", nil)
	if err := os.MkdirAll(filepath.Dir(m.File), 0o700); err != nil {
		t.Fatal(err)
	}
	const theirs = "[Service]\nExecStart=/usr/bin/true\n"
	if err := os.WriteFile(m.File, []byte(theirs), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Install(t.Context(), odd, false); crib.CodeOf(err) != crib.Denied {
		t.Errorf("install: %v", err)
	}
	if _, err := m.Uninstall(t.Context()); crib.CodeOf(err) != crib.Denied {
		t.Errorf("uninstall: %v", err)
	}
	if b, _ := os.ReadFile(m.File); string(b) != theirs || len(*ran) != 0 {
		t.Errorf("it was touched: %s %q", b, *ran)
	}
	if _, err := m.Install(t.Context(), odd, true); err != nil || !m.Installed() {
		t.Errorf("by force: %v", err)
	}
}

// Without a manager the unit is there, and what to run is said.
func TestWithoutAManager(t *testing.T) {
	m, _ := manager(t, "linux", errors.New("no bus"))
	started, err := m.Install(t.Context(), odd, false)
	if started || err != nil || !m.Installed() || len(m.Steps()) == 0 {
		t.Errorf("%v, %v", started, err)
	}
	if was, err := m.Uninstall(t.Context()); !was || err != nil {
		t.Errorf("uninstall: %v, %v", was, err)
	}
}

func TestWhatNoUnitCanHold(t *testing.T) {
	m, _ := manager(t, "linux", nil)
	for _, s := range []Spec{
		{Program: "/bin/toolcrib\n[Service]"}, {Program: "/bin/toolcrib", Args: []string{"a\nb"}}, {Program: "/bin/toolcrib", Path: "/bin\x00"},
		{Program: "toolcrib"}, {Program: ""},
	} {
		if _, err := m.Install(t.Context(), s, false); crib.CodeOf(err) != crib.Invalid || m.Installed() {
			t.Errorf("%q: %v", s, err)
		}
	}
	if _, err := New(Options{GOOS: "windows", Home: t.TempDir()}); crib.CodeOf(err) != crib.Unsupported || !strings.Contains(err.Error(), "task scheduler") {
		t.Errorf("windows: %v", err)
	}
}
