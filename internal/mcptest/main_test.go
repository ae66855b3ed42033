package mcptest

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	RunPeerIfAsked()
	goleak.VerifyTestMain(m)
}
