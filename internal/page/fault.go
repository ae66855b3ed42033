// Package page reads Markdown pages with front matter, and the block that
// defines a server in one, and says with line and column what is wrong.
package page

import (
	"cmp"
	"fmt"
	"slices"
)

// Severity says whether a fault stops what it is about.
type Severity int

// The severities. The zero Severity is Error, so that a forgotten one does not
// let anything through.
const (
	Error   Severity = iota // what it is about is not used
	Warning                 // used, but a person should know
)

func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// Fault is something wrong with a configuration file and where. It never
// holds a value that could be a secret.
type Fault struct {
	File     string // as the user named it, or TOOLCRIB_MCP_SERVERS
	Line     int    // from 1; 0: the whole file
	Col      int    // from 1, in characters; 0: the whole line
	Path     string // where there are no lines, such as $.files.env
	Severity Severity
	Msg      string // what was expected, what to do
}

// String is file:line:col: severity: message, as editors understand it, or
// file path: severity: message.
func (f Fault) String() string {
	at := f.File
	if f.Path != "" {
		at += " " + f.Path
	}
	if f.Line > 0 {
		at = fmt.Sprintf("%s:%d", at, f.Line)
		if f.Col > 0 {
			at = fmt.Sprintf("%s:%d", at, f.Col)
		}
	}
	return fmt.Sprintf("%s: %s: %s", at, f.Severity, f.Msg)
}

// Faulty reports whether one of faults is an Error.
func Faulty(faults []Fault) bool {
	for _, f := range faults {
		if f.Severity == Error {
			return true
		}
	}
	return false
}

// Sorted returns faults in the order of their places, each once.
func Sorted(faults []Fault) []Fault {
	out := slices.Clone(faults)
	slices.SortStableFunc(out, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col), cmp.Compare(a.Path, b.Path))
	})
	seen := map[Fault]bool{}
	return slices.DeleteFunc(out, func(f Fault) bool {
		twice := seen[f]
		seen[f] = true
		return twice
	})
}
