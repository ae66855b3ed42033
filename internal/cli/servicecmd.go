package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/cli/running"
	"github.com/toolcrib/toolcrib/internal/cli/service"
	"github.com/toolcrib/toolcrib/internal/config"
	"github.com/toolcrib/toolcrib/internal/crib"
)

func (e *env) serviceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "service", GroupID: groupStart, Args: noSuchCommand,
		Short: "Let the crib run by itself from login on",
		Long: `Let the service manager of this system run the crib for you, from login on and
again when it fails: systemd (a user unit) on Linux, launchd on macOS.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var force, asJSON bool
	install := &cobra.Command{
		Use: "install", Args: args(cobra.NoArgs),
		Short: "Write the service and start it",
		Long: `Write the service, start it, and have it started at each login. It runs this
program as it is called now: with its --workspace, --data and --listen, and with
the PATH that is set here, since a service manager has a shorter one, in which
npx and its like are not found. Install again after either has changed.

Nothing else of the environment is taken over: secrets belong in the secrets
folder.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.serviceInstall(cmd.Context(), force) },
	}
	install.Flags().BoolVar(&force, "force", false, "replace a unit of that name that another program wrote")
	status := &cobra.Command{
		Use: "status", Args: args(cobra.NoArgs),
		Short: "Show whether the service is there and runs; ends with 3 if it does not",
		RunE:  func(cmd *cobra.Command, _ []string) error { return e.serviceStatus(cmd.Context(), asJSON) },
	}
	status.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.AddCommand(install, status, &cobra.Command{
		Use: "uninstall", Args: args(cobra.NoArgs),
		Short: "Stop the service and remove it; nothing else",
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := e.serviceManager()
			if err != nil {
				return err
			}
			was, err := m.Uninstall(cmd.Context())
			switch {
			case err != nil:
				return err
			case was:
				e.tell("The service is removed: %s", m.File)
			default:
				e.tell("There is no service to remove.")
			}
			return nil
		},
	})
	return cmd
}

func (e *env) serviceManager() (*service.Manager, error) {
	return service.New(service.Options{
		GOOS: runtime.GOOS, Home: e.home(), ConfigHome: e.getenv("XDG_CONFIG_HOME"), UID: os.Getuid(), Run: service.Commands(e.environ),
	})
}

func (e *env) serviceInstall(ctx context.Context, force bool) error {
	m, err := e.serviceManager()
	if err != nil {
		return err
	}
	// A crib that would not start is no service.
	cfg, err := e.config()
	if err != nil {
		return err
	}
	spec, err := e.serviceSpec(cfg)
	if err != nil {
		return err
	}
	started, err := m.Install(ctx, spec, force)
	if err != nil {
		return err
	}
	e.tell("Wrote %s", m.File)
	if !started {
		e.tell("The service manager could not be asked to start it. Run:\n  %s", strings.Join(m.Steps(), "\n  "))
		return nil
	}
	e.tell("The crib runs now, and from each login on. What it says: %s", m.Logs())
	return nil
}

// serviceSpec is this program as it is called now.
func (e *env) serviceSpec(cfg *config.Config) (service.Spec, error) {
	program, err := running.LastingProgram()
	if err != nil {
		return service.Spec{}, err
	}
	if !filepath.IsAbs(program) {
		return service.Spec{}, crib.Errorf(crib.Invalid, "this program was made by \"go run\" and is gone when it ends; install it first: go install github.com/toolcrib/toolcrib@latest")
	}
	flags := placeFlags(cfg)
	if source := cfg.Source(config.KeyListen); source != config.Default && source != config.File {
		flags = append(flags, config.FlagListen, cfg.Listen)
	}
	return service.Spec{Program: program, Args: flags, Path: e.getenv("PATH")}, nil
}

func (e *env) serviceStatus(ctx context.Context, asJSON bool) error {
	m, err := e.serviceManager()
	if err != nil {
		return err
	}
	st, err := m.State(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		b, err := json.MarshalIndent(st, "", "  ")
		if err != nil {
			return err
		}
		e.tell("%s", b)
	} else {
		here, err := running.Program()
		if err != nil {
			return err
		}
		facts, advice := m.Describe(st, here, e.getenv("PATH"))
		for _, line := range facts {
			e.tell("%s", line)
		}
		for _, line := range advice {
			e.say("%s", line)
		}
	}
	if !st.Running {
		return &exitError{code: exitUnavailable}
	}
	return nil
}
