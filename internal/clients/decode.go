package clients

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// decodeCommon reads the form that most clients share: command, args, env and
// cwd, or a URL with headers.
func decodeCommon(r *reader) { decodeWith(r, HTTP) }

// decodeGemini differs in that a bare url means the older transport.
func decodeGemini(r *reader) { decodeWith(r, SSE) }

func decodeWith(r *reader, plainURL Transport) {
	if nested, ok := r.fields["command"].(map[string]any); ok {
		unfoldCommand(r, nested)
	}
	if r.fields["httpUrl"] != nil {
		plainURL = HTTP
	}
	r.entry.Env = r.pairs("variable", "env")
	r.entry.Command = r.textValue("command")
	r.args(r.list("args"))
	r.entry.Cwd = r.textValue("cwd")
	r.entry.URL = r.textValue("httpUrl", "serverUrl", "url")
	r.entry.Headers = r.pairs("header", "headers")
	r.entry.Disabled = r.flag("disabled", false) || !r.flag("enabled", true)
	r.settings()
	if path := r.text("envFile"); path != "" {
		r.problem("envFile is not carried over; put the variables of %s into secrets", path)
	}
	r.transport(r.text("type", "transport"), plainURL)
}

// settings are what Zed hands to the extension that runs a server.
func (r *reader) settings() {
	v, _ := r.take("settings")
	found, _ := v.(map[string]any)
	switch {
	case v != nil && len(r.entry.Command)+len(r.entry.URL) == 0:
		r.problem("an extension of the editor runs this server; add it to the crib by its own command")
	case len(found) > 0:
		r.problem("settings is not carried over")
	}
}

// unfoldCommand reads an older form of Zed, which keeps the whole command in
// one table.
func unfoldCommand(r *reader, nested map[string]any) {
	delete(r.fields, "command")
	for from, to := range map[string]string{"path": "command", "args": "args", "env": "env"} {
		if v, ok := nested[from]; ok && v != nil {
			r.fields[to] = v
		}
	}
}

// decodeOpenCode reads one list for command and arguments, and environment for
// env.
func decodeOpenCode(r *reader) {
	r.entry.Env = r.pairs("variable", "environment", "env")
	if argv := r.list("command"); len(argv) > 0 {
		r.entry.Command = r.value("command", argv[0])
		r.args(argv[1:])
	}
	r.entry.Cwd = r.textValue("cwd")
	r.entry.URL = r.textValue("url")
	r.entry.Headers = r.pairs("header", "headers")
	r.entry.Disabled = r.flag("disabled", false) || !r.flag("enabled", true)
	r.transport(r.text("type"), HTTP)
}

// decodeCodex reads fields that name variables instead of referring to them
// inside texts.
func decodeCodex(r *reader) {
	r.entry.Env = append(r.pairs("variable", "env"), r.forwarded()...)
	sortByName(r.entry.Env)
	r.entry.Command = r.textValue("command")
	r.args(r.list("args"))
	r.entry.Cwd = r.textValue("cwd")
	r.entry.URL = r.textValue("url")
	r.entry.Headers = append(r.pairs("header", "http_headers"), r.headersFromVariables()...)
	if name := r.text("bearer_token_env_var"); name != "" {
		r.entry.Headers = append(r.entry.Headers, KV{"Authorization", Value{{Text: "Bearer "}, {Var: name}}})
	}
	sortByName(r.entry.Headers)
	r.entry.Disabled = !r.flag("enabled", true)
	r.transport("", HTTP)
}

// forwarded are the variables that Codex hands through; their names stand
// alone or in a table with a source.
func (r *reader) forwarded() []KV {
	v, _ := r.take("env_vars")
	if v == nil {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		r.problem("env_vars is not a list of names")
		return nil
	}
	var kvs []KV
	for _, item := range list {
		name, isText := item.(string)
		if settings, ok := item.(map[string]any); ok {
			name, isText = settings["name"].(string)
			if settings["source"] == "remote" {
				r.problem("env_vars: %s comes from another machine and is not carried over", name)
				continue
			}
		}
		if !isText || !varName.MatchString(name) {
			r.problem("env_vars has an item that is not the name of a variable")
			continue
		}
		kvs = append(kvs, KV{name, Variable(name)})
	}
	return kvs
}

func (r *reader) headersFromVariables() []KV {
	v, _ := r.take("env_http_headers")
	found, _ := v.(map[string]any)
	var kvs []KV
	for _, header := range slices.Sorted(maps.Keys(found)) {
		name, ok := found[header].(string)
		if !ok || !varName.MatchString(name) {
			r.problem("header %s: env_http_headers does not name a variable", header)
			continue
		}
		kvs = append(kvs, KV{header, Variable(name)})
	}
	return kvs
}

func sortByName(kvs []KV) {
	slices.SortStableFunc(kvs, func(a, b KV) int {
		return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
}
