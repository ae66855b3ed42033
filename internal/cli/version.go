package cli

import (
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// version is what the program was built from: a release, or a commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

func (e *env) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", GroupID: groupUse, Args: args(cobra.NoArgs),
		Short: "Print the version and the protocol versions",
		RunE: func(*cobra.Command, []string) error {
			e.tell("toolcrib %s\n%s %s/%s\nprotocol versions %s", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH,
				strings.Join(wire.SupportedVersions, ", "))
			return nil
		},
	}
}
