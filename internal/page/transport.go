package page

import (
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/secret"
)

// transportText is the value of transport: as it was written.
type transportText struct {
	http, stdio, command, cwd string
	args                      []string
}

func transportFields() []Field[transportText] {
	line := func(name string, to func(*transportText) *string) func(*Decoder, Node, *transportText) {
		return func(d *Decoder, n Node, t *transportText) {
			if s, ok := d.ReadText(n, name); ok {
				if s == "" {
					d.Errorf(n.At, "%s is empty", name)
				}
				*to(t) = s
			}
		}
	}
	return []Field[transportText]{
		{"http", "URL", "", "The address of a server that speaks Streamable HTTP, or the older HTTP+SSE.", TextSchema(), line("http", func(t *transportText) *string { return &t.http })},
		{"stdio", "text", "", "A command line, split once into program and arguments; no shell runs.", TextSchema(), line("stdio", func(t *transportText) *string { return &t.stdio })},
		{"command", "text", "", "A program; `~/` in front is the home folder.", TextSchema(), line("command", func(t *transportText) *string { return &t.command })},
		{"args", "list", "[]", "The arguments of command.", ListSchema(ScalarSchema()), readArgs},
		{"cwd", "folder", "the workspace", "Where the command starts; `~/` in front is the home folder.", TextSchema(), line("cwd", func(t *transportText) *string { return &t.cwd })},
	}
}

func readArgs(d *Decoder, n Node, t *transportText) {
	if n.Kind != List {
		d.Errorf(n.At, "args is %s; a list was expected, such as [-y, \"pkg@1.2.3\"]", n.Kind)
		return
	}
	for _, item := range n.Items {
		arg, ok := d.ReadScalar(item, "an argument")
		if !ok {
			return
		}
		t.args = append(t.args, arg)
	}
}

func readTransport(d *Decoder, n Node, b *Block) {
	if n.Kind != Mapping {
		d.Errorf(n.At, "transport is %s; { http: URL }, { stdio: 'command args…' } or { command: program, args: [list] } was expected", n.Kind)
		return
	}
	var t transportText
	before := len(d.Faults)
	ReadMapping(d, n, "transport", transportFields(), &t)
	if Faulty(d.Faults[before:]) {
		return
	}
	count := 0
	for _, s := range []string{t.http, t.stdio, t.command} {
		if s != "" {
			count++
		}
	}
	switch {
	case count != 1:
		d.Errorf(n.At, "transport needs exactly one of http, stdio and command")
	case t.args != nil && t.command == "":
		d.Errorf(n.At, "args belong to command")
	case t.http != "":
		if t.cwd != "" {
			d.Errorf(n.At, "cwd belongs to a command; this server is reached by URL")
		}
		ReadURL(d, n.Members[0].Value.At, t.http, &b.Transport)
	default:
		readCommand(d, n, t, b)
	}
}

func readCommand(d *Decoder, n Node, t transportText, b *Block) {
	command := append([]string{t.command}, t.args...)
	if t.stdio != "" {
		var err error
		if command, err = SplitCommand(t.stdio); err != nil {
			d.Errorf(n.At, "stdio: %s", err)
			return
		}
	} else if len(t.args) == 0 && strings.Contains(t.command, " ") && !strings.ContainsAny(t.command, `/\`) {
		d.Warnf(n.At, "command is the name of one program, with a space in it; for a command line write { stdio: '…' }")
	}
	if strings.ContainsRune(t.cwd, 0) || strings.Contains(t.cwd, "${") {
		d.Errorf(n.At, "cwd: nothing is expanded here but ~/ in front")
		return
	}
	CheckCommand(d, n.At, command, Warning)
	b.Transport.Command, b.Transport.Dir = command, t.cwd
}

var (
	// reference is a secret reference or a shell variable in braces.
	reference = regexp.MustCompile(`\$\{\s*[A-Za-z_][A-Za-z0-9_-]*\s*[:}]`)
	// variable is a shell variable without braces, as people spell them.
	variable = regexp.MustCompile(`\$[A-Z_][A-Z0-9_]+\b`)
)

const notExpanded = "arguments are not expanded, because other users can read them: give the secret under env"

// CheckCommand adds what is wrong with a program and its arguments. An
// argument that looks like a key has the severity keys: every user of the
// machine can read it in the list of processes.
func CheckCommand(d *Decoder, at Place, command []string, keys Severity) {
	for i, arg := range command {
		if strings.ContainsRune(arg, 0) {
			d.Errorf(at, "argument %d holds a NUL character, which no argument can", i)
		}
		if reference.MatchString(arg) {
			d.Errorf(at, "argument %d has a ${…} in it, but %s", i, notExpanded)
		} else if variable.MatchString(arg) {
			d.Warnf(at, "argument %d has a $VARIABLE in it, which is not expanded", i)
		}
		if argHoldsKey(command, i) {
			d.add(at, keys, "argument %d looks like a key, and other users of this machine can read arguments: give it under env, from a secret", i)
		}
	}
}

// argHoldsKey looks at --api-key=VALUE, API_KEY=VALUE and --api-key VALUE.
func argHoldsKey(command []string, i int) bool {
	if i == 0 {
		return false
	}
	arg := command[i]
	if name, value, ok := strings.Cut(arg, "="); ok && secret.LooksLikeKey(name, value) {
		return true
	}
	name := ""
	if strings.HasPrefix(command[i-1], "-") {
		name = command[i-1]
	}
	return secret.LooksLikeKey(name, arg)
}

// ReadURL checks the address of a server and puts it into t.
func ReadURL(d *Decoder, at Place, address string, t *Transport) {
	if err := CheckURL(address); err != nil {
		d.Errorf(at, "%s", err)
		return
	}
	if u, err := url.Parse(address); err == nil && secret.LooksLikeKey("", u.Path) {
		d.Warnf(at, "the address has something in its path that looks like a key; whoever reads this file has it")
	}
	t.URL = address
}

// CheckURL reports, as an Invalid error, why address cannot be the address of
// a server. It never shows it, because it may hold a secret.
func CheckURL(address string) error {
	if strings.Contains(address, "${") {
		return crib.Errorf(crib.Invalid, "an address is not expanded: write it out, and give secrets under headers")
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return crib.Errorf(crib.Invalid, "this is not an address: http://… or https://… was expected")
	case u.Scheme != "http" && u.Scheme != "https":
		return crib.Errorf(crib.Invalid, "an address that starts with http:// or https:// was expected")
	case u.Hostname() == "":
		return crib.Errorf(crib.Invalid, "the address names no host")
	case u.User != nil:
		return crib.Errorf(crib.Invalid, "the address has a user name or password in it: give it as an Authorization header, from a secret")
	case u.Fragment != "" || strings.Contains(address, "#"):
		return crib.Errorf(crib.Invalid, "the address has a # in it; a server never gets what follows it")
	}
	for name, values := range u.Query() {
		for _, v := range values {
			if secret.LooksLikeKey(name, v) {
				return crib.Errorf(crib.Invalid, "the address has what looks like a key in its query, where logs would show it: give it under headers, from a secret")
			}
		}
	}
	return nil
}

// IsLoopback reports whether host, without a port, is this machine.
func IsLoopback(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback()
}

func warnUnencrypted(d *Decoder, at Place, b Block) {
	u, err := url.Parse(b.Transport.URL)
	if err == nil && u.Scheme == "http" && !IsLoopback(u.Hostname()) {
		d.Warnf(at, "http:// to another machine is not encrypted: everybody on the way can read and change calls, and the headers with their secrets; use https://")
	}
}
