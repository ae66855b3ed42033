package gateway

import (
	"context"
	"crypto/rand"
	"strconv"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/internal/bridge"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/gateway/lane"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// dialogue is a modern client's request at a legacy server that may ask the
// client something. The server asks while it holds the request; the client is
// asked by an answer to it, and comes back with a request of its own. So the
// one at the server is bound to none of the client's, and goes on between them.
type dialogue struct {
	id     string
	ex     *exchange
	cancel context.CancelCauseFunc // ends the request at the server
	over   chan struct{}           // closed when the server has answered
	reply  *upstream.Reply         // set by then, or err
	err    error
	gone   func()        // nobody waits for the answer any more; may be called more than once
	came   chan struct{} // a question is there that the client does not know

	mu        sync.Mutex // guards all below
	questions []*openQuestion
	ended     bool        // the server asks nothing any more
	keys      int         // given out
	absent    *time.Timer // ends the dialogue when the client does not come back
}

// openQuestion is a question that the client has not answered.
type openQuestion struct {
	bridge.Question        // its key is "" until the client is asked
	id              []byte // raw, of the server
	answer          func([]byte)
}

// dialogues are those whose clients are asked at the moment.
type dialogues struct {
	lanes *lane.Registry // on which they are held

	mu   sync.Mutex // guards byID
	byID map[string]*dialogue
}

func (ds *dialogues) init() {
	ds.byID = make(map[string]*dialogue)
	ds.lanes = lane.NewRegistry()
}

func (ds *dialogues) add(d *dialogue) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.byID[d.id] = d
}

// of lists the dialogues of a principal.
func (ds *dialogues) of(p crib.Principal) (ids []string) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for id, d := range ds.byID {
		if d.ex.req.Principal == p {
			ids = append(ids, id)
		}
	}
	return ids
}

// take takes a dialogue out, nil if it is not there.
func (ds *dialogues) take(id string) *dialogue {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d := ds.byID[id]
	delete(ds.byID, id)
	return d
}

// begin opens a dialogue over a leg like leg, which fits want.
func (g *Gateway) begin(ctx context.Context, ex *exchange, t *target, leg upstream.Leg, want upstream.Want, ticket *upstream.Ticket) (*upstream.Reply, error) {
	leg, leave, err := g.lane(ctx, t, leg, want)
	if err != nil {
		return nil, err
	}
	g.tellLevel(ctx, ex.req, t.server, leg)
	out, err := ex.outgoing(t)
	if err == nil {
		err = g.spend(ex.req, t, false)
	}
	if err != nil {
		leave()
		return nil, err
	}
	out.Ticket = ticket
	t.dialogue = g.converse(ex, t, leg, out, leave)
	return g.next(ctx, t.dialogue)
}

// converse sends the request of ex. It goes on until the server answers, it is
// cancelled or the gateway ends. Its ticket ends when nobody waits for the answer
// any more: a client that is away has it waiting in memory.
func (g *Gateway) converse(ex *exchange, t *target, leg upstream.Leg, out *upstream.Outgoing, leave func()) *dialogue {
	ctx, cancel := context.WithCancelCause(g.life)
	gone := make(chan struct{})
	d := &dialogue{id: rand.Text(), ex: ex, cancel: cancel, over: make(chan struct{}), came: make(chan struct{}, 1),
		gone: sync.OnceFunc(func() { close(gone) })}
	ex.dialogue = d
	began := time.Now()
	g.work.Go(func() {
		defer out.Ticket.End()
		defer cancel(nil)
		d.reply, d.err = leg.Do(ctx, out, ex)
		leave() // before the answer is there: the client's next request takes the same connection
		d.decline()
		t.server.Up().Report(out.Ticket, d.err)
		g.record(ex.req, t, d.reply, d.err, time.Since(began))
		close(d.over)
		select {
		case <-gone:
		case <-g.life.Done():
		}
	})
	return d
}

// ask takes a question of the server.
func (d *dialogue) ask(q bridge.Question, id []byte, answer func([]byte)) (taken bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended || len(d.questions) >= bridge.MaxQuestions {
		return false
	}
	d.questions = append(d.questions, &openQuestion{Question: bridge.ModernQuestion(q), id: id, answer: answer})
	d.tell()
	return true
}

func (d *dialogue) tell() {
	select {
	case d.came <- struct{}{}:
	default:
	}
}

// withdraw drops a question that the server does not ask any more.
func (d *dialogue) withdraw(id []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, q := range d.questions {
		if string(q.id) == string(id) {
			d.questions = append(d.questions[:i:i], d.questions[i+1:]...)
			return
		}
	}
}

