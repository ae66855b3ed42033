// Package soak shows that the crib holds: many clients on many servers that
// hang, crash, flood, cut and talk nonsense, and servers that go away and come
// back. A plain `go test` runs each test in a form of a few seconds; `make
// soak` and CI run longer ones.
package soak

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/mcptest"
)

var (
	soakFor  = flag.Duration("soak", 4*time.Second, "how long the soak runs")
	soakSeed = flag.Uint64("seed", 0, "of the soak; 0 takes one of the clock and prints it")
)

// The first argument by which the test binary knows that it is to be something
// else than a test.
const (
	cribArg = "soak-crib"
	peerArg = "soak-peer"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case cribArg:
			os.Exit(runCrib(os.Args[2:]))
		case peerArg:
			os.Args = append(os.Args[:1], bePeer(os.Args[2:])...)
		}
	}
	mcptest.RunPeerIfAsked()
	os.Exit(m.Run())
}

// slower stretches a limit of time where the race detector slows everything
// down.
func slower(d time.Duration) time.Duration { return raceFactor * d }
