package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// heapFloor is how far the heap may grow, in bytes, before it is collected. A
// crib keeps a few MiB alive and allocates some KiB for each call: left alone,
// the collector would run dozens of times a second to keep a heap small that
// nobody minds.
const heapFloor = 32 << 20

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

// roomyHeap makes the collector wait until the heap has grown to floor bytes,
// until stop is called. It follows the heap: one whose live part is greater
// than half the floor grows as usual. Whoever set GOGC or GOMEMLIMIT knows
// better and is left alone. It is of the whole process, and so for a command
// that is all that its process does.
func roomyHeap(floor uint64) (stop func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	h := &heap{floor: floor, before: debug.SetGCPercent(maxPercent)}
	h.tune()
	h.arm()
	return h.stop
}

type heap struct {
	floor  uint64
	before int // percent, to be set again

	mu      sync.Mutex // guards what follows, and the setting until stopped
	percent int
	stopped bool
}

// arm has tune called behind each collection: an object that nobody holds
// lives until the next one.
func (h *heap) arm() {
	type witness struct{ _ [16]byte }
	runtime.SetFinalizer(&witness{}, func(*witness) {
		if h.tune() {
			h.arm()
		}
	})
}

// tune sets what fits the heap now. It reports whether it may do so again.
func (h *heap) tune() bool {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped || live[0].Value.Kind() != metrics.KindUint64 {
		return false
	}
	next := percentFor(live[0].Value.Uint64(), h.floor)
	// To set it stops the program for a moment: not for every small change.
	if off := next - h.percent; off*5 >= h.percent || -off*5 >= h.percent {
		h.percent = next
		debug.SetGCPercent(next)
	}
	return true
}

func (h *heap) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	debug.SetGCPercent(h.before)
}
