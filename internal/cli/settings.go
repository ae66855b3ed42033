package cli

import (
	"strings"

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
