// Package telemetry is how the crib tells its operator what it does.
package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
)

// Options of a log. The zero Options write text of level info and above to
// standard error.
type Options struct {
	Output io.Writer // nil is standard error: standard output is for protocol and results
	Level  string    // debug, info, warn or error; "" is info
	Format string    // text or json; "" is text
}

// Logger returns a log as o says. Both formats quote control characters, so
// that text from a server cannot drive the terminal it is shown on.
func Logger(o Options) (*slog.Logger, error) {
	level, err := parseLevel(o.Level)
	if err != nil {
		return nil, err
	}
	out := o.Output
	if out == nil {
		out = os.Stderr
	}
	options := &slog.HandlerOptions{Level: level}
	switch o.Format {
	case "", "text":
		return slog.New(slog.NewTextHandler(out, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(out, options)), nil
	}
	return nil, fmt.Errorf("log format %q: write text or json", o.Format)
}

func parseLevel(s string) (slog.Level, error) {
	switch strings.ToLower(s) {
	case "debug":
		return slog.LevelDebug, nil
	case "", "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("log level %q: write debug, info, warn or error", s)
}
