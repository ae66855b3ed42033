package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func (e *env) reloadCommand() *cobra.Command {
	return &cobra.Command{
		Use: "reload", GroupID: groupStart, Args: args(cobra.NoArgs),
		Short: "Make the running crib read its pages and toolcrib.yaml again",
		Long: `Make the running crib read its pages, toolcrib.yaml and tokens again, after they
were edited by hand, and secrets that were changed; SIGHUP does the same. It is
done whole or not at all: a fault in toolcrib.yaml, or in the page of a server
that is there now, leaves everything as it was. Servers whose definition and
secrets say the same keep their connections. Commands such as add and disable
do this by themselves. If no crib is running, the exit code is 3.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.reload(cmd.Context()) },
	}
}

func (e *env) reload(ctx context.Context) error {
	cfg, wrong, err := e.whereabouts()
	if err != nil {
		return err
	}
	runs, err := e.place(cfg).Reload(ctx)
	if err != nil {
		return err
	}
	if !runs {
		return noneRuns(cfg, wrong)
	}
	e.tell("The crib has read its pages and toolcrib.yaml again.")
	return nil
}
