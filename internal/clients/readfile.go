package clients

import (
	"path/filepath"
	"strings"

	"github.com/toolcrib/toolcrib/internal/clients/edit"
	"github.com/toolcrib/toolcrib/internal/crib"
)

// ReadFile returns the servers of any configuration file, for people whose
// file is not where its client would look. The client is told by the keys of
// the file: mcpServers, servers, context_servers, mcp or, in TOML,
// mcp_servers. The error is of code Invalid if there is none of them.
func ReadFile(env Env, path string) ([]Entry, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, crib.Errorf(crib.Invalid, "%s: %v", path, err)
	}
	f, err := readFile(path)
	if err != nil {
		return nil, err
	}
	if f.data == nil {
		return nil, crib.Errorf(crib.NotFound, "there is no file %s", path)
	}
	doc, err := parseAny(path, f.data)
	if err != nil {
		return nil, err
	}
	var entries []Entry
	var seen bool
	for _, c := range writers(path, doc) {
		seen = true
		found, err := c.entries(env, doc, location{path: path, scope: User})
		if err != nil {
			return nil, err
		}
		entries = append(entries, found...)
	}
	if !seen {
		return nil, crib.Errorf(crib.Invalid, "%s has no servers: none of mcpServers, servers, context_servers, mcp and mcp_servers is in it", path)
	}
	return entries, nil
}

// parseAny reads a file whose name may say nothing about its syntax.
func parseAny(path string, data []byte) (edit.Document, error) {
	doc, err := edit.Parse(path, data)
	if err == nil {
		return doc, nil
	}
	if toml, tomlErr := edit.ParseTOML(path, data); tomlErr == nil && toml.Tree()["mcp_servers"] != nil {
		return toml, nil
	}
	return nil, err
}

// writers are the clients that may have written a document, one for each kind
// of table that it has.
func writers(path string, doc edit.Document) []*Client {
	has := func(key string) bool { _, ok := doc.Tree()[key].(map[string]any); return ok }
	if _, ok := doc.(*edit.TOML); ok {
		if has("mcp_servers") {
			return []*Client{codex()}
		}
		return nil
	}
	var found []*Client
	if has("mcpServers") || len(claudeTables(doc)) > 1 {
		found = append(found, writerOfMCPServers(path))
	}
	if has("servers") {
		found = append(found, vsCode())
	}
	if has("context_servers") {
		found = append(found, zed())
	}
	if has("mcp") && !has("mcpServers") {
		found = append(found, writerOfMCP(doc))
	}
	return found
}

// writerOfMCPServers tells by the path which client's file has mcpServers,
// because they write references differently. Where it cannot, every usual way
// counts.
func writerOfMCPServers(path string) *Client {
	folders := map[string]*Client{".gemini": gemini(), ".cursor": cursor(), "windsurf": windsurf()}
	if c, ok := folders[filepath.Base(filepath.Dir(path))]; ok {
		return c
	}
	switch filepath.Base(path) {
	case "claude_desktop_config.json":
		return claudeDesktop()
	case ".claude.json", ".mcp.json":
		return claudeCode()
	}
	c := claudeCode()
	c.id, c.title = "file", "File"
	c.words = dialect{envColon: true, editor: true}
	return c
}

// writerOfMCP tells OpenCode from settings of VS Code, whose servers used to
// stand in a table of its settings.
func writerOfMCP(doc edit.Document) *Client {
	settings, _ := doc.Tree()["mcp"].(map[string]any)
	servers, ok := settings["servers"].(map[string]any)
	schema, _ := doc.Tree()["$schema"].(string)
	if !ok || strings.Contains(schema, "opencode") {
		return openCode()
	}
	for _, v := range servers {
		fields, _ := v.(map[string]any)
		if _, isText := fields["command"].(string); isText || fields["headers"] != nil && fields["type"] != "remote" {
			c := vsCode()
			c.tables = inTable("mcp", "servers")
			return c
		}
	}
	return openCode()
}
