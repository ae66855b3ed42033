package web

import (
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// origin is a web origin, taken apart (RFC 6454 section 4).
type origin struct {
	scheme string
	host   string // canonical
	port   string // "" is the scheme's default port
}

// parseOrigin reads an Origin header or an entry of allowed_origins. "null",
// which sandboxed pages and files send, is no origin.
func parseOrigin(s string) (origin, bool) {
	scheme, rest, ok := strings.Cut(s, "://")
	scheme = strings.ToLower(scheme)
	if !ok || !isScheme(scheme) {
		return origin{}, false
	}
	host, port, ok := splitHost(rest)
	if !ok {
		return origin{}, false
	}
	if scheme == "http" && port == "80" || scheme == "https" && port == "443" {
		port = ""
	}
	return origin{scheme, host, port}, true
}

// isScheme follows RFC 3986 section 3.1, in lower case.
func isScheme(s string) bool {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	return !strings.ContainsFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '+' && c != '-' && c != '.'
	})
}

// local reports whether o is a page of this machine, on any port.
func (o origin) local() bool {
	if o.scheme != "http" && o.scheme != "https" {
		return false
	}
	return slices.ContainsFunc(loopbackRules(""), func(r hostRule) bool { return r.matches(o.host, o.port) })
}

// CheckOrigin reports, as an Invalid error, why entry cannot stand in
// runtime.cors.allowed_origins.
func CheckOrigin(entry string) error {
	if entry == "*" {
		return nil
	}
	if _, ok := parseOrigin(entry); !ok {
		return crib.Errorf(crib.Invalid,
			"allowed origin %q: write a scheme, a host and, if it is not the usual one, a port, and nothing behind them, such as https://app.example.com", entry)
	}
	return nil
}

// originList is a list of allowed origins, ready to ask.
type originList struct {
	local bool
	exact []origin
}

// newOriginList reads allowed_origins. "*" is no origin (RFC 6454): it stands
// for the pages of this machine and never for every page of the web.
func newOriginList(entries []string) (originList, error) {
	l := originList{local: len(entries) == 0}
	for _, e := range entries {
		if err := CheckOrigin(e); err != nil {
			return originList{}, err
		}
		if e == "*" {
			l.local = true
			continue
		}
		o, _ := parseOrigin(e)
		l.exact = append(l.exact, o)
	}
	return l, nil
}

func (l originList) allows(header string) bool {
	o, ok := parseOrigin(header)
	return ok && (l.local && o.local() || slices.Contains(l.exact, o))
}
