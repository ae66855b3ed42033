package cli

import (
	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/app"
	"github.com/toolcrib/toolcrib/internal/cli/reference"
)

func (e *env) docsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "docs DIR", Hidden: true, Args: args(cobra.ExactArgs(1)),
		Short: "Write the reference into a folder",
		RunE: func(_ *cobra.Command, given []string) error {
			limits := make([]reference.Limit, 0, len(app.Limits()))
			for _, l := range app.Limits() {
				limits = append(limits, reference.Limit(l))
			}
			return reference.Source{Root: e.root(), Exits: exitMeanings(), ExitOf: exitCode, Limits: limits}.Write(given[0])
		},
	}
}
