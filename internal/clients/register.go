package clients

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolcrib/toolcrib/internal/clients/edit"
	"github.com/toolcrib/toolcrib/internal/crib"
)

// newFileMode is the mode of a file that did not exist: it will hold a token.
const newFileMode fs.FileMode = 0o600

// MaxRegistrationName is the greatest length of a registration's name in
// bytes.
const MaxRegistrationName = 64

var (
	registrationName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	tokenText        = regexp.MustCompile(`^[A-Za-z0-9._~+/=-]+$`)
)

// Names that mean something to every JavaScript object, which most clients
// keep their servers in.
var reservedNames = map[string]bool{
	"__proto__": true, "constructor": true, "hasOwnProperty": true, "isPrototypeOf": true,
	"propertyIsEnumerable": true, "prototype": true, "toString": true, "valueOf": true,
}

// Registration is how a client shall reach the crib.
type Registration struct {
	Name    string   // in the client; "" means RegistrationName
	URL     string   // of the crib's MCP endpoint
	Token   string   // of this client alone
	Command []string // for clients that start a command, and when URL is ""
}

func (r Registration) String() string {
	return fmt.Sprintf("%s at %s with a token of its own", r.Name, r.URL)
}

// GoString keeps the token out of %#v too.
func (r Registration) GoString() string { return r.String() }

// Change is one file before and after. Commit applies it.
type Change struct {
	Path   string
	Before []byte // nil when the file does not exist
	After  []byte // nil when the file shall go
	Mode   fs.FileMode
	Tables [][]string // keys of the tables whose entries differ, for Undo when the file has changed since
}

// Register adds the crib to the client for all its projects, over HTTP where
// the client and r allow it, else as a command. Entries that are there stay;
// one of the same name is replaced. The text says in one line what will
// change, without the token. No changes mean that it is registered so already.
func (c *Client) Register(env Env, r Registration) ([]Change, string, error) {
	r, err := c.checked(env, r)
	if err != nil {
		return nil, "", err
	}
	e := editor{client: c, env: env}
	if err := e.register(r); err != nil {
		return nil, "", err
	}
	return e.changes(), e.line("add", r), nil
}

// Unregister takes the entry of that name out again, from the files that are
// for all projects.
func (c *Client) Unregister(env Env, name string) ([]Change, string, error) {
	r := Registration{Name: name}
	if err := checkName(name); err != nil {
		return nil, "", err
	}
	if err := checkEnv(env); err != nil {
		return nil, "", err
	}
	e := editor{client: c, env: env}
	for _, loc := range c.places(env) {
		if loc.scope != User {
			continue
		}
		err := e.each(loc, func(t table, m edit.Member) bool { return t.scope == User && m.Name == name })
		if err != nil {
			return nil, "", err
		}
	}
	return e.changes(), e.line("remove", r), nil
}

// Replace takes every server out of every scope of the client and adds the
// crib alone. Entries that name no server of their own, such as the settings
// of an editor's extension, stay: the crib could not stand in for them.
func (c *Client) Replace(env Env, r Registration) ([]Change, string, error) {
	r, err := c.checked(env, r)
	if err != nil {
		return nil, "", err
	}
	e := editor{client: c, env: env}
	home, err := e.primary(r.Name)
	if err != nil {
		return nil, "", err
	}
	for _, loc := range c.places(env) {
		err := e.each(loc, func(t table, m edit.Member) bool {
			stays := m.Name == r.Name && t.scope == User && loc.path == home.path
			return runnable(m.Value) && !stays
		})
		if err != nil {
			return nil, "", err
		}
	}
	if err := e.register(r); err != nil {
		return nil, "", err
	}
	return e.changes(), e.line("add", r), nil
}

func (c *Client) checked(env Env, r Registration) (Registration, error) {
	if r.Name == "" {
		r.Name = RegistrationName
	}
	if err := checkEnv(env); err != nil {
		return r, err
	}
	if !c.http {
		r.URL = ""
	}
	return r, r.check()
}

// check refuses what would not stay one entry, or would be taken for a
// reference, in some client's file.
func (r Registration) check() error {
	if err := checkName(r.Name); err != nil {
		return err
	}
	if r.URL == "" {
		return r.checkCommand()
	}
	u, err := url.Parse(r.URL)
	if err != nil || u.Host == "" || u.User != nil || (u.Scheme != "http" && u.Scheme != "https") || strings.ContainsAny(r.URL, "${}") {
		return crib.Errorf(crib.Invalid, "%q cannot be registered; give the crib's address, such as http://127.0.0.1:8090/v1/mcp", r.URL)
	}
	if !tokenText.MatchString(r.Token) {
		return crib.Errorf(crib.Invalid, "the token is empty or has characters that do not belong in one; make a new one")
	}
	return nil
}

func (r Registration) checkCommand() error {
	if len(r.Command) == 0 || r.Command[0] == "" {
		return crib.Errorf(crib.Invalid, "this client starts a command to reach the crib, and none was given")
	}
	for _, arg := range r.Command {
		if !utf8.ValidString(arg) || strings.ContainsFunc(arg, unicode.IsControl) || references.MatchString(arg) {
			return crib.Errorf(crib.Invalid, "the command has an argument that a client could read differently: %q", arg)
		}
	}
	return nil
}

