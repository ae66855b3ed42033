// Package cli is the command line: one file a command, and the exit codes.
//
// Commands read and write through an env, so that tests run them as people
// do. Text that comes from servers is made visible before it is printed.
package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolcrib/toolcrib/internal/cli/text"
	pages "github.com/toolcrib/toolcrib/internal/page"
)

// The groups of commands, in the order of the help.
const (
	groupStart   = "start"
	groupServers = "servers"
	groupClients = "clients"
	groupUse     = "use"
)

// Main runs the command that args, without the program's name, asks for. It
// returns the exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	e := newEnv(stdin, stdout, stderr, environ)
	ctx, stop := signal.NotifyContext(context.Background(), endingSignals(e.reloadsOnHangup(args))...)
	defer stop()
	// The first signal asks for an orderly end. The next one meets the default:
	// it ends the process at once.
	context.AfterFunc(ctx, stop)
	return e.run(ctx, args)
}

// reloadsOnHangup reports whether SIGHUP tells this command to reload, as it
// does services. Where there is a terminal it tells that the terminal is gone.
func (e *env) reloadsOnHangup(args []string) bool {
	return slices.Contains(args, "serve") && !text.IsTerminal(e.in)
}

// endingSignals are those by which terminals, service managers and harnesses
// end a program. One that was ignored when the program started, as under
// nohup, stays so.
func endingSignals(reloads bool) []os.Signal {
	var list []os.Signal
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) && !(reloads && s == syscall.SIGHUP) {
			list = append(list, s)
		}
	}
	return list
}

func (e *env) run(ctx context.Context, args []string) int {
	root := e.root()
	root.SetArgs(args)
	root.SetIn(e.in)
	root.SetOut(e.out)
	root.SetErr(e.err)
	err := root.ExecuteContext(ctx)
	if err != nil {
		e.report(err)
	}
	return exitCode(err)
}

func (e *env) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "toolcrib",
		Short: "Your MCP servers behind one address",
		Long: `Toolcrib keeps your MCP servers and their credentials in one place and offers
their tools to every MCP client at one address.

  toolcrib demo            see it work, with built-in servers
  toolcrib import          take over the servers of the clients on this machine
  toolcrib serve           serve them
  toolcrib client add X    let a client use them`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noSuchCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddGroup(&cobra.Group{ID: groupStart, Title: "Start:"}, &cobra.Group{ID: groupServers, Title: "Servers:"},
		&cobra.Group{ID: groupClients, Title: "Clients:"}, &cobra.Group{ID: groupUse, Title: "Use:"})
	root.SetHelpCommandGroupID(groupUse)
	root.SetCompletionCommandGroupID(groupUse)
	root.SetFlagErrorFunc(flagError)
	f := root.PersistentFlags()
	f.StringVar(&e.flags.workspace, "workspace", "", "`folder` with toolcrib.yaml and mcp/ (TOOLCRIB_WORKSPACE)")
	f.StringVar(&e.flags.data, "data", "", "`folder` for tokens and state (TOOLCRIB_DATA)")
	f.StringVar(&e.flags.listen, "listen", "", "`address` to serve at, host:port (TOOLCRIB_LISTEN)")
	root.AddCommand(
		e.initCommand(), e.demoCommand(), e.serveCommand(), e.checkCommand(), e.statusCommand(), e.reloadCommand(), e.serviceCommand(),
		e.addCommand(), e.importCommand(), e.enableCommand(), e.disableCommand(), e.removeCommand(),
		e.clientCommand(), e.connectCommand(), e.uninstallCommand(),
		e.toolsCommand(), e.callCommand(), e.versionCommand(),
		e.demoServerCommand(), e.docsCommand(), exitCodesTopic(), environmentTopic(),
	)
	return root
}

// noSuchCommand refuses arguments of a command that only has subcommands.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	if near := pages.Nearest(args[0], names); near != "" {
		return usagef("there is no command %q; did you mean: %s %s", args[0], cmd.CommandPath(), near)
	}
	return usagef("there is no command %q; these are: %s", args[0], strings.Join(names, ", "))
}

// flagError is the error of a flag that cannot be read. It names the nearest
// flag that exists.
func flagError(cmd *cobra.Command, err error) error {
	text := err.Error()
	name, long := strings.CutPrefix(text, "unknown flag: --")
	if !long {
		if cmd.Name() == "add" && strings.HasPrefix(text, "unknown shorthand flag") {
			return usagef("%s; write -- before the command of a server: toolcrib add NAME -- COMMAND ARGUMENTS", text)
		}
		return usagef("%s; see: %s --help", text, cmd.CommandPath())
	}
	name, _, _ = strings.Cut(name, "=")
	if near := pages.Nearest(name, flagNames(cmd)); near != "" {
		return usagef("there is no flag --%s; did you mean: --%s", name, near)
	}
	if cmd.Name() == "add" {
		return usagef("there is no flag --%s; write -- before the command of a server: toolcrib add NAME -- COMMAND ARGUMENTS", name)
	}
	return usagef("there is no flag --%s; see: %s --help", name, cmd.CommandPath())
}

// args makes the error of a check of cobra one of usage, which says how the
// command is written.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if err := check(cmd, given); err != nil {
			cmd.DisableFlagsInUseLine = true
			return usagef("%s was given %s; write: %s", cmd.CommandPath(), text.Count(len(given), "argument"), cmd.UseLine())
		}
		return nil
	}
}

func flagNames(cmd *cobra.Command) []string {
	var names []string
	note := func(f *pflag.Flag) { names = append(names, f.Name) }
	cmd.Flags().VisitAll(note)
	cmd.InheritedFlags().VisitAll(note)
	return names
}

func environmentTopic() *cobra.Command {
	return &cobra.Command{Use: "environment", Short: "The environment variables that the crib reads", Long: `Environment variables that the crib reads itself:

  TOOLCRIB_WORKSPACE    folder with toolcrib.yaml and mcp/, as --workspace
  TOOLCRIB_DATA         folder for tokens and state, as --data
  TOOLCRIB_LISTEN       address to serve at, as --listen
  TOOLCRIB_MCP_SERVERS  servers as a JSON object: name to the fields of a page
  TOOLCRIB_PROVIDERS    "fake" makes an echo of every server; nothing is connected to
  NO_COLOR              any value: no colours

A flag wins over its variable, and the variable over toolcrib.yaml.`}
}
