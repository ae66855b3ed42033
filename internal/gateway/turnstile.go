package gateway

import (
	"context"
	"net/http"
	"sync"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// StoppingText says why a request is refused while the crib ends.
const StoppingText = "the crib is stopping, so nothing was sent to a server; try again when it is back"

// StoppingRetry is the Retry-After, in seconds, of such an answer. Most of what
// is open when a crib stops has ended by then, and so has the crib.
const StoppingRetry = "5"

// turnstile counts the requests that are open, and lets in nothing new once the
// crib is stopping.
type turnstile struct {
	mu       sync.Mutex // guards all below
	open     int
	stopping bool
	empty    chan struct{} // closed when the crib is stopping and nothing is open any more

	streams context.Context // ends when no more streams may be held open
	drain   context.CancelFunc
}

func (t *turnstile) init(life context.Context) {
	t.empty = make(chan struct{})
	t.streams, t.drain = context.WithCancel(life)
}

// enter lets a request in, or reports false. What continues something that is
// open passes for as long as anything is.
func (t *turnstile) enter(continues bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopping && (!continues || t.open == 0) {
		return false
	}
	t.open++
	return true
}

func (t *turnstile) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open--
	if t.stopping && t.open == 0 {
		close(t.empty)
	}
}

func (t *turnstile) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopping {
		return
	}
	t.stopping = true
	t.drain()
	if t.open == 0 {
		close(t.empty)
	}
}

func (t *turnstile) stopped() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stopping
}

// continues reports whether a request belongs to what is open already: the
// answer to a question of a server, whose seal is looked at where it is opened,
// and the end of a task. A ping asks for nothing.
func continues(req *Request) bool {
	switch m := req.Message; {
	case m.Method == "ping" && req.Era == wire.Legacy, m.Method == "tasks/cancel":
		return true
	default:
		return req.Era == wire.Modern && owns(m.Method) && m.Params.RequestState.OK()
	}
}

// turnedAway answers a request that came when the crib was stopping.
func turnedAway(req *Request) Answer {
	data := append([]byte(`{"`+wire.MetaCode+`":`), wire.Quote(string(crib.Unavailable))...)
	return Answer{
		Body:   wire.ErrorBody(req.id(), wire.CodeInternal, StoppingText, append(data, '}')),
		Status: http.StatusServiceUnavailable, RetryAfter: StoppingRetry,
	}
}
