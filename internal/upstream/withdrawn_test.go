package upstream

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/mcptest"
)

// A call that waits behind what a process does not read is withdrawn when it is
// cancelled: its caller does not wait for the process, and the process never
// sees it.
func TestACallThatWaitsToBeWrittenIsWithdrawn(t *testing.T) {
	dir := t.TempDir()
	release, record := filepath.Join(dir, "release"), filepath.Join(dir, "record")
	opts := Options{}.withDefaults()
	l, err := startStdio(&Spec{Name: "s", Command: mcptest.Peer("-era", "legacy", "-serial", "-record", record)}, &opts, Credentials{Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Do(patiently(t), Declaration{}.initialize("1"), Nobody{}); err != nil {
		t.Fatal(err)
	}
	busy := make(chan error, 2)
	go func() {
		_, err := l.Do(patiently(t), toolCall(l, "slow", fmt.Sprintf(`{"release":%q}`, release)), Nobody{})
		busy <- err
	}()
	mcptest.Eventually(t, "the call that keeps it busy", func() bool {
		came, err := os.ReadFile(record)
		return err == nil && strings.Contains(string(came), `"slow"`)
	})
	go func() { // more than a pipe takes
		busy <- l.Notify(context.Background(), []byte(`{"jsonrpc":"2.0","method":"x","params":{"a":"`+strings.Repeat("x", 1<<20)+`"}}`))
	}()
	mcptest.Eventually(t, "the pipe is full", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		sent, err := l.sendFor(ctx, []byte(`{"jsonrpc":"2.0","method":"y"}`))
		return !sent && err != nil
	})

	ctx, cancel := context.WithCancel(patiently(t))
	ended := make(chan error, 1)
	go func() {
		_, err := l.Do(ctx, toolCall(l, "echo", `{"mark":"withdrawn"}`), Nobody{})
		ended <- err
	}()
	mcptest.Eventually(t, "the call is open", func() bool { return l.Open() == 2 })
	cancel()
	if err := <-ended; crib.CodeOf(err) != crib.Cancelled || l.Retired() {
		t.Errorf("got %v, retired %v", err, l.Retired())
	}
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-busy; err != nil {
			t.Error(err)
		}
	}
	if err := echo(t, l); err != nil {
		t.Error(err)
	}
	if came, err := os.ReadFile(record); err != nil || strings.Contains(string(came), "withdrawn") || strings.Contains(string(came), "notifications/cancelled") {
		t.Errorf("the process saw the call that was withdrawn, or heard of it: %v", err)
	}
}
