package telemetry

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// HeapFloor is how far the heap may grow, in bytes, before it is collected. A
// crib keeps a few MiB alive and allocates some KiB for each call: left alone,
// the collector would run dozens of times a second to keep a heap small that
// nobody minds.
const HeapFloor = 32 << 20

const (
	usualPercent = 100 // of what is alive, as the runtime has it
	// maxPercent also bounds the first collection: the runtime makes it at
	// 4 MiB times this.
	maxPercent = 700
)

// percentFor is the growth that lets a heap with live bytes grow to floor, and
// a greater one as usual.
func percentFor(live, floor uint64) int {
	if live == 0 {
		return maxPercent
	}
	to := floor / (live/100 + 1) // in percent of live
	return int(min(max(to, 100+usualPercent)-100, maxPercent))
}

// RoomyHeap makes the collector wait until the heap has grown to floor bytes,
// until stop is called. It follows the heap: one whose live part is greater
// than half the floor grows as usual. Whoever set GOGC or GOMEMLIMIT knows
// better and is left alone.
func RoomyHeap(floor uint64) (stop func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	h := &heap{floor: floor}
	before := debug.SetGCPercent(maxPercent)
	h.tune()
	h.arm()
	return func() {
		h.stopped.Store(true)
		debug.SetGCPercent(before)
	}
}

type heap struct {
	floor   uint64
	percent atomic.Int64
	stopped atomic.Bool
}

// arm has tune called behind the next collection: an object that nobody holds
// lives until then.
func (h *heap) arm() {
	type witness struct{ _ [16]byte }
	runtime.SetFinalizer(&witness{}, func(*witness) {
		if h.stopped.Load() {
			return
		}
		h.tune()
		h.arm()
	})
}

func (h *heap) tune() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if live[0].Value.Kind() != metrics.KindUint64 {
		return
	}
	now, next := int(h.percent.Load()), percentFor(live[0].Value.Uint64(), h.floor)
	// To set it stops the program for a moment: not for every small change.
	if off := next - now; off*5 < now && -off*5 < now {
		return
	}
	h.percent.Store(int64(next))
	debug.SetGCPercent(next)
}
