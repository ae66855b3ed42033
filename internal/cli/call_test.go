package cli

import "testing"

func TestParseTool(t *testing.T) {
	for _, tt := range []struct{ text, path, name string }{
		{"mcp.files.read_file", "/v1/mcp/files", "read_file"},
		{"mcp.files.a.b", "/v1/mcp/files", "a.b"},
		{"files__read_file", "/v1/mcp", "files__read_file"},
		{"mcp.Files.x", "/v1/mcp", "mcp.Files.x"},
	} {
		if got := parseTool(tt.text); got.path != tt.path || got.name != tt.name {
			t.Errorf("parseTool(%q) = %+v; want %s at %s", tt.text, got, tt.name, tt.path)
		}
	}
}
