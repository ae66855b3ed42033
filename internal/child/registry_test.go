package child

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
)

const (
	markA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	markB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func openRegistry(t *testing.T) (*Registry, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "children")
	r, err := OpenRegistry(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r, dir
}

// Only what is proved is touched: every row without a proof must find nothing.
func TestWhatIsProvedToBeOurs(t *testing.T) {
	e := entry{Mark: markA, Pid: 100, Start: "boot/7"}
	self := os.Getpid()
	for _, tc := range []struct {
		name  string
		entry entry
		all   []proc
		group int
		pids  []int
		alive bool
	}{
		{name: "nothing is left", entry: e},
		{name: "the child and its group", entry: e, group: 100, alive: true,
			all: []proc{{pid: 100, group: 100, start: "boot/7"}, {pid: 101, group: 100, start: "boot/9"}}},
		{name: "its number is another's now", entry: e,
			all: []proc{{pid: 100, group: 100, start: "boot/8"}, {pid: 101, group: 100, start: "boot/9"}}},
		{name: "the same ticks of another boot", entry: e, all: []proc{{pid: 100, group: 100, start: "later/7"}}},
		{name: "the leader has gone and a member has no mark", entry: e, all: []proc{{pid: 101, group: 100, start: "boot/9"}}},
		{name: "the leader has gone and a member has the mark", entry: e, group: 100, alive: true,
			all: []proc{{pid: 101, group: 100, start: "boot/9", mark: markA}}},
		{name: "the leader was not collected yet", entry: e, group: 100, alive: true,
			all: []proc{{pid: 100, group: 100, start: "boot/7", ended: true}, {pid: 101, group: 100}}},
		{name: "only the leader is left, and has ended", entry: e, group: 100,
			all: []proc{{pid: 100, group: 100, start: "boot/7", ended: true}}},
		{name: "one left the group", entry: e, pids: []int{200}, alive: true,
			all: []proc{{pid: 200, group: 200, mark: markA}, {pid: 201, group: 200}}},
		{name: "the mark of another", entry: e, all: []proc{{pid: 200, group: 200, mark: markB}, {pid: 101, group: 100, mark: markB}}},
		{name: "it died while it started", entry: entry{Mark: markA}, pids: []int{300}, alive: true,
			all: []proc{{pid: 300, group: 300, mark: markA}, {pid: 2, group: 0}}},
		{name: "no mark is no proof", entry: entry{Mark: markA}, all: []proc{{pid: 300, group: 0}}},
		{name: "never this process", entry: entry{Mark: markA}, all: []proc{{pid: self, group: self, mark: markA}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := tc.entry.provedIn(tc.all)
			if got.group != tc.group || !slices.Equal(got.pids, tc.pids) || got.alive != tc.alive {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// What does not end is looked at ever more seldom, and a last time at the
// limit; what has ended is not looked for again.
func TestLooksGrowRare(t *testing.T) {
	ours := proc{pid: 1 << 30, group: 1 << 30, mark: markA}
	for _, tc := range []struct {
		name  string
		gone  time.Duration // when it has ended
		looks []time.Duration
		left  int
	}{
		{"nothing is left", 0, []time.Duration{0}, 0},
		{"it ends soon", 8, []time.Duration{0, 5, 15}, 0},
		{"it ends at the limit", 1000, []time.Duration{0, 5, 15, 35, 75, 155, 315, 515, 715, 915, 1000}, 0},
		{"it does not end", 1001, []time.Duration{0, 5, 15, 35, 75, 155, 315, 515, 715, 915, 1000}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var looks []time.Duration
				look := func() ([]proc, error) {
					at := time.Since(began) / time.Millisecond
					looks = append(looks, at)
					if at >= tc.gone {
						return nil, nil
					}
					return []proc{ours}, nil
				}
				left, err := pursue(look, []entry{{Mark: markA}}, 0, sweepTime)
				if err != nil || len(left) != tc.left || !slices.Equal(looks, tc.looks) {
					t.Errorf("got %v, %v; looked at %d", left, err, looks)
				}
			})
		})
	}
}

// What the crib did not write, or not whole, is left where it is and told.
func TestFilesThatAreNoEntries(t *testing.T) {
	good := `{"mark":"` + markA + `","pid":100,"start":"b/1","program":"x"}`
	for _, tc := range []struct{ name, file, text string }{
		{"torn", markA + ".json", good[:20]},
		{"empty", markA + ".json", ""},
		{"a name that is not its mark", markB + ".json", good},
		{"a foreign file", "notes.txt", good},
		{"no mark", "x.json", `{"mark":"x","program":"x"}`},
		{"init", markA + ".json", strings.Replace(good, "100", "1", 1)},
		{"every process", markA + ".json", strings.Replace(good, "100", "-1", 1)},
		{"no time of start", markA + ".json", strings.Replace(good, "b/1", "", 1)},
		{"too large", markA + ".json", good + strings.Repeat(" ", maxEntry)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, dir := openRegistry(t)
			path := filepath.Join(dir, tc.file)
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got := r.Reap(0)
			if len(got.Ended) != 0 || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], path) {
				t.Errorf("got %+v", got)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("the file: %v", err)
			}
		})
	}
}

func TestFolderThatOthersCanWrite(t *testing.T) {
	if onWindows {
		t.Skip("there are no such permissions")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenRegistry(dir); crib.CodeOf(err) != crib.Denied {
		t.Errorf("got %v", err)
	}
}

// A child that cannot be registered is not started.
func TestUnregisteredChildIsNotStarted(t *testing.T) {
	if !canReap {
		t.Skip("nothing is registered on this system")
	}
	r, dir := openRegistry(t)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	_, err := Start(Options{Argv: helper("echo"), OnLine: func([]byte) {}, Registry: r})
	if crib.CodeOf(err) != crib.Unavailable {
		t.Errorf("got %v", err)
	}
}
