package cli

import (
	"context"
	"strings"

	"github.com/toolcrib/toolcrib/internal/cli/running"
	"github.com/toolcrib/toolcrib/internal/cli/workspace"
	"github.com/toolcrib/toolcrib/internal/config"
	"github.com/toolcrib/toolcrib/internal/crib"
	pages "github.com/toolcrib/toolcrib/internal/page"
)

// load says where the configuration is found.
func (e *env) load() config.Options {
	return config.Options{Workspace: e.flags.workspace, Data: e.flags.data, Listen: e.flags.listen, LookupEnv: e.lookupEnv}
}

// config is the configuration, whole. Faults of servers are not its own.
func (e *env) config() (*config.Config, error) {
	cfg, faults := config.Load(e.load())
	var lines []string
	for _, f := range faults {
		if f.Severity == pages.Error {
			lines = append(lines, f.String())
		}
	}
	if lines != nil {
		return nil, crib.Errorf(crib.Invalid, "%s", strings.Join(lines, "\n"))
	}
	return cfg, nil
}

func (e *env) openWorkspace() (*workspace.Workspace, error) {
	cfg, err := e.config()
	if err != nil {
		return nil, err
	}
	return workspace.Open(cfg, e.lookupEnv), nil
}

// place is where the crib of a configuration runs or would run.
func (e *env) place(cfg *config.Config) running.Place {
	return running.Place{Config: cfg, Load: e.load(), Environ: e.environ, Version: version()}
}

// done says what was done, and whether a running crib has it.
func (e *env) done(ctx context.Context, cfg *config.Config, what string) error {
	runs, err := e.place(cfg).Reload(ctx)
	if err != nil {
		return err
	}
	if runs {
		what += "; the running crib has it"
	}
	e.tell("%s", what)
	return nil
}
