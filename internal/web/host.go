package web

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/toolcrib/toolcrib/internal/crib"
)

const (
	maxHostName  = 253 // bytes of a DNS name, RFC 1035 section 2.3.4
	maxHostLabel = 63  // bytes of one label, the same
)

// hostRule is an entry of a list of hosts, taken apart.
type hostRule struct {
	name string // canonical
	wild bool   // every name below name, and not name itself
	port string // "" is any port
}

// loopbackRules match the names by which a machine calls itself. No name
// server can make another site answer to one of them, so a page that was
// rebound to 127.0.0.1 never carries one.
func loopbackRules(port string) []hostRule {
	return []hostRule{
		{name: "localhost", port: port},
		{name: "localhost", wild: true, port: port},
		{name: "127.0.0.1", port: port},
		{name: "::1", port: port},
	}
}

// CheckHost reports, as an Invalid error, why entry cannot stand in
// runtime.mcp.allowed_hosts.
func CheckHost(entry string) error {
	_, err := hostRules(entry)
	return err
}

// hostRules reads one entry of allowed_hosts. "localhost" stands for all
// loopback names: whoever allows one of them means this machine, and clients
// are free to call it 127.0.0.1.
func hostRules(entry string) ([]hostRule, error) {
	rest, wild := strings.CutPrefix(entry, "*.")
	name, port, ok := splitHost(rest)
	if _, err := netip.ParseAddr(name); !ok || wild && err == nil {
		return nil, crib.Errorf(crib.Invalid,
			`allowed host %q: write a name or an address, with a port if only that port is meant, such as crib.example.com, *.example.com, 10.0.0.7:8090 or [::1]:8090`, entry)
	}
	if name == "localhost" && !wild {
		return loopbackRules(port), nil
	}
	return []hostRule{{name: name, wild: wild, port: port}}, nil
}

func (r hostRule) matches(name, port string) bool {
	if !r.matchesPort(port) {
		return false
	}
	if !r.wild {
		return name == r.name
	}
	below, ok := strings.CutSuffix(name, r.name)
	return ok && strings.HasSuffix(below, ".")
}

// matchesPort lets a Host without a port be either default port: behind a
// proxy that ends TLS the crib cannot know which of the two was meant.
func (r hostRule) matchesPort(port string) bool {
	return r.port == "" || r.port == port || port == "" && (r.port == "80" || r.port == "443")
}

// hostList is a list of allowed hosts, ready to ask.
type hostList struct {
	off   bool
	rules []hostRule
	last  atomic.Pointer[string] // was allowed; mostly all requests name one host
}

func newHostList(entries []string) (*hostList, error) {
	if len(entries) == 0 {
		return &hostList{rules: loopbackRules("")}, nil
	}
	if slices.Contains(entries, "*") {
		if len(entries) > 1 {
			return nil, crib.Errorf(crib.Invalid, `allowed hosts: "*" switches the check off and must stand alone; remove it or the other entries`)
		}
		return &hostList{off: true}, nil
	}
	l := new(hostList)
	for _, e := range entries {
		rules, err := hostRules(e)
		if err != nil {
			return nil, err
		}
		l.rules = append(l.rules, rules...)
	}
	return l, nil
}

// allows reports whether a request may name host, as its Host header spells
// it. An empty one is refused even where the check is off: nothing that speaks
// to the crib on purpose leaves it out.
func (l *hostList) allows(host string) bool {
	if l.off {
		return host != ""
	}
	if last := l.last.Load(); last != nil && *last == host {
		return true
	}
	name, port, ok := splitHost(host)
	ok = ok && slices.ContainsFunc(l.rules, func(r hostRule) bool { return r.matches(name, port) })
	if ok {
		kept := host // only what is kept goes to the heap
		l.last.Store(&kept)
	}
	return ok
}

// splitHost takes a Host apart: a name or an address in canonical form, and a
// port if there is one. It takes IPv6 addresses with and without brackets, one
// trailing dot and upper case; everything that is neither a name nor an
// address in its usual spelling is refused, so that there is one way only to
// read what was allowed.
func splitHost(s string) (name, port string, ok bool) {
	if inside, found := strings.CutPrefix(s, "["); found {
		literal, rest, found := strings.Cut(inside, "]")
		if name, ok = ipv6(literal); !found || !ok {
			return "", "", false
		}
		port, ok = cutPort(rest)
		return name, port, ok
	}
	if strings.Count(s, ":") > 1 {
		name, ok = ipv6(s)
		return name, "", ok
	}
	rest := ""
	if colon := strings.IndexByte(s, ':'); colon >= 0 {
		s, rest = s[:colon], s[colon:]
	}
	name = strings.ToLower(strings.TrimSuffix(s, "."))
	if !isHostName(name) { // the usual spelling of an IPv4 address passes too
		return "", "", false
	}
	port, ok = cutPort(rest)
	return name, port, ok
}

// ipv6 returns the canonical spelling of an IPv6 address without a zone.
func ipv6(s string) (string, bool) {
	addr, err := netip.ParseAddr(s)
	if err != nil || !addr.Is6() || addr.Zone() != "" {
		return "", false
	}
	return addr.String(), true
}

// cutPort reads what follows a host: nothing, or a colon and a port, which
// RFC 3986 section 3.2.3 lets be empty.
func cutPort(s string) (string, bool) {
	if s == "" {
		return "", true
	}
	digits, ok := strings.CutPrefix(s, ":")
	if !ok {
		return "", false
	}
	if digits == "" {
		return "", true
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return "", false
	}
	return strconv.FormatUint(n, 10), true
}

// isHostName reports whether s, in lower case, is a DNS name. Underscores
// occur in names of containers.
func isHostName(s string) bool {
	if s == "" || len(s) > maxHostName {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > maxHostLabel {
			return false
		}
		if strings.ContainsFunc(label, func(c rune) bool {
			return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_'
		}) {
			return false
		}
	}
	return true
}
