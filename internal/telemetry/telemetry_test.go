package telemetry

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
)

func TestLevels(t *testing.T) {
	for level, want := range map[string]string{
		"debug": "debug info warn error",
		"":      "info warn error",
		"INFO":  "info warn error",
		"warn":  "warn error",
		"error": "error",
	} {
		var out bytes.Buffer
		log, err := Logger(Options{Output: &out, Level: level, Format: "json"})
		if err != nil {
			t.Fatal(err)
		}
		log.Debug("debug")
		log.Info("info")
		log.Warn("warn")
		log.Error("error")
		var got []string
		for line := range strings.Lines(out.String()) {
			var record struct{ Msg string }
			if err := json.Unmarshal([]byte(line), &record); err != nil {
				t.Fatal(err)
			}
			got = append(got, record.Msg)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("level %q: %v, want %s", level, got, want)
		}
	}
}

func TestTextIsSafeForATerminal(t *testing.T) {
	for _, format := range []string{"", "text", "json"} {
		var out bytes.Buffer
		log, err := Logger(Options{Output: &out, Format: format})
		if err != nil {
			t.Fatal(err)
		}
		log.Info("a \x1b[2Jmessage\n", slog.String("from", "server\r\n\x1b]0;x\a\u202e"))
		got := strings.TrimSuffix(out.String(), "\n")
		if !strings.Contains(got, "message") || strings.ContainsAny(got, "\x1b\a\r\n") {
			t.Errorf("format %q: %q", format, got)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{{Level: "loud"}, {Level: "INFO+2"}, {Format: "xml"}} {
		if _, err := Logger(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
