package cli

import (
	"runtime"
	"runtime/metrics"
	"testing"
)

func TestPercentFor(t *testing.T) {
	const MiB = 1 << 20
	for _, c := range []struct {
		live, floor uint64
		want        int
	}{
		{0, 32 * MiB, maxPercent}, // before the first collection
		{1 * MiB, 32 * MiB, maxPercent},
		{8 * MiB, 32 * MiB, 300},
		{16 * MiB, 32 * MiB, 100},
		{31 * MiB, 32 * MiB, usualPercent},
		{4096 * MiB, 32 * MiB, usualPercent},
	} {
		if got := percentFor(c.live, c.floor); got < c.want-1 || got > c.want+1 {
			t.Errorf("with %d alive: %d percent, want about %d", c.live, got, c.want)
		}
	}
}

// percent is what the collector works with now.
func percent() int {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return int(s[0].Value.Uint64())
}

// What comes behind the end, as a finalizer may, changes nothing any more.
func TestStoppedHeapIsLeftAlone(t *testing.T) {
	h := &heap{floor: 1 << 40, before: percent()} // more than is alive in any test
	if !h.tune() || percent() == h.before {
		t.Fatalf("%d percent: the test shows nothing", percent())
	}
	h.stop()
	if h.tune() || percent() != h.before {
		t.Errorf("%d percent, %d before", percent(), h.before)
	}
}

var kept, passing []byte

// A heap with little alive is collected seldom, and one with much as usual.
func TestRoomyHeapFollowsTheHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	runtime.GC() // what earlier tests left is not alive
	before := percent()
	stop := roomyHeap(heapFloor)
	if got := percent(); got < 2*usualPercent {
		t.Errorf("with a small heap: %d percent", got)
	}
	kept = make([]byte, 2*heapFloor)
	for range 20 { // tune runs behind a collection, on another goroutine
		runtime.GC()
		passing = make([]byte, 1<<20)
		if percent() == usualPercent {
			break
		}
	}
	runtime.KeepAlive(kept)
	kept = nil
	if got := percent(); got != usualPercent {
		t.Errorf("with a great heap: %d percent", got)
	}
	stop()
	if got := percent(); got != before {
		t.Errorf("behind the end: %d percent, %d before", got, before)
	}
}
