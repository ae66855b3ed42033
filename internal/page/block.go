package page

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/secret"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Limits of a block.
const (
	// DefaultTimeout is how long a call may take where a block does not say.
	DefaultTimeout = 60 * time.Second

	// MinTimeout and MaxTimeout bound what a block may say.
	MinTimeout = time.Second
	MaxTimeout = 24 * time.Hour

	// MaxPattern is the greatest length of a pattern, in bytes.
	MaxPattern = 128
)

// Block is what defines a server: the value of mcp: in a page. It holds names
// of secrets, never their values.
type Block struct {
	Transport   Transport
	Headers     []NamedTemplate // HTTP only, sorted by name
	Env         []NamedTemplate // commands only, sorted by name
	Gates       []Gate
	Tools       []string // patterns of what is offered at all; none: every tool
	Enabled     bool
	Description string        // put before each tool's own description
	Era         wire.Era      // "" is: find out
	Timeout     time.Duration // of one call
	Inherit     Inherit
	Methods     []string // patterns of vendor methods that are let through
	Dialogue    Dialogue
}

// NewBlock is a block that says nothing: every default.
func NewBlock() Block {
	return Block{
		Enabled:  true,
		Timeout:  DefaultTimeout,
		Dialogue: Dialogue{Share: ShareServer, May: []string{MayElicitation, MayRoots}},
	}
}

// Transport is how a server is reached: by URL, or by a command that is
// started. Exactly one of URL and Command is set.
type Transport struct {
	URL     string
	Command []string // program and arguments; "~/" at the start of the program is the home folder
	Dir     string   // folder the command starts in, "" is the workspace; "~/" as above
}

// IsHTTP reports whether the server is reached by URL.
func (t Transport) IsHTTP() bool { return t.URL != "" }

// NamedTemplate is a header or an environment variable.
type NamedTemplate struct {
	Name  string
	Value secret.Template
	At    Place
}

// Gate says what becomes of calls to the tools that Pattern matches.
type Gate struct {
	Pattern string
	Effect  crib.Effect
}

// Inherit says what of the crib's own environment a command gets.
type Inherit struct {
	None  bool     // only PATH
	Names []string // beside the base variables
}

// Share says who shares one connection to a server.
type Share string

// The ways to share.
const (
	ShareServer    Share = "server"    // everybody: the default
	SharePrincipal Share = "principal" // one connection for each caller
	ShareSession   Share = "session"   // one connection for each session of a client
	ShareProject   Share = "project"   // one for each folder that a caller works in; the command starts there
)

// The requests that a server may be allowed to make of a client.
const (
	MayElicitation = "elicitation"
	MayRoots       = "roots"
	MaySampling    = "sampling"
)

// Dialogue is what a server may ask of clients, and who shares a connection
// to it.
type Dialogue struct {
	Share Share
	May   []string // of MayElicitation, MayRoots, MaySampling
}

// CommonFields are the keys that every way of defining a server has.
func CommonFields() []Field[Block] {
	return []Field[Block]{
		{"trust", "mapping", "", "Tool pattern to `never` (run without asking) or `always` (ask a person each time).",
			MapSchema(WordSchema("always", "never")), readTrust},
		{"gate", "mapping", "", "Tool pattern to `ask`, `allow` or `deny`. The most specific pattern decides.",
			MapSchema(WordSchema("ask", "allow", "deny")), readGate},
		{"tools", "list", "every tool", "Patterns of the tools that the crib offers of this server at all; `!` in front leaves out.",
			ListSchema(TextSchema()), readTools},
		{"enabled", "true or false", "true", "`false` switches the server off; it keeps its name.",
			BoolSchema(), func(d *Decoder, n Node, b *Block) { d.ReadBool(n, "enabled", &b.Enabled) }},
		{"description", "text", "", "Put before each tool's own description, a blank line between.",
			TextSchema(), func(d *Decoder, n Node, b *Block) { b.Description, _ = d.ReadText(n, "description") }},
		{"era", "word", "auto", "The family of protocol versions: `auto` finds out, `modern` is 2026-07-28, `legacy` is all before it.",
			WordSchema("auto", "modern", "legacy"), readEra},
		{"timeout", "time", "60s", "How long one call may take, from 1s to 24h.",
			TextSchema(), func(d *Decoder, n Node, b *Block) { d.ReadDuration(n, "timeout", MinTimeout, MaxTimeout, &b.Timeout) }},
		{"inherit", "none or list", "", "Commands only. What of the crib's own environment the command gets: `none` is only PATH, a list adds variables to the usual ones.",
			AnySchema(WordSchema("none"), ListSchema(TextSchema())), readInherit},
		{"methods", "list", "none", "Patterns of vendor methods that are let through, such as `vendor/*`.",
			ListSchema(TextSchema()), readMethods},
		{"share", "word", "server", "Who shares a connection: `server` is everybody, `principal` gives one to each caller, `session` one to each session, `project` one to each folder that a caller works in, where the command is started.",
			WordSchema("server", "principal", "session", "project"), readShare},
		{"may", "list", "[elicitation, roots]", "What the server may ask of a client: `elicitation`, `roots`, `sampling`.",
			ListSchema(WordSchema(MayElicitation, MayRoots, MaySampling)), readMay},
		NotYet[Block]("roles"),
		NotYet[Block]("review"),
		NotYet[Block]("handover"),
		NotYet[Block]("credential"),
		NotYet[Block]("effects"),
	}
}

