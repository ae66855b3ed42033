// Package config makes one checked configuration of toolcrib.yaml, flags and
// environment, and knows where each setting came from.
package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/page"
	"github.com/toolcrib/toolcrib/internal/secret"
	"github.com/toolcrib/toolcrib/internal/servers"
)

const (
	// FileName is the configuration file in the workspace.
	FileName = "toolcrib.yaml"

	// DefaultListen is where the crib listens unless it is told otherwise.
	DefaultListen = "127.0.0.1:8090"
)

// Source says where a setting came from. A flag wins over the environment,
// that over the file.
type Source string

// The sources.
const (
	Default Source = "default"
	File    Source = "file"
	Env     Source = "env"
	Flag    Source = "flag"
)

// Options say where the configuration is found.
type Options struct {
	Workspace string // --workspace; "" was not given
	Data      string // --data
	Listen    string // --listen

	// LookupEnv reads the crib's environment; nil is os.LookupEnv.
	LookupEnv func(string) (string, bool)

	// ReadFile reads toolcrib.yaml; nil reads regular files of a bounded size.
	ReadFile func(string) ([]byte, error)
}

// Getenv returns a variable of the crib's environment, "" where it is not set.
func (o Options) Getenv(name string) string {
	if o.LookupEnv == nil {
		return os.Getenv(name)
	}
	v, _ := o.LookupEnv(name)
	return v
}

// Config is the checked configuration. It is not changed after it was loaded.
type Config struct {
	Listen         string             // host:port on this machine; port 0 is any free one
	Anonymous      bool               // callers without a token are let in
	AllowedHosts   []string           // none: the names of this machine; "*": any
	AllowedOrigins []string           // none: pages of this machine
	Secrets        []secret.StoreSpec // in the order they are tried
	Workspace      string             // absolute path of the folder with toolcrib.yaml and mcp/
	Data           string             // absolute path of the folder for what the crib keeps

	sources map[string]Source // by Setting.Key; a missing one is Default
	src     []byte            // toolcrib.yaml
	servers string            // TOOLCRIB_MCP_SERVERS
}

// Setting is one setting as status shows it.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Source Source `json:"source"`
}

// The keys of settings.
const (
	KeyListen    = "listen"
	KeyAnonymous = "auth.anonymous"
	KeyHosts     = "runtime.mcp.allowed_hosts"
	KeyOrigins   = "runtime.cors.allowed_origins"
	KeySecrets   = "secrets"
	KeyWorkspace = "workspace"
	KeyData      = "data"
)

// Settings lists every setting with its source.
func (c *Config) Settings() []Setting {
	var stores []string
	for _, s := range c.Secrets {
		stores = append(stores, s.Label())
	}
	list := []Setting{
		{Key: KeyWorkspace, Value: c.Workspace},
		{Key: KeyData, Value: c.Data},
		{Key: KeyListen, Value: c.Listen},
		{Key: KeyAnonymous, Value: strconv.FormatBool(c.Anonymous)},
		{Key: KeyHosts, Value: strings.Join(c.AllowedHosts, ", ")},
		{Key: KeyOrigins, Value: strings.Join(c.AllowedOrigins, ", ")},
		{Key: KeySecrets, Value: strings.Join(stores, ", ")},
	}
	for i := range list {
		list[i].Source = c.Source(list[i].Key)
	}
	return list
}

// Source says where the setting called key came from.
func (c *Config) Source(key string) Source {
	if s, ok := c.sources[key]; ok {
		return s
	}
	return Default
}

// File is the path of toolcrib.yaml, whether it exists or not.
func (c *Config) File() string { return filepath.Join(c.Workspace, FileName) }

// Definitions says where the definitions of servers are found.
func (c *Config) Definitions() servers.Options {
	return servers.Options{Workspace: c.Workspace, File: FileName, FileSrc: c.src, Env: c.servers}
}

// Load reads the configuration. It always returns one, so that what else is
// wrong can be found, but it may be used only where no fault is an Error.
// Without a toolcrib.yaml every setting has its default.
func Load(o Options) (*Config, []page.Fault) {
	c := &Config{Listen: DefaultListen, Secrets: secret.DefaultStores(), sources: map[string]Source{}, servers: o.Getenv(servers.EnvVariable)}
	l := loader{o: o, c: c}
	l.folders()
	if l.faults == nil {
		l.file()
	}
	l.listen()
	if v := o.Getenv(VarProviders); v != "" && v != FakeProviders {
		l.fault(VarProviders, "%q is not known: set it to %s, or to nothing", v, FakeProviders)
	}
	return c, l.faults
}

