package mcphttp

import (
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/internal/alarm"
	"github.com/toolcrib/toolcrib/internal/gateway"
	"github.com/toolcrib/toolcrib/internal/web"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// exchange is the answer to one POST: a JSON body as long as nothing precedes
// the answer, an event stream from the moment that something does, or that the
// request has been quiet for a while.
type exchange struct {
	door  *Door
	req   *gateway.Request
	w     http.ResponseWriter
	r     *http.Request
	open  func() *stream // makes the stream; of the session for a legacy client
	prime bool           // the client can take a stream up again

	quiet alarm.Entry // in door.quiet, until the answer is there

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
			if !s.carry(x.w, taken, x.r.Context().Done(), x.door.keepAlive, x.prime) {
				// The client does not take the stream: its connection is closed
				// at once, whatever becomes of the request.
				web.Cut(x.r)
			}
		})
	}
	return x.stream
}

// Ring makes the answer a stream because the request has been quiet for a while.
func (x *exchange) Ring() { x.streaming() }

// run handles the request and answers it. A client that was cut off may take up
// the stream with the answer on another connection, if it is a legacy one.
func (x *exchange) run() {
	x.door.open.Add(1)
	defer x.door.open.Done()
	x.door.quiet.Add(&x.quiet, time.Now(), x)
	answer := x.handle()
	x.door.quiet.Remove(&x.quiet)
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

// handle turns a panic into an answer: whoever carries the stream must be told
// of its end.
func (x *exchange) handle() (answer gateway.Answer) {
	defer func() {
		if p := recover(); p != nil {
			m := x.req.Message
			x.door.log.Error("a request met a fault", "method", m.Method, "panic", p, "stack", string(debug.Stack()))
			answer = gateway.Answer{Status: http.StatusInternalServerError,
				Body: wire.ErrorBody(m.ID.In(m.Body), wire.CodeInternal, "the crib met an internal fault; its log says which", nil)}
		}
	}()
	return x.door.gw.Handle(x.r.Context(), x.req, x)
}

var asJSON = []string{"application/json"}

func writeAnswer(w http.ResponseWriter, a gateway.Answer) {
	h := w.Header()
	h["Content-Type"] = asJSON
	if a.RetryAfter != "" {
		h["Retry-After"] = []string{a.RetryAfter}
	}
	if a.Status == 0 {
		a.Status = http.StatusOK
	}
	w.WriteHeader(a.Status)
	w.Write(a.Body) //nolint:errcheck // a client that is gone needs no answer
}
