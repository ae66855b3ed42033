package clients_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/clients"
	"github.com/toolcrib/toolcrib/internal/crib"
)

func TestCommitRefusesAFileThatHasChanged(t *testing.T) {
	dir := t.TempDir()
	a, b, backups := filepath.Join(dir, "a.json"), filepath.Join(dir, "b.json"), filepath.Join(dir, "backups")
	write(t, a, "old", 0o600)
	for name, c := range map[string]clients.Change{
		"other content":  {Path: b, Before: []byte("1"), After: []byte("2")},
		"a file is new":  {Path: b, After: []byte("2")},
		"a file is gone": {Path: filepath.Join(dir, "c.json"), Before: []byte("1"), After: []byte("2")},
	} {
		write(t, b, "somebody else's", 0o600)
		err := clients.Commit(backups, "x", []clients.Change{{Path: a, Before: []byte("old"), After: []byte("new")}, c})
		if crib.CodeOf(err) != crib.Busy || string(read(t, a)) != "old" {
			t.Errorf("%s: %v, %s", name, err, read(t, a))
		}
		if list, err := clients.List(backups); len(list) != 0 || err != nil {
			t.Errorf("%s: a backup is left: %v, %v", name, list, err)
		}
	}
}

func TestCommitChangesAllFilesOrNone(t *testing.T) {
	dir := t.TempDir()
	a, made, backups := filepath.Join(dir, "a.json"), filepath.Join(dir, "new/er/b.json"), filepath.Join(dir, "backups")
	write(t, a, "old", 0o640)
	tooLong := filepath.Join(dir, strings.Repeat("n", 300))
	err := clients.Commit(backups, "x", []clients.Change{
		{Path: a, Before: []byte("old"), After: []byte("new"), Mode: 0o640},
		{Path: made, After: []byte("new")},
		{Path: filepath.Join(dir, "d"), After: []byte("new")},
		{Path: filepath.Join(dir, "d", "e.json"), After: []byte("new")}, // d is a file by now
	})
	if err == nil {
		t.Fatal("the last file could not be written, and nobody said so")
	}
	if string(read(t, a)) != "old" {
		t.Errorf("a.json is %q", read(t, a))
	}
	left, readErr := os.ReadDir(dir)
	var names []string
	for _, f := range left {
		names = append(names, f.Name())
	}
	if !slices.Equal(names, []string{"a.json", "backups"}) || readErr != nil {
		t.Errorf("%v is left, %v", names, readErr)
	}
	if list, err := clients.List(backups); len(list) != 0 || err != nil {
		t.Errorf("a backup is left: %v, %v", list, err)
	}
	if err := clients.Commit(backups, "x", []clients.Change{{Path: tooLong, After: []byte("new")}}); err == nil {
		t.Error("a name of 300 characters was written")
	}
}

func TestCommitKeepsBackupsPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIP: modes mean nothing here")
	}
	dir := t.TempDir()
	a, backups := filepath.Join(dir, "a.json"), filepath.Join(dir, "backups")
	write(t, a, "old", 0o644)
	commit(t, backups, "x", []clients.Change{{Path: a, Before: []byte("old"), After: []byte("new"), Mode: 0o644}, {Path: filepath.Join(dir, "b"), After: []byte("new")}})
	for path, want := range map[string]os.FileMode{
		backups: 0o700 | os.ModeDir, filepath.Join(backups, "x"): 0o700 | os.ModeDir,
		filepath.Join(backups, "x", "manifest.json"): 0o600, filepath.Join(backups, "x", "0.before"): 0o600,
		a: 0o644, filepath.Join(dir, "b"): 0o600,
	} {
		info, err := os.Stat(path)
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", path, info, err, want)
		}
	}
	list, err := clients.List(backups)
	if err != nil || len(list) != 1 || list[0].Label != "x" || list[0].Time.IsZero() || !slices.Equal(list[0].Files, []string{a, filepath.Join(dir, "b")}) {
		t.Errorf("the list is %+v, %v", list, err)
	}
}

func TestBackupsHoldNothingThatTheCommitWrote(t *testing.T) {
	dir := t.TempDir()
	a, made, backups := filepath.Join(dir, "a.json"), filepath.Join(dir, "KEY"), filepath.Join(dir, "backups")
	write(t, a, `{"s": {"x": {"k": "old"}}}`, 0o600)
	commit(t, backups, "x", []clients.Change{
		{Path: a, Before: read(t, a), After: []byte(`{"s": {"x": {"k": "hush-1"}, "y": {"k": "hush-2"}}}`), Tables: [][]string{{"s"}}},
		{Path: made, After: []byte("hush-3")},
	})
	holdsNo(t, backups, "hush")
	if _, err := clients.Undo(backups, "x"); err != nil || string(read(t, a)) != `{"s": {"x": {"k": "old"}}}` {
		t.Errorf("%v: %s", err, read(t, a))
	}
	if _, err := os.Stat(made); !os.IsNotExist(err) {
		t.Errorf("the new file: %v", err)
	}
}

