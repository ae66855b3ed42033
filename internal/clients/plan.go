package clients

import (
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// PlanOptions say what the crib has and knows already.
type PlanOptions struct {
	// Taken reports whether a server of that name exists. nil: none does.
	Taken func(name string) bool
	// SecretTaken reports whether a secret of that name exists in any store,
	// the environment included. nil: none does.
	SecretTaken func(name string) bool
	// LooksLikeKey reports whether a text should not stand on a page; name is
	// that of its variable, header or parameter, or "". nil: every text of a
	// variable or header is taken for a key.
	LooksLikeKey func(name, value string) bool
	// LookupEnv reads the environment, to decide about defaults. nil: it is
	// empty.
	LookupEnv func(name string) (string, bool)
	// URL is the crib's own address; entries that lead there are left out.
	URL string
}

// Plan is what an import will do.
type Plan struct {
	Servers []Imported
	Skipped []Skipped
}

// Skipped is an entry that is not imported.
type Skipped struct {
	Entry  Entry
	Reason string
}

// Imported is a server for the crib. References in its values name secrets:
// those of Secrets, which must be stored first, or variables that the client
// took from its environment.
type Imported struct {
	Name     string   // a valid server name
	Sources  []Source // every entry that says the same
	Disabled bool     // everywhere
	Command  Value
	Args     []Value
	Cwd      Value
	Env      []ImportedValue
	URL      Value // both HTTP transports; the crib finds out which
	Headers  []ImportedValue
	Secrets  []Secret
	Problems []string
}

// ImportedValue is a variable or header.
type ImportedValue struct {
	Name string
	// Scheme is what an Authorization header says before its credentials, such
	// as Bearer; Value is the rest then. "" means that Value is all of it.
	Scheme string
	Value  Value
}

// Secret is a key that an entry held in plain text.
type Secret struct {
	Name  string // capital letters, digits and underscores
	Value string
}

// String leaves the value out.
func (s Secret) String() string { return s.Name + " [redacted]" }

// GoString leaves the value out.
func (s Secret) GoString() string { return s.String() }

// MakePlan decides what becomes of entries: it names servers and secrets,
// joins entries that say the same and leaves out the crib itself. It changes
// nothing.
func MakePlan(entries []Entry, opts PlanOptions) Plan {
	p := planner{opts: opts, names: map[string]bool{}, secrets: map[string]bool{}, same: map[string]int{}}
	for _, e := range entries {
		p.noteReferences(e)
	}
	for _, e := range entries {
		p.add(e)
	}
	return p.plan
}

// IsCrib reports whether an entry is the crib itself, registered by name, by
// its address, which may be "", or by its command.
func IsCrib(e Entry, address string) bool {
	if e.Name == RegistrationName {
		return true
	}
	if u, ok := e.URL.Literal(); ok && address != "" {
		address = strings.TrimRight(address, "/")
		if u == address || strings.HasPrefix(u, address+"/") {
			return true
		}
	}
	command, ok := e.Command.Literal()
	if !ok || len(e.Args) == 0 {
		return false
	}
	program := strings.TrimSuffix(strings.ToLower(path.Base(filepath.ToSlash(strings.ReplaceAll(command, `\`, "/")))), ".exe")
	first, _ := e.Args[0].Literal()
	return program == "toolcrib" && first == "connect"
}

type planner struct {
	opts    PlanOptions
	plan    Plan
	names   map[string]bool // of servers planned
	secrets map[string]bool // names that a new secret cannot have
	same    map[string]int  // index in plan.Servers by content
}

// noteReferences keeps new secrets from taking the name of a variable that an
// entry refers to: the two are looked up in the same place.
func (p *planner) noteReferences(e Entry) {
	note := func(v Value) {
		for _, part := range v {
			if part.Var != "" {
				p.secrets[part.Var] = true
			}
		}
	}
	for _, v := range append([]Value{e.Command, e.Cwd, e.URL}, e.Args...) {
		note(v)
	}
	for _, kv := range append(slices.Clone(e.Env), e.Headers...) {
		note(kv.Value)
	}
}

func (p *planner) add(e Entry) {
	switch {
	case IsCrib(e, p.opts.URL):
		p.skip(e, "this is the crib itself")
		return
	case e.Transport == "":
		p.skip(e, e.Problems...)
		return
	}
	if problem := unsayable(e); problem != "" {
		p.skip(e, union(slices.Clone(e.Problems), []string{problem})...)
		return
	}
	key := content(e)
	if i, ok := p.same[key]; ok {
		known := &p.plan.Servers[i]
		known.Sources = append(known.Sources, e.Source)
		known.Disabled = known.Disabled && e.Disabled
		known.Problems = union(known.Problems, e.Problems)
		return
	}
	p.same[key] = len(p.plan.Servers)
	p.plan.Servers = append(p.plan.Servers, p.imported(e))
}

func (p *planner) skip(e Entry, reasons ...string) {
	p.plan.Skipped = append(p.plan.Skipped, Skipped{e, strings.Join(reasons, "; ")})
}

// unresolved matches a reference that nobody understood. As the text of a page
// or a secret it would reach the server in place of what it stands for.
var unresolved = regexp.MustCompile(`\$\{|\{(?:env|file):`)

func isUnresolved(v Value) bool {
	return slices.ContainsFunc(v, func(p Part) bool { return unresolved.MatchString(p.Text) })
}

// unsayable says why an entry cannot be imported without a part of what runs
// or of where it is: a command that lacks an argument is another command.
func unsayable(e Entry) string {
	what := ""
	switch {
	case isUnresolved(e.Command):
		what = "the command"
	case isUnresolved(e.URL):
		what = "the URL"
	case isUnresolved(e.Cwd):
		what = "cwd"
	default:
		i := slices.IndexFunc(e.Args, isUnresolved)
		if i < 0 {
			return ""
		}
		what = fmt.Sprintf("argument %d", i+1)
	}
	form := "-e NAME=KEY -- COMMAND"
	if e.Transport != Stdio || slices.ContainsFunc(e.Args, isBridge) {
		form = `URL --header "NAME: KEY"`
	}
	return fmt.Sprintf("%s has a reference that the crib cannot resolve; write out what it stands for: toolcrib add %s %s", what, ServerName(e.Name), form)
}

// isBridge reports whether an argument is the program that people start to
// reach an address with a client that starts commands only.
func isBridge(arg Value) bool {
	text, _ := arg.Literal()
	return text == "mcp-remote" || strings.HasPrefix(text, "mcp-remote@")
}

func union(a, b []string) []string {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}

// content is equal for entries that say the same, whatever their client.
func content(e Entry) string {
	headers := slices.Clone(e.Headers)
	for i := range headers {
		headers[i].Name = strings.ToLower(headers[i].Name)
	}
	return fmt.Sprintf("%#v", []any{ServerName(e.Name), e.Command, e.Args, e.Cwd, e.Env, e.URL, headers})
}

func (p *planner) imported(e Entry) Imported {
	s := &server{planner: p, out: Imported{
		Name:     p.freeName(ServerName(e.Name)),
		Sources:  []Source{e.Source},
		Disabled: e.Disabled,
		Problems: slices.Clone(e.Problems),
	}}
	s.out.Command = s.settled("command", e.Command)
	s.out.Cwd = s.settled("cwd", e.Cwd)
	s.out.URL = s.url(s.settled("URL", e.URL))
	s.out.Args = s.args(e.Args)
	for _, kv := range e.Env {
		v, ok := s.resolved("variable "+kv.Name, kv)
		if !ok {
			continue
		}
		s.out.Env = append(s.out.Env, ImportedValue{Name: kv.Name, Value: s.hidden(kv.Name, v)})
	}
	for _, kv := range e.Headers {
		if v, ok := s.resolved("header "+kv.Name, kv); ok {
			s.out.Headers = append(s.out.Headers, s.header(kv.Name, v))
		}
	}
	s.relative("command", s.out.Command)
	s.relative("cwd", s.out.Cwd)
	return s.out
}

func (p *planner) freeName(base string) string {
	name := numbered(base, "-", crib.MaxServerName, func(name string) bool {
		return p.names[name] || p.opts.Taken != nil && p.opts.Taken(name)
	})
	p.names[name] = true
	return name
}

// numbered returns base, or base with the first free number from 2 on.
func numbered(base, dash string, limit int, taken func(string) bool) string {
	name := base
	for n := 2; taken(name); n++ {
		suffix := fmt.Sprint(dash, n)
		name = strings.TrimRight(base[:min(len(base), limit-len(suffix))], dash) + suffix
	}
	return name
}

// ServerName makes a valid server name of any text: "My Server" becomes
// my-server, and what has no letter or digit of ASCII becomes server.
func ServerName(s string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(s) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	name := strings.Trim(b.String(), "-")
	name = strings.TrimRight(name[:min(len(name), crib.MaxServerName)], "-")
	if name == "" {
		return "server"
	}
	return name
}

// A server is one import in the making.
type server struct {
	*planner
	out Imported
}

func (s *server) problem(format string, args ...any) {
	s.out.Problems = union(s.out.Problems, []string{fmt.Sprintf(format, args...)})
}

// Variables that say where and for whom something runs. They are no secrets,
// and as secrets their texts would be taken out of everything that is shown.
var plainVariables = map[string]bool{
	"APPDATA": true, "HOME": true, "LOCALAPPDATA": true, "LOGNAME": true, "PWD": true, "TEMP": true,
	"TMP": true, "TMPDIR": true, "USER": true, "USERNAME": true, "USERPROFILE": true,
}

// settled decides what is known now: defaults and plain variables become
// texts, which the crib has no other way to carry.
func (s *server) settled(where string, v Value) Value {
	var out Value
	for _, part := range v {
		if part.Var == "" {
			out = out.appendText(part.Text)
			continue
		}
		now, set := "", false
		if s.opts.LookupEnv != nil {
			now, set = s.opts.LookupEnv(part.Var)
		}
		switch {
		case set && plainVariables[part.Var]:
			out = out.appendText(now)
		case part.HasDefault && now == "":
			out = out.appendText(part.Default)
			s.problem("%s: %s is not set, so its default is written", where, part.Var)
		default:
			if now == "" && !s.mentioned(part.Var) {
				s.problem("%s: %s is not set here; store it as a secret before the server is used", where, part.Var)
			}
			out = append(out, Part{Var: part.Var})
		}
	}
	return out
}

// resolved settles a variable or header. It is left out when a reference in it
// is not understood; ok is false then.
func (s *server) resolved(where string, kv KV) (v Value, ok bool) {
	if !isUnresolved(kv.Value) {
		v = s.settled(where, kv.Value)
	}
	if isUnresolved(kv.Value) || isUnresolved(v) {
		s.problem("%s is left out: it has a reference that the crib cannot resolve; store its value as a secret and write on the page %s: NAME_OF_THE_SECRET", where, kv.Name)
		return nil, false
	}
	return v, true
}

// mentioned reports whether a problem tells about a name already.
func (s *server) mentioned(name string) bool {
	return slices.ContainsFunc(s.out.Problems, func(p string) bool { return strings.HasSuffix(p, " the secret "+name) })
}

// credentials matches a text for an Authorization header, wherever it stands.
var credentials = regexp.MustCompile(`^(?i:Bearer|Basic|Token)[ \t]+\S`)

func (s *server) looksLikeKey(name, value string) bool {
	switch {
	case value == "":
		return false
	case credentials.MatchString(value):
		return true
	}
	return s.opts.LooksLikeKey == nil || s.opts.LooksLikeKey(name, value)
}

// hidden moves a text that looks like a key into a secret.
func (s *server) hidden(name string, v Value) Value {
	text, ok := v.Literal()
	if !ok || !s.looksLikeKey(name, text) {
		return v
	}
	return Variable(s.secret(name, text))
}

// secret stores a text under a new name, or the one that it got before in the
// same server.
func (s *server) secret(name, value string) string {
	for _, known := range s.out.Secrets {
		if known.Value == value {
			return known.Name
		}
	}
	found := numbered(s.secretName(name), "_", maxSecretName, func(name string) bool {
		return s.secrets[name] || s.opts.SecretTaken != nil && s.opts.SecretTaken(name)
	})
	s.secrets[found] = true
	s.out.Secrets = append(s.out.Secrets, Secret{found, value})
	return found
}

// maxSecretName is the greatest length of a name made here, in bytes.
const maxSecretName = 64

func (s *server) secretName(name string) string {
	owner, what := upperName(s.out.Name), "KEY"
	switch {
	case strings.EqualFold(name, "Authorization"):
		what = "TOKEN"
	case strings.Trim(name, "-_ ") != "":
		what = upperName(strings.TrimPrefix(strings.ToUpper(strings.TrimLeft(name, "-")), "X-"))
	}
	if what == owner || strings.HasPrefix(what, owner+"_") {
		return what[:min(len(what), maxSecretName)]
	}
	full := owner + "_" + what
	return strings.TrimRight(full[:min(len(full), maxSecretName)], "_")
}

var scheme = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9_-]*)[ \t]+`)

// header imports a header. What an Authorization header says is a secret
// whatever it looks like.
func (s *server) header(name string, v Value) ImportedValue {
	out := ImportedValue{Name: name, Value: v}
	if !strings.EqualFold(name, "Authorization") && !strings.EqualFold(name, "Proxy-Authorization") {
		out.Value = s.hidden(name, v)
		return out
	}
	if len(v) > 0 && v[0].Var == "" {
		if m := scheme.FindStringSubmatch(v[0].Text); m != nil {
			out.Scheme = m[1]
			out.Value = Text(v[0].Text[len(m[0]):]).append(v[1:]...)
		}
	}
	if text, ok := out.Value.Literal(); ok && text != "" {
		out.Value = Variable(s.secret("Authorization", text))
	}
	return out
}

var (
	flagWithValue = regexp.MustCompile(`^(--?[A-Za-z][A-Za-z0-9_-]*=)(.+)$`)
	assignment    = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*=)(.+)$`)
	headerLine    = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]*):[ \t]*(?:(?:Bearer|Basic|Token)[ \t]+)?`)
)

// args moves keys in arguments into secrets: --api-key KEY, --api-key=KEY,
// -e NAME=KEY, --header "Name: KEY" and addresses.
func (s *server) args(args []Value) []Value {
	var out []Value
	before := ""
	for i, v := range args {
		v = s.settled(fmt.Sprintf("argument %d", i+1), v)
		text, literal := v.Literal()
		if literal {
			v = s.arg(before, text)
		}
		out = append(out, v)
		before = text
	}
	return out
}

func (s *server) arg(before, text string) Value {
	if strings.Contains(text, "://") && !flagWithValue.MatchString(text) && !assignment.MatchString(text) {
		return s.url(Text(text))
	}
	if m := headerLine.FindStringSubmatch(text); m != nil && (before == "-H" || strings.HasPrefix(before, "--header")) {
		rest := text[len(m[0]):]
		if rest != "" && !strings.Contains(rest, "$") && (strings.EqualFold(m[1], "Authorization") || s.looksLikeKey(m[1], rest)) {
			return Text(m[0]).append(Part{Var: s.secret(m[1], rest)})
		}
		return Text(text)
	}
	for _, form := range []*regexp.Regexp{flagWithValue, assignment} {
		if m := form.FindStringSubmatch(text); m != nil {
			name := strings.Trim(m[1], "-=")
			return Text(m[1]).append(s.hiddenArg(name, m[2])...)
		}
	}
	if strings.HasPrefix(before, "-") && !strings.Contains(before, "=") && !strings.HasPrefix(text, "-") {
		return s.hiddenArg(strings.TrimLeft(before, "-"), text)
	}
	return s.hiddenArg("", text)
}

// hiddenArg is hidden for arguments, where a caller that cannot tell keys does
// not make every word one.
func (s *server) hiddenArg(name, text string) Value {
	if s.opts.LooksLikeKey == nil {
		return Text(text)
	}
	return s.hidden(name, Text(text))
}

// url moves passwords and keys in an address into secrets; the rest stays byte
// for byte.
func (s *server) url(v Value) Value {
	var out Value
	for _, part := range v {
		if part.Var != "" {
			out = append(out, part)
			continue
		}
		out = out.append(s.urlText(part.Text)...)
	}
	return out
}

func (s *server) urlText(text string) Value {
	head, query, hasQuery := strings.Cut(text, "?")
	origin, segments := splitOrigin(head)
	out := s.origin(origin)
	for i, segment := range segments {
		if i > 0 {
			out = out.appendText("/")
		}
		out = out.append(s.hiddenArg("", segment)...)
	}
	if !hasQuery {
		return out
	}
	lead := "?"
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		out = out.appendText(lead + pair[:len(pair)-len(value)]).append(s.parameter(name, value)...)
		lead = "&"
	}
	return out
}

// parameter imports the value of a query parameter. A secret keeps its
// percent-encoding, because it is put into the address as it is.
func (s *server) parameter(name, value string) Value {
	plain, err := url.QueryUnescape(value)
	if err != nil {
		plain = value
	}
	if s.opts.LooksLikeKey == nil || !s.looksLikeKey(name, plain) {
		return Text(value)
	}
	return Variable(s.secret(name, value))
}

// splitOrigin takes scheme and host from the path, whose first segment is
// empty then.
func splitOrigin(head string) (origin string, segments []string) {
	start := strings.Index(head, "://")
	if start < 0 {
		return "", strings.Split(head, "/")
	}
	start += len("://")
	if slash := strings.IndexByte(head[start:], '/'); slash >= 0 {
		return head[:start+slash], strings.Split(head[start+slash:], "/")
	}
	return head, nil
}

// origin moves a password in scheme://user:password@host into a secret.
func (s *server) origin(text string) Value {
	at := strings.LastIndexByte(text, '@')
	start := strings.Index(text, "://") + len("://")
	if at < start {
		return Text(text)
	}
	user, password, ok := strings.Cut(text[start:at], ":")
	if !ok || password == "" {
		return Text(text)
	}
	return Text(text[:start]+user+":").append(Part{Var: s.secret("password", password)}, Part{Text: text[at:]})
}

var wholePath = regexp.MustCompile(`^(/|~[/\\]|[A-Za-z]:[/\\]|\\\\)`)

// relative reports a path that depends on the folder in which the client ran.
func (s *server) relative(what string, v Value) {
	if len(v) == 0 || v[0].Var != "" {
		return
	}
	text := v[0].Text
	isPath := what == "cwd" || strings.ContainsAny(text, `/\`)
	if isPath && !wholePath.MatchString(text) {
		s.problem("%s %q starts from the folder in which the client ran; write the whole path", what, text)
	}
}
