package turnstile

import "testing"

func TestTurnstile(t *testing.T) {
	s := New(t.Context())
	isEmpty := func() bool {
		select {
		case <-s.Empty():
			return true
		default:
			return false
		}
	}
	if !s.Enter(false) || !s.Enter(false) || s.Stopped() {
		t.Fatal("it is shut before anybody shut it")
	}
	s.Stop()
	s.Stop() // twice is as good as once
	if !s.Stopped() || s.Enter(false) {
		t.Error("it let in something new when it was shut")
	}
	if !s.Enter(true) {
		t.Error("it did not let in what belongs to something open")
	}
	for range 3 {
		if isEmpty() {
			t.Error("it is empty while something is open")
		}
		s.Leave()
	}
	if !isEmpty() {
		t.Error("it does not say that it is empty")
	}
	if s.Enter(true) {
		t.Error("it let something in when all were gone")
	}
}

func TestTurnstileOfNobody(t *testing.T) {
	s := New(t.Context())
	s.Stop()
	<-s.Empty() // at once
	<-s.Streams()
}
