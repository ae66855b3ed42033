// Package clients knows the configuration files of MCP clients: it reads the
// servers that they hold, registers the crib in them and takes it out again.
//
// Files are edited surgically, so that comments and formatting stay, and every
// edit is checked by parsing the result before anything is written. Nothing
// here writes by itself: operations return Changes, and Commit applies them
// with a backup that Undo restores.
package clients

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/clients/edit"
	"github.com/toolcrib/toolcrib/internal/crib"
)

// RegistrationName is the name under which the crib is registered. It has no
// dot and no dash, because clients build tool names from it.
const RegistrationName = "toolcrib"

// MaxFile is the greatest size in bytes of a file that is read. Clients keep
// histories in theirs, which are some tens of megabytes at worst.
const MaxFile = 64 << 20

// Env is the part of the machine that decides where a client's files are.
type Env struct {
	Home   string              // the person's home folder; required
	Getenv func(string) string // nil means that no variable is set
	GOOS   string              // as runtime.GOOS
	Dir    string              // current folder, for project scopes; "" leaves them out
}

func (e Env) getenv(name string) string {
	if e.Getenv == nil {
		return ""
	}
	return e.Getenv(name)
}

// appData is the folder for the settings of desktop programs.
func (e Env) appData() string {
	switch e.GOOS {
	case "windows":
		if dir := e.getenv("APPDATA"); dir != "" {
			return dir
		}
		return filepath.Join(e.Home, "AppData", "Roaming")
	case "darwin":
		return filepath.Join(e.Home, "Library", "Application Support")
	default:
		return e.xdgConfig()
	}
}

// xdgConfig is the folder of the XDG base directory specification, which some
// clients use on every system.
func (e Env) xdgConfig() string {
	if dir := e.getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(e.Home, ".config")
}

// Scope says for whom a client uses an entry.
type Scope string

// The scopes.
const (
	User    Scope = "user"    // everywhere
	Local   Scope = "local"   // one person in one project
	Project Scope = "project" // everybody in one project, by a file in its folder
)

// A location is a file in which a client looks for servers.
type location struct {
	path    string
	scope   Scope
	project string // folder of the project; "" for User
}

// A table is one map of servers inside a file.
type table struct {
	path    []string // keys from the root of the document
	scope   Scope
	project string
}

// Client is one MCP client program.
type Client struct {
	id, title string
	http      bool // speaks HTTP with headers
	words     dialect
	marks     func(Env) []string          // folders that exist where the client is installed
	locations func(Env) []location        // lowest precedence first
	fallback  int                         // index of the location that Register makes when none exists
	tables    func(edit.Document) []table // of a User file; others have the first one only
	decode    func(*reader)
	shape     func(Registration) edit.Fields // what an entry for the crib looks like
	command   func(verb string, r Registration) string
}

// ID is the short name that commands take, such as claude-code.
func (c *Client) ID() string { return c.id }

// Title is the name that people know.
func (c *Client) Title() string { return c.title }

// HTTP reports whether the client can reach the crib over HTTP with a token of
// its own; the others start a command.
func (c *Client) HTTP() bool { return c.http }

// ByID returns the client with that id. The error, of code NotFound, lists the
// ids.
func ByID(id string) (*Client, error) {
	var ids []string
	for _, c := range All() {
		if c.id == id {
			return c, nil
		}
		ids = append(ids, c.id)
	}
	return nil, crib.Errorf(crib.NotFound, "no client is called %q; write one of %s", id, strings.Join(ids, ", "))
}

// Files returns the paths in which the client looks for servers, whether they
// exist or not.
func (c *Client) Files(env Env) []string {
	var paths []string
	for _, loc := range c.places(env) {
		paths = append(paths, loc.path)
	}
	return paths
}

// Detect reports whether the client seems to be in use: one of its files or
// folders exists.
func (c *Client) Detect(env Env) bool {
	paths := c.Files(env)
	if c.marks != nil {
		paths = append(paths, c.marks(env)...)
	}
	return slices.ContainsFunc(paths, func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	})
}

// places are the client's locations, each file once: in the home folder, a
// project's file can be the user's own.
func (c *Client) places(env Env) []location {
	var kept []location
	for _, loc := range c.locations(env) {
		if loc.scope == Project && env.Dir == "" {
			continue
		}
		if !slices.ContainsFunc(kept, func(k location) bool { return k.path == loc.path }) {
			kept = append(kept, loc)
		}
	}
	return kept
}

// Read returns the servers of every scope of the client, in the order of its
// files. A file that cannot be read costs only its own entries: the error
// names it, and the entries of the others are returned with it.
func (c *Client) Read(env Env) ([]Entry, error) {
	if err := checkEnv(env); err != nil {
		return nil, err
	}
	var entries []Entry
	var errs []error
	for _, loc := range c.places(env) {
		found, err := c.readAt(env, loc)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		entries = append(entries, found...)
	}
	return entries, errors.Join(errs...)
}

func (c *Client) readAt(env Env, loc location) ([]Entry, error) {
	f, err := readFile(loc.path)
	if err != nil {
		return nil, err
	}
	if f.data == nil {
		return nil, nil
	}
	doc, err := edit.Parse(loc.path, f.data)
	if err != nil {
		return nil, err
	}
	return c.entries(env, doc, loc)
}

func (c *Client) entries(env Env, doc edit.Document, loc location) ([]Entry, error) {
	var entries []Entry
	for _, t := range c.tablesOf(doc, loc) {
		members, err := doc.Members(t.path)
		if err != nil {
			return nil, err
		}
		for _, m := range members {
			entries = append(entries, c.entry(env, doc, loc, t, m))
		}
	}
	return entries, nil
}

func (c *Client) tablesOf(doc edit.Document, loc location) []table {
	tables := c.tables(doc)
	if loc.scope != User {
		tables = tables[:1]
	}
	for i := range tables {
		if tables[i].scope == "" {
			tables[i].scope, tables[i].project = loc.scope, loc.project
		}
	}
	return tables
}

func checkEnv(env Env) error {
	if !filepath.IsAbs(env.Home) {
		return crib.Errorf(crib.Invalid, "the home folder is not known; set HOME to its whole path")
	}
	return nil
}

// A file is what was found at a path.
type file struct {
	data []byte // nil when there is none
	mode os.FileMode
}

func readFile(path string) (file, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return file{mode: newFileMode}, nil
	}
	if err != nil {
		return file{}, fmt.Errorf("read the configuration of a client: %w", err)
	}
	if !info.Mode().IsRegular() {
		return file{}, crib.Errorf(crib.Invalid, "%s is not a file", path)
	}
	if info.Size() > MaxFile {
		return file{}, crib.Errorf(crib.TooLarge, "%s has %d bytes; files up to %d are read", path, info.Size(), MaxFile)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return file{}, fmt.Errorf("read the configuration of a client: %w", err)
	}
	if data == nil {
		data = []byte{}
	}
	return file{data: data, mode: info.Mode().Perm()}, nil
}