type loader struct {
	o      Options
	c      *Config
	faults []page.Fault
}

func (l *loader) fault(file, format string, args ...any) {
	l.faults = append(l.faults, page.Fault{File: file, Msg: fmt.Sprintf(format, args...)})
}

// given is what was said about a setting outside of the file.
type given struct {
	value  string
	source Source
	name   string // the flag or variable
}

// outside looks a setting up: the flag, then the variable.
func (l *loader) outside(flag, flagName, variable string) given {
	if flag != "" {
		return given{flag, Flag, flagName}
	}
	if v := l.o.Getenv(variable); v != "" {
		return given{v, Env, variable}
	}
	return given{source: Default}
}

func (l *loader) folders() {
	l.c.Workspace = l.folder(KeyWorkspace, l.outside(l.o.Workspace, FlagWorkspace, VarWorkspace), "XDG_CONFIG_HOME", ".config")
	l.c.Data = l.folder(KeyData, l.outside(l.o.Data, FlagData, VarData), "XDG_STATE_HOME", filepath.Join(".local", "state"))
}

// folder returns the absolute path of a folder: what was given, or toolcrib in
// the user's folder of that kind (XDG Base Directory Specification).
func (l *loader) folder(key string, g given, xdg, inHome string) string {
	if g.source != Default {
		path, err := filepath.Abs(g.value)
		if err != nil {
			l.fault(g.name, "this folder cannot be found: %s", err)
		}
		l.c.sources[key] = g.source
		return path
	}
	base := l.o.Getenv(xdg)
	if !filepath.IsAbs(base) { // the specification says to ignore a relative one
		home := l.home()
		if home == "" {
			l.fault(key, "the home folder is not known, so there is no default: give --%s", key)
			return ""
		}
		base = filepath.Join(home, inHome)
	}
	return filepath.Join(base, "toolcrib")
}

func (l *loader) home() string {
	for _, name := range []string{"HOME", "USERPROFILE"} {
		if home := l.o.Getenv(name); filepath.IsAbs(home) {
			return home
		}
	}
	return ""
}

func (l *loader) file() {
	read := l.o.ReadFile
	if read == nil {
		read = readFile
	}
	src, err := read(l.c.File())
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		l.fault(FileName, "the file cannot be read: %s", err)
		return
	}
	l.c.src = src
	root, faults := page.ParseYAML(FileName, src)
	l.faults = append(l.faults, faults...)
	d := &page.Decoder{File: FileName}
	page.ReadMapping(d, root, FileName, fields(), l.c)
	l.faults = append(l.faults, d.Faults...)
}

// listen applies what flag and variable say about the address.
func (l *loader) listen() {
	g := l.outside(l.o.Listen, FlagListen, VarListen)
	if g.source == Default {
		return
	}
	if err := CheckListen(g.value); err != nil {
		l.fault(g.name, "%s", err)
		return
	}
	l.c.Listen = g.value
	l.c.sources[KeyListen] = g.source
}

// CheckListen reports, as an Invalid error, why the crib cannot listen on
// address. Only addresses of this machine are taken: elsewhere callers would
// send their tokens unencrypted.
func CheckListen(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return crib.Errorf(crib.Invalid, "listen %q: host:port was expected, such as %s", address, DefaultListen)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return crib.Errorf(crib.Invalid, "listen %q: a port from 0 to 65535 was expected behind the colon", address)
	}
	if host != "localhost" && !isLoopbackIP(host) {
		return crib.Errorf(crib.Invalid, "listen %q: this address can be reached from other machines, which needs TLS, and the crib does not do that yet: "+
			"use 127.0.0.1 or [::1], and reach it from elsewhere through a tunnel such as ssh -L", address)
	}
	return nil
}

func isLoopbackIP(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// readTexts reads a list and checks each entry.
func readTexts(d *page.Decoder, n page.Node, what string, check func(string) error) []string {
	list, ok := d.ReadTexts(n, what)
	if !ok {
		return nil
	}
	for i, entry := range list {
		if err := check(entry); err != nil {
			d.Errorf(n.Items[i].At, "%s: %s", what, err)
			return nil
		}
	}
	return slices.Clip(list)
}

// readFile reads a regular file, and of a large one only so much that the
// parser sees that it is too large.
func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, crib.Errorf(crib.Invalid, "it is no regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	return io.ReadAll(io.LimitReader(f, page.MaxYAMLBytes+1))
}
