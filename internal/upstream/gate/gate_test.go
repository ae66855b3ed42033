package gate

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
)

func admitted(t *testing.T, g *Gate, size int) *Ticket {
	t.Helper()
	ticket, err := g.Admit(t.Context(), size)
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

func refusedWith(t *testing.T, g *Gate, size int, code crib.Code, text string) {
	t.Helper()
	ticket, err := g.Admit(t.Context(), size)
	if err == nil {
		ticket.End()
		t.Fatalf("let in; want %s", code)
	}
	if crib.CodeOf(err) != code || !strings.Contains(err.Error(), text) {
		t.Fatalf("refused with %s: %v; want %s: %s", crib.CodeOf(err), err, code, text)
	}
}

// empty shows that nothing is counted that is not there any more.
func empty(t *testing.T, g *Gate) {
	t.Helper()
	if open, held := g.total.open.Load(), g.total.held.Load(); open != 0 || held != 0 || g.held.Load() != 0 || g.queued.Load() != 0 {
		t.Errorf("left: %d open, %d bytes in total, %d of the server, %d waiting", open, held, g.held.Load(), g.queued.Load())
	}
	if !g.places.TryAcquire(MaxOpen) {
		t.Error("a place was not given back")
	} else {
		g.places.Release(MaxOpen)
	}
}

// Who finds no place waits in order, and not for ever; nobody else is kept.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		total := new(Total)
		g, other := New("one", total), New("other", total)
		var in []*Ticket
		for range MaxOpen {
			in = append(in, admitted(t, g, 1))
		}
		admitted(t, other, 1).End()

		began := time.Now()
		refusedWith(t, g, 1, crib.Busy, "none ended within 10s")
		if took := time.Since(began); took != QueueTime {
			t.Errorf("waited %s", took)
		}

		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, err := g.Admit(ctx, 1)
			gone <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-gone; crib.CodeOf(err) != crib.Cancelled {
			t.Errorf("cancelled while it waited: %v", err)
		}

		order := make(chan int, MaxQueued)
		for i := range MaxQueued {
			go func() {
				ticket, err := g.Admit(t.Context(), 1)
				if err != nil {
					t.Error(err)
					return
				}
				order <- i
				ticket.End()
			}()
			synctest.Wait()
		}
		refusedWith(t, g, 1, crib.Busy, "64 wait")
		in[0].End()
		for want := range MaxQueued {
			if got := <-order; got != want {
				t.Fatalf("%d came before %d", got, want)
			}
		}
		for _, ticket := range in[1:] {
			ticket.End()
		}
		synctest.Wait()
		empty(t, g)
	})
}

// All servers together have a limit too, and what waits counts.
func TestTotals(t *testing.T) {
	total := new(Total)
	var in []*Ticket
	for i := range MaxOpenTotal {
		in = append(in, admitted(t, gateOf(total, in, i), 1))
	}
	refusedWith(t, New("another", total), 1, crib.Busy, "1024 requests open at its servers")
	in[0].End()
	admitted(t, New("another", total), 1).End()
	for _, ticket := range in[1:] {
		ticket.End()
	}

	big := MaxHeld - 1
	for range MaxHeldTotal / MaxHeld {
		in = append(in, admitted(t, New("big", total), big))
	}
	refusedWith(t, New("another", total), MaxHeld/2, crib.Busy, "all servers")
	for _, ticket := range in[MaxOpenTotal:] {
		ticket.End()
	}
	empty(t, New("", total))
}

// gateOf is the gate of the server that request i goes to: MaxOpen at each.
func gateOf(total *Total, in []*Ticket, i int) *Gate {
	if i%MaxOpen == 0 {
		return New("many", total)
	}
	return in[i-1].g
}

func TestMemory(t *testing.T) {
	g := New("one", new(Total))
	first := admitted(t, g, MaxHeld/2)
	refusedWith(t, g, MaxHeld/2+1, crib.Busy, "67108864 bytes; nothing was sent")
	second := admitted(t, g, MaxHeld/4)
	if over := second.Hold(MaxHeld / 4); over != nil {
		t.Error("refused within the limit:", over)
	}
	over := second.Hold(1)
	if over == nil || over.Code != crib.TooLarge {
		t.Errorf("over the limit: %v", over)
	}
	second.End()
	first.End()
	empty(t, g)
	if over := (*Ticket)(nil).Hold(MaxHeld * 2); over != nil {
		t.Error("nobody's bytes are counted:", over)
	}
}

// What arrives when the request has ended, or is let go of then, is not counted:
// it would be given back twice, or never.
func TestBytesBehindTheEnd(t *testing.T) {
	g := New("one", new(Total))
	other := admitted(t, g, 100)
	ticket := admitted(t, g, 10)
	held := Reader{From: strings.NewReader("the answer came"), Ticket: ticket}
	if _, err := io.ReadAll(&held); err != nil {
		t.Fatal(err)
	}
	ticket.End()
	if g.Held() != 100 {
		t.Errorf("%d bytes counted, want those of the other request", g.Held())
	}
	held.Drop()
	ticket.Hold(MaxHeld)
	if g.Held() != 100 {
		t.Errorf("%d bytes counted behind the end", g.Held())
	}
	other.End()
	empty(t, g)
}