// decline answers what is still asked when the request is over: nobody will, and
// what a client says later is not for the server to know.
func (d *dialogue) decline() {
	d.mu.Lock()
	left := d.questions
	d.questions, d.ended = nil, true
	d.mu.Unlock()
	for _, q := range left {
		q.answer(wire.ErrorBody(q.id, wire.CodeMethodNotFound, "the request that this was asked for is over", nil))
	}
}

// next waits for what the client of ctx is to be told: the server's answer, or
// its questions in the form of a modern one. A client that leaves cancels.
func (g *Gateway) next(ctx context.Context, d *dialogue) (*upstream.Reply, error) {
	for {
		asked := false
		select {
		case <-d.over:
			d.gone()
			return d.reply, d.err
		case <-ctx.Done():
		case <-d.came:
			asked = d.pause(ctx)
		}
		if ctx.Err() != nil {
			d.end(context.Cause(ctx))
			<-d.over
			return d.reply, d.err
		}
		if !asked {
			continue
		}
		reply, err := g.leave(d)
		if reply != nil || err != nil {
			return reply, err
		}
	}
}

// pause lets more questions come. It is false if there is no use in asking any.
func (d *dialogue) pause(ctx context.Context) bool {
	wait := time.NewTimer(bridge.JoinQuestions)
	defer wait.Stop()
	select {
	case <-wait.C:
		return true
	case <-d.over:
	case <-ctx.Done():
	}
	return false
}

// leave lets go of the client with all questions that are open, nil if none is.
func (g *Gateway) leave(d *dialogue) (*upstream.Reply, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.questions) == 0 {
		return nil, nil
	}
	put := make([]bridge.Question, len(d.questions))
	for i, q := range d.questions {
		d.keys++
		q.Key = "q" + strconv.Itoa(d.keys)
		put[i] = q.Question
	}
	m, err := wire.ScanServer(wire.ResultBody([]byte("0"), bridge.InputRequired(put)))
	if err != nil {
		d.end(err)
		return nil, crib.Errorf(crib.Unknown, "server %s asks something that cannot be put to the client; it is not known whether the request was executed", d.ex.server.Name())
	}
	d.ex.attach(d.ex.req, nil)
	return &upstream.Reply{Message: m, Era: wire.Modern}, nil
}

// end ends the request at the server: nobody waits for it.
func (d *dialogue) end(why error) {
	d.cancel(why)
	d.gone()
}

// suspend keeps a dialogue whose client was asked, until it comes back or has
// been away for too long. A crib that is stopping waits for it.
func (g *Gateway) suspend(d *dialogue) {
	g.entrance.Enter(true)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.absent = time.AfterFunc(g.roundTime, func() {
		if g.resumed(d.id) != nil {
			d.end(errAbsent)
		}
	})
	g.dialogues.add(d)
}

// resumed is the dialogue of an id, which is suspended no longer; nil if there is
// none.
func (g *Gateway) resumed(id string) *dialogue {
	d := g.dialogues.take(id)
	if d != nil {
		g.entrance.Leave()
	}
	return d
}

var errAbsent = crib.Errorf(crib.Cancelled, "the client did not come back in time")

// comeBack takes up the dialogue that req continues, with the client's answers.
// Whatever is not among them is asked again.
func (g *Gateway) comeBack(ctx context.Context, req *Request, t *target, sink Sink) (*upstream.Reply, error) {
	if err := g.sealer.Spend(*t.state, time.Now()); err != nil {
		return nil, err
	}
	d := g.resumed(t.state.Dialogue)
	if d == nil {
		return nil, crib.Errorf(crib.Unknown, "the request that server %s asked something for has ended meanwhile; it is not known whether it was executed", t.server.Name())
	}
	t.dialogue = d
	d.ex.attach(req, sink)
	d.answer(req.Message.Params.InputResponses.In(req.Message.Body))
	return g.next(ctx, d)
}

// answer gives the server the answers that are there.
func (d *dialogue) answer(responses []byte) {
	d.mu.Lock()
	d.absent.Stop()
	var answered, left []*openQuestion
	var results [][]byte
	for _, q := range d.questions {
		if result := wire.Get(responses, q.Key); q.Key != "" && wire.IsObject(result) {
			answered, results = append(answered, q), append(results, result)
			continue
		}
		left = append(left, q)
	}
	d.questions = left
	if len(left) > 0 {
		d.tell()
	}
	d.mu.Unlock()
	for i, q := range answered {
		q.answer(wire.ResultBody(q.id, results[i]))
	}
}
