package servers

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/page"
	"github.com/toolcrib/toolcrib/internal/secret"
)

// Where definitions are found.
const (
	// PageDir is the folder of pages in the workspace.
	PageDir = "mcp"

	// EnvVariable is the variable that may hold definitions as a JSON object.
	EnvVariable = "TOOLCRIB_MCP_SERVERS"

	pageExt = ".md"
)

// MaxPages is the greatest number of pages in a workspace.
const MaxPages = 1000

// Options say where to look for definitions.
type Options struct {
	Workspace string // folder; "" has no pages
	File      string // what faults call toolcrib.yaml
	FileSrc   []byte // its text; nil is none
	Env       string // the value of TOOLCRIB_MCP_SERVERS; "" is none
}

// Shadow is a definition that is not used, because another one has its name.
type Shadow struct {
	Name   string
	Source Source
	By     Source
}

// Broken is a definition that cannot be used, because something is wrong with
// it. It keeps its name: what it shadows stays shadowed.
type Broken struct {
	Name   string
	Source Source
	Faults []page.Fault
}

// Set is all definitions, each name once. It does not change.
type Set struct {
	defs     []Definition
	broken   []Broken
	shadowed []Shadow
}

// All returns the usable definitions in the order of their names, enabled or
// not.
func (s Set) All() []Definition { return slices.Clone(s.defs) }

// Get returns the usable definition of name.
func (s Set) Get(name string) (Definition, bool) {
	i, ok := slices.BinarySearchFunc(s.defs, name, func(d Definition, name string) int { return cmp.Compare(d.Name, name) })
	if !ok {
		return Definition{}, false
	}
	return s.defs[i], true
}

// Broken returns the definitions that something is wrong with, in the order of
// their names.
func (s Set) Broken() []Broken { return slices.Clone(s.broken) }

// Shadowed returns the definitions that another one of their name wins over,
// in the order of their names.
func (s Set) Shadowed() []Shadow { return slices.Clone(s.shadowed) }

// CheckSecrets returns a fault for each secret that could not be looked up
// whatever it is: its store does not exist, or cannot have a secret of that
// name. No secret is read.
func (s Set) CheckSecrets(stores *secret.Stores) []page.Fault {
	var faults []page.Fault
	for _, d := range s.defs {
		dec := &page.Decoder{File: d.Source.File}
		for _, v := range slices.Concat(d.Headers, d.Env) {
			for _, ref := range v.Value.Refs() {
				if err := stores.Check(ref); err != nil {
					dec.Errorf(v.At, "%s: %s", v.Name, err)
				}
			}
		}
		faults = append(faults, dec.Faults...)
	}
	return faults
}

// Load reads all definitions. A page wins its name over an entry of
// toolcrib.yaml, and that one over an entry of the environment, also when it is
// disabled or broken. A definition with a fault takes no other one down.
func Load(o Options) (Set, []page.Fault) {
	l := loader{owner: map[string]Source{}}
	l.pages(o.Workspace)
	l.file(o)
	l.env(o.Env)
	byName := func(a, b string) int { return cmp.Compare(a, b) }
	slices.SortFunc(l.set.defs, func(a, b Definition) int { return byName(a.Name, b.Name) })
	slices.SortFunc(l.set.broken, func(a, b Broken) int { return byName(a.Name, b.Name) })
	slices.SortStableFunc(l.set.shadowed, func(a, b Shadow) int { return byName(a.Name, b.Name) })
	return l.set, l.faults
}

type loader struct {
	set    Set
	owner  map[string]Source // who has a name
	faults []page.Fault
}

// add takes in one definition with the faults that reading it gave.
func (l *loader) add(def Definition, faults []page.Fault) {
	l.faults = append(l.faults, faults...)
	if by, taken := l.owner[def.Name]; taken {
		l.set.shadowed = append(l.set.shadowed, Shadow{def.Name, def.Source, by})
		return
	}
	l.owner[def.Name] = def.Source
	if page.Faulty(faults) {
		l.set.broken = append(l.set.broken, Broken{def.Name, def.Source, faults})
		return
	}
	l.set.defs = append(l.set.defs, def)
}

