// Package edit changes single entries in the tables of JSON and TOML files
// that belong to somebody else. It cuts and inserts bytes, so that comments and
// formatting stay, and it returns no result that it has not parsed and compared
// with what the edit should have done.
package edit

import (
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// Document is a parsed configuration file. Its operations return the new
// content and leave the document as it is; nil content means that there should
// be no file. Errors are of code Invalid and name the file, and the line where
// there is one.
type Document interface {
	// Tree is the whole content, decoded. It must not be changed.
	Tree() map[string]any
	// Members are the entries of the table at path, none when it is absent.
	Members(path []string) ([]Member, error)
	// Set gives the table at path an entry, making tables on the way. The name
	// and the keys of the path may be anything in JSON, and what needs no
	// quotes in TOML.
	Set(path []string, name string, entry Fields) ([]byte, error)
	// Remove takes an entry out. Tables, or the file, that Set had to make for
	// it go too: after Set, Remove returns the very bytes from before.
	Remove(path []string, name string) ([]byte, error)
	// Restore gives the table at path the entry that it has in another
	// document of the same syntax, as it is written there.
	Restore(path []string, name string, from Document) ([]byte, error)
}

// Member is one entry of a table.
type Member struct {
	Name  string
	Value any // decoded: map[string]any, []any, string, json.Number, …
}

// Fields is an entry to be written, in the order in which it is written.
type Fields []Field

// Field is one setting of an entry. Value is a string, a bool, a []string or
// Fields.
type Field struct {
	Name  string
	Value any
}

// F makes a Field.
func F(name string, value any) Field { return Field{Name: name, Value: value} }

// decoded is what the fields read back as.
func (f Fields) decoded() map[string]any {
	m := map[string]any{}
	for _, field := range f {
		m[field.Name] = decodedValue(field.Value)
	}
	return m
}

func decodedValue(v any) any {
	switch v := v.(type) {
	case Fields:
		return v.decoded()
	case []string:
		list := make([]any, len(v))
		for i, s := range v {
			list[i] = s
		}
		return list
	}
	return v
}

// Parse reads a file by the ending of its name, as TOML or as JSON with
// comments. nil data is a file that does not exist.
func Parse(path string, data []byte) (Document, error) {
	if strings.EqualFold(filepath.Ext(path), ".toml") {
		return ParseTOML(path, data)
	}
	return ParseJSON(path, data)
}

// lookup returns the table at path of a decoded tree; ok is false when there
// is none. Something else in its place is an error.
func lookup(path string, tree map[string]any, keys []string) (found map[string]any, ok bool, err error) {
	found = tree
	for i, key := range keys {
		next, present := found[key]
		if !present {
			return nil, false, nil
		}
		if found, ok = next.(map[string]any); !ok {
			return nil, false, crib.Errorf(crib.Invalid, "%s: %s is not a table of settings; fix that first", path, strings.Join(keys[:i+1], "."))
		}
	}
	return found, true, nil
}

// verified returns after if it holds exactly what the edit of one entry should
// make of before. An edit that does anything else is never written.
func verified(file string, before Document, after []byte, path []string, name string, want any) ([]byte, error) {
	refused := func(why string) ([]byte, error) {
		return nil, crib.Errorf(crib.Invalid, "%s: %s cannot be edited safely (%s); make the change by hand", file, strings.Join(append(slices.Clone(path), name), "."), why)
	}
	doc, err := Parse(file, after)
	if err != nil {
		return refused("the result would not be readable")
	}
	got, _, err := lookup(file, doc.Tree(), path)
	if err != nil || !reflect.DeepEqual(got[name], want) {
		return refused("the entry would not read as meant")
	}
	if !reflect.DeepEqual(without(doc.Tree(), path, name), without(before.Tree(), path, name)) {
		return refused("something else would change")
	}
	return after, nil
}

// without is a copy of tree that lacks an entry, and the tables on its path
// that are empty then.
func without(tree map[string]any, path []string, name string) map[string]any {
	out := maps.Clone(tree)
	if len(path) == 0 {
		delete(out, name)
		return out
	}
	inner, ok := out[path[0]].(map[string]any)
	if !ok {
		return out
	}
	rest := without(inner, path[1:], name)
	out[path[0]] = rest
	if len(rest) == 0 {
		delete(out, path[0])
	}
	return out
}
