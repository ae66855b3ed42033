package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

const (
	patience = 3 * time.Minute // for one run of the suite
	grace    = 5 * time.Second // for a program that was told to end
)

// later reports whether a scenario is of what the crib does not do yet:
// signing in.
func later(scenario string) bool { return strings.HasPrefix(scenario, "auth/") }

func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing, and CI=true: run make peers", what)
	}
	t.Skipf("SKIP: %s is missing; make peers installs it", what)
}

// suite returns the command that runs the suite.
func suite(t *testing.T) []string {
	t.Helper()
	bin, err := filepath.Abs("../../.peers/conformance/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	cmd := []string{filepath.Join(bin, "node", "bin", "node"), filepath.Join(bin, "@modelcontextprotocol", "conformance", "dist", "index.js")}
	for _, f := range cmd {
		if _, err := os.Stat(f); err != nil {
			missing(t, f)
		}
	}
	return cmd
}

// runSuite runs the suite and returns what it printed. Its exit code is not
// asked: it counts the scenarios of signing in, and no warnings.
func runSuite(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := suite(t)
	c := exec.CommandContext(ctx, cmd[0], slices.Concat(cmd[1:], args)...)
	c.Dir, c.WaitDelay = t.TempDir(), grace
	out, err := c.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("the suite did not run: %v\n%s", err, out)
	}
	return string(out)
}

// required lists the scenarios that a requirement set scores for a side, Server
// or Client.
func required(t *testing.T, side, set string) []string {
	t.Helper()
	var names []string
	heading := ""
	for line := range strings.Lines(runSuite(t, "list", "--requirements", set)) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "- ")
		switch {
		case ok && strings.HasPrefix(heading, side+" scenarios") && !later(name):
			names = append(names, name)
		case !ok && strings.TrimSpace(line) != "":
			heading = line
		}
	}
	if len(names) == 0 {
		t.Fatal("the suite lists no scenario")
	}
	return names
}

// expected reads which checks of some sections of expected-failures.yml may fall
// short: "scenario:check".
func expected(t *testing.T, sections ...string) map[string]bool {
	t.Helper()
	b, err := os.ReadFile("expected-failures.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file map[string][]string
	if err := yaml.UnmarshalWithOptions(b, &file, yaml.Strict()); err != nil {
		t.Fatalf("expected-failures.yml: %v", err)
	}
	out := make(map[string]bool)
	for _, section := range sections {
		for _, entry := range file[section] {
			if !strings.Contains(entry, ":") {
				t.Errorf("expected-failures.yml excuses all of %s; name its check", entry)
			}
			out[entry] = true
		}
	}
	return out
}

// check is one check of a scenario, as the suite writes it.
type check struct{ ID, Description, Status, ErrorMessage string }

// stamp ends the name of a scenario's folder of results.
var stamp = regexp.MustCompile(`-\d{4}-\d\d-\d\dT[-\d]+Z$`)

// checks reads what the suite wrote below folder, by scenario.
func checks(t *testing.T, folder string) map[string][]check {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*", "checks.json")) // those of auth/ are deeper
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string][]check)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		name := stamp.ReplaceAllString(filepath.Base(filepath.Dir(f)), "")
		var list []check
		if err := json.Unmarshal(b, &list); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = list
	}
	return out
}

// score holds what the suite found against what is required: each scenario that
// is scored ran and passed something, and no check of it failed or warned but
// for those that are expected to.
func score(t *testing.T, found map[string][]check, scenarios []string, expected map[string]bool) {
	t.Helper()
	statuses := make(map[string]int)
	for _, name := range scenarios {
		passed := 0
		for _, c := range found[name] {
			statuses[c.Status]++
			excused := expected[name+":"+c.ID]
			switch c.Status {
			case "SUCCESS":
				passed++
				if excused {
					t.Errorf("%s: %s passes; take it out of expected-failures.yml", name, c.ID)
				}
			case "FAILURE", "WARNING":
				if !excused {
					t.Errorf("%s: %s (%s): %s: %s", name, c.ID, c.Status, c.Description, c.ErrorMessage)
				}
			}
		}
		// A scenario that ends early leaves fewer checks, and no failure.
		if passed == 0 && !onlyExpected(found[name], name, expected) {
			t.Errorf("%s: nothing passed, of %d checks", name, len(found[name]))
		}
	}
	t.Logf("%d scenarios scored; checks: %s", len(scenarios), summary(statuses))
}

// onlyExpected reports whether a scenario consists of checks that may fall short.
func onlyExpected(list []check, name string, expected map[string]bool) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(c check) bool { return !expected[name+":"+c.ID] })
}

func summary(statuses map[string]int) string {
	var parts []string
	for _, s := range slices.Sorted(maps.Keys(statuses)) {
		parts = append(parts, fmt.Sprintf("%d %s", statuses[s], s))
	}
	return strings.Join(parts, ", ")
}
