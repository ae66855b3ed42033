// Toolcrib keeps MCP servers and their credentials in one place and offers
// their tools to every MCP client at one address.
package main

import (
	"os"

	"github.com/toolcrib/toolcrib/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}
