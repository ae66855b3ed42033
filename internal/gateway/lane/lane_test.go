package lane

import (
	"testing"

	"github.com/toolcrib/toolcrib/internal/upstream"
)

// A lane is one request's, the first that is free is taken, and those of others
// are others.
func TestLanes(t *testing.T) {
	l := NewRegistry()
	at, other := Of{Server: "s", Share: upstream.Share{Owner: "a"}}, Of{Server: "s", Share: upstream.Share{Owner: "b"}}
	for want := range Max {
		if n, ok := l.Enter(at); n != want || !ok {
			t.Fatalf("got %d, %v; want %d", n, ok, want)
		}
	}
	if n, ok := l.Enter(at); ok {
		t.Errorf("lane %d is taken twice", n)
	}
	if n, ok := l.Enter(other); n != 0 || !ok {
		t.Errorf("another owner got %d, %v", n, ok)
	}
	l.Leave(at, 3)
	if n, ok := l.Enter(at); n != 3 || !ok {
		t.Errorf("got %d, %v; lane 3 is free", n, ok)
	}
	for n := range Max {
		l.Leave(at, n)
	}
	l.Leave(other, 0)
	if len(l.busy) != 0 {
		t.Errorf("%d are kept that nobody uses", len(l.busy))
	}
}