// holdsNo reports the files below dir that hold a text.
func holdsNo(t *testing.T, dir, text string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.Contains(string(read(t, path)), text) {
			t.Errorf("%s holds %q", path, text)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestCommitRefusesLabelsAndRepetition(t *testing.T) {
	dir := t.TempDir()
	change := clients.Change{Path: filepath.Join(dir, "a"), After: []byte("new")}
	for _, label := range []string{"", "..", "../x", "a/b", ".hidden", "a\x00", "x.part", strings.Repeat("a", 101)} {
		if err := clients.Commit(dir, label, []clients.Change{change}); crib.CodeOf(err) != crib.Invalid {
			t.Errorf("label %q: %v", label, err)
		}
		if _, err := clients.Undo(dir, label); crib.CodeOf(err) != crib.Invalid {
			t.Errorf("undo of %q: %v", label, err)
		}
	}
	if err := clients.Commit(dir, "twice", []clients.Change{change, change}); crib.CodeOf(err) != crib.Invalid {
		t.Errorf("one file twice: %v", err)
	}
	commit(t, dir, "x", []clients.Change{change})
	again := clients.Change{Path: filepath.Join(dir, "b"), After: []byte("new")}
	if err := clients.Commit(dir, "x", []clients.Change{again}); crib.CodeOf(err) != crib.Invalid {
		t.Errorf("one label twice: %v", err)
	}
	if _, err := clients.Undo(dir, "nobody"); crib.CodeOf(err) != crib.NotFound {
		t.Errorf("undo of what is not there: %v", err)
	}
}

func TestCommitWritesThroughLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIP: links need a privilege here")
	}
	env := emptyMachine(t)
	dotfiles := filepath.Join(env.Dir, "dotfiles.json")
	write(t, dotfiles, "{\n  \"mcpServers\": {}\n}\n", 0o640)
	link := filepath.Join(env.Home, ".cursor/mcp.json")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dotfiles, link); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, env)
	cursor, err := clients.ByID("cursor")
	if err != nil {
		t.Fatal(err)
	}
	changes, _, err := cursor.Register(env, registration)
	if err != nil {
		t.Fatal(err)
	}
	backups := t.TempDir()
	commit(t, backups, "x", changes)
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info, err)
	}
	if info, err := os.Stat(dotfiles); err != nil || info.Mode() != 0o640 || !strings.Contains(string(read(t, dotfiles)), "toolcrib") {
		t.Errorf("the file is %v, %v: %s", info, err, read(t, dotfiles))
	}
	undoAll(t, backups)
	if after := snapshot(t, env); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	if err := os.Remove(dotfiles); err != nil {
		t.Fatal(err)
	}
	if err := clients.Commit(backups, "y", []clients.Change{{Path: link, After: []byte("{}")}}); crib.CodeOf(err) != crib.Invalid {
		t.Errorf("a link that leads nowhere: %v", err)
	}
}

func replacing(old, with string) func(string) string {
	return func(s string) string { return strings.Replace(s, old, with, 1) }
}

var undoCases = []struct {
	name   string
	client string
	before string              // "" for no file
	act    string              // register or replace
	since  func(string) string // what somebody else does between Commit and Undo
	want   string              // "" for no file
	say    string
}{
	{
		"another entry came", "gemini-cli", "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"}\n  }\n}\n", "register",
		replacing(`"a": {"command": "x"}`, `"a": {"command": "x"}, "b": {"command": "y"}`),
		"{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"}, \"b\": {\"command\": \"y\"}\n  }\n}\n", "taken out: toolcrib",
	},
	{
		"a setting came", "gemini-cli", "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"},\n    \"b\": {\"command\": \"y\"}\n  }\n}\n", "replace",
		replacing("{\n", "{\n  \"theme\": 1,\n"),
		"{\n  \"theme\": 1,\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"},\n    \"b\": {\"command\": \"y\"}\n  }\n}\n", "taken out: toolcrib; put back: a, b",
	},
	{
		"somebody put another in its place", "gemini-cli", `{"mcpServers": {"a": {"command": "x"}}}`, "replace",
		replacing(`{"toolcrib"`, `{"a": {"command": "mine"}, "toolcrib"`),
		`{"mcpServers": {"a": {"command": "mine"}}}`, "taken out: toolcrib; left as they are: a",
	},
	{
		"a replaced entry was only laid out anew", "gemini-cli", `{"mcpServers": {"toolcrib": {"command": "old"}}}`, "register",
		func(s string) string { return strings.ReplaceAll(s, ", ", ",\n") },
		`{"mcpServers": {"toolcrib": {"command": "old"}}}`, "put back: toolcrib",
	},
	{
		"a replaced entry was replaced again", "gemini-cli", `{"mcpServers": {"toolcrib": {"command": "old"}}}`, "register",
		replacing("Bearer", "Basic"),
		`{"mcpServers": {"toolcrib": {"httpUrl": "http://127.0.0.1:8090/v1/mcp", "headers": {"Authorization": "Basic crib_fixture-token_0123456789"}}}}`, "left as they are: toolcrib",
	},
	{
		"our entry is gone", "gemini-cli", `{"mcpServers": {"a": {"command": "x"}}}`, "register",
		func(string) string { return `{"mcpServers": {"b": {"command": "y"}}}` },
		`{"mcpServers": {"b": {"command": "y"}}}`, "nothing of it was left",
	},
	{
		"a new file was added to", "gemini-cli", "", "register", replacing("{\n", "{\n\t\"theme\": 1,\n"), "{\n\t\"theme\": 1\n}\n", "taken out: toolcrib",
	},
	{
		"a new file was laid out anew", "gemini-cli", "", "register", func(s string) string { return strings.ReplaceAll(s, "\t", "   ") }, "", "taken out: toolcrib",
	},
	{
		"TOML", "codex", "# mine\n[mcp_servers.a]\ncommand = 'x'\n[mcp_servers.a.env]\nK = 'v'\n", "replace",
		func(s string) string { return s + "\n[projects.x]\ntrust_level = 'trusted'\n" },
		"# mine\n\n[projects.x]\ntrust_level = 'trusted'\n\n[mcp_servers.a]\ncommand = 'x'\n[mcp_servers.a.env]\nK = 'v'\n", "taken out: toolcrib; put back: a",
	},
}

