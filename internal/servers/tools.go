package servers

import (
	"regexp"
	"strings"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/page"
	"github.com/toolcrib/toolcrib/internal/secret"
)

// toolEntry is an entry under tools: in toolcrib.yaml, in the form that Spice
// has.
type toolEntry struct {
	page.Block
	name   string
	from   place
	params params
	env    page.Node
}

// place is text with its place.
type place struct {
	text string
	at   page.Place
}

// params are the values under params: as they were written.
type params struct {
	args, token, headers page.Node
	hasArgs, hasToken    bool
	hasHeaders           bool
}

// fromPrefix begins every from: that the crib knows.
const fromPrefix = "mcp:"

// toolFields are the keys of an entry under tools: in toolcrib.yaml.
func toolFields() []page.Field[toolEntry] {
	own := []page.Field[toolEntry]{
		{Name: "name", Type: "text", Doc: "The server's name; underscores become dashes. Required.", Schema: page.TextSchema(), Read: readName},
		{Name: "from", Type: "text", Doc: "`mcp:` and then a command, such as `mcp:npx`, or an address, such as `mcp:https://host/mcp`. Required.",
			Schema: page.TextSchema(), Read: func(d *page.Decoder, n page.Node, e *toolEntry) {
				e.from.text, _ = d.ReadText(n, "from")
				e.from.at = n.At
			}},
		{Name: "params", Type: "mapping", Doc: "See below.", Schema: page.ObjectSchema(paramFields()),
			Read: func(d *page.Decoder, n page.Node, e *toolEntry) {
				page.ReadMapping(d, n, "params", paramFields(), &e.params)
			}},
		{Name: "env", Type: "mapping", Doc: "Commands only. Variable to text; `${ store:NAME }` is expanded, `$$` is a dollar.",
			Schema: page.MapSchema(page.ScalarSchema()), Read: func(_ *page.Decoder, n page.Node, e *toolEntry) { e.env = n }},
	}
	return append(own, page.Within(page.CommonFields(), func(e *toolEntry) *page.Block { return &e.Block })...)
}

func paramFields() []page.Field[params] {
	return []page.Field[params]{
		{Name: "mcp_args", Type: "text or list", Doc: "Commands only. Further arguments, split once; no shell runs and nothing is expanded.",
			Schema: page.AnySchema(page.TextSchema(), page.ListSchema(page.ScalarSchema())),
			Read:   func(_ *page.Decoder, n page.Node, p *params) { p.args, p.hasArgs = n, true }},
		{Name: "mcp_auth_token", Type: "text", Doc: "Addresses only. Sent as `Authorization: Bearer …`; wins over an Authorization in `mcp_headers`.",
			Schema: page.TextSchema(), Read: func(_ *page.Decoder, n page.Node, p *params) { p.token, p.hasToken = n, true }},
		{Name: "mcp_headers", Type: "text or mapping", Doc: "Addresses only. `Name: value` pairs with `,` or `;` between them; where that is ambiguous, a mapping.",
			Schema: page.AnySchema(page.TextSchema(), page.MapSchema(page.ScalarSchema())),
			Read:   func(_ *page.Decoder, n page.Node, p *params) { p.headers, p.hasHeaders = n, true }},
	}
}

func readName(d *page.Decoder, n page.Node, e *toolEntry) {
	text, ok := d.ReadText(n, "name")
	if !ok {
		return
	}
	name := strings.ReplaceAll(text, "_", "-")
	if err := crib.CheckServerName(name); err != nil {
		d.Errorf(n.At, "%s", err)
		return
	}
	e.name = name
}

// readTool reads the entry n. The name is "" where there is no usable one; the
// block is complete only where d has no new error.
func readTool(d *page.Decoder, n page.Node) (name string, b page.Block) {
	e := toolEntry{Block: page.NewBlock()}
	before := len(d.Faults)
	if n.Kind != page.Mapping {
		d.Errorf(n.At, "an entry of tools is %s; a mapping was expected, such as { name: files, from: mcp:npx }", n.Kind)
		return "", e.Block
	}
	page.ReadMapping(d, n, "an entry of tools", toolFields(), &e)
	for _, key := range []string{"name", "from"} {
		if _, ok := n.Get(key); !ok {
			d.Errorf(n.At, "an entry of tools has no %s", key)
		}
	}
	if page.Faulty(d.Faults[before:]) {
		return e.name, e.Block
	}
	e.readFrom(d)
	e.readEnv(d)
	if !page.Faulty(d.Faults[before:]) {
		page.CheckBlock(d, n, e.from.at, e.Block)
	}
	return e.name, e.Block
}

func (e *toolEntry) readFrom(d *page.Decoder) {
	rest, ok := strings.CutPrefix(e.from.text, fromPrefix)
	if !ok {
		d.Errorf(e.from.at, "from: only %s is known: write %snpx, %sdocker or another command, or %shttps://…", fromPrefix, fromPrefix, fromPrefix, fromPrefix)
		return
	}
	if strings.HasPrefix(rest, "http://") || strings.HasPrefix(rest, "https://") {
		page.ReadURL(d, e.from.at, rest, &e.Transport)
		if e.params.hasArgs {
			d.Warnf(e.params.args.At, "mcp_args have no effect: they are for commands, and this server is reached by URL")
		}
		e.readHeaders(d)
		return
	}
	if e.params.hasToken || e.params.hasHeaders {
		d.Warnf(e.from.at, "mcp_auth_token and mcp_headers have no effect: they are for servers that are reached by URL; give a command its secrets under env")
	}
	e.readCommand(d, rest)
}

