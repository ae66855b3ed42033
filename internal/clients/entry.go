package clients

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/clients/edit"
)

// Transport is how an entry's server is reached.
type Transport string

// The transports.
const (
	Stdio Transport = "stdio"
	HTTP  Transport = "http" // Streamable HTTP
	SSE   Transport = "sse"  // HTTP with a separate event stream, the transport of 2024-11-05
)

// KV is a variable or a header with its value.
type KV struct {
	Name  string
	Value Value
}

// Source says where an entry stands.
type Source struct {
	Client  string // id
	Scope   Scope
	Project string // folder of the project, when the scope is not User
	File    string
	Name    string // as spelled there
}

// Entry is one server of a client's configuration.
type Entry struct {
	Source
	Transport Transport // "" when it is none that the crib knows
	Command   Value     // for Stdio
	Args      []Value
	Cwd       Value
	Env       []KV  // by name
	URL       Value // for HTTP and SSE
	Headers   []KV  // by name
	Disabled  bool
	Problems  []string // what could not be carried over, as sentences
}

// Settings of an entry that mean nothing to the crib, or that it has in
// another way for every server.
var ignoredFields = map[string]bool{
	"$schema": true, "alwaysAllow": true, "alwaysLoad": true, "autoApprove": true,
	"default_tools_approval_mode": true, "description": true, "dev": true, "gallery": true,
	"name": true, "required": true, "source": true, "startup_timeout_ms": true,
	"startup_timeout_sec": true, "supports_parallel_tool_calls": true, "timeout": true,
	"tool_timeout_sec": true, "trust": true, "version": true,
}

// Settings that take tools away from a server: losing one silently would give
// tools back.
var toolFilters = map[string]bool{
	"disabledTools": true, "disabled_tools": true, "enabled_tools": true,
	"excludeTools": true, "includeTools": true, "tools": true,
}

// A reader takes the fields of one entry and notes what it did not understand.
type reader struct {
	fields map[string]any
	words  dialect
	in     surroundings
	entry  Entry
}

func (c *Client) entry(env Env, doc edit.Document, loc location, t table, m edit.Member) Entry {
	r := &reader{
		words: c.words,
		in:    surroundings{env: env, project: t.project, inputs: inputs(doc.Tree())},
		entry: Entry{Source: Source{Client: c.id, Scope: t.scope, Project: t.project, File: loc.path, Name: m.Name}},
	}
	found, ok := m.Value.(map[string]any)
	if !ok {
		r.problem("the entry is not a table of settings")
		return r.entry
	}
	r.fields = maps.Clone(found)
	c.decode(r)
	r.rest()
	if excluded(doc.Tree(), m.Name) {
		r.entry.Disabled = true
	}
	return r.entry
}

func (r *reader) problem(format string, args ...any) {
	r.entry.Problems = append(r.entry.Problems, fmt.Sprintf(format, args...))
}

// take removes a field and returns it, so that what is left at the end is what
// nobody understood.
func (r *reader) take(names ...string) (any, string) {
	for _, name := range names {
		if v, ok := r.fields[name]; ok {
			delete(r.fields, name)
			return v, name
		}
	}
	return nil, ""
}

func (r *reader) value(where, s string) Value {
	v, problems := r.words.parse(s, r.in)
	for _, p := range problems {
		r.problem("%s: %s", where, p)
	}
	return v
}

// text takes the first of the fields that is there, as a plain text.
func (r *reader) text(names ...string) string {
	v, name := r.take(names...)
	if v == nil {
		return ""
	}
	s, ok := v.(string)
	if !ok {
		r.problem("%s is not a text", name)
	}
	return s
}

func (r *reader) textValue(names ...string) Value {
	return r.value(names[0], r.text(names...))
}

func (r *reader) flag(name string, absent bool) bool {
	v, _ := r.take(name)
	if v == nil {
		return absent
	}
	b, ok := v.(bool)
	if !ok {
		r.problem("%s is neither true nor false", name)
		return absent
	}
	return b
}

func (r *reader) list(name string) []string {
	v, _ := r.take(name)
	if v == nil {
		return nil
	}
	return r.texts(name, v)
}

