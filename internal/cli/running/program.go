package running

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Program is the path of this program, for other programs to start.
func Program() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the path of this program: %w", err)
	}
	return filepath.Clean(path), nil
}

// LastingProgram is Program for what is written down: a program that go run
// made is gone tomorrow, so there it is the name alone.
func LastingProgram() (string, error) {
	path, err := Program()
	if strings.Contains(filepath.ToSlash(path), "/go-build") {
		return "toolcrib", err
	}
	return path, err
}