func (e *toolEntry) readCommand(d *page.Decoder, line string) {
	command, err := page.SplitCommand(line)
	if err != nil {
		d.Errorf(e.from.at, "from: %s", err)
		return
	}
	args, at := e.readArgs(d)
	command = append(command, args...)
	page.CheckCommand(d, at, command, page.Error)
	e.Transport.Command = command
}

func (e *toolEntry) readArgs(d *page.Decoder) ([]string, page.Place) {
	n := e.params.args
	switch {
	case !e.params.hasArgs:
		return nil, e.from.at
	case n.Kind == page.List:
		var args []string
		for _, item := range n.Items {
			arg, _ := d.ReadScalar(item, "an argument")
			args = append(args, arg)
		}
		return args, n.At
	}
	text, _ := d.ReadScalar(n, "mcp_args")
	args, err := page.SplitArgs(text)
	if err != nil {
		d.Errorf(n.At, "mcp_args: %s", err)
	}
	return args, n.At
}

func (e *toolEntry) readHeaders(d *page.Decoder) {
	headers := e.headerTexts(d)
	if e.params.hasToken {
		for i, h := range headers {
			if strings.EqualFold(h.name, authorization) {
				d.Warnf(h.at, "mcp_auth_token wins over the Authorization in mcp_headers: take one of them out")
				headers = append(headers[:i:i], headers[i+1:]...)
				break
			}
		}
		text, ok := d.ReadText(e.params.token, "mcp_auth_token")
		if ok && text == "" {
			d.Errorf(e.params.token.At, "mcp_auth_token is empty")
		}
		headers = append(headers, namedText{authorization, text, e.params.token.At})
	}
	for _, h := range headers {
		if err := page.CheckHeaderName(h.name); err != nil {
			d.Errorf(h.at, "mcp_headers: %s", err)
			continue
		}
		e.Headers = append(e.Headers, e.value(d, h)...)
	}
	page.SortValues(e.Headers)
	page.CheckTwice(d, e.Headers)
}

// namedText is a header or variable as it was written.
type namedText struct {
	name, text string
	at         page.Place
}

// value reads h; it returns nothing where that is wrong.
func (e *toolEntry) value(d *page.Decoder, h namedText) []NamedTemplate {
	t, err := secret.ParseToolValue(e.name+" "+h.name, h.text)
	if err != nil {
		d.Errorf(h.at, "%s: %s", page.Clip(h.name), err)
		return nil
	}
	return []NamedTemplate{{Name: h.name, Value: t, At: h.at}}
}

func (e *toolEntry) headerTexts(d *page.Decoder) []namedText {
	n := e.params.headers
	switch {
	case !e.params.hasHeaders:
		return nil
	case n.Kind == page.Mapping:
		return readTexts(d, n)
	}
	text, ok := d.ReadText(n, "mcp_headers")
	if !ok {
		return nil
	}
	list, err := splitHeaders(text)
	if err != nil {
		d.Errorf(n.At, "mcp_headers: %s", err)
	}
	for i := range list {
		list[i].at = n.At
	}
	return list
}

func readTexts(d *page.Decoder, n page.Node) []namedText {
	var list []namedText
	for _, m := range n.Members {
		if text, ok := d.ReadScalar(m.Value, page.Clip(m.Key)); ok {
			list = append(list, namedText{m.Key, text, m.Value.At})
		}
	}
	return list
}

func (e *toolEntry) readEnv(d *page.Decoder) {
	switch e.env.Kind {
	case page.Null:
		return
	case page.Mapping:
	default:
		d.Errorf(e.env.At, "env is %s; a mapping of variables to text was expected", e.env.Kind)
		return
	}
	for _, v := range readTexts(d, e.env) {
		if err := page.CheckEnvName(v.name); err != nil {
			d.Errorf(v.at, "env: %s", err)
			continue
		}
		e.Env = append(e.Env, e.value(d, v)...)
	}
	page.SortValues(e.Env)
}

// headerStart matches the beginning of a header behind a comma or semicolon.
var headerStart = regexp.MustCompile("^[ \t]*([A-Za-z0-9!#$%&'*+.^_`|~-]+)[ \t]*:")

// splitHeaders splits "Name: value, Name: value". A comma or semicolon ends a
// value only where another "Name:" follows, and never inside of ${ … }: a
// value such as "en, de;q=0.5" stays whole. Errors never show a value.
func splitHeaders(text string) ([]namedText, error) {
	var list []namedText
	for strings.TrimSpace(text) != "" {
		m := headerStart.FindStringSubmatchIndex(text)
		if m == nil {
			return nil, crib.Errorf(crib.Invalid, "Name: value was expected, with a comma or semicolon between several")
		}
		name := text[m[2]:m[3]]
		value, rest := cutHeader(text[m[1]:])
		list = append(list, namedText{name: name, text: value})
		text = rest
	}
	return list, nil
}

// cutHeader returns the value at the start of text, and what follows the
// delimiter behind it.
func cutHeader(text string) (value, rest string) {
	for i := 0; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], "${"):
			if end := strings.IndexByte(text[i:], '}'); end > 0 {
				i += end
			}
		case text[i] == ',' || text[i] == ';':
			if after := text[i+1:]; strings.TrimSpace(after) == "" || headerStart.MatchString(after) {
				return strings.TrimSpace(text[:i]), after
			}
		}
	}
	return strings.TrimSpace(text), ""
}

// ToolSchema is the JSON Schema of an entry under tools: in toolcrib.yaml.
func ToolSchema() page.Schema {
	s := page.ObjectSchema(toolFields())
	s["required"] = []string{"name", "from"}
	return s
}

// ToolReference describes an entry under tools: in toolcrib.yaml in Markdown.
func ToolReference() string {
	return page.Table(toolFields()) + "\nKeys of `params`:\n\n" + page.Table(paramFields())
}
