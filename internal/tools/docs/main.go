// Command docs writes docs/reference from the program, so that neither can say
// what the other does not. CI compares.
package main

import (
	"os"
	"path/filepath"

	"github.com/toolcrib/toolcrib/internal/cli"
)

func main() {
	os.Exit(cli.Main([]string{"docs", filepath.Join("docs", "reference")}, os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}