// The pause is as long as the trial took at the server, without its time in the
// queue.
func TestATrialBeginsWhenItIsLetIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New("one", new(Total))
		var in []*Ticket
		for range MaxOpen {
			in = append(in, admitted(t, g, 1))
		}
		for range TripAfter {
			time.Sleep(1)
			g.learn(&Ticket{began: time.Now()}, Ill, broken, time.Now())
		}
		time.Sleep(MinPause)
		got := make(chan *Ticket)
		go func() {
			ticket, err := g.Admit(t.Context(), 1)
			if err != nil {
				t.Error(err)
			}
			got <- ticket
		}()
		synctest.Wait()
		time.Sleep(QueueTime / 2)
		in[0].End()
		trial := <-got
		report(trial, broken)
		trial.End()
		refusedWith(t, g, 1, crib.Unavailable, "is tried again in 1s")
		time.Sleep(MinPause)
		admitted(t, g, 1).End()
		for _, ticket := range in[1:] {
			ticket.End()
		}
		empty(t, g)
	})
}

const (
	late   = "did not answer in time"
	broken = "broke off"
	fine   = ""
)

// report reports what an ill server did, or that it is well.
func report(t *Ticket, why string) {
	if why == fine {
		t.Report(Well, "")
		return
	}
	t.Report(Ill, why)
}

// A server that fails one after the other is left alone for as long as the
// last failure took, then tried with one request.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New("one", new(Total))
		ask := func(took time.Duration, why string) {
			t.Helper()
			ticket := admitted(t, g, 1)
			time.Sleep(took)
			report(ticket, why)
			ticket.End()
		}
		for range TripAfter - 1 {
			ask(time.Minute, late)
		}
		ask(time.Second, fine) // it lives
		for range TripAfter {
			ask(5*time.Second, late)
		}
		refusedWith(t, g, 1, crib.Unavailable, "failed 5 times in a row and is tried again in 5s; the last time it did not answer in time")
		if g.Shut() == "" {
			t.Error("nobody is told that it is left alone")
		}
		time.Sleep(5*time.Second - 1)
		refusedWith(t, g, 1, crib.Unavailable, "tried again in 1s")
		time.Sleep(1)

		trial := admitted(t, g, 1)
		refusedWith(t, g, 1, crib.Unavailable, "is being tried again")
		time.Sleep(time.Hour)
		report(trial, late)
		trial.End()
		refusedWith(t, g, 1, crib.Unavailable, "failed 6 times in a row and is tried again in 30s")
		time.Sleep(MaxPause)
		ask(time.Millisecond, broken)
		time.Sleep(MinPause)
		ask(time.Second, fine)
		for range 2 * MaxOpen {
			ask(0, fine)
		}
		if why := g.Shut(); why != "" {
			t.Error("still shut:", why)
		}
		empty(t, g)
	})
}

// A trial that comes to nothing leaves the way open for the next one.
func TestATrialThatEndsWithoutVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New("one", new(Total))
		for range TripAfter {
			ticket := admitted(t, g, 1)
			report(ticket, broken)
			ticket.End()
			time.Sleep(1)
		}
		time.Sleep(MinPause)
		refusedWith(t, g, MaxHeld+1, crib.Busy, "bytes") // let in as the trial, and refused for its size
		trial := admitted(t, g, 1)                       // no leg was to be had: nothing to report
		trial.End()
		trial = admitted(t, g, 1)
		trial.Report(Nothing, "")
		trial.End()
		trial = admitted(t, g, 1)
		report(trial, fine)
		trial.End()
		admitted(t, g, 1).End()
		admitted(t, g, 1).End()
		empty(t, g)
	})
}

// One event that ends many requests is one failure, and an end that says nothing
// is none.
func TestOneEventIsOneFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New("one", new(Total))
		var open []*Ticket
		for range MaxOpen {
			open = append(open, admitted(t, g, 1))
		}
		time.Sleep(time.Second)
		for _, ticket := range open {
			report(ticket, broken)
			ticket.End()
			time.Sleep(time.Millisecond)
		}
		if g.failures != 1 {
			t.Errorf("one crash counts %d times", g.failures)
		}
		for range 3 * TripAfter {
			ticket := admitted(t, g, 1)
			time.Sleep(time.Second)
			ticket.Report(Nothing, "")
			ticket.End()
		}
		if g.failures != 1 {
			t.Errorf("what says nothing counts: %d", g.failures)
		}
	})
}

// Who waited while the server began to fail is not let in behind that.
func TestWhoWaitsMeetsTheShutGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New("one", new(Total))
		var in []*Ticket
		for range MaxOpen {
			in = append(in, admitted(t, g, 1))
		}
		answers := make(chan error, MaxQueued)
		for range MaxQueued {
			go func() {
				ticket, err := g.Admit(t.Context(), 1)
				if err == nil {
					ticket.End()
				}
				answers <- err
			}()
		}
		synctest.Wait()
		g.mu.Lock()
		g.failures, g.last, g.at, g.until = TripAfter, late, time.Now(), time.Now().Add(time.Hour)
		g.mu.Unlock()
		for _, ticket := range in {
			ticket.End()
		}
		for range MaxQueued {
			if err := <-answers; crib.CodeOf(err) != crib.Unavailable {
				t.Fatalf("let in: %v", err)
			}
		}
		empty(t, g)
	})
}
