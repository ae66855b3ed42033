package wire

import "slices"

// LogLevels are those of log messages, from the most verbose on (2025-11-25,
// Logging, Log Levels).
var LogLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// Logged reports whether a message of a level is for whoever asked for those
// from another level on.
func Logged(level, from string) bool {
	return slices.Index(LogLevels, level) >= slices.Index(LogLevels, from)
}
