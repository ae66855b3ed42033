package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/app"
	"github.com/toolcrib/toolcrib/internal/cli/mcp"
	"github.com/toolcrib/toolcrib/internal/cli/text"
	"github.com/toolcrib/toolcrib/internal/telemetry"
)

func (e *env) serveCommand() *cobra.Command {
	var log telemetry.Options
	var anyPort bool
	cmd := &cobra.Command{
		Use: "serve", GroupID: groupStart, Args: args(cobra.NoArgs),
		Short: "Serve the servers to clients, until a signal ends it",
		Long: fmt.Sprintf(`Serve the servers to clients. What happens is logged to standard error.

The first SIGINT, SIGTERM or SIGHUP takes no new requests and gives open ones
%v to end; a second signal ends at once.`, app.Drain),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log.Output = e.err
			return e.serve(cmd.Context(), log, anyPort)
		},
	}
	f := cmd.Flags()
	f.StringVar(&log.Level, "log-level", "info", "`level` from which to log: debug, info, warn or error")
	f.StringVar(&log.Format, "log-format", "text", "`form` of the log: text or json")
	f.BoolVar(&anyPort, "any-port", false, "take another port where that of the address is taken")
	return cmd
}

func (e *env) serve(ctx context.Context, log telemetry.Options, anyPort bool) error {
	logger, err := telemetry.Logger(log)
	if err != nil {
		return usagef("%w", err)
	}
	defer telemetry.RoomyHeap(telemetry.HeapFloor)()
	a, err := app.New(app.Options{Load: e.load(), Log: logger, Version: version(), Environ: e.environ, FreePort: anyPort})
	if err != nil {
		return err
	}
	st := a.Status()
	e.tell("toolcrib serves %s at http://%s%s; let a client use them with: toolcrib client add CLIENT",
		text.Count(len(st.Servers), "server"), a.Addr(), mcp.Endpoint(""))
	return a.Run(ctx)
}
