package child

import (
	"os"
	"testing"
	"time"
)

func TestChildDiesWithTheCrib(t *testing.T) {
	// The doomed helper is not the leader's launcher here: it is the crib.
	p, out := start(t, Options{Argv: helper("doomed"), Env: os.Environ(), StopGrace: time.Hour})
	pid := number(t, out.next(t))
	waitFor(t, "the end of the crib", p.Done())
	eventually(t, "the end of its child", func() bool { return !exists(pid) })
}
