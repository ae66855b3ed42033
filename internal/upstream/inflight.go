package upstream

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolcrib/toolcrib/internal/alarm"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// inflight is the typed map from the ids a leg gave out to the requests that
// wait for their answers. Progress tokens are the same numbers.
type inflight struct {
	next  atomic.Int64
	mu    sync.Mutex // guards all below
	calls map[int64]*call
	asked map[string]*call // by the raw id of a question that is not answered yet: the request that made the server ask
	busy  int              // calls that have an end of their own
	quiet chan struct{}    // closed when busy is 0, while somebody waits for that
	err   error            // why the leg ended; set once
}

// call is one open request.
type call struct {
	id    int64
	out   *Outgoing
	l     Listener
	reply chan *result // one result, never blocks the sender; nil where the answer comes to who asks and no other way
	// cancel ends the request with the leg; nil where reply alone does.
	cancel context.CancelCauseFunc
	began  time.Time
	seen   atomic.Int64 // unix nanoseconds of the last sign of life
	asking atomic.Int32 // questions of the server that are not answered yet
	watched
}

// watched is the watch over a request.
type watched struct {
	idle  time.Duration
	queue *alarm.Queue
	place alarm.Entry // in queue, until idle has passed for the first time

	mu    sync.Mutex  // guards both below
	timer *time.Timer // from then on
	over  bool
}

type result struct {
	m   wire.Message
	err error
}

func (c *call) touch() { c.seen.Store(time.Now().UnixNano()) }

// overdue reports whether the request has been silent for idle, or goes on for
// longer than any may; left is how long it may still be silent. While its server
// waits for an answer, it is somebody else who is silent.
func (c *call) overdue(idle time.Duration) (left time.Duration, yes bool) {
	left = idle - time.Since(time.Unix(0, c.seen.Load()))
	if c.asking.Load() > 0 { // look again as if there were an answer by then
		left = min(idle, left+max(0, QuestionTime-idle))
	}
	return left, left <= 0 || time.Since(c.began) >= MaxCallTime
}

// watch cancels the request when it is overdue, until unwatch. Most requests
// end long before idle: those wait for it in q, if q is for that time.
func (c *call) watch(q *alarm.Queue, idle time.Duration) {
	c.idle, c.queue = idle, q
	if q.After() == idle {
		q.Add(&c.place, c.began, c)
		return
	}
	c.again(idle)
}

// Ring looks whether the request is overdue.
func (c *call) Ring() {
	if left, yes := c.overdue(c.idle); yes {
		c.cancel(errIdle)
	} else {
		c.again(left)
	}
}

// again looks at the request after some time.
func (c *call) again(in time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.timer = time.AfterFunc(in, c.Ring)
	}
}

// unwatch ends the watch.
func (c *call) unwatch() {
	if c.queue.Remove(&c.place) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.timer != nil {
		c.timer.Stop()
	}
}

// add opens a request. It fails with the leg's end.
func (f *inflight) add(out *Outgoing, l Listener, cancel context.CancelCauseFunc) (*call, error) {
	c := &call{id: f.next.Add(1), out: out, l: l, cancel: cancel, began: time.Now()}
	if !out.direct {
		c.reply = make(chan *result, 1)
	}
	c.seen.Store(c.began.UnixNano())
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	if f.calls == nil {
		f.calls = make(map[int64]*call)
	}
	f.calls[c.id] = c
	if !out.Forever {
		f.busy++
	}
	return c, nil
}

// remove closes a request; what still arrives for it is late.
func (f *inflight) remove(c *call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.calls, c.id)
	for id, by := range f.asked {
		if by == c {
			delete(f.asked, id)
		}
	}
	if !c.out.Forever {
		f.busy--
	}
	if f.busy == 0 && f.quiet != nil {
		close(f.quiet)
		f.quiet = nil
	}
}

// open is the number of requests that wait for their answer; a stream without
// an end is none of them.
func (f *inflight) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.busy
}

