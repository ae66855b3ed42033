package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/page"
	"github.com/toolcrib/toolcrib/internal/secret"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/web"
)

// The flags and variables that set what a person may want to set for one
// start.
const (
	FlagWorkspace = "--workspace"
	FlagData      = "--data"
	FlagListen    = "--listen"

	VarWorkspace = "TOOLCRIB_WORKSPACE"
	VarData      = "TOOLCRIB_DATA"
	VarListen    = "TOOLCRIB_LISTEN"
	VarProviders = "TOOLCRIB_PROVIDERS"

	// FakeProviders is the one value of VarProviders.
	FakeProviders = "fake"
)

// fields are the keys of toolcrib.yaml.
func fields() []page.Field[Config] {
	return []page.Field[Config]{
		{Name: "listen", Type: "host:port", Default: "`" + DefaultListen + "`", Doc: "Where clients reach the crib. Only addresses of this machine; port 0 takes a free one.",
			Schema: page.TextSchema(), Read: readListen},
		{Name: "auth", Type: "mapping", Doc: "Who may call.", Schema: page.ObjectSchema(authFields()), Read: sub("auth", authFields)},
		{Name: "runtime", Type: "mapping", Doc: "How the crib answers requests.", Schema: page.ObjectSchema(runtimeFields()), Read: sub("runtime", runtimeFields)},
		{Name: "secrets", Type: "list", Default: "`env`, then `file` with `dir: secrets`", Doc: "Where secrets are looked up, in this order.",
			Schema: page.ListSchema(storeSchema()), Read: readSecrets},
		{Name: "tools", Type: "list", Doc: "Servers.", Schema: page.ListSchema(servers.ToolSchema()),
			Read: func(*page.Decoder, page.Node, *Config) {}}, // servers.Load reads them
	}
}

func authFields() []page.Field[Config] {
	return []page.Field[Config]{
		{Name: "anonymous", Type: "true or false", Default: "`false`", Doc: "Lets callers without a token in: every program of this machine.",
			Schema: page.BoolSchema(), Read: func(d *page.Decoder, n page.Node, c *Config) {
				d.ReadBool(n, KeyAnonymous, &c.Anonymous)
				c.sources[KeyAnonymous] = File
			}},
	}
}

func runtimeFields() []page.Field[Config] {
	return []page.Field[Config]{
		{Name: "mcp", Type: "mapping", Doc: "The MCP endpoints.", Schema: page.ObjectSchema(mcpFields()), Read: sub("runtime.mcp", mcpFields)},
		{Name: "cors", Type: "mapping", Doc: "Web pages that call.", Schema: page.ObjectSchema(corsFields()), Read: sub("runtime.cors", corsFields)},
	}
}

func mcpFields() []page.Field[Config] {
	return []page.Field[Config]{
		{Name: "allowed_hosts", Type: "list", Default: "the names of this machine",
			Doc:    "Host headers that are answered: a name, or `name:port`. `[]` is the default: localhost, 127.0.0.1, ::1 and `*.localhost`. `[\"*\"]` switches the check off.",
			Schema: page.ListSchema(page.TextSchema()), Read: readHosts},
	}
}

func corsFields() []page.Field[Config] {
	return []page.Field[Config]{
		{Name: "allowed_origins", Type: "list", Default: "pages of this machine",
			Doc:    "Origins of web pages that may call, such as `https://app.example.com`. `*` is no origin and stands for the default. A request without Origin always passes.",
			Schema: page.ListSchema(page.TextSchema()), Read: readOrigins},
	}
}

// sub reads a mapping inside of the configuration.
func sub(what string, table func() []page.Field[Config]) func(*page.Decoder, page.Node, *Config) {
	return func(d *page.Decoder, n page.Node, c *Config) { page.ReadMapping(d, n, what, table(), c) }
}

func readListen(d *page.Decoder, n page.Node, c *Config) {
	text, ok := d.ReadText(n, KeyListen)
	if !ok {
		return
	}
	if err := CheckListen(text); err != nil {
		d.Errorf(n.At, "%s", err)
		return
	}
	c.Listen = text
	c.sources[KeyListen] = File
}

func readHosts(d *page.Decoder, n page.Node, c *Config) {
	c.AllowedHosts = readTexts(d, n, KeyHosts, func(entry string) error {
		if entry == "*" {
			return nil
		}
		return web.CheckHost(entry)
	})
	c.sources[KeyHosts] = File
	if len(c.AllowedHosts) > 1 && slices.Contains(c.AllowedHosts, "*") {
		d.Errorf(n.At, `%s: "*" switches the check off and must stand alone; remove it or the other entries`, KeyHosts)
	}
	if slices.Contains(c.AllowedHosts, "*") {
		d.Warnf(n.At, `%s: with "*", a web page on any site can pretend to be a page of this machine (DNS rebinding); list the names that you use`, KeyHosts)
	}
}

func readOrigins(d *page.Decoder, n page.Node, c *Config) {
	c.AllowedOrigins = readTexts(d, n, KeyOrigins, web.CheckOrigin)
	c.sources[KeyOrigins] = File
}