func TestUndoAfterSomebodyElse(t *testing.T) {
	for _, c := range undoCases {
		t.Run(c.name, func(t *testing.T) {
			env := emptyMachine(t)
			env.Dir = ""
			client, err := clients.ByID(c.client)
			if err != nil {
				t.Fatal(err)
			}
			path := client.Files(env)[0]
			if c.before != "" {
				write(t, path, c.before, 0o640)
			}
			act := client.Register
			if c.act == "replace" {
				act = client.Replace
			}
			changes, _, err := act(env, registration)
			if err != nil {
				t.Fatal(err)
			}
			backups := t.TempDir()
			commit(t, backups, "x", changes)
			holdsNo(t, backups, registration.Token)
			write(t, path, c.since(string(read(t, path))), 0o604)
			report, err := clients.Undo(backups, "x")
			if err != nil || len(report) != 1 || !strings.Contains(report[0], c.say) {
				t.Errorf("report %q, %v", report, err)
			}
			info, err := os.Stat(path)
			switch {
			case c.want == "":
				if err == nil {
					t.Errorf("the file is still %s", read(t, path))
				}
			case err != nil || string(read(t, path)) != c.want:
				t.Errorf("%v, got\n%s\nwant\n%s", err, read(t, path), c.want)
			case info.Mode().Perm() != 0o604 && runtime.GOOS != "windows":
				t.Errorf("mode %v is not what somebody else chose", info.Mode())
			}
			if list, _ := clients.List(backups); len(list) != 0 {
				t.Errorf("a backup is left: %v", list)
			}
		})
	}
}

func TestUndoRefusesOnlyTheFileThatItCannotRead(t *testing.T) {
	env := machine(t)
	backups := t.TempDir()
	before := snapshot(t, env)
	claude, err := clients.ByID("claude-code")
	if err != nil {
		t.Fatal(err)
	}
	changes, _, err := claude.Replace(env, registration)
	if err != nil || len(changes) != 2 {
		t.Fatal(len(changes), err)
	}
	commit(t, backups, "x", changes)
	broken := filepath.Join(env.Home, ".claude.json")
	ours := read(t, broken)
	write(t, broken, "{", 0o644)
	report, err := clients.Undo(backups, "x")
	if len(report) != 1 || crib.CodeOf(err) != crib.Invalid || !strings.Contains(fmt.Sprint(err), filepath.Join(backups, "x", "0.before")) {
		t.Errorf("report %q, %v", report, err)
	}
	write(t, broken, string(ours), 0o644)
	undoAll(t, backups)
	if after := snapshot(t, env); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}

func TestUndoAfterACrash(t *testing.T) {
	dir := t.TempDir()
	a, b, backups := filepath.Join(dir, "a.json"), filepath.Join(dir, "b.json"), filepath.Join(dir, "backups")
	write(t, a, "{}", 0o600)
	write(t, b, "{}", 0o600)
	commit(t, backups, "x", []clients.Change{
		{Path: a, Before: []byte("{}"), After: []byte(`{"a":1}`), Mode: 0o600},
		{Path: b, Before: []byte("{}"), After: []byte(`{"b":1}`), Mode: 0o600},
	})
	write(t, b, "{}", 0o600) // as if the second file had never been written
	if _, err := clients.Undo(backups, "x"); err != nil || string(read(t, a)) != "{}" || string(read(t, b)) != "{}" {
		t.Errorf("%v: %s, %s", err, read(t, a), read(t, b))
	}
}

func TestUndoRemovesFoldersThatItMade(t *testing.T) {
	dir := t.TempDir()
	backups := filepath.Join(dir, "backups")
	path := filepath.Join(dir, "one", "two", "a.json")
	commit(t, backups, "x", []clients.Change{{Path: path, After: []byte("{}")}})
	write(t, filepath.Join(dir, "one", "mine"), "", 0o600)
	if _, err := clients.Undo(backups, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "one", "two")); !os.IsNotExist(err) {
		t.Errorf("the inner folder: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "one", "mine")); err != nil {
		t.Errorf("somebody's file: %v", err)
	}
}
