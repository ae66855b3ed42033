package upstream

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/mcptest"
)

// Who does not read is given nothing new: whoever asks next gets a new process.
func TestAProcessThatDoesNotReadIsRetired(t *testing.T) {
	opts := Options{WriteTimeout: 50 * time.Millisecond, StopGrace: 20 * time.Millisecond}.withDefaults()
	l, err := startStdio(&Spec{Name: "s", Command: mcptest.Peer("-delay", "1h")}, &opts, Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if l.Retired() {
		t.Fatal("retired before anything was sent")
	}
	body := `{"jsonrpc":"2.0","method":"x","params":{"a":"` + strings.Repeat("x", 1<<20) + `"}}`
	if err := l.Notify(context.Background(), []byte(body)); err == nil || !l.Retired() {
		t.Errorf("%v; retired: %v", err, l.Retired())
	}
}