func storeFields() []page.Field[secret.StoreSpec] {
	text := func(what string, to func(*secret.StoreSpec) *string) func(*page.Decoder, page.Node, *secret.StoreSpec) {
		return func(d *page.Decoder, n page.Node, s *secret.StoreSpec) { *to(s), _ = d.ReadText(n, what) }
	}
	return []page.Field[secret.StoreSpec]{
		{Name: "store", Type: "word", Doc: "`env` is the crib's own environment, `file` a folder with one file a secret, `exec` a command that prints the secret. Required.",
			Schema: page.WordSchema("env", "file", "exec"), Read: func(d *page.Decoder, n page.Node, s *secret.StoreSpec) {
				word, _ := d.ReadWord(n, "store", string(secret.EnvStore), string(secret.FileStore), string(secret.ExecStore))
				s.Kind = secret.StoreKind(word)
			}},
		{Name: "name", Type: "word", Default: "the word of `store`", Doc: "What references call the store: `${ name:SECRET }`. `secrets` is all stores in order.",
			Schema: page.TextSchema(), Read: text("name", func(s *secret.StoreSpec) *string { return &s.Name })},
		{Name: "dir", Type: "folder", Doc: "`file` only. Absolute, or in the workspace.",
			Schema: page.TextSchema(), Read: text("dir", func(s *secret.StoreSpec) *string { return &s.Dir })},
		{Name: "command", Type: "list", Doc: "`exec` only. Program and arguments, to which the name of the secret is added; no shell runs. It has 10 seconds.",
			Schema: page.ListSchema(page.TextSchema()), Read: func(d *page.Decoder, n page.Node, s *secret.StoreSpec) { s.Command, _ = d.ReadTexts(n, "command") }},
	}
}

func storeSchema() page.Schema {
	s := page.ObjectSchema(storeFields())
	s["required"] = []string{"store"}
	return s
}

func readSecrets(d *page.Decoder, n page.Node, c *Config) {
	if n.Kind != page.List {
		d.Errorf(n.At, "secrets is %s; a list of stores was expected, such as [{ store: env }]", n.Kind)
		return
	}
	specs := []secret.StoreSpec{}
	for _, item := range n.Items {
		if spec, ok := readStore(d, item, specs); ok {
			specs = append(specs, spec)
		}
	}
	c.Secrets = specs
	c.sources[KeySecrets] = File
}

// readStore reads one store, of which before are already there.
func readStore(d *page.Decoder, n page.Node, before []secret.StoreSpec) (secret.StoreSpec, bool) {
	var spec secret.StoreSpec
	known := len(d.Faults)
	page.ReadMapping(d, n, "a secret store", storeFields(), &spec)
	if page.Faulty(d.Faults[known:]) {
		return spec, false
	}
	_, hasStore := n.Get("store")
	_, hasDir := n.Get("dir")
	_, hasCommand := n.Get("command")
	switch {
	case !hasStore:
		d.Errorf(n.At, "a secret store needs store: env, file or exec")
	case hasDir && spec.Kind != secret.FileStore:
		d.Errorf(n.At, "dir belongs to store: file")
	case hasCommand && spec.Kind != secret.ExecStore:
		d.Errorf(n.At, "command belongs to store: exec")
	case strings.HasPrefix(spec.Dir, "~"):
		d.Errorf(n.At, "dir: ~ is not expanded here; write the whole path, or one in the workspace")
	default:
		// Together with those before it, so that a name that is taken shows.
		if _, err := secret.NewStores(secret.Options{Specs: append(slices.Clip(before), spec)}); err != nil {
			d.Errorf(n.At, "%s", err)
		}
	}
	return spec, !page.Faulty(d.Faults[known:])
}

// JSONSchema returns the JSON Schema of toolcrib.yaml.
func JSONSchema() []byte {
	return page.ObjectSchema(fields()).Document("toolcrib.yaml")
}

// variable is a variable of the environment that the crib reads.
type variable struct{ name, flag, fallback, doc string }

func variables() []variable {
	return []variable{
		{VarWorkspace, FlagWorkspace, "`$XDG_CONFIG_HOME/toolcrib`, else `~/.config/toolcrib`", "The folder with `toolcrib.yaml`, `mcp/` and `secrets/`."},
		{VarData, FlagData, "`$XDG_STATE_HOME/toolcrib`, else `~/.local/state/toolcrib`", "The folder for what the crib keeps: tokens, last lists, its socket."},
		{VarListen, FlagListen, "`listen:` in `toolcrib.yaml`", "Where clients reach the crib."},
		{servers.EnvVariable, "", "none", "Servers as a JSON object: name to the keys of `mcp:` in a page."},
		{VarProviders, "", "none", "`fake`: every server has one tool, `echo`, and nothing is connected to."},
	}
}

// Reference describes the configuration in Markdown.
func Reference() string {
	var b strings.Builder
	b.WriteString("Keys of `toolcrib.yaml`:\n\n")
	b.WriteString(page.Table(flat()))
	b.WriteString("\nKeys of an entry of `secrets`:\n\n" + page.Table(storeFields()))
	b.WriteString("\nKeys of an entry of `tools`:\n\n" + servers.ToolReference())
	b.WriteString("\nEnvironment and flags. A flag wins over the environment, the environment over the file:\n\n" +
		"| variable | flag | default | what it does |\n| --- | --- | --- | --- |\n")
	for _, v := range variables() {
		flag := "–"
		if v.flag != "" {
			flag = "`" + v.flag + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", v.name, flag, v.fallback, v.doc)
	}
	return b.String()
}

// flat is the table of all keys, inner ones with the names around them.
func flat() []page.Field[Config] {
	var out []page.Field[Config]
	add := func(prefix string, table []page.Field[Config]) {
		for _, f := range table {
			if f.Type != "mapping" {
				f.Name = prefix + f.Name
				out = append(out, f)
			}
		}
	}
	add("", fields())
	add("auth.", authFields())
	add("runtime.mcp.", mcpFields())
	add("runtime.cors.", corsFields())
	return out
}
