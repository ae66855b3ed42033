package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/app"
	"github.com/toolcrib/toolcrib/internal/cli/mcp"
	"github.com/toolcrib/toolcrib/internal/cli/running"
	"github.com/toolcrib/toolcrib/internal/cli/text"
	"github.com/toolcrib/toolcrib/internal/cli/workspace"
	"github.com/toolcrib/toolcrib/internal/config"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/demo"
	pages "github.com/toolcrib/toolcrib/internal/page"
	"github.com/toolcrib/toolcrib/internal/secret"
	"github.com/toolcrib/toolcrib/internal/servers"
)

const (
	// demoServerName is the command by which this program is a server itself.
	demoServerName = "demo-server"

	// everything is a server of others, for machines that have npx. The version
	// is named, so that the demonstration is the same tomorrow.
	everything = "@modelcontextprotocol/server-everything@2026.8.31"

	// everythingTime is how long the demonstration waits for npx to fetch and
	// start it.
	everythingTime = 10 * time.Second

	// demoHeader is how long a request to the notebook may take to come.
	demoHeader = 10 * time.Second
)

// The servers of the demonstration.
const (
	demoStdio      = "workshop"
	demoHTTP       = "notebook"
	demoEverything = "everything"
)

func (e *env) demoServerCommand() *cobra.Command {
	return &cobra.Command{
		Use: demoServerName, Hidden: true, Args: args(cobra.NoArgs),
		Short: "Be a small MCP server on standard input and output",
		RunE:  func(*cobra.Command, []string) error { return demo.Stdio(e.in, e.out, nil) },
	}
}

