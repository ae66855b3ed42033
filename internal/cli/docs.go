package cli

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

func (e *env) docsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "docs DIR", Hidden: true, Args: args(cobra.ExactArgs(1)),
		Short: "Write the reference into a folder",
		RunE:  func(_ *cobra.Command, given []string) error { return e.writeDocs(given[0]) },
	}
}

const generated = "<!-- Made by `make docs`. Change the program instead. -->\n\n"

// writeDocs writes the reference. The same program always writes the same.
func (e *env) writeDocs(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // for everybody to read
		return err
	}
	for name, text := range map[string][]byte{
		"cli.md":               commandReference(e.root()),
		"configuration.md":     configurationReference(),
		"errors.md":            errorReference(),
		"toolcrib.schema.json": config.JSONSchema(),
		"page.schema.json":     pages.JSONSchema(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil { //nolint:gosec // likewise
			return err
		}
	}
	return nil
}

func configurationReference() []byte {
	return []byte(generated + "# Configuration\n\n" + config.Reference() +
		"\n[toolcrib.schema.json](toolcrib.schema.json) is the schema of `toolcrib.yaml`.\n" +
		"\n# Pages\n\n" + pages.Reference() +
		"\n[page.schema.json](page.schema.json) is the schema of the front matter.\n")
}

func errorReference() []byte {
	var b bytes.Buffer
	b.WriteString(generated + "# Errors\n\n" +
		"A call that the crib itself could not carry out is answered by a result with\n`isError`, whose `_meta` has one of these codes as `io.toolcrib/code`.\n\n" +
		"| code | meaning | exit code of a command |\n| --- | --- | --- |\n")
	for _, c := range crib.Codes() {
		fmt.Fprintf(&b, "| `%s` | %s | %d |\n", c.Code, c.Meaning, exitCode(crib.Errorf(c.Code, "")))
	}
	return b.Bytes()
}

// commandReference describes the commands in the order of the help.
func commandReference(root *cobra.Command) []byte {
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
	for _, m := range exitMeanings() {
		fmt.Fprintf(&b, "| %d | %s |\n", m.code, m.meaning)
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