// whenQuiet is closed when no request waits for its answer.
func (f *inflight) whenQuiet() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.quiet == nil {
		f.quiet = make(chan struct{})
		if f.busy == 0 {
			defer func() { f.quiet = nil }()
			close(f.quiet)
		}
	}
	return f.quiet
}

// get finds an open request by a raw id or token of ours.
func (f *inflight) get(raw []byte) *call {
	id, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[id]
}

// sole returns the only open request for which a server may ask or tell the
// client something, nil if there is none or more than one: with more than one,
// nothing proves whom it means.
func (f *inflight) sole() *call {
	f.mu.Lock()
	defer f.mu.Unlock()
	var only *call
	for _, c := range f.calls {
		if !c.out.Owner {
			continue
		}
		if only != nil {
			return nil
		}
		only = c
	}
	return only
}

// all returns the open requests.
func (f *inflight) all() []*call {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]*call, 0, len(f.calls))
	for _, c := range f.calls {
		out = append(out, c)
	}
	return out
}

// end fails every open request, and every later one, with err.
func (f *inflight) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
	for _, c := range f.calls {
		c.finish(result{err: err})
		if c.cancel != nil {
			c.cancel(err)
		}
	}
}

// finish gives the request its result, the first time it is called.
func (c *call) finish(r result) {
	select {
	case c.reply <- &r:
	default:
	}
}

// outcome tells how wait ended without a result.
type outcome int

const (
	answered outcome = iota
	timedOut
	cancelled
)

// wait returns the result of c, or why it gave up waiting: idle passed without
// an answer or a sign of life, or ctx ended. A forever request waits for ctx
// alone.
func (c *call) wait(ctx context.Context, idle time.Duration) (result, outcome) {
	if c.out.Forever {
		select {
		case r := <-c.reply:
			return *r, answered
		case <-ctx.Done():
			return result{}, cancelled
		}
	}
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for {
		select {
		case r := <-c.reply:
			return *r, answered
		case <-ctx.Done():
			return result{}, cancelled
		case <-timer.C:
		}
		left, yes := c.overdue(idle)
		if yes {
			return result{}, timedOut
		}
		timer.Reset(left)
	}
}

// route hands a notification or a request of the server to the open request it
// belongs to. proven is the request on whose own stream it came, nil where
// streams are shared. It reports whether somebody took it.
func (f *inflight) route(m wire.Message, proven *call, answer func([]byte)) bool {
	c := proven
	switch {
	case m.Method == "notifications/progress":
		if c == nil {
			c = f.get(m.Params.ProgressToken.In(m.Body))
		}
	case m.Meta.SubscriptionID.OK():
		if c == nil {
			c = f.get(m.Meta.SubscriptionID.In(m.Body))
		}
	case strings.HasSuffix(m.Method, "/list_changed") || m.Method == "notifications/resources/updated":
		return false // about the server, whatever stream it came on
	case m.Method == "notifications/cancelled":
		if asker := f.settle(m.Params.RequestID.In(m.Body)); asker != nil {
			c = asker
		}
	case c != nil:
	case m.Kind == wire.RequestKind || m.Method == "notifications/message" || m.Method == "notifications/elicitation/complete":
		c = f.sole()
	}
	if c == nil {
		return false
	}
	c.touch()
	if m.Kind == wire.RequestKind {
		id := f.note(m, c)
		c.l.Request(m, func(body []byte) {
			f.settle([]byte(id))
			answer(body)
		})
		return true
	}
	c.l.Notification(m)
	return true
}

// note keeps which request made the server ask, and returns the raw id of the
// question.
func (f *inflight) note(m wire.Message, c *call) string {
	id := string(m.ID.In(m.Body))
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asked == nil {
		f.asked = make(map[string]*call)
	}
	if before := f.asked[id]; before != nil {
		before.asking.Add(-1)
	}
	c.asking.Add(1)
	f.asked[id] = c
	return id
}

// settle closes a question and returns the request because of which the server
// asked, nil if none is open under this id.
func (f *inflight) settle(id []byte) *call {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.asked[string(id)]
	if c != nil {
		delete(f.asked, string(id))
		c.asking.Add(-1)
		c.touch()
	}
	return c
}
