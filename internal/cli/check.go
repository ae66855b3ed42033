package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/cli/text"
	"github.com/toolcrib/toolcrib/internal/config"
	pages "github.com/toolcrib/toolcrib/internal/page"
	"github.com/toolcrib/toolcrib/internal/secret"
	"github.com/toolcrib/toolcrib/internal/servers"
)

func (e *env) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use: "check", GroupID: groupStart, Args: args(cobra.NoArgs),
		Short: "Check the configuration and every page, without starting anything",
		Long: `Check toolcrib.yaml, every page and the environment, and print each fault and
warning with file, line and column. Nothing is started and no secret is read.
If there is an error, the exit code is 2.`,
		RunE: func(*cobra.Command, []string) error { return e.check() },
	}
}

func (e *env) check() error {
	cfg, faults := config.Load(e.load())
	set, more := servers.Load(cfg.Definitions())
	faults = append(faults, more...)
	if stores, err := secret.NewStores(secret.Options{Specs: cfg.Secrets, Dir: cfg.Workspace, LookupEnv: e.lookupEnv}); err == nil {
		faults = append(faults, set.CheckSecrets(stores)...)
		for _, text := range stores.Warnings() {
			faults = append(faults, pages.Fault{File: "secrets", Severity: pages.Warning, Msg: text})
		}
	}
	for _, s := range set.Shadowed() {
		faults = append(faults, pages.Fault{File: s.Source.File, Line: s.Source.Line, Severity: pages.Warning,
			Msg: fmt.Sprintf("server %s is not used, because %s has the name", s.Name, s.By)})
	}
	s := e.screen()
	errors := 0
	faults = pages.Sorted(faults)
	for _, f := range faults {
		look := text.Amber
		if f.Severity == pages.Error {
			look = text.Red
			errors++
		}
		s.Line(s.Styled(look, text.OneLine(f.String())))
	}
	e.say("%s in %s: %s, %s", text.Count(len(set.All()), "server"), cfg.Workspace, text.Count(errors, "error"), text.Count(len(faults)-errors, "warning"))
	if errors > 0 {
		return &exitError{code: exitUsage}
	}
	return nil
}
