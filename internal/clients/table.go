package clients

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/clients/edit"
)

// All returns the clients, in the order in which they are shown.
func All() []*Client {
	return []*Client{
		claudeCode(), claudeDesktop(), cursor(), vsCode(), windsurf(), zed(), codex(), gemini(), openCode(),
	}
}

func inTable(keys ...string) func(edit.Document) []table {
	return func(edit.Document) []table { return []table{{path: keys}} }
}

// userAndProject lists a client's file for all projects and, if it has one, the file in
// a project's folder.
func userAndProject(user func(Env) string, project ...string) func(Env) []location {
	return func(env Env) []location {
		list := []location{{path: user(env), scope: User}}
		if len(project) > 0 {
			path := filepath.Join(append([]string{env.Dir}, project...)...)
			list = append(list, location{path: path, scope: Project, project: env.Dir})
		}
		return list
	}
}

func inHome(elem ...string) func(Env) string {
	return func(env Env) string { return filepath.Join(append([]string{env.Home}, elem...)...) }
}

// parentOf marks a client as installed where the folder of its file exists.
func parentOf(path func(Env) string) func(Env) []string {
	return func(env Env) []string { return []string{filepath.Dir(path(env))} }
}

// An entry for the crib, for clients that name a transport "type".
func typedShape(r Registration) edit.Fields {
	if r.overHTTP() {
		return edit.Fields{edit.F("type", "http"), edit.F("url", r.URL), edit.F("headers", r.authorization())}
	}
	return append(edit.Fields{edit.F("type", "stdio")}, commandShape(r)...)
}

func commandShape(r Registration) edit.Fields {
	return edit.Fields{edit.F("command", r.Command[0]), edit.F("args", r.Command[1:])}
}

// urlShape makes the shape of clients that tell the transport by the name of
// the field with the address.
func urlShape(field string) func(Registration) edit.Fields {
	return func(r Registration) edit.Fields {
		if r.overHTTP() {
			return edit.Fields{edit.F(field, r.URL), edit.F("headers", r.authorization())}
		}
		return commandShape(r)
	}
}

// Claude Code keeps the servers of a person, and those of one person in one
// project, in .claude.json; those of a project stand in its .mcp.json.
// Documentation: code.claude.com/docs/en/mcp.
func claudeCode() *Client {
	path := func(env Env) string {
		if dir := env.getenv("CLAUDE_CONFIG_DIR"); dir != "" {
			return filepath.Join(dir, ".claude.json")
		}
		return filepath.Join(env.Home, ".claude.json")
	}
	return &Client{
		id: "claude-code", title: "Claude Code", http: true,
		marks:     func(env Env) []string { return []string{inHome(".claude")(env), env.getenv("CLAUDE_CONFIG_DIR")} },
		locations: userAndProject(path, ".mcp.json"),
		tables:    claudeTables,
		decode:    decodeCommon,
		shape:     typedShape,
		command:   claudeCommand,
	}
}

func claudeTables(doc edit.Document) []table {
	tables := []table{{path: []string{"mcpServers"}}}
	projects, _ := doc.Tree()["projects"].(map[string]any)
	for _, dir := range slices.Sorted(maps.Keys(projects)) {
		settings, _ := projects[dir].(map[string]any)
		if _, ok := settings["mcpServers"].(map[string]any); ok {
			tables = append(tables, table{path: []string{"projects", dir, "mcpServers"}, scope: Local, project: dir})
		}
	}
	return tables
}