// BlockFields are the keys of mcp: in a page, and of an entry of
// TOOLCRIB_MCP_SERVERS.
func BlockFields() []Field[Block] {
	return append([]Field[Block]{
		{"transport", "mapping", "", "How the server is reached: `{ http: URL }`, `{ stdio: 'command args…' }` or `{ command: program, args: [list], cwd: folder }`. Required.",
			transportSchema(), readTransport},
		{"headers", "mapping", "", "HTTP only. Header to value; `Authorization` without a scheme is sent as Bearer.",
			MapSchema(valueSchema()), readHeaders},
		{"env", "mapping", "", "Commands only. Variable to value.",
			MapSchema(valueSchema()), readEnv},
	}, CommonFields()...)
}

// ReadBlock reads the block n, which messages call what. The Block is complete
// only where d has no new error.
func ReadBlock(d *Decoder, n Node, what string) Block {
	b := NewBlock()
	if n.Kind == Null {
		d.Errorf(n.At, "%s is empty; at least transport was expected", what)
		return b
	}
	before := len(d.Faults)
	ReadMapping(d, n, what, BlockFields(), &b)
	if _, ok := n.Get("transport"); !ok && n.Kind == Mapping {
		d.Errorf(n.At, "%s has no transport: write { http: URL }, { stdio: 'command args…' } or { command: program, args: [list] }", what)
	}
	if !Faulty(d.Faults[before:]) {
		transport, _ := n.Get("transport")
		CheckBlock(d, n, transport.At, b)
	}
	return b
}

// CheckBlock adds what is wrong with b, read from n, as a whole. at is the
// place of its transport.
func CheckBlock(d *Decoder, n Node, at Place, b Block) {
	for _, key := range []string{"env", "inherit"} {
		if v, ok := n.Get(key); ok && b.Transport.IsHTTP() {
			d.Warnf(v.At, "%s has no effect: it is for servers that are started by a command, and this one is reached by URL", key)
		}
	}
	if v, ok := n.Get("headers"); ok && !b.Transport.IsHTTP() {
		d.Warnf(v.At, "headers have no effect: they are for servers that are reached by URL; give a command its secrets under env")
	}
	if b.Transport.IsHTTP() {
		if v, ok := n.Get("share"); ok && b.Dialogue.Share == ShareProject {
			d.Errorf(v.At, "share: project starts a command in the folder that its caller works in, and this server is reached by URL: use session")
		}
		warnUnencrypted(d, at, b)
		return
	}
	warnUnpinned(d, at, b.Transport.Command)
}

func readTrust(d *Decoder, n Node, b *Block) {
	readGates(d, n, "trust", map[string]crib.Effect{"always": crib.Ask, "never": crib.Allow}, b)
}

func readGate(d *Decoder, n Node, b *Block) {
	readGates(d, n, "gate", map[string]crib.Effect{"ask": crib.Ask, "allow": crib.Allow, "deny": crib.Deny}, b)
}

func readGates(d *Decoder, n Node, key string, words map[string]crib.Effect, b *Block) {
	if n.Kind != Mapping {
		d.Errorf(n.At, "%s is %s; a mapping of tool patterns was expected, such as { \"search*\": %s }", key, n.Kind, wordList(words))
		return
	}
	for _, m := range n.Members {
		effect, ok := words[m.Value.Text]
		if !ok || m.Value.Kind != Text {
			d.Errorf(m.Value.At, "%s of %q: %s was expected", key, Clip(m.Key), wordList(words))
			continue
		}
		if err := CheckPattern(m.Key); err != nil {
			d.Errorf(m.At, "%s: %s", key, err)
			continue
		}
		addGate(d, m, Gate{Pattern: m.Key, Effect: effect}, b)
	}
}

