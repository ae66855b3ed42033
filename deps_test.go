package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	slashpath "path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/toolcrib/toolcrib"

// imports says which packages of the project each package may import, from
// the ground up. A row is a decision: a new package gets one, and a new entry
// needs a reason why the direction still holds. Nothing in the rows of one
// level imports sideways, unless it says so here.
var imports = map[string][]string{
	// Vocabulary.
	"crib":      {},
	"wire":      {},
	"telemetry": {},
	"alarm":     {},
	"child":     {"crib"},
	"secret":    {"crib", "child"}, // its errors; the programs of exec stores

	// Parts that know one thing each.
	"web":      {"crib"},
	"auth":     {"crib", "web"}, // the shape of a refusal
	"policy":   {"crib"},
	"page":     {"crib", "secret", "wire"},
	"clients":  {"crib", "clients/edit"},
	"bridge":   {"crib", "wire"},
	"upstream": {"crib", "wire", "alarm", "child", "upstream/gate"},
	"demo":     {"wire"},

	"upstream/gate": {"crib"}, // who is let in to a server, below its legs

	"clients/edit": {"crib"}, // text edits, below the clients whose files they change

	"servers": {"crib", "wire", "secret", "page"},
	"catalog": {"crib", "wire", "bridge", "child", "upstream", "upstream/gate", "servers"},
	"gateway": {"crib", "wire", "policy", "bridge", "upstream", "servers", "catalog", "gateway/lane", "gateway/legacy", "gateway/task", "gateway/turnstile"},

	"gateway/legacy": {"crib", "wire", "upstream"}, // sessions of legacy clients, below the path of a call
	"gateway/task":   {"crib", "wire"},             // whose the tasks are

	"gateway/lane":      {"upstream"}, // connections beside each other
	"gateway/turnstile": {},           // who is inside

	// Doors.
	"mcphttp":  {"crib", "wire", "alarm", "web", "auth", "gateway"},
	"mcpstdio": {"crib", "wire"}, // a relay to the other door

	// The whole.
	"config": {"crib", "secret", "page", "servers", "web"},
	"store":  {"crib", "auth"},
	"app":    {"crib", "wire", "secret", "web", "auth", "page", "bridge", "upstream", "upstream/gate", "servers", "catalog", "child", "gateway", "gateway/lane", "gateway/task", "mcphttp", "mcpstdio", "config", "store"},
	"cli": {"crib", "wire", "telemetry", "secret", "page", "servers", "clients", "mcpstdio", "config", "app", "demo",
		"cli/mcp", "cli/reference", "cli/running", "cli/service", "cli/text", "cli/workspace"},
	"": {"cli"}, // main.go

	// What commands share, below them.
	"cli/text":      {},
	"cli/mcp":       {"crib", "wire"},
	"cli/reference": {"crib", "page", "config"},
	"cli/running":   {"crib", "child", "config", "app", "cli/mcp"},
	"cli/service":   {"crib"},
	"cli/workspace": {"crib", "secret", "page", "servers", "clients", "config"},

	// Peers for tests; see onlyInTests.
	"mcptest": {"wire"},

	// Tests that use the crib from outside, by its commands.
	"test/bench": {"cli"}, // the program itself, with its figures beside it
	"test/peers": {},

	"test/matrix": {},

	"test/conformance":       {},
	"test/conformance/shim":  {},
	"test/conformance/asker": {},

	// Tests of how the crib holds.
	"test/soak": {},
}

// onlyInTests are packages, ours or of others, that no program may contain.
var onlyInTests = []string{
	module + "/internal/mcptest",
	"github.com/modelcontextprotocol/go-sdk",
	"go.uber.org/goleak",
	"github.com/rogpeppe/go-internal/testscript",
}

// TestImportsFollowTheTable reads the sources itself: the test cache keeps a
// result only while the files that were opened stay as they are, so it cannot
// hide a new import.
func TestImportsFollowTheTable(t *testing.T) {
	seen := map[string]bool{}
	used := map[string]map[string]bool{}
	for _, path := range goFiles(t) {
		pkg := packageOf(path)
		allowed, known := imports[pkg]
		if !known {
			if !seen[pkg] {
				t.Errorf("package internal/%s is not in the table of deps_test.go; give it a row", pkg)
			}
			seen[pkg] = true
			continue
		}
		seen[pkg] = true
		isTest := strings.HasSuffix(path, "_test.go") || pkg == "test/conformance/asker" // a server to be tested with
		for _, imported := range importsOf(t, path) {
			if !isTest && slices.ContainsFunc(onlyInTests, func(p string) bool { return within(imported, p) }) {
				t.Errorf("%s imports %s, which is for tests only", path, imported)
			}
			ours, found := strings.CutPrefix(imported, module+"/internal/")
			if !found || isTest {
				continue // a test may stand its package on anything
			}
			if used[pkg] == nil {
				used[pkg] = map[string]bool{}
			}
			used[pkg][ours] = true
			if !slices.Contains(allowed, ours) {
				t.Errorf("%s imports %s; the table of deps_test.go lets %q import only %v", path, ours, pkg, allowed)
			}
		}
	}
	if !seen["crib"] {
		t.Fatal("no sources were found")
	}
	// A table that allows more than there is guards nothing.
	for pkg, allowed := range imports {
		if !seen[pkg] {
			t.Errorf("the table of deps_test.go has a row for %q, which is no package", pkg)
			continue
		}
		for _, ours := range allowed {
			if !used[pkg][ours] {
				t.Errorf("the table of deps_test.go lets %q import %s, which it does not", pkg, ours)
			}
		}
	}
}

// The table itself must not lead in a circle, or it would allow one.
func TestTableOfImportsHasADirection(t *testing.T) {
	const open, done = 1, 2
	state := map[string]int{}
	var visit func(pkg string, path []string)
	visit = func(pkg string, path []string) {
		switch state[pkg] {
		case done:
			return
		case open:
			t.Fatalf("a circle of imports: %s", strings.Join(append(path, pkg), " → "))
		}
		state[pkg] = open
		for _, p := range imports[pkg] {
			if _, ok := imports[p]; !ok {
				t.Errorf("the row of %q names %q, which has none", pkg, p)
			}
			visit(p, append(path, pkg))
		}
		state[pkg] = done
	}
	for _, pkg := range slices.Sorted(maps.Keys(imports)) {
		visit(pkg, nil)
	}
}

// goFiles lists the Go sources of the project, tests included, by their
// slashed paths.
func goFiles(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			hidden := path != "." && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_"))
			if hidden || name == "testdata" || name == "node_modules" {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, ".go") {
			out = append(out, filepath.ToSlash(path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// packageOf returns the package of a source: its folder below internal, ""
// for the top folder.
func packageOf(path string) string {
	dir, _ := slashpath.Split(path)
	return strings.TrimPrefix(strings.TrimSuffix(dir, "/"), "internal/")
}

func importsOf(t *testing.T, path string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, imported)
	}
	return out
}

func within(imported, pkg string) bool {
	return imported == pkg || strings.HasPrefix(imported, pkg+"/")
}
