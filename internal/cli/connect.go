package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/cli/mcp"
	"github.com/toolcrib/toolcrib/internal/cli/running"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/mcpstdio"
	"github.com/toolcrib/toolcrib/internal/telemetry"
	"github.com/toolcrib/toolcrib/internal/wire"
)

func (e *env) connectCommand() *cobra.Command {
	var server string
	cmd := &cobra.Command{
		Use: "connect", GroupID: groupClients, Args: args(cobra.NoArgs),
		Short: "Be an MCP server on standard input and output, for clients that speak nothing else",
		Long: `Be an MCP server on standard input and output, for clients that start a command
to reach a server. All of it is relayed to the running crib. If none is running,
one is started in the background; it goes on when the client ends, and its log
is serve.log in the data folder.`,
		Example: `  claude mcp add toolcrib -- toolcrib connect`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return e.connect(cmd.Context(), server) },
	}
	cmd.Flags().StringVar(&server, "server", "", "only this `server`, its names untouched")
	e.completeFlag(cmd, "server", e.serverNames)
	return cmd
}

func (e *env) connect(ctx context.Context, server string) error {
	if server != "" {
		if err := crib.CheckServerName(server); err != nil {
			return err
		}
	}
	cfg, err := e.config()
	if err != nil {
		return err
	}
	place := e.place(cfg)
	now, err := place.Background(ctx)
	if err != nil {
		return err
	}
	log, err := telemetry.Logger(telemetry.Options{Output: e.err, Level: "warn"})
	if err != nil {
		return err
	}
	ignoreBrokenPipe()
	root := ""
	if dir, err := os.Getwd(); err == nil { // the client started us where it works
		root = wire.FolderURI(dir)
	}
	return mcpstdio.Run(ctx, mcpstdio.Options{
		In: e.in, Out: e.out, Log: log, Root: root,
		URL:   "http://" + now.Address + mcp.Endpoint(server),
		Host:  running.HostHeader(cfg.AllowedHosts, now.Address),
		Token: func(context.Context) (string, error) { return place.Token() },
		Ensure: func(ctx context.Context) error {
			again, err := place.Background(ctx)
			if err == nil && again.Address != now.Address {
				return crib.Errorf(crib.Unavailable, "the crib is at another address now, %s; start toolcrib connect again", again.Address)
			}
			return err
		},
	})
}