func claudeCommand(verb string, r Registration) string {
	switch {
	case verb == "remove":
		return "claude mcp remove --scope user " + r.Name
	case r.overHTTP():
		return "claude mcp add --scope user --transport http " + r.Name + " " + r.URL + ` --header "Authorization: Bearer …"`
	default:
		return "claude mcp add --scope user " + r.Name + " --" + shellWords(r.Command)
	}
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellWords writes arguments for a person to read and copy.
func shellWords(argv []string) string {
	var b strings.Builder
	for _, arg := range argv {
		if !plainWord.MatchString(arg) {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		b.WriteString(" " + arg)
	}
	return b.String()
}

// Claude Desktop starts commands only, and expands nothing in its file itself.
// Documentation: modelcontextprotocol.io, "Connect to local MCP servers".
func claudeDesktop() *Client {
	path := func(env Env) string { return filepath.Join(env.appData(), "Claude", "claude_desktop_config.json") }
	return &Client{
		id: "claude-desktop", title: "Claude Desktop",
		marks:     parentOf(path),
		locations: userAndProject(path),
		tables:    inTable("mcpServers"),
		decode:    decodeCommon,
		shape:     commandShape,
	}
}

// Cursor. Documentation: cursor.com/docs/mcp.
func cursor() *Client {
	path := inHome(".cursor", "mcp.json")
	return &Client{
		id: "cursor", title: "Cursor", http: true,
		words:     dialect{envColon: true, editor: true},
		marks:     parentOf(path),
		locations: userAndProject(path, ".cursor", "mcp.json"),
		tables:    inTable("mcpServers"),
		decode:    decodeCommon,
		shape:     urlShape("url"),
	}
}

// VS Code. Documentation: code.visualstudio.com/docs, "MCP configuration
// reference".
func vsCode() *Client {
	path := func(env Env) string { return filepath.Join(env.appData(), "Code", "User", "mcp.json") }
	return &Client{
		id: "vscode", title: "VS Code", http: true,
		words:     dialect{envColon: true, editor: true},
		marks:     parentOf(path),
		locations: userAndProject(path, ".vscode", "mcp.json"),
		tables:    inTable("servers"),
		decode:    decodeCommon,
		shape:     typedShape,
	}
}

// Windsurf. Documentation: docs.windsurf.com/windsurf/cascade/mcp.
func windsurf() *Client {
	path := inHome(".codeium", "windsurf", "mcp_config.json")
	return &Client{
		id: "windsurf", title: "Windsurf", http: true,
		words:     dialect{envColon: true},
		marks:     parentOf(path),
		locations: userAndProject(path),
		tables:    inTable("mcpServers"),
		decode:    decodeCommon,
		shape:     urlShape("serverUrl"),
	}
}

// Zed expands nothing in its file. Documentation: zed.dev/docs/ai/mcp.
func zed() *Client {
	path := func(env Env) string {
		switch env.GOOS {
		case "windows":
			return filepath.Join(env.appData(), "Zed", "settings.json")
		case "darwin":
			return filepath.Join(env.Home, ".config", "zed", "settings.json")
		default:
			return filepath.Join(env.xdgConfig(), "zed", "settings.json")
		}
	}
	return &Client{
		id: "zed", title: "Zed", http: true,
		marks:     parentOf(path),
		locations: userAndProject(path, ".zed", "settings.json"),
		tables:    inTable("context_servers"),
		decode:    decodeCommon,
		shape:     urlShape("url"),
	}
}

// Codex. Documentation: developers.openai.com/codex/mcp.
func codex() *Client {
	path := func(env Env) string {
		if dir := env.getenv("CODEX_HOME"); dir != "" {
			return filepath.Join(dir, "config.toml")
		}
		return filepath.Join(env.Home, ".codex", "config.toml")
	}
	return &Client{
		id: "codex", title: "Codex", http: true,
		marks:     parentOf(path),
		locations: userAndProject(path, ".codex", "config.toml"),
		tables:    inTable("mcp_servers"),
		decode:    decodeCodex,
		shape: func(r Registration) edit.Fields {
			if r.overHTTP() {
				return edit.Fields{edit.F("url", r.URL), edit.F("http_headers", r.authorization())}
			}
			return commandShape(r)
		},
	}
}

// Gemini CLI. Documentation: geminicli.com/docs/tools/mcp-server.
func gemini() *Client {
	path := inHome(".gemini", "settings.json")
	return &Client{
		id: "gemini-cli", title: "Gemini CLI", http: true,
		words:     dialect{bare: true},
		marks:     parentOf(path),
		locations: userAndProject(path, ".gemini", "settings.json"),
		tables:    inTable("mcpServers"),
		decode:    decodeGemini,
		shape:     urlShape("httpUrl"),
	}
}

// OpenCode merges several files of one folder, the later winning, and looks in
// the same folder on every system. Documentation: opencode.ai/docs.
func openCode() *Client {
	folder := func(env Env) string { return filepath.Join(env.xdgConfig(), "opencode") }
	return &Client{
		id: "opencode", title: "OpenCode", http: true,
		words: dialect{curly: true},
		marks: func(env Env) []string { return []string{folder(env)} },
		locations: func(env Env) []location {
			var list []location
			for _, name := range []string{"config.json", "opencode.json", "opencode.jsonc"} {
				list = append(list, location{path: filepath.Join(folder(env), name), scope: User})
			}
			for _, name := range []string{"opencode.json", "opencode.jsonc"} {
				list = append(list, location{path: filepath.Join(env.Dir, name), scope: Project, project: env.Dir})
			}
			return list
		},
		fallback: 1,
		tables:   openCodeTables,
		decode:   decodeOpenCode,
		shape:    openCodeShape,
	}
}

// openCodeTables tells the two generations of the file apart: version 2 has
// its servers one table deeper, version 1 could have a server of that name.
func openCodeTables(doc edit.Document) []table {
	settings, _ := doc.Tree()["mcp"].(map[string]any)
	servers, ok := settings["servers"].(map[string]any)
	if _, isServer := servers["type"].(string); ok && !isServer {
		return []table{{path: []string{"mcp", "servers"}}}
	}
	return []table{{path: []string{"mcp"}}}
}

func openCodeShape(r Registration) edit.Fields {
	if r.overHTTP() {
		// Without this OpenCode tries to sign in before it uses the header.
		return edit.Fields{edit.F("type", "remote"), edit.F("url", r.URL), edit.F("oauth", false), edit.F("headers", r.authorization())}
	}
	return edit.Fields{edit.F("type", "local"), edit.F("command", r.Command)}
}
