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
	cfg, wrong, err := e.whereabouts()
	if err != nil {
		return nil, err
	}
	if wrong != nil {
		return nil, refusal(wrong)
	}
	return cfg, nil
}

func refusal(wrong []string) error { return crib.Errorf(crib.Invalid, "%s", strings.Join(wrong, "\n")) }

// whereabouts is the configuration for commands that need only the folders,
// such as those that reach a running crib: no file says where these are. What
// is wrong beside stands in wrong, a line each.
func (e *env) whereabouts() (cfg *config.Config, wrong []string, err error) {
	cfg, faults := config.Load(e.load())
	for _, f := range faults {
		if f.Severity == pages.Error {
			wrong = append(wrong, f.String())
		}
	}
	if cfg.Workspace == "" || cfg.Data == "" {
		return nil, nil, refusal(wrong)
	}
	return cfg, wrong, nil
}

// noneRuns is the error of a command that needs a running crib. With a faulty
// configuration none would start.
func noneRuns(cfg *config.Config, wrong []string) error {
	if wrong != nil {
		return refusal(wrong)
	}
	return crib.Errorf(crib.Unavailable, "no crib is running for the data folder %s; start one with: toolcrib serve", cfg.Data)
}

// warnOf tells what is wrong with the configuration, to a command that did not
// need it.
func (e *env) warnOf(wrong []string) {
	for _, line := range wrong {
		e.say("Warning: %s", line)
	}
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
	runs, err := e.place(cfg).Announce(ctx)
	if err != nil {
		return err
	}
	if runs {
		what += "; the running crib has it"
	}
	e.tell("%s", what)
	return nil
}
