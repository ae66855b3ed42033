package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

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

SIGHUP reads pages, toolcrib.yaml and secrets again, as toolcrib reload does; at
a terminal it ends the crib. The first SIGINT or SIGTERM takes no new requests
and gives open ones %v to end; a second signal cuts them and kills the servers'
processes. A third ends this process alone, and leaves the rest to the next
start.`, app.Drain),
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
	defer roomyHeap(heapFloor)()
	// Kept from here on: a second signal must not end this process unprepared.
	signals := make(chan os.Signal, 2)
	reloads := e.reloadsOnHangup([]string{"serve"})
	if list := endingSignals(reloads); len(list) > 0 { // an empty list would mean all signals
		signal.Notify(signals, list...)
	}
	defer signal.Stop(signals)
	hangups := make(chan os.Signal, 1)
	if reloads && !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(hangups, syscall.SIGHUP)
		defer signal.Stop(hangups)
	}
	a, err := app.New(app.Options{Load: e.load(), Log: logger, Version: version(), Environ: e.environ, FreePort: anyPort})
	if err != nil {
		return err
	}
	st := a.Status()
	e.tell("toolcrib serves %s at http://%s%s; let a client use them with: toolcrib client add CLIENT",
		text.Count(len(st.Servers), "server"), a.Addr(), mcp.Endpoint(""))
	ended := make(chan struct{})
	var hurrying sync.WaitGroup
	hurrying.Go(func() { hurry(a, signals, ended) })
	hurrying.Go(func() { reloadOnHangup(a, hangups, ended) })
	defer hurrying.Wait()
	defer close(ended)
	return a.Run(ctx)
}

// reloadOnHangup reads everything again whenever SIGHUP asks for it. What is
// wrong is logged and shown by status.
func reloadOnHangup(a *app.App, hangups <-chan os.Signal, ended <-chan struct{}) {
	for {
		select {
		case <-hangups:
			a.Reload() //nolint:errcheck // it tells by itself
		case <-ended:
			return
		}
	}
}

// hurry waits for a second signal; the first one ends the context of the
// command. A third one meets the default.
func hurry(a *app.App, signals chan os.Signal, ended <-chan struct{}) {
	for range 2 {
		select {
		case <-signals:
		case <-ended:
			return
		}
	}
	signal.Stop(signals)
	a.Hurry()
}
