package clients

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// Part is a piece of a Value: a text, or a reference to an environment
// variable when Var is not empty.
type Part struct {
	Text       string
	Var        string
	Default    string // what stands for an unset or empty Var, if HasDefault
	HasDefault bool
}

// Value is a text of a configuration file with its references understood,
// whatever way the client writes them. It is the concatenation of its parts;
// neighbouring texts are joined and no text is empty.
//
// A Value read from a file may hold a key in plain text: show its references,
// not its texts.
type Value []Part

// Text is the value without references.
func Text(s string) Value {
	if s == "" {
		return nil
	}
	return Value{{Text: s}}
}

// Variable is the value that refers to one environment variable.
func Variable(name string) Value { return Value{{Var: name}} }

// Literal returns the text of a value without references.
func (v Value) Literal() (string, bool) {
	var b strings.Builder
	for _, p := range v {
		if p.Var != "" {
			return "", false
		}
		b.WriteString(p.Text)
	}
	return b.String(), true
}

// Reference returns the only part of a value that is nothing but one
// reference.
func (v Value) Reference() (Part, bool) {
	if len(v) != 1 || v[0].Var == "" {
		return Part{}, false
	}
	return v[0], true
}

func (v Value) appendText(s string) Value {
	if s == "" {
		return v
	}
	if n := len(v); n > 0 && v[n-1].Var == "" {
		v[n-1].Text += s
		return v
	}
	return append(v, Part{Text: s})
}

func (v Value) append(parts ...Part) Value {
	for _, p := range parts {
		if p.Var == "" {
			v = v.appendText(p.Text)
			continue
		}
		v = append(v, p)
	}
	return v
}

// A dialect says which references a client understands besides ${NAME} and
// ${NAME:-default}. People write those two into every client's file, also where
// the client passes them on for the server to expand, and nobody means them as
// text. What is not understood stays a text, and a plan leaves it out.
type dialect struct {
	bare     bool // $NAME
	envColon bool // ${env:NAME} and other ${word:…}
	editor   bool // ${userHome}, ${workspaceFolder} and their like
	curly    bool // {env:NAME} and {file:path}
}

var (
	references = regexp.MustCompile(`\$\{[^{}]*\}|\$[A-Za-z_][A-Za-z0-9_]*|\{(?:env|file):[^{}]*\}`)
	varName    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	withPrefix = regexp.MustCompile(`^([A-Za-z]+):(.*)$`)
)

// surroundings are what references other than variables are resolved with.
type surroundings struct {
	env     Env
	project string           // folder of the project, "" when there is none
	inputs  map[string]input // by id
	own     map[string]bool  // variables that the entry itself sets for its server
}

// An input is a value for which the editor asks the person.
type input struct{ fallback string }

// parse understands s. Its problems are sentences without the place.
func (d dialect) parse(s string, in surroundings) (v Value, problems []string) {
	last := 0
	for _, at := range references.FindAllStringIndex(s, -1) {
		parts, problem := d.reference(s[at[0]:at[1]], in)
		if problem != "" {
			problems = append(problems, problem)
		}
		if parts == nil {
			continue
		}
		v = v.appendText(s[last:at[0]]).append(parts...)
		last = at[1]
	}
	v = v.appendText(s[last:])
	if strings.Contains(s, ":-${") {
		problems = append(problems, "a default that refers to another variable is not understood; write the value")
	}
	return v, problems
}

// reference understands one reference; no parts mean that the client leaves it
// as it is.
func (d dialect) reference(s string, in surroundings) (parts []Part, problem string) {
	switch {
	case strings.HasPrefix(s, "{"):
		if !d.curly {
			return nil, ""
		}
		return d.curlyReference(s[1:len(s)-1], s)
	case !strings.HasPrefix(s, "${"):
		if !d.bare || in.own[s[1:]] {
			return nil, ""
		}
		return []Part{{Var: s[1:]}}, ""
	}
	inner := s[2 : len(s)-1]
	if d.editor {
		if parts, problem, ok := editorReference(inner, s, in); ok {
			return parts, problem
		}
	}
	if p, ok := braceReference(inner); ok {
		if in.own[p.Var] {
			return nil, ""
		}
		return []Part{p}, ""
	}
	if d.envColon {
		return prefixReference(inner, in)
	}
	return nil, ""
}

func (d dialect) curlyReference(inner, s string) ([]Part, string) {
	if name, ok := strings.CutPrefix(inner, "env:"); ok && varName.MatchString(strings.TrimSpace(name)) {
		return []Part{{Var: strings.TrimSpace(name)}}, ""
	}
	return nil, s + " is not understood by the crib; put the value into a secret and name that"
}

func braceReference(inner string) (Part, bool) {
	name, fallback, has := strings.Cut(inner, ":-")
	if !varName.MatchString(name) {
		return Part{}, false
	}
	return Part{Var: name, Default: fallback, HasDefault: has}, true
}

func editorReference(inner, s string, in surroundings) (parts []Part, problem string, ok bool) {
	text := func(t string) ([]Part, string, bool) { return []Part{{Text: t}}, "", true }
	switch inner {
	case "userHome":
		return text(in.env.Home)
	case "/", "pathSeparator":
		if in.env.GOOS == "windows" {
			return text(`\`)
		}
		return text("/")
	case "workspaceFolder", "workspaceFolderBasename":
		switch {
		case in.project == "":
			return nil, s + " changes with the folder that is open; the crib has none, so write a whole path", true
		case inner == "workspaceFolder":
			return text(in.project)
		default:
			return text(filepath.Base(in.project))
		}
	}
	return nil, "", false
}

func prefixReference(inner string, in surroundings) ([]Part, string) {
	m := withPrefix.FindStringSubmatch(inner)
	if m == nil {
		return nil, ""
	}
	switch m[1] {
	case "env":
		if p, ok := braceReference(m[2]); ok {
			return []Part{p}, ""
		}
	case "input":
		return inputReference(m[2], in)
	}
	// What follows the word can be a default, and that a key.
	return nil, "${" + m[1] + ":…} is not understood by the crib; put the value into a secret and name that"
}

// inputReference names a secret after an input, which has no value in any
// file.
func inputReference(id string, in surroundings) ([]Part, string) {
	if in.inputs[id].fallback != "" {
		return []Part{{Text: in.inputs[id].fallback}}, ""
	}
	name := upperName(id)
	return []Part{{Var: name}}, fmt.Sprintf("the editor asks for %q and keeps the answer; give it to the crib as the secret %s", id, name)
}

// upperName makes a secret or variable name of any text: capital letters,
// digits and underscores, a letter first.
func upperName(s string) string {
	var b strings.Builder
	for _, r := range strings.ToUpper(s) {
		switch {
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "_"):
			b.WriteByte('_')
		}
	}
	name := strings.Trim(b.String(), "_")
	if name == "" || name[0] < 'A' {
		return strings.Trim("MCP_"+name, "_")
	}
	return name
}