func addGate(d *Decoder, m Member, g Gate, b *Block) {
	if i := slices.IndexFunc(b.Gates, func(o Gate) bool { return o.Pattern == g.Pattern }); i >= 0 {
		if b.Gates[i].Effect != g.Effect {
			d.Errorf(m.At, "trust and gate say different things about %q: keep one of them", Clip(g.Pattern))
		}
		return
	}
	if g.Effect == crib.Allow {
		d.Warnf(m.Value.At, "tools that match %q run without asking anybody", Clip(g.Pattern))
	}
	b.Gates = append(b.Gates, g)
}

func wordList(words map[string]crib.Effect) string {
	var list []string
	for _, w := range []string{"ask", "allow", "deny", "always", "never"} {
		if _, ok := words[w]; ok {
			list = append(list, w)
		}
	}
	return strings.Join(list, " or ")
}

// CheckPattern reports, as an Invalid error, why p is no pattern for names.
// "*" in one stands for any run of characters.
func CheckPattern(p string) error {
	if p == "" || len(p) > MaxPattern {
		return crib.Errorf(crib.Invalid, "a pattern has 1 to %d characters", MaxPattern)
	}
	if strings.ContainsFunc(p, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return crib.Errorf(crib.Invalid, "pattern %q: spaces and control characters are in no name", Clip(p))
	}
	return nil
}

func readTools(d *Decoder, n Node, b *Block) {
	if n.Kind == List && len(n.Items) == 0 {
		d.Errorf(n.At, "tools is an empty list: leave it out to offer every tool, or write enabled: false to offer none")
		return
	}
	readPatterns(d, n, "tools", "!", &b.Tools)
}

// readPatterns reads a list of patterns; each may have prefix in front.
func readPatterns(d *Decoder, n Node, what, prefix string, to *[]string) {
	list, ok := d.ReadTexts(n, what)
	if !ok {
		return
	}
	for i, p := range list {
		if err := CheckPattern(strings.TrimPrefix(p, prefix)); err != nil {
			d.Errorf(n.Items[i].At, "%s: %s", what, err)
			return
		}
	}
	*to = list
}

func readMethods(d *Decoder, n Node, b *Block) {
	readPatterns(d, n, "methods", "", &b.Methods)
	for i, p := range b.Methods {
		if CoreMethod(strings.TrimSuffix(p, "*")) {
			d.Errorf(n.Items[i].At, "methods: %q is part of the protocol, and the crib handles it itself; list vendor methods only", Clip(p))
		}
	}
}

// corePrefixes are the beginnings of the methods that the protocol defines, in
// both eras.
var corePrefixes = []string{"completion/", "elicitation/", "initialize", "logging/", "notifications/", "ping", "prompts/", "resources/",
	"roots/", "sampling/", "server/", "subscriptions/", "tasks/", "tools/"}

// CoreMethod reports whether method belongs to the protocol, so that no list of
// vendor methods can let it through.
func CoreMethod(method string) bool {
	return slices.ContainsFunc(corePrefixes, func(p string) bool {
		if strings.HasSuffix(p, "/") {
			return strings.HasPrefix(method, p)
		}
		return method == p
	})
}

func readEra(d *Decoder, n Node, b *Block) {
	word, _ := d.ReadWord(n, "era", "auto", string(wire.Modern), string(wire.Legacy))
	if word != "auto" {
		b.Era = wire.Era(word)
	}
}

func readInherit(d *Decoder, n Node, b *Block) {
	if n.Kind == Text {
		_, b.Inherit.None = d.ReadWord(n, "inherit", "none")
		return
	}
	list, ok := d.ReadTexts(n, "inherit")
	if !ok {
		return
	}
	for i, name := range list {
		if err := checkInherited(name); err != nil {
			d.Errorf(n.Items[i].At, "inherit: %s", err)
			return
		}
	}
	slices.Sort(list)
	b.Inherit.Names = slices.Compact(list)
}

func readShare(d *Decoder, n Node, b *Block) {
	word, ok := d.ReadWord(n, "share", string(ShareServer), string(SharePrincipal), string(ShareSession), string(ShareProject))
	if ok {
		b.Dialogue.Share = Share(word)
	}
}

func readMay(d *Decoder, n Node, b *Block) {
	if n.Kind != List {
		d.Errorf(n.At, "may is %s; a list was expected, such as [elicitation, roots]", n.Kind)
		return
	}
	may := make([]string, 0, len(n.Items))
	for i, item := range n.Items {
		word, ok := d.ReadWord(item, fmt.Sprintf("may, entry %d", i+1), MayElicitation, MayRoots, MaySampling)
		if !ok {
			return
		}
		may = append(may, word)
	}
	slices.Sort(may)
	b.Dialogue.May = slices.Compact(may)
}
