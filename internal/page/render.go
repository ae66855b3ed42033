package page

import (
	"bytes"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/secret"
)

// Render writes a page that defines b, with title as the heading of its text.
// What b says by default is left out. The result is read back before it is
// returned, so that no name or value of b can add or change another key.
func Render(b Block, title, text string) ([]byte, error) {
	front, err := yaml.MarshalWithOptions(yaml.MapSlice{{Key: blockKey, Value: written(b)}}, yaml.IndentSequence(true))
	if err != nil {
		return nil, crib.Errorf(crib.Invalid, "this server cannot be written as a page")
	}
	var out bytes.Buffer
	out.WriteString("---\n")
	out.Write(front)
	out.WriteString("---\n\n# " + strings.Join(strings.Fields(title), " ") + "\n")
	if text = strings.TrimSpace(text); text != "" {
		out.WriteString("\n" + text + "\n")
	}
	p, faults := Parse("page", out.Bytes())
	if Faulty(faults) {
		return nil, crib.Errorf(crib.Invalid, "this server cannot be written as a page: %s", firstErrorMsg(faults))
	}
	if !sameBlock(b, p.Block) {
		return nil, crib.Errorf(crib.Invalid, "this server cannot be written as a page: a value does not read back as it was")
	}
	return out.Bytes(), nil
}

func firstErrorMsg(faults []Fault) string {
	i := slices.IndexFunc(faults, func(f Fault) bool { return f.Severity == Error })
	return faults[i].Msg
}

// sameBlock reports whether a and b define the same, wherever they stood.
func sameBlock(a, b Block) bool {
	for _, block := range []*Block{&a, &b} {
		block.Headers, block.Env = placeless(block.Headers), placeless(block.Env)
		block.Gates = slices.Clone(block.Gates)
		slices.SortFunc(block.Gates, func(x, y Gate) int { return strings.Compare(x.Pattern, y.Pattern) })
		block.Inherit.Names = append([]string{}, block.Inherit.Names...)
		block.Dialogue.May = append([]string{}, block.Dialogue.May...)
		slices.Sort(block.Inherit.Names)
		slices.Sort(block.Dialogue.May)
	}
	return reflect.DeepEqual(a, b)
}

func placeless(list []NamedTemplate) []NamedTemplate {
	out := []NamedTemplate{}
	for _, n := range list {
		out = append(out, NamedTemplate{Name: n.Name, Value: n.Value})
	}
	SortValues(out)
	return out
}

// written is b as the value of mcp:.
func written(b Block) yaml.MapSlice {
	def := NewBlock()
	m := yaml.MapSlice{{Key: "transport", Value: writtenTransport(b.Transport)}}
	add := func(given bool, key string, value any) {
		if given {
			m = append(m, yaml.MapItem{Key: key, Value: value})
		}
	}
	add(len(b.Headers) > 0, "headers", writtenValues(b.Headers))
	add(len(b.Env) > 0, "env", writtenValues(b.Env))
	add(b.Inherit.None, "inherit", "none")
	add(len(scalarTexts(b.Inherit.Names)) > 0, "inherit", scalarTexts(b.Inherit.Names))
	add(len(b.Gates) > 0, "gate", writtenGates(b.Gates))
	add(len(b.Tools) > 0, "tools", scalarTexts(b.Tools))
	add(!b.Enabled, "enabled", false)
	add(b.Description != "", "description", scalarText(b.Description))
	add(b.Era != "", "era", string(b.Era))
	add(b.Timeout != def.Timeout, "timeout", b.Timeout.String())
	add(len(b.Methods) > 0, "methods", scalarTexts(b.Methods))
	add(b.Dialogue.Share != def.Dialogue.Share, "share", string(b.Dialogue.Share))
	add(!slices.Equal(b.Dialogue.May, def.Dialogue.May), "may", b.Dialogue.May)
	return m
}

// scalarText is text as a value. The encoder writes some texts so that they do
// not read back; those it is given in double quotes, escaped as in JSON.
type scalarText string

// simpleText needs no care: it begins with a letter and holds nothing that means
// something in YAML. A colon does only before a space or the end.
var simpleText = regexp.MustCompile(`^[A-Za-z](:?[A-Za-z0-9_./@=?-])*$`)

// MarshalYAML writes s.
func (s scalarText) MarshalYAML() ([]byte, error) {
	text := string(s)
	if simpleText.MatchString(text) && !slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(text)) {
		return []byte(text), nil
	}
	return jsontext.AppendQuote(nil, text)
}

func scalarTexts(list []string) []scalarText {
	out := make([]scalarText, 0, len(list))
	for _, s := range list {
		out = append(out, scalarText(s))
	}
	return out
}

func writtenTransport(t Transport) yaml.MapSlice {
	if len(t.Command) == 0 {
		return yaml.MapSlice{{Key: "http", Value: scalarText(t.URL)}}
	}
	m := yaml.MapSlice{{Key: "command", Value: scalarText(t.Command[0])}}
	if len(t.Command) > 1 {
		m = append(m, yaml.MapItem{Key: "args", Value: scalarTexts(t.Command[1:])})
	}
	if t.Dir != "" {
		m = append(m, yaml.MapItem{Key: "cwd", Value: scalarText(t.Dir)})
	}
	return m
}

func writtenGates(gates []Gate) yaml.MapSlice {
	var m yaml.MapSlice
	for _, g := range gates {
		m = append(m, yaml.MapItem{Key: g.Pattern, Value: string(g.Effect)})
	}
	return m
}

func writtenValues(list []NamedTemplate) yaml.MapSlice {
	var m yaml.MapSlice
	for _, n := range list {
		m = append(m, yaml.MapItem{Key: n.Name, Value: writtenValue(n.Value)})
	}
	return m
}

// writtenValue is t in the notation that ParsePageValue reads.
func writtenValue(t secret.Template) any {
	if text, ok := t.LiteralText(); ok {
		return yaml.MapSlice{{Key: "value", Value: scalarText(text)}}
	}
	name := t.Refs()[0].Name
	if bare, err := secret.ParsePageValue(name); err == nil && reflect.DeepEqual(bare, t) {
		return name
	}
	return scalarText(t.Source())
}
