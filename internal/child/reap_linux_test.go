package child

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func files(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestChildIsRegisteredAsLongAsItRuns(t *testing.T) {
	r, dir := openRegistry(t)
	p, out := start(t, Options{Argv: helper("polite"), Registry: r})
	out.next(t)
	entries, warnings := r.read()
	if len(entries) != 1 || len(warnings) != 0 || entries[0].Pid != p.Pid() || entries[0].Start == "" {
		t.Fatalf("got %+v %v", entries, warnings)
	}
	if got := markOf(p.Pid()); got != entries[0].Mark {
		t.Errorf("the child carries %q", got)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := files(t, dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestStartThatFailsLeavesNoEntry(t *testing.T) {
	r, dir := openRegistry(t)
	script := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(Options{Argv: []string{script}, OnLine: func([]byte) {}, Registry: r}); err == nil {
		t.Fatal("it started")
	}
	if left := files(t, dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestWhatLeftTheGroupEndsWithItsChild(t *testing.T) {
	r, dir := openRegistry(t)
	p, out := start(t, Options{Argv: helper("launcher", "exit", "stubborn", "escape"), Registry: r, StopGrace: 50 * time.Millisecond})
	pid := number(t, out.next(t))
	waitFor(t, "done", p.Done())
	if exists(pid) {
		unix.Kill(pid, unix.SIGKILL)
		t.Error("it still runs")
	}
	if left := files(t, dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestHurrySkipsTheWaits(t *testing.T) {
	r, _ := openRegistry(t)
	p, out := start(t, Options{Argv: helper("stubborn"), Registry: r, StopGrace: time.Hour})
	out.next(t)
	stopped := make(chan error, 1)
	go func() { stopped <- p.Stop(context.Background()) }()
	r.Hurry()
	select {
	case err := <-stopped:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("Stop still waits")
	}
}

// The helper is a crib that registers a launcher and is killed. What the next
// one finds depends on what is left: the group, or only what left it.
func TestOrphansOfAKilledCribAreReaped(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
	}{
		{"the launcher dies with the crib, its server stays in the group", []string{"wait", "stubborn"}},
		{"the server left the group", []string{"wait", "stubborn", "escape"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "children")
			// Its own group, and no mark, as of a crib that a shell started.
			p, out := start(t, Options{Argv: helper(append([]string{"crib", dir}, tc.args...)...), StopGrace: time.Hour})
			orphan := number(t, out.next(t))
			t.Cleanup(func() { unix.Kill(orphan, unix.SIGKILL) })
			waitFor(t, "the end of the crib", p.Done())
			if !exists(orphan) {
				t.Fatal("no orphan is left: the test shows nothing")
			}
			r, err := OpenRegistry(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			got := r.Reap(50 * time.Millisecond)
			if len(got.Ended) != 1 || len(got.Warnings) != 0 {
				t.Errorf("got %+v", got)
			}
			if exists(orphan) {
				t.Error("the orphan still runs")
			}
			if left := files(t, dir); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// A process whose number a file names, but not its time of start, is a
// stranger.
func TestStrangersAreLeftAlone(t *testing.T) {
	r, dir := openRegistry(t)
	p, out := start(t, Options{Argv: helper("polite")})
	out.next(t)
	if err := r.write(entry{Mark: markA, Pid: p.Pid(), Start: "another boot/1", Program: "x"}); err != nil {
		t.Fatal(err)
	}
	if got := r.Reap(0); len(got.Ended) != 0 || len(got.Warnings) != 0 {
		t.Errorf("got %+v", got)
	}
	if !exists(p.Pid()) {
		t.Error("the stranger was ended")
	}
	if left := files(t, dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestParseStat(t *testing.T) {
	fields := "S 1 77 77 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 0 0"
	for _, name := range []string{"sh", "a b", "x) Z 1 2", ""} {
		got, err := parseStat(5, "5 ("+name+") "+fields, "boot")
		if want := (proc{pid: 5, group: 77, start: "boot/4242"}); err != nil || got != want {
			t.Errorf("%q: %+v %v", name, got, err)
		}
	}
	if got, err := parseStat(5, strings.Replace("5 (sh) "+fields, "S", "Z", 1), "boot"); err != nil || !got.ended {
		t.Errorf("a zombie: %+v %v", got, err)
	}
	for _, text := range []string{"", "5 (sh", "5 (sh) S 1 2"} {
		if got, err := parseStat(5, text, "boot"); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