func checkName(name string) error {
	if !registrationName.MatchString(name) || reservedNames[name] {
		return crib.Errorf(crib.Invalid, "%.80q cannot be the name of an entry; use up to %d letters, digits, dashes and underscores", name, MaxRegistrationName)
	}
	return nil
}

func (r Registration) overHTTP() bool { return r.URL != "" }

func (r Registration) authorization() edit.Fields {
	return edit.Fields{edit.F("Authorization", "Bearer "+r.Token)}
}

// An editor collects the edits of one operation, file by file.
type editor struct {
	client *Client
	env    Env
	files  []*edited
}

// An edited is a file on its way.
type edited struct {
	loc    location
	before file
	now    []byte
	tables [][]string
}

func (e *editor) open(loc location) (*edited, edit.Document, error) {
	at := slices.IndexFunc(e.files, func(f *edited) bool { return f.loc.path == loc.path })
	if at < 0 {
		before, err := readFile(loc.path)
		if err != nil {
			return nil, nil, err
		}
		e.files = append(e.files, &edited{loc: loc, before: before, now: before.data})
		at = len(e.files) - 1
	}
	f := e.files[at]
	doc, err := edit.Parse(loc.path, f.now)
	return f, doc, err
}

// each takes out the entries of a file for which gone holds.
func (e *editor) each(loc location, gone func(table, edit.Member) bool) error {
	f, doc, err := e.open(loc)
	if err != nil {
		return err
	}
	for _, t := range e.client.tablesOf(doc, loc) {
		members, err := doc.Members(t.path)
		if err != nil {
			return err
		}
		for _, m := range members {
			if !gone(t, m) {
				continue
			}
			if err := f.remove(t.path, m.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *edited) remove(path []string, name string) error {
	doc, err := edit.Parse(f.loc.path, f.now)
	if err != nil {
		return err
	}
	after, err := doc.Remove(path, name)
	if err != nil {
		return err
	}
	f.update(path, after)
	return nil
}

func (f *edited) update(path []string, after []byte) {
	f.now = after
	if !slices.ContainsFunc(f.tables, func(t []string) bool { return slices.Equal(t, path) }) {
		f.tables = append(f.tables, path)
	}
}

func (e *editor) register(r Registration) error {
	loc, err := e.primary(r.Name)
	if err != nil {
		return err
	}
	f, doc, err := e.open(loc)
	if err != nil {
		return err
	}
	path := e.client.tablesOf(doc, loc)[0].path
	after, err := doc.Set(path, r.Name, e.client.shape(r))
	if err != nil {
		return err
	}
	f.update(path, after)
	return nil
}

// primary is the file for an entry: the one that has it, else the last that
// exists, which wins where a client reads several.
func (e *editor) primary(name string) (location, error) {
	places := e.client.places(e.env)
	best := places[e.client.fallback]
	for _, loc := range places {
		if loc.scope != User {
			continue
		}
		f, doc, err := e.open(loc)
		if err != nil {
			return location{}, err
		}
		if f.before.data == nil {
			continue
		}
		best = loc
		members, err := doc.Members(e.client.tablesOf(doc, loc)[0].path)
		if err != nil {
			return location{}, err
		}
		if slices.ContainsFunc(members, func(m edit.Member) bool { return m.Name == name }) {
			return loc, nil
		}
	}
	return best, nil
}

func (e *editor) changes() []Change {
	var changes []Change
	for _, f := range e.files {
		if bytes.Equal(f.before.data, f.now) && (f.before.data == nil) == (f.now == nil) {
			continue
		}
		changes = append(changes, Change{Path: f.loc.path, Before: f.before.data, After: f.now, Mode: f.before.mode, Tables: f.tables})
	}
	return changes
}

// readable returns a file that gets the token and that others may read. The
// file is the client's, so its mode stays.
func (e *editor) readable(token string) string {
	for _, c := range e.changes() {
		if e.env.GOOS != "windows" && token != "" && c.Mode&0o044 != 0 && bytes.Contains(c.After, []byte(token)) {
			return c.Path
		}
	}
	return ""
}

// line says what the changes do, and the command that would do the same where
// the client has one.
func (e *editor) line(verb string, r Registration) string {
	var parts []string
	for _, c := range e.changes() {
		switch {
		case c.Before == nil:
			parts = append(parts, "makes "+c.Path)
		case c.After == nil:
			parts = append(parts, "removes "+c.Path)
		default:
			parts = append(parts, "changes "+c.Path)
		}
	}
	if len(parts) == 0 {
		return e.client.title + ": nothing to change"
	}
	if path := e.readable(r.Token); path != "" {
		parts = append(parts, "and other users of this machine can read the token in "+path)
	}
	line := e.client.title + ": " + strings.Join(parts, ", ")
	if e.client.command != nil {
		line += " (as " + e.client.command(verb, r) + " does)"
	}
	return line
}
