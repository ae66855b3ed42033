package cli

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/crib"
	pages "github.com/toolcrib/toolcrib/internal/page"
	"github.com/toolcrib/toolcrib/internal/servers"
)

const (
	ignoreFile    = ".gitignore"
	ignoreText    = "# Keys are in no repository.\n/secrets/\n"
	exampleServer = "workshop"
)

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
	if err := w.make(); err != nil {
		return err
	}
	made, err := makeFile(w.cfg.File(), configTemplate)
	if err != nil {
		return err
	}
	if example {
		if err := w.makeExample(); err != nil {
			return err
		}
	}
	verb := "Made"
	if !made {
		verb = "Kept"
	}
	option := ""
	if elsewhere {
		option = " --workspace " + shellQuote(w.cfg.Workspace)
	}
	fmt.Fprintf(e.out, "%s the workspace %s\n", verb, w.cfg.Workspace)
	if example {
		fmt.Fprintf(e.out, "Try the example: toolcrib%s call mcp.%s.bolt_size '{\"thread\":\"M6\"}'\n", option, exampleServer)
		return nil
	}
	fmt.Fprintf(e.out, "Add servers: toolcrib%s import, or toolcrib%s add NAME -- COMMAND\n", option, option)
	return nil
}

// make makes the folders of the workspace and remembers which of them, so that
// uninstall takes away no folder that was there before.
func (w *workspace) make() error {
	dir := w.cfg.Workspace
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := rememberMade(w.cfg.Data, dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, servers.PageDir), folderMode); err != nil {
		return fmt.Errorf("make the workspace: %w", err)
	}
	if secrets, err := w.secretFolder(); err == nil {
		if err := os.MkdirAll(secrets, folderMode); err != nil {
			return fmt.Errorf("make the folder of keys: %w", err)
		}
	}
	_, err := makeFile(filepath.Join(dir, ignoreFile), []byte(ignoreText))
	return err
}

// makeFile makes a file, unless there is one.
func makeFile(path string, content []byte) (made bool, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = f.Write(content)
	return true, errors.Join(err, f.Close())
}

// makeExample defines the server that is part of this program.
func (w *workspace) makeExample() error {
	if w.taken(exampleServer) {
		return nil
	}
	program, err := lastingSelf()
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
	_, err = makeFile(w.pagePath(exampleServer), text)
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