func (e *env) demoCommand() *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use: "demo", GroupID: groupStart, Args: args(cobra.NoArgs),
		Short: "See the crib work, with servers that are part of this program",
		Long: `See the crib work in a folder that is removed at the end: two servers that are
part of this program, one started as a command and one reached over HTTP, behind
one address. Where npx exists, server-everything is a third.

The tools are listed, and one is called in each family of protocol versions. On
a terminal the crib goes on serving until Ctrl-C, so that a client can try it.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.demo(cmd.Context(), once || !text.IsTerminal(e.out))
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "end after the calls")
	return cmd
}

func (e *env) demo(ctx context.Context, once bool) (err error) {
	dir, err := os.MkdirTemp("", "toolcrib-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	notebook, stop, err := serveNotebook()
	if err != nil {
		return err
	}
	defer stop()
	load, err := e.demoWorkspace(dir, notebook)
	if err != nil {
		return err
	}
	a, err := app.New(app.Options{Load: load, Version: version(), Environ: e.environ, FreePort: true})
	if err != nil {
		return err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(life) }()
	defer func() { end(); err = errors.Join(err, <-ended) }()
	cfg, _ := config.Load(load) // it was good a moment ago
	d := demonstration{workspace: cfg.Workspace, mcp: e.place(cfg).Client(a.Addr(), ""), operator: app.Dial(cfg.Data), screen: e.screen()}
	if err := d.show(ctx); err != nil {
		return err
	}
	if !once {
		d.title("Let a client try it:")
		d.screen.Line("  claude mcp add --transport http toolcrib ", d.mcp.Base+mcp.Endpoint(""))
	}
	if err := d.addEverything(ctx); err != nil || once {
		return err
	}
	d.screen.Line("\nCtrl-C ends it and removes everything it made.")
	return untilEnd(ctx, ended)
}

// serveNotebook serves the notebook on loopback until stop.
func serveNotebook() (address string, stop func(), err error) {
	l, err := net.Listen("tcp", running.AnyPort)
	if err != nil {
		return "", nil, fmt.Errorf("serve the notebook: %w", err)
	}
	s := &http.Server{Handler: demo.HTTP(), ReadHeaderTimeout: demoHeader}
	ended := make(chan struct{})
	go func() {
		s.Serve(l) //nolint:errcheck // it ends because it is closed
		close(ended)
	}()
	return "http://" + l.Addr().String() + "/mcp", func() {
		s.Close() //nolint:errcheck // nothing is left to be done about it
		<-ended
	}, nil
}

// demoWorkspace writes the workspace of the demonstration and says how it is
// loaded: nothing of the person's own configuration is in it.
func (e *env) demoWorkspace(dir, notebook string) (config.Options, error) {
	load := config.Options{
		Workspace: filepath.Join(dir, "workspace"), Data: filepath.Join(dir, "data"), Listen: e.flags.listen,
		LookupEnv: func(name string) (string, bool) {
			if strings.HasPrefix(name, "TOOLCRIB_") {
				return "", false
			}
			return e.lookupEnv(name)
		},
	}
	program, err := running.Program()
	if err != nil {
		return load, err
	}
	if err := os.MkdirAll(filepath.Join(load.Workspace, servers.PageDir), 0o700); err != nil {
		return load, err
	}
	for name, t := range map[string]pages.Transport{demoStdio: {Command: []string{program, demoServerName}}, demoHTTP: {URL: notebook}} {
		if err := writeDemoPage(load.Workspace, name, t, nil); err != nil {
			return load, err
		}
	}
	// Callers of this machine need no token, so that a client can try it with
	// one line.
	_, err = workspace.MakeFile(filepath.Join(load.Workspace, config.FileName), []byte("auth: { anonymous: true }\n"))
	return load, err
}

func writeDemoPage(dir, name string, t pages.Transport, variables []pages.NamedTemplate) error {
	b := pages.NewBlock()
	b.Transport, b.Env = t, variables
	page, err := pages.Render(b, name, "")
	if err != nil {
		return err
	}
	_, err = workspace.MakeFile(filepath.Join(dir, servers.PageDir, name+".md"), page)
	return err
}

// demonstration shows a crib to a person.
type demonstration struct {
	workspace string
	mcp       *mcp.Client
	operator  *app.Operator
	screen    text.Screen
}

func (d *demonstration) title(format string, args ...any) {
	d.screen.Line("\n", d.screen.Styled(text.Bold, text.Visible(fmt.Sprintf(format, args...))))
}

// sent and got show one step of a conversation.
func (d *demonstration) sent(what string) { d.screen.Line("  → ", text.OneLine(what)) }
func (d *demonstration) got(what string) {
	d.screen.Line("  ← ", d.screen.Styled(text.Green, text.OneLine(what)))
}

func (d *demonstration) show(ctx context.Context) error {
	d.screen.Line("The crib serves at ", d.screen.Styled(text.Bold, d.mcp.Base+mcp.Endpoint("")))
	for _, name := range []string{demoStdio, demoHTTP} {
		if _, err := d.operator.Connect(ctx, name); err != nil {
			return fmt.Errorf("connect %s: %w", name, err)
		}
	}
	tools, err := d.mcp.Tools(ctx, mcp.Endpoint(""))
	if err != nil {
		return err
	}
	d.title("%s of 2 servers", text.Count(len(tools), "tool"))
	var rows [][]text.Cell
	for _, t := range tools {
		rows = append(rows, text.Cells(t.Name, t.Description))
	}
	d.screen.Table([]string{"TOOL", "DESCRIPTION"}, rows)
	if err := d.callModern(ctx); err != nil {
		return err
	}
	return d.callLegacy(ctx)
}

// addEverything adds a server of others to the running crib, where npx can
// fetch it in time. The demonstration does not depend on it.
func (d *demonstration) addEverything(ctx context.Context) error {
	npx, err := exec.LookPath("npx")
	if err != nil {
		return nil // it works with Go alone
	}
	d.title("A third server, added while the crib runs: npx %s", everything)
	// npx that is ended while it fetches leaves its cache unusable, so that of
	// the person is left alone.
	cache := []pages.NamedTemplate{{Name: "npm_config_cache", Value: secret.Literal(filepath.Join(d.workspace, "npm"))}}
	if err := writeDemoPage(d.workspace, demoEverything, pages.Transport{Command: []string{npx, "-y", everything, "stdio"}}, cache); err != nil {
		return err
	}
	if _, err := d.operator.Reload(ctx); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, everythingTime)
	defer cancel()
	st, err := d.operator.Connect(waiting, demoEverything)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		d.got(text.Count(len(st.Tools), "tool"))
	case waiting.Err() != nil:
		d.screen.Line("  not there yet: npx is still fetching it")
	default:
		d.screen.Line("  not there: npx could not start it here, which takes the network the first time")
	}
	return nil
}

// untilEnd waits until a person ends it, or the crib ends by itself.
func untilEnd(ctx context.Context, ended chan error) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		ended <- nil // its slot, for who waits at the end
		if err == nil {
			err = crib.Errorf(crib.Internal, "the crib ended by itself")
		}
		return err
	}
}
