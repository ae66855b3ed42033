package child

import (
	"maps"
	"slices"
	"strings"
)

// Inherit says which variables of the crib's environment a child gets.
type Inherit struct {
	None  bool     // only what no program starts without: PATH, on Windows also SYSTEMROOT
	Names []string // these as well, where they are set
}

var (
	minimal        = []string{"PATH"}
	minimalWindows = []string{"PATH", "SYSTEMROOT"}

	base        = []string{"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}
	baseWindows = []string{"SYSTEMROOT", "SYSTEMDRIVE", "PATH", "PATHEXT", "COMSPEC", "TEMP", "TMP",
		"APPDATA", "LOCALAPPDATA", "USERPROFILE", "USERNAME", "HOMEDRIVE", "HOMEPATH",
		"PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMDATA", "PROCESSOR_ARCHITECTURE"}

	// network is what a child needs behind a company's proxy.
	network = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"}
)

// BaseEnv picks from environ, the crib's own environment, what a child
// inherits: enough to start and to reach the network, and nothing else.
// Exported shell functions are left out. The result is sorted.
func BaseEnv(environ []string, inherit Inherit) []string {
	return baseEnv(environ, inherit, onWindows)
}

func baseEnv(environ []string, inherit Inherit, windows bool) []string {
	names := slices.Concat(pick(windows, baseWindows, base), network)
	if inherit.None {
		names = pick(windows, minimalWindows, minimal)
	}
	wanted := map[string]bool{}
	for _, name := range slices.Concat(names, inherit.Names) {
		wanted[fold(name, windows)] = true
	}
	var kept []string
	for _, entry := range environ {
		name, value, ok := cutEntry(entry)
		if ok && wanted[fold(name, windows)] && !strings.HasPrefix(value, "()") {
			kept = append(kept, entry)
		}
	}
	return mergeEnv(kept, nil, windows)
}

// MergeEnv returns base with the variables of own, which win. Of several
// entries with one name the last counts. Names are equal by case, except on
// Windows. The result is sorted by name, so that it does not depend on the
// order of its parts.
func MergeEnv(base, own []string) []string { return mergeEnv(base, own, onWindows) }

func mergeEnv(base, own []string, windows bool) []string {
	entries := map[string]string{}
	for _, entry := range slices.Concat(base, own) {
		if name, _, ok := cutEntry(entry); ok {
			entries[fold(name, windows)] = entry
		}
	}
	merged := make([]string, 0, len(entries))
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		merged = append(merged, entries[name])
	}
	return merged
}

// cutEntry splits NAME=value. Entries without a name, such as the "=C:=C:\dir"
// of Windows, are no variables.
func cutEntry(entry string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(entry, "=")
	return name, value, ok && name != ""
}

// lookupEnv returns the value of name in env, the last one if it occurs twice.
func lookupEnv(env []string, name string) string {
	for _, entry := range slices.Backward(env) {
		if n, value, ok := cutEntry(entry); ok && fold(n, onWindows) == fold(name, onWindows) {
			return value
		}
	}
	return ""
}

// fold returns name in the form by which names are compared.
func fold(name string, windows bool) string {
	if windows {
		return strings.ToUpper(name)
	}
	return name
}

func pick[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}