func (l *loader) fault(file, format string, args ...any) {
	l.faults = append(l.faults, page.Fault{File: file, Msg: fmt.Sprintf(format, args...)})
}

func (l *loader) pages(workspace string) {
	if workspace == "" {
		return
	}
	entries, err := os.ReadDir(filepath.Join(workspace, PageDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.fault(PageDir, "this folder cannot be read: %s", reason(err))
		return
	}
	count := 0
	for _, e := range entries {
		stem, ok := strings.CutSuffix(e.Name(), pageExt)
		if !ok || strings.HasPrefix(stem, ".") || stem == "README" {
			continue
		}
		if count++; count > MaxPages {
			l.fault(PageDir, "more than %d pages; the rest is not read", MaxPages)
			return
		}
		l.page(workspace, e.Name(), stem)
	}
}

func (l *loader) page(workspace, file, name string) {
	src := Source{Kind: FromPage, File: path.Join(PageDir, file)}
	if err := crib.CheckServerName(name); err != nil {
		l.fault(src.File, "the file's name is the server's name, and this one cannot be: %s", err)
		return
	}
	text, err := readLimited(filepath.Join(workspace, PageDir, file))
	if err != nil {
		l.add(Definition{Name: name, Source: src}, []page.Fault{{File: src.File, Msg: "this page cannot be read: " + reason(err)}})
		return
	}
	p, faults := page.Parse(src.File, text)
	src.Line = p.At.Line
	l.add(define(name, src, p.Block, p.Body), faults)
}

// readLimited reads a regular file, and of one that is larger than a page may
// be so much that this shows.
func readLimited(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, page.MaxPageBytes+1))
}

// reason is err without the path, which the fault names already.
func reason(err error) string {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err.Error()
	}
	return err.Error()
}

// file reads the entries under tools: in toolcrib.yaml. Its other keys are the
// configuration's.
func (l *loader) file(o Options) {
	root, faults := page.ParseYAML(o.File, o.FileSrc)
	l.faults = append(l.faults, faults...)
	tools, ok := root.Get("tools")
	if !ok || tools.Kind == page.Null {
		return
	}
	if tools.Kind != page.List {
		d := page.Decoder{File: o.File}
		d.Errorf(tools.At, "tools is %s; a list of entries was expected", tools.Kind)
		l.faults = append(l.faults, d.Faults...)
		return
	}
	first := map[string]int{} // line of the entry that has a name
	for _, n := range tools.Items {
		d := &page.Decoder{File: o.File}
		name, b := readTool(d, n)
		if name == "" {
			l.faults = append(l.faults, d.Faults...)
			continue
		}
		if line, twice := first[name]; twice {
			d.Errorf(n.At, "a second server is called %s (underscores become dashes); the first one, in line %d, is used", name, line)
			l.faults = append(l.faults, d.Faults...)
			continue
		}
		first[name] = n.At.Line
		l.add(define(name, Source{FromFile, o.File, n.At.Line}, b, ""), d.Faults)
	}
}

// env reads TOOLCRIB_MCP_SERVERS: an object of names to blocks as in pages.
func (l *loader) env(text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	root, faults := page.ParseJSON(EnvVariable, []byte(text))
	l.faults = append(l.faults, faults...)
	if faults != nil {
		return
	}
	if root.Kind != page.Mapping {
		l.fault(EnvVariable, "the value is %s; a JSON object was expected, name to the keys of a page's mcp: block", root.Kind)
		return
	}
	for _, m := range root.Members {
		d := &page.Decoder{File: EnvVariable}
		if err := crib.CheckServerName(m.Key); err != nil {
			d.Errorf(page.Place{Path: "$"}, "%s", err)
			l.faults = append(l.faults, d.Faults...)
			continue
		}
		b := page.ReadBlock(d, m.Value, m.Key)
		l.add(define(m.Key, Source{Kind: FromEnv, File: EnvVariable}, b, ""), d.Faults)
	}
}
