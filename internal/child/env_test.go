package child

import (
	"slices"
	"testing"
)

func TestBaseEnv(t *testing.T) {
	environ := []string{
		"PATH=/bin", "HOME=/home/u", "USER=u", "LOGNAME=u", "SHELL=/bin/sh", "TERM=xterm",
		"FAKE_API_KEY=x", "LD_PRELOAD=/evil.so", "NODE_OPTIONS=--require=x", "LANG=C",
		"HTTPS_PROXY=p", "no_proxy=n", "SSL_CERT_FILE=c", "NODE_EXTRA_CA_CERTS=", "path=/lower",
		"EXTRA=1", "FUNC=() { :; }", "=C:=C:\\", "BROKEN",
	}
	for _, tc := range []struct {
		name    string
		inherit Inherit
		windows bool
		want    []string
	}{
		{"the base", Inherit{}, false, []string{
			"HOME=/home/u", "HTTPS_PROXY=p", "LOGNAME=u", "NODE_EXTRA_CA_CERTS=", "PATH=/bin",
			"SHELL=/bin/sh", "SSL_CERT_FILE=c", "TERM=xterm", "USER=u", "no_proxy=n"}},
		{"none", Inherit{None: true}, false, []string{"PATH=/bin"}},
		{"none and names", Inherit{None: true, Names: []string{"EXTRA", "FUNC", "UNSET", "extra"}}, false, []string{"EXTRA=1", "PATH=/bin"}},
		{"names", Inherit{Names: []string{"LANG"}}, false, []string{
			"HOME=/home/u", "HTTPS_PROXY=p", "LANG=C", "LOGNAME=u", "NODE_EXTRA_CA_CERTS=", "PATH=/bin",
			"SHELL=/bin/sh", "SSL_CERT_FILE=c", "TERM=xterm", "USER=u", "no_proxy=n"}},
		{"Windows folds names", Inherit{None: true, Names: []string{"extra"}}, true, []string{"EXTRA=1", "path=/lower"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := baseEnv(environ, tc.inherit, tc.windows); !slices.Equal(got, tc.want) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestBaseEnvOnWindows(t *testing.T) {
	environ := []string{"SystemRoot=C:\\Windows", "Path=C:\\bin", "ComSpec=cmd.exe", "ProgramFiles=C:\\P", "SECRET=x"}
	want := []string{"ComSpec=cmd.exe", "Path=C:\\bin", "ProgramFiles=C:\\P", "SystemRoot=C:\\Windows"}
	if got := baseEnv(environ, Inherit{}, true); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	want = []string{"Path=C:\\bin", "SystemRoot=C:\\Windows"}
	if got := baseEnv(environ, Inherit{None: true}, true); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMergeEnv(t *testing.T) {
	base := []string{"B=base", "A=base", "X=1=2", "A=base again"}
	own := []string{"C=own", "B=own", "C=own again", "a=lower"}
	for _, tc := range []struct {
		windows bool
		want    []string
	}{
		{false, []string{"A=base again", "B=own", "C=own again", "X=1=2", "a=lower"}},
		{true, []string{"a=lower", "B=own", "C=own again", "X=1=2"}},
	} {
		if got := mergeEnv(base, own, tc.windows); !slices.Equal(got, tc.want) {
			t.Errorf("windows %v: got %q, want %q", tc.windows, got, tc.want)
		}
	}
}
