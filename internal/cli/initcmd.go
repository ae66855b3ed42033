package cli

import (
	_ "embed"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/cli/running"
	"github.com/toolcrib/toolcrib/internal/cli/workspace"
	"github.com/toolcrib/toolcrib/internal/crib"
	pages "github.com/toolcrib/toolcrib/internal/page"
)

// exampleServer is part of this program.
const exampleServer = "workshop"

// configTemplate is the toolcrib.yaml of a new workspace: everything in it is
// a comment.
//
//go:embed template.yaml
var configTemplate []byte

func (e *env) initCommand() *cobra.Command {
	var example bool
	cmd := &cobra.Command{
		Use: "init [DIR]", GroupID: groupStart, Args: args(cobra.MaximumNArgs(1)),
		Short: "Make a workspace: toolcrib.yaml, a folder for pages and one for keys",
		Long: `Make a workspace: toolcrib.yaml with every setting explained, the folder mcp/ for
one page a server, the folder secrets/ for keys, which only you can read, and a
.gitignore for it. DIR is the folder; without it, it is that of --workspace.
What is there already stays as it is.`,
		RunE: func(_ *cobra.Command, given []string) error {
			if len(given) == 1 {
				e.flags.workspace = given[0]
			}
			return e.init(example, len(given) == 1)
		},
	}
	cmd.Flags().BoolVar(&example, "example", false, "also define a server to try, which is part of this program")
	return cmd
}

func (e *env) init(example, elsewhere bool) error {
	w, err := e.openWorkspace()
	if err != nil {
		return err
	}
	if err := w.Make(); err != nil {
		return err
	}
	made, err := workspace.MakeFile(w.Config.File(), configTemplate)
	if err != nil {
		return err
	}
	if example {
		if err := makeExample(w); err != nil {
			return err
		}
	}
	verb := "Made"
	if !made {
		verb = "Kept"
	}
	option := ""
	if elsewhere {
		option = " --workspace " + shellQuote(w.Config.Workspace)
	}
	e.tell("%s the workspace %s", verb, w.Config.Workspace)
	if example {
		e.tell("Try the example: toolcrib%s call mcp.%s.bolt_size '{\"thread\":\"M6\"}'", option, exampleServer)
		return nil
	}
	e.tell("Add servers: toolcrib%s import, or toolcrib%s add NAME -- COMMAND", option, option)
	return nil
}

// makeExample defines the server that is part of this program.
func makeExample(w *workspace.Workspace) error {
	if w.Taken(exampleServer) {
		return nil
	}
	program, err := running.LastingProgram()
	if err != nil {
		return err
	}
	b := pages.NewBlock()
	b.Transport.Command = []string{program, demoServerName}
	b.Gates = []pages.Gate{{Pattern: "*", Effect: crib.Allow}}
	text, err := pages.Render(b, exampleServer, "A server to try. The name of this file is the name of the server; change it, and\nthe tools are called so. `gate` says which of them run without asking.")
	if err != nil {
		return err
	}
	_, err = workspace.MakeFile(w.PagePath(exampleServer), text)
	return err
}

// shellQuote writes an argument for a person to copy.
func shellQuote(s string) string {
	safe := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("_@%+=:,./-", c)
	}
	if s != "" && !strings.ContainsFunc(s, func(c rune) bool { return !safe(c) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
