package upstream

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/mcptest"
)

// A leg that is closed behind a request that was cancelled still says so: to a
// process whose input only ends, nothing tells what it need not do.
func TestACancellationIsSaidBeforeTheEnd(t *testing.T) {
	for range 5 { // it was a race
		record := filepath.Join(t.TempDir(), "record")
		saw := func(what string) bool {
			came, err := os.ReadFile(record)
			return err == nil && strings.Contains(string(came), what)
		}
		opts := Options{}.withDefaults()
		l, err := startStdio(&Spec{Name: "s", Command: mcptest.Peer("-era", "legacy", "-record", record)}, &opts, Credentials{Env: os.Environ()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Do(patiently(t), Declaration{}.initialize("1"), Nobody{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(patiently(t))
		ended := make(chan error, 1)
		go func() {
			_, err := l.Do(ctx, toolCall(l, "slow", `{"release":"/none"}`), Nobody{})
			ended <- err
		}()
		mcptest.Eventually(t, "the call", func() bool { return saw(`"slow"`) })
		cancel()
		if err := <-ended; crib.CodeOf(err) != crib.Cancelled {
			t.Error(err)
		}
		l.Close()
		if !saw("notifications/cancelled") {
			t.Fatal("its input ended without a word")
		}
	}
}

// A process that does not read keeps nobody from closing its leg.
func TestAProcessThatDoesNotReadIsClosed(t *testing.T) {
	opts := Options{WriteTimeout: time.Hour, StopGrace: 20 * time.Millisecond}.withDefaults()
	l, err := startStdio(&Spec{Name: "s", Command: mcptest.Peer("-delay", "1h")}, &opts, Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	l.answer([]byte(`{"jsonrpc":"2.0","method":"x","params":{"a":"` + strings.Repeat("x", 1<<20) + `"}}`))
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		l.Close()
	}()
	select {
	case <-closed:
	case <-time.After(mcptest.Patience):
		t.Fatal("it is not closed")
	}
}
