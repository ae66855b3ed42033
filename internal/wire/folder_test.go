package wire

import (
	"runtime"
	"testing"
)

func TestFolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIP: the paths here are those of other systems")
	}
	for uri, want := range map[string]string{
		"file:///home/a%20b":      "/home/a b",
		"file://localhost/x/../y": "/y",
		"file:///x/":              "/x",
		"file://other/x":          "",
		"http:///x":               "",
		"/x":                      "",
		"file:x":                  "",
		"file:///x%00y":           "",
		"":                        "",
	} {
		if got := Folder(uri); got != want {
			t.Errorf("%q: got %q, want %q", uri, got, want)
		}
	}
	for _, dir := range []string{"/", "/home/a b", "/ü/%41", "/a?b#c"} {
		if got := Folder(FolderURI(dir)); got != dir {
			t.Errorf("%q became %q", dir, got)
		}
	}
}
