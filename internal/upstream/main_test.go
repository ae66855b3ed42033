package upstream

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/toolcrib/toolcrib/internal/mcptest"
)

func TestMain(m *testing.M) {
	mcptest.RunPeerIfAsked()
	goleak.VerifyTestMain(m)
}
