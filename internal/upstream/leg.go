package upstream

import (
	"sync/atomic"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// common is what the legs to servers have in common, whatever carries their
// messages.
type common struct {
	spec    *Spec
	opts    *Options
	hello   atomic.Pointer[wire.Hello] // replaced when a lost session is renewed
	open    inflight
	retired atomic.Bool
}

func (l *common) Hello() *wire.Hello     { return l.hello.Load() }
func (l *common) Open() int              { return l.open.open() }
func (l *common) Quiet() <-chan struct{} { return l.open.whenQuiet() }
func (l *common) Retire()                { l.retired.Store(true) }
func (l *common) Retired() bool          { return l.retired.Load() }

// hear hands on a request or notification of the server, and reports whether it
// could be read. proven is the request on whose own stream it came, nil where
// requests share one; answer must not wait for a server that does not read.
func (l *common) hear(leg Leg, m wire.Message, proven *call, answer func([]byte)) bool {
	isRequest := m.Kind == wire.RequestKind
	switch {
	case l.open.illegible(m, answer):
		return false
	case isRequest && m.Method == "ping":
		answer(Decline(m))
	case l.open.route(m, proven, answer):
	case isRequest:
		answer(Decline(m))
	case l.opts.Events != nil:
		l.opts.Events.Notification(l.spec.Name, leg, m)
	}
	return true
}

// answered hands a response that came on a shared pipe to the request that it
// answers, if somebody still waits for it.
func (l *common) answered(m wire.Message) {
	c := l.open.get(m.ID.In(m.Body))
	if c == nil {
		return
	}
	if over := c.out.Ticket.Hold(len(m.Body)); over != nil {
		c.finish(result{err: tooMuch(c.out, over)})
		return
	}
	c.finish(result{m: legible(l.spec, l.opts, c.out, m)})
}

// tooLarge fails the request that a message over the limit answers, whose start
// is prefix. If its id cannot be read from that, it may be the answer to any
// request that is open on a shared pipe.
func (l *common) tooLarge(prefix []byte) {
	err := crib.Errorf(crib.TooLarge, "server %s sent a message of more than %d bytes", l.spec.Name, MaxMessage)
	if id := wire.IDFromPrefix(prefix); id != nil {
		if c := l.open.get(id); c != nil {
			c.finish(result{err: tooMuch(c.out, err)})
		}
		return // it was the answer to a request that nobody waits for any more
	}
	for _, c := range l.open.all() {
		c.finish(result{err: tooMuch(c.out, err)})
	}
}
