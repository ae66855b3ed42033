package alarm

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type ringer func()

func (r ringer) Ring() { r() }

// Who waits for long enough is rung for, at that moment; who left is not.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(10 * time.Second)
		began := time.Now()
		var mu sync.Mutex
		rung := map[int]time.Duration{}
		entries := make([]Entry, 6)
		for i := range entries { // one each second
			q.Add(&entries[i], time.Now(), ringer(func() {
				mu.Lock()
				defer mu.Unlock()
				rung[i] = time.Since(began)
			}))
			time.Sleep(time.Second)
		}
		for _, i := range []int{0, 3, 5} { // the first, one between, the last
			if !q.Remove(&entries[i]) {
				t.Errorf("%d was not in", i)
			}
		}
		if q.Remove(&entries[3]) {
			t.Error("one was taken out twice")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		want := map[int]time.Duration{1: 11 * time.Second, 2: 12 * time.Second, 4: 14 * time.Second}
		for i := range entries {
			if rung[i] != want[i] {
				t.Errorf("%d was rung for after %s, want %s", i, rung[i], want[i])
			}
		}
		if q.Remove(&entries[1]) || q.armed || q.first != nil || q.last != nil {
			t.Error("something is left")
		}

		again := make(chan struct{}) // behind a rest
		q.Add(&entries[0], time.Now(), ringer(func() { close(again) }))
		<-again
	})
}

// A queue whose entries leave in any order keeps all others, in order.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(time.Second)
		var mu sync.Mutex
		var rung []int
		entries := make([]Entry, 200)
		for i := range entries {
			q.Add(&entries[i], time.Now(), ringer(func() {
				mu.Lock()
				defer mu.Unlock()
				rung = append(rung, i)
			}))
			time.Sleep(time.Millisecond)
		}
		var want []int
		for i := range entries {
			if i*7919%5 < 2 {
				q.Remove(&entries[i])
			} else {
				want = append(want, i)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if !slices.Equal(rung, want) {
			t.Errorf("got  %v\nwant %v", rung, want)
		}
	})
}
