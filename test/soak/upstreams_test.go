package soak

import (
	"encoding/json"
	"strings"
)

// httpPage is the page of a server that is reached by URL; more are further
// lines of it.
func httpPage(url, more string) string {
	return "---\nmcp:\n  transport: { http: " + quote(url) + " }\n  gate: { \"*\": allow }\n" + more + "---\n"
}

// stdioPage is the page of a server that is started.
func stdioPage(argv []string, more string) string {
	args := make([]string, len(argv)-1)
	for i, arg := range argv[1:] {
		args[i] = quote(arg)
	}
	return "---\nmcp:\n  transport: { command: " + quote(argv[0]) + ", args: [" + strings.Join(args, ", ") + "] }\n  gate: { \"*\": allow }\n" + more + "---\n"
}

// quote writes a string as YAML, which JSON is.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings can be written
	}
	return string(b)
}

// bePeer makes the process one of the peers below.
func bePeer(args []string) []string { return args }
