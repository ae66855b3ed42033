// Package reference writes the documentation that is made from the program:
// commands, configuration and errors.
package reference

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolcrib/toolcrib/internal/config"
	"github.com/toolcrib/toolcrib/internal/crib"
	pages "github.com/toolcrib/toolcrib/internal/page"
)

const generated = "<!-- Made by `make docs`. Change the program instead. -->\n\n"

// Exit is an exit code and what it means.
type Exit struct {
	Code    int
	Meaning string
}

// Source is what the reference is made of.
type Source struct {
	Root   *cobra.Command
	Exits  []Exit
	ExitOf func(error) int // how a command ends that met an error
	Limits []Limit
}

// Limit is a limit of the crib: whom it is about, what is limited, and how far.
type Limit struct{ About, What, Value string }

// Write writes the reference into a folder. The same program always writes the
// same.
func (s Source) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // for everybody to read
		return err
	}
	for name, text := range map[string][]byte{
		"cli.md":               s.commands(),
		"configuration.md":     configurationReference(),
		"errors.md":            s.errors(),
		"limits.md":            s.limits(),
		"toolcrib.schema.json": config.JSONSchema(),
		"page.schema.json":     pages.JSONSchema(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil { //nolint:gosec // likewise
			return err
		}
	}
	return nil
}

func (s Source) limits() []byte {
	var b bytes.Buffer
	b.WriteString(generated + "# Limits\n\nA request that is over a limit of size or number is refused with an error that names it.\n")
	about := ""
	for _, l := range s.Limits {
		if l.About != about {
			about = l.About
			fmt.Fprintf(&b, "\nAbout %s:\n\n| what | limit |\n| --- | --- |\n", about)
		}
		fmt.Fprintf(&b, "| %s | %s |\n", l.What, l.Value)
	}
	return b.Bytes()
}

func configurationReference() []byte {
	return []byte(generated + "# Configuration\n\n" + config.Reference() +
		"\n[toolcrib.schema.json](toolcrib.schema.json) is the schema of `toolcrib.yaml`.\n" +
		"\n# Pages\n\n" + pages.Reference() +
		"\n[page.schema.json](page.schema.json) is the schema of the front matter.\n")
}

func (s Source) errors() []byte {
	var b bytes.Buffer
	b.WriteString(generated + "# Errors\n\n" +
		"A call that the crib itself could not carry out is answered by a result with\n`isError`, whose `_meta` has one of these codes as `io.toolcrib/code`.\n\n" +
		"| code | meaning | exit code of a command |\n| --- | --- | --- |\n")
	for _, c := range crib.Codes() {
		fmt.Fprintf(&b, "| `%s` | %s | %d |\n", c.Code, c.Meaning, s.ExitOf(crib.Errorf(c.Code, "")))
	}
	return b.Bytes()
}

// commands describes the commands in the order of the help.
func (s Source) commands() []byte {
	root := s.Root
	var b bytes.Buffer
	b.WriteString(generated + "# Commands\n\n" + root.Long + "\n\nFlags of every command:\n\n")
	writeFlags(&b, root.PersistentFlags())
	for _, group := range root.Groups() {
		fmt.Fprintf(&b, "\n## %s\n", strings.TrimSuffix(group.Title, ":"))
		for _, c := range sortedCommands(root) {
			if c.GroupID == group.ID {
				writeCommand(&b, c)
			}
		}
	}
	b.WriteString("\n## Exit codes\n\n| code | meaning |\n| --- | --- |\n")
	for _, m := range s.Exits {
		fmt.Fprintf(&b, "| %d | %s |\n", m.Code, m.Meaning)
	}
	return b.Bytes()
}

func sortedCommands(of *cobra.Command) []*cobra.Command {
	list := slices.DeleteFunc(slices.Clone(of.Commands()), func(c *cobra.Command) bool { return c.Hidden || c.IsAdditionalHelpTopicCommand() })
	slices.SortFunc(list, func(a, b *cobra.Command) int { return strings.Compare(a.Name(), b.Name()) })
	return list
}

func writeCommand(b *bytes.Buffer, c *cobra.Command) {
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	fmt.Fprintf(b, "\n### %s\n\n    %s\n\n%s\n", c.CommandPath(), c.UseLine(), text)
	if c.Example != "" {
		b.WriteString("\n```sh\n" + unindent(c.Example) + "\n```\n")
	}
	if c.LocalNonPersistentFlags().HasAvailableFlags() {
		b.WriteString("\n")
		writeFlags(b, c.LocalNonPersistentFlags())
	}
	for _, sub := range sortedCommands(c) {
		writeCommand(b, sub)
	}
}

func unindent(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  ")
	}
	return strings.Join(lines, "\n")
}

func writeFlags(b *bytes.Buffer, flags *pflag.FlagSet) {
	b.WriteString("| flag | what it does |\n| --- | --- |\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if value != "" {
			name += " " + value
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", name, strings.ReplaceAll(usage, "|", `\|`))
	})
}