func (r *reader) texts(name string, v any) []string {
	list, ok := v.([]any)
	if !ok {
		r.problem("%s is not a list of texts", name)
		return nil
	}
	var texts []string
	for i, item := range list {
		s, ok := scalar(item)
		if !ok {
			r.problem("%s: item %d is not a text", name, i+1)
			continue
		}
		texts = append(texts, s)
	}
	return texts
}

// args sets the arguments. A reference to a variable that the entry sets for
// its own server is left for that server.
func (r *reader) args(list []string) {
	r.in.own = map[string]bool{}
	for _, kv := range r.entry.Env {
		r.in.own[kv.Name] = true
	}
	for i, s := range list {
		r.entry.Args = append(r.entry.Args, r.value(fmt.Sprintf("argument %d", i+1), s))
	}
	r.in.own = nil
}

func (r *reader) pairs(kind string, names ...string) []KV {
	v, name := r.take(names...)
	if v == nil {
		return nil
	}
	found, ok := v.(map[string]any)
	if !ok {
		r.problem("%s is not a table of texts", name)
		return nil
	}
	var kvs []KV
	for _, key := range slices.Sorted(maps.Keys(found)) {
		s, ok := scalar(found[key])
		if !ok {
			r.problem("%s %s is not a text", kind, key)
			continue
		}
		kvs = append(kvs, KV{Name: key, Value: r.value(kind+" "+key, s)})
	}
	return kvs
}

// scalar is the text of a value for a place that takes only texts, where
// people also write numbers and truth values.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool, int64, float64:
		return fmt.Sprint(v), true
	}
	return "", false
}

// rest reports the fields that nobody took.
func (r *reader) rest() {
	for _, name := range slices.Sorted(maps.Keys(r.fields)) {
		switch {
		case ignoredFields[name], r.fields[name] == false, r.fields[name] == nil:
		case toolFilters[name]:
			r.problem("%s is not carried over: the server would offer all its tools; write them under tools: on its page", name)
		default:
			r.problem("%s is not carried over", name)
		}
	}
}

// transport settles how the server is reached. declared is the client's own
// word for it, plainURL what a bare URL means to that client.
func (r *reader) transport(declared string, plainURL Transport) {
	switch strings.ToLower(strings.ReplaceAll(declared, "_", "-")) {
	case "stdio", "local":
		r.entry.Transport = Stdio
	case "http", "streamable-http", "streamablehttp":
		r.entry.Transport = HTTP
	case "sse":
		r.entry.Transport = SSE
	case "", "remote":
		switch {
		case len(r.entry.URL) > 0:
			r.entry.Transport = plainURL
		case len(r.entry.Command) > 0:
			r.entry.Transport = Stdio
		}
	default:
		r.problem("the crib does not speak the transport %q", declared)
	}
	switch {
	case r.entry.Transport == "" && len(r.entry.Command)+len(r.entry.URL) == 0:
		r.problem("there is neither a command nor a URL")
	case r.entry.Transport == Stdio && len(r.entry.Command) == 0:
		r.problem("there is no command")
		r.entry.Transport = ""
	case r.entry.Transport != Stdio && r.entry.Transport != "" && len(r.entry.URL) == 0:
		r.problem("there is no URL")
		r.entry.Transport = ""
	}
}

// runnable reports whether the table of an entry names a server by itself.
// Others configure a server that comes from elsewhere, such as an extension,
// and nobody but the client can start that.
func runnable(v any) bool {
	found, _ := v.(map[string]any)
	for _, name := range []string{"command", "url", "serverUrl", "httpUrl"} {
		if found[name] != nil {
			return true
		}
	}
	return false
}

// inputs reads the list of inputs of VS Code, which stands under mcp when the
// servers are part of its settings.
func inputs(tree map[string]any) map[string]input {
	list, ok := tree["inputs"].([]any)
	if settings, _ := tree["mcp"].(map[string]any); !ok {
		list, _ = settings["inputs"].([]any)
	}
	found := map[string]input{}
	for _, item := range list {
		fields, _ := item.(map[string]any)
		id, _ := fields["id"].(string)
		fallback, _ := fields["default"].(string)
		found[id] = input{fallback: fallback}
	}
	return found
}

// excluded reports whether Gemini CLI is told to skip a server.
func excluded(tree map[string]any, name string) bool {
	settings, _ := tree["mcp"].(map[string]any)
	list, _ := settings["excluded"].([]any)
	return slices.Contains(list, any(name))
}
