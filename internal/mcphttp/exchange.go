package mcphttp

import (
	"net/http"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/internal/gateway"
)

// exchange is the answer to one POST: a JSON body as long as nothing precedes
// the answer, an event stream from the moment that something does, or that the
// request has been quiet for a while.
type exchange struct {
	w         http.ResponseWriter
	gone      <-chan struct{} // the client left
	keepAlive time.Duration
	open      func() *stream // makes the stream; of the session for a legacy client
	prime     bool           // the client can take a stream up again
	// cut is called when the client does not take the stream any more.
	cut func()
	// detached requests go on without their client.
	detached *sync.WaitGroup
	panicked func(p any) gateway.Answer

	mu       sync.Mutex // guards stream, answered
	stream   *stream
	answered bool
	carrying sync.WaitGroup
}

// Send puts what comes before the answer on the stream.
func (x *exchange) Send(body []byte) {
	if s := x.streaming(); s != nil {
		s.push(body)
	}
}

// streaming makes the answer a stream, if it is none yet and not given yet.
func (x *exchange) streaming() *stream {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stream == nil && !x.answered {
		x.stream = x.open()
		s := x.stream
		taken, _ := s.attach(onward)
		x.carrying.Go(func() {
			commit(x.w)
			if !s.carry(x.w, taken, x.gone, x.keepAlive, x.prime) {
				x.cut()
			}
		})
	}
	return x.stream
}

// run answers with what handle returns. A detached request whose client is cut
// off goes on behind it; its answer waits on the stream to be taken up.
func (x *exchange) run(handle func() gateway.Answer) {
	if x.detached == nil {
		x.answer(handle)
		return
	}
	cut, done := make(chan struct{}), make(chan struct{})
	x.cut = func() { close(cut) }
	x.detached.Go(func() {
		defer close(done)
		x.answer(func() (a gateway.Answer) {
			// The handler's own recovery does not reach here.
			defer func() {
				if p := recover(); p != nil {
					a = x.panicked(p)
				}
			}()
			return handle()
		})
	})
	select {
	case <-done:
	case <-cut:
	}
}

func (x *exchange) answer(handle func() gateway.Answer) {
	quiet := time.AfterFunc(x.keepAlive, func() { x.streaming() })
	answer := handle()
	quiet.Stop()
	x.mu.Lock()
	x.answered = true
	s := x.stream
	x.mu.Unlock()
	if s == nil {
		writeAnswer(x.w, answer)
		return
	}
	s.finish(answer.Body)
	x.carrying.Wait()
}

func writeAnswer(w http.ResponseWriter, a gateway.Answer) {
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	if a.RetryAfter != "" {
		h["Retry-After"] = []string{a.RetryAfter}
	}
	if a.Status == 0 {
		a.Status = http.StatusOK
	}
	rc := http.NewResponseController(w)
	rc.SetWriteDeadline(time.Now().Add(writeLimit)) //nolint:errcheck // a writer without deadlines has none to miss
	w.WriteHeader(a.Status)
	w.Write(a.Body)                  //nolint:errcheck // a client that is gone needs no answer
	rc.SetWriteDeadline(time.Time{}) //nolint:errcheck // likewise
}
