package legacy

import (
	"testing"

	"github.com/toolcrib/toolcrib/internal/wire"
)

func TestMoreVerbose(t *testing.T) {
	tests := []struct{ a, b, want string }{
		{"", "", ""}, {"", "error", "error"}, {"error", "", "error"}, {"error", "error", "error"},
		{"debug", "emergency", "debug"}, {"emergency", "debug", "debug"}, {"notice", "warning", "notice"}, {"critical", "alert", "critical"},
	}
	for _, tt := range tests {
		if got := moreVerbose(tt.a, tt.b); got != tt.want {
			t.Errorf("%q and %q: got %q", tt.a, tt.b, got)
		}
	}
}

// A server that is shared logs for the most curious; one of a session for it.
func TestDueLevels(t *testing.T) {
	tests := []struct {
		name, told, own, most string
		shared                bool
		want                  string
	}{
		{"nobody asked", "", "", "", true, ""},
		{"the first", "", "error", "error", true, "error"},
		{"another one is more curious", "", "error", "debug", true, "debug"},
		{"known", "debug", "error", "debug", true, ""},
		{"less than it was told", "debug", "error", "error", true, ""},
		{"more than it was told", "error", "info", "info", true, "info"},
		{"its own", "", "error", "debug", false, "error"},
		{"its own, less than before", "debug", "error", "debug", false, "error"},
		{"its own, known", "error", "error", "debug", false, ""},
	}
	for _, tt := range tests {
		l := NewLevels()
		h := &wire.Hello{}
		if tt.told != "" {
			l.told[h] = tt.told
		}
		l.most = tt.most
		if got := l.Due(h, tt.own, tt.shared); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
