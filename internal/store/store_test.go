package store

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/auth"
	"github.com/toolcrib/toolcrib/internal/crib"
)

func open(t *testing.T, dir string) *Folder {
	t.Helper()
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func newFolder(t *testing.T) *Folder {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "a", "data"))
}

// everyFile returns the modes of all that lies in the folder.
func everyFile(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	out := map[string]fs.FileMode{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		out[strings.TrimPrefix(path, dir)] = info.Mode()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func onUnix(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("modes say nothing of other users on Windows")
	}
}

func TestEverythingIsForThisUserAlone(t *testing.T) {
	onUnix(t)
	f := newFolder(t)
	if err := f.SaveLocalToken("tcb_x"); err != nil {
		t.Fatal(err)
	}
	if err := f.Lists().Save("files", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if err := f.NewTokens().Update(add("local")); err != nil {
		t.Fatal(err)
	}
	lock, err := f.Lock()
	if err != nil {
		t.Fatal(err)
	}
	files := everyFile(t, f.Path())
	for _, name := range []string{"", "/lists", "/lists/list-files.json", "/local.token", "/tokens.json", "/serve.lock", "/serving.json", "/write.lock"} {
		mode, ok := files[name]
		want := fileMode
		if mode.IsDir() {
			want = folderMode
		}
		if !ok || mode.Perm() != want {
			t.Errorf("%q: there %t, mode %04o, want %04o", name, ok, mode.Perm(), want)
		}
		delete(files, name)
	}
	for name := range files {
		t.Errorf("%q was left behind", name)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestFolderOfOthersIsRefused(t *testing.T) {
	onUnix(t)
	for _, tc := range []struct {
		name string
		mode fs.FileMode
		ok   bool
	}{
		{"closed", 0o700, true},
		{"readable", 0o755, true},
		{"group may write", 0o770, false},
		{"world may write", 0o703, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Chmod(dir, tc.mode); err != nil {
				t.Fatal(err)
			}
			f, err := Open(dir)
			if tc.ok {
				if err != nil {
					t.Fatal(err)
				}
				_ = f.Close()
				return
			}
			if crib.CodeOf(err) != crib.Denied || !strings.Contains(err.Error(), "chmod go-w") {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("lists folder", func(t *testing.T) {
		f := newFolder(t)
		if err := os.Chmod(filepath.Join(f.Path(), listsFolder), 0o777); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(f.Path()); crib.CodeOf(err) != crib.Denied {
			t.Errorf("got %v", err)
		}
	})
}

func TestFilesOfOthersAreRefused(t *testing.T) {
	onUnix(t)
	f := newFolder(t)
	if err := f.SaveLocalToken("tcb_x"); err != nil {
		t.Fatal(err)
	}
	if err := f.Lists().Save("files", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if err := f.NewTokens().Update(add("local")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		file     string
		readable bool // whether others may read it
		read     func() error
	}{
		{localTokenFile, false, func() error { _, err := f.LocalToken(); return err }},
		{tokensFile, true, func() error { _, err := f.NewTokens().Tokens(); return err }},
		{tokensFile, true, func() error { return f.NewTokens().Update(add("x")) }},
		{"lists/list-files.json", true, func() error { _, err := f.Lists().Load("files"); return err }},
	} {
		path := filepath.Join(f.Path(), tc.file)
		for mode, want := range map[fs.FileMode]bool{0o600: true, 0o400: true, 0o644: tc.readable, 0o620: false, 0o602: false} {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			err := tc.read()
			if want && err != nil || !want && crib.CodeOf(err) != crib.Denied {
				t.Errorf("%s with mode %04o: %v", tc.file, mode, err)
			}
		}
	}
}

func TestForeignOwnerIsRefused(t *testing.T) {
	onUnix(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	dir := t.TempDir()
	if err := os.Chown(dir, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); crib.CodeOf(err) != crib.Denied || !strings.Contains(err.Error(), "12345") {
		t.Errorf("got %v", err)
	}
}

func TestFilesDoNotLeadOutOfTheFolder(t *testing.T) {
	onUnix(t)
	f := newFolder(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("tcb_x\n"), fileMode); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(f.Path(), localTokenFile)); err != nil {
		t.Fatal(err)
	}
	if text, err := f.LocalToken(); err == nil {
		t.Errorf("read %q through a link", text)
	}
	if err := os.Remove(filepath.Join(f.Path(), localTokenFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(f.Path(), localTokenFile), folderMode); err != nil {
		t.Fatal(err)
	}
	if _, err := f.LocalToken(); crib.CodeOf(err) != crib.Invalid {
		t.Errorf("a folder in the place of a file: %v", err)
	}
}

func TestLists(t *testing.T) {
	l := newFolder(t).Lists()
	if doc, err := l.Load("files"); doc != nil || err != nil {
		t.Errorf("nothing saved: %q %v", doc, err)
	}
	if err := l.Delete("files"); err != nil {
		t.Errorf("nothing to delete: %v", err)
	}
	for _, doc := range []string{"one", "two\x00\xff", ""} {
		if err := l.Save("files", []byte(doc)); err != nil {
			t.Fatal(err)
		}
		if got, err := l.Load("files"); string(got) != doc || err != nil {
			t.Errorf("got %q %v, want %q", got, err, doc)
		}
	}
	if err := l.Save("con", []byte("device")); err != nil {
		t.Errorf("a name that Windows reserves: %v", err)
	}
	if err := l.Delete("files"); err != nil {
		t.Fatal(err)
	}
	if doc, err := l.Load("files"); doc != nil || err != nil {
		t.Errorf("deleted: %q %v", doc, err)
	}
	if doc, err := l.Load("con"); string(doc) != "device" || err != nil {
		t.Errorf("the other server: %q %v", doc, err)
	}
	if err := l.Save("con", make([]byte, MaxList+1)); crib.CodeOf(err) != crib.TooLarge {
		t.Errorf("too large: %v", err)
	}
	for _, name := range []string{"", "..", "../x", "a/b", "a.b", "A", strings.Repeat("a", 32)} {
		_, lerr := l.Load(name)
		for _, err := range []error{lerr, l.Save(name, nil), l.Delete(name)} {
			if crib.CodeOf(err) != crib.Invalid {
				t.Errorf("name %q: %v", name, err)
			}
		}
	}
}

func TestAWriteThatFailsKeepsTheOld(t *testing.T) {
	f := newFolder(t)
	if err := f.Lists().Save("files", []byte("old")); err != nil {
		t.Fatal(err)
	}
	// A folder in the way of the rename stands for a disk that fails there.
	if err := os.MkdirAll(filepath.Join(f.Path(), tokensFile, "x"), folderMode); err != nil {
		t.Fatal(err)
	}
	if err := f.write(tokensFile, []byte("new")); err == nil {
		t.Fatal("a folder was replaced by a file")
	}
	for name := range everyFile(t, f.Path()) {
		if strings.HasSuffix(name, tempSuffix) {
			t.Errorf("%s was left behind", name)
		}
	}
}

func TestSweepTakesWhatAKilledProcessLeft(t *testing.T) {
	f := newFolder(t)
	now := time.Now()
	for name, age := range map[string]time.Duration{
		".tokens.json.A.tmp":           2 * tempAge,
		"lists/.list-x.json.B.tmp":     2 * tempAge,
		"lists/.list-young.json.C.tmp": tempAge / 2,
		"notes.tmp":                    2 * tempAge,
	} {
		path := filepath.Join(f.Path(), name)
		if err := os.WriteFile(path, nil, fileMode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := f.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Unlock() }()
	var left []string
	for name := range everyFile(t, f.Path()) {
		if strings.HasSuffix(name, tempSuffix) {
			left = append(left, filepath.Base(name))
		}
	}
	slices.Sort(left)
	if want := []string{".list-young.json.C.tmp", "notes.tmp"}; !slices.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
}

func TestLocalToken(t *testing.T) {
	f := newFolder(t)
	if _, err := f.LocalToken(); crib.CodeOf(err) != crib.NotFound {
		t.Errorf("none kept: %v", err)
	}
	for _, text := range []string{"tcb_a", "tcb_b"} {
		if err := f.SaveLocalToken(text); err != nil {
			t.Fatal(err)
		}
		if got, err := f.LocalToken(); got != text || err != nil {
			t.Errorf("got %q %v", got, err)
		}
	}
}

// add is a change that adds a token of that name.
func add(name string) func([]auth.Token) ([]auth.Token, error) {
	return func(tokens []auth.Token) ([]auth.Token, error) {
		return append(tokens, auth.Token{
			Name: name, Hash: sha256.Sum256([]byte(name)), Created: time.Date(2026, 8, 1, 12, 0, 0, 5000, time.UTC),
		}), nil
	}
}

func TestTokens(t *testing.T) {
	f := newFolder(t)
	tokens := f.NewTokens()
	if got, err := tokens.Tokens(); len(got) != 0 || err != nil {
		t.Errorf("none kept: %v %v", got, err)
	}
	if err := tokens.Update(add("local")); err != nil {
		t.Fatal(err)
	}
	got, err := open(t, f.Path()).NewTokens().Tokens()
	want, _ := add("local")(nil)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v %v, want %v", got, err, want)
	}
	boom := errors.New("no")
	if err := tokens.Update(func([]auth.Token) ([]auth.Token, error) { return nil, boom }); !errors.Is(err, boom) {
		t.Errorf("a change that refuses: %v", err)
	}
	if got, err := tokens.Tokens(); len(got) != 1 || err != nil {
		t.Errorf("after a refused change: %v %v", got, err)
	}
}

func TestTokensOfTwoProcessesDoNotGetLost(t *testing.T) {
	dir := newFolder(t).Path()
	const writers, each = 4, 10
	var wg sync.WaitGroup
	for w := range writers {
		tokens := open(t, dir).NewTokens()
		wg.Go(func() {
			for i := range each {
				if err := tokens.Update(add(string(rune('a'+w)) + string(rune('a'+i)))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got, err := open(t, dir).NewTokens().Tokens(); len(got) != writers*each || err != nil {
		t.Errorf("%d tokens, %v", len(got), err)
	}
}

func TestDamagedTokensAreRefused(t *testing.T) {
	const hash = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	for _, tc := range []struct {
		doc  string
		want crib.Code
	}{
		{``, crib.Invalid},
		{`{"version":1,"tokens":[`, crib.Invalid},
		{`{"version":1,"tokens":[{"name":"a","sha256":"AAAA","created_us":1}]}`, crib.Invalid},
		{`{"version":1,"tokens":[{"name":"a","sha256":"` + hash + `","name":"b"}]}`, crib.Invalid},
		{`{"version":2,"tokens":[]}`, crib.Unsupported},
		{`{}`, crib.Unsupported},
	} {
		f := newFolder(t)
		path := filepath.Join(f.Path(), tokensFile)
		if err := os.WriteFile(path, []byte(tc.doc), fileMode); err != nil {
			t.Fatal(err)
		}
		if _, err := f.NewTokens().Tokens(); crib.CodeOf(err) != tc.want || err == nil {
			t.Errorf("%s: %v", tc.doc, err)
		}
		if err := f.NewTokens().Update(add("x")); err == nil {
			t.Errorf("%s: was overwritten", tc.doc)
		}
	}
}

func TestTokensChanged(t *testing.T) {
	f := newFolder(t)
	here, elsewhere := f.NewTokens(), open(t, f.Path()).NewTokens()
	check := func(when string, want bool) {
		t.Helper()
		if got, err := here.Changed(); got != want || err != nil {
			t.Errorf("%s: changed %t %v", when, got, err)
		}
	}
	check("before any", false)
	if err := elsewhere.Update(add("a")); err != nil {
		t.Fatal(err)
	}
	check("made elsewhere", true)
	if _, err := here.Tokens(); err != nil {
		t.Fatal(err)
	}
	check("read here", false)
	if err := here.Update(add("b")); err != nil {
		t.Fatal(err)
	}
	check("changed here", false)
	if err := elsewhere.Update(add("c")); err != nil {
		t.Fatal(err)
	}
	check("changed elsewhere", true)
	if _, err := here.Tokens(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(f.Path(), tokensFile)); err != nil {
		t.Fatal(err)
	}
	check("removed", true)
}
