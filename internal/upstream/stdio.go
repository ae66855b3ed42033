package upstream

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/internal/child"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// noiseKept is how many lines that are no messages are kept to be shown.
const noiseKept = 5

// lastWordsKept is how many bytes of stderr go into an error.
const lastWordsKept = 1000

// lastSaying is how long a leg that is closed waits for its process to read what
// was sent before.
const lastSaying = 250 * time.Millisecond

// stdioLeg is a leg to a child process. One process speaks one era.
type stdioLeg struct {
	common
	proc  *child.Process
	begun chan struct{} // closed when proc is set: the process may speak first
	done  chan struct{} // closed when the process has ended
	work  tasks

	mu    sync.Mutex // guards noise, bad
	noise []string   // the last lines on stdout that were no messages
	bad   int        // how many there were
}

// startStdio starts the process and its reader. Nothing is sent yet.
func startStdio(spec *Spec, opts *Options, creds Credentials) (*stdioLeg, error) {
	l := &stdioLeg{common: common{spec: spec, opts: opts}, begun: make(chan struct{}), done: make(chan struct{})}
	l.hello.Store(&wire.Hello{})
	base := child.BaseEnv(opts.Environ, spec.Inherit)
	proc, err := child.Start(child.Options{
		Argv:         spec.Command,
		Dir:          spec.Dir,
		Env:          child.MergeEnv(base, creds.Env),
		MaxLine:      MaxMessage,
		StopGrace:    opts.StopGrace,
		WriteTimeout: opts.WriteTimeout,
		Registry:     opts.Children,
		OnLine:       l.line,
		OnOversize:   l.tooLarge,
	})
	if err != nil {
		return nil, err
	}
	l.proc = proc
	close(l.begun)
	go func() {
		<-proc.Done()
		close(l.done) // first: who sees its request fail must see why
		l.open.end(l.exited())
	}()
	return l, nil
}

// Done is closed when the process has ended.
func (l *stdioLeg) OneStream() bool       { return true }
func (l *stdioLeg) Done() <-chan struct{} { return l.done }

// Close ends the process and everything it started. What is about to be sent,
// such as a cancellation, goes first, if the process reads it.
func (l *stdioLeg) Close() {
	if !l.ended() { // else how it ended is the better reason
		l.open.end(wasClosed)
	}
	said := make(chan struct{})
	go func() { l.work.wait(); close(said) }()
	select {
	case <-said:
	case <-l.done:
	case <-time.After(lastSaying):
	}
	l.proc.Stop(context.Background()) //nolint:errcheck // the ladder ends with KILL
	<-l.done
	<-said
}

// exited tells how the process ended.
func (l *stdioLeg) exited() endOfLeg {
	text := "it ended (" + l.proc.Exit().String() + ")"
	if tail := l.lastWords(); tail != "" {
		text += ", its last words: " + tail
	}
	return endOfLeg(text)
}

// lastWords is the end of what the process wrote to stderr, without secrets.
func (l *stdioLeg) lastWords() string {
	text := strings.TrimSpace(l.opts.Redact(l.proc.StderrTail(5)))
	if over := len(text) - lastWordsKept; over > 0 {
		text = "…" + strings.ToValidUTF8(text[over:], "")
	}
	return text
}

// line takes one line of stdout. What is no message is noise: real servers
// print banners and notices, and one of them must not end the session.
func (l *stdioLeg) line(b []byte) {
	<-l.begun
	if len(bytes.TrimSpace(b)) == 0 {
		return
	}
	m, err := wire.ScanServer(b)
	if err != nil {
		l.note(b)
		return
	}
	if m.Kind == wire.ResponseKind {
		l.answered(m)
		return
	}
	if !l.hear(l, m, nil, l.answer) {
		l.note(b)
	}
}

func (l *stdioLeg) note(b []byte) {
	text := l.opts.Redact(string(b[:min(len(b), 200)]))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bad++
	l.noise = append(l.noise, text)
	if len(l.noise) > noiseKept {
		l.noise = l.noise[1:]
	}
}

// Noise returns how many lines on stdout were no messages, and the last few.
func (l *stdioLeg) Noise() (int, []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bad, append([]string(nil), l.noise...)
}

// answer sends the answer to a request of the server without making its
// caller wait for a child that does not read.
func (l *stdioLeg) answer(body []byte) {
	l.work.start(func() { l.send(body) }) //nolint:errcheck // a broken pipe ends the leg by itself
}

func (l *stdioLeg) send(body []byte) (sent bool, err error) {
	return l.sendFor(context.Background(), body)
}

// sendFor is send for somebody who waits no longer than ctx.
func (l *stdioLeg) sendFor(ctx context.Context, body []byte) (sent bool, err error) {
	err = l.proc.SendFor(ctx, wire.OneLine(body))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		l.Retire() // it does not read: it may end what it is busy with, and gets nothing new
	}
	var se *child.SendError
	return err == nil || errors.As(err, &se) && se.Wrote, err
}

// Notify sends a notification.
func (l *stdioLeg) Notify(_ context.Context, body []byte) error {
	if _, err := l.send(body); err != nil {
		return unavailable(l.spec.Name, "does not take messages any more")
	}
	return nil
}

// Do sends out and waits for its answer; see Leg.
func (l *stdioLeg) Do(ctx context.Context, out *Outgoing, lis Listener) (*Reply, error) {
	c, err := l.open.add(out, lis, nil)
	if err != nil {
		return nil, lost(l.spec.Name, out, false, err.Error())
	}
	defer l.open.remove(c)
	if ctx.Err() != nil {
		return nil, crib.Errorf(crib.Cancelled, "%s was cancelled", out.Method)
	}
	if sent, err := l.sendFor(ctx, out.body(c.id)); err != nil {
		if !sent && ctx.Err() != nil {
			return nil, crib.Errorf(crib.Cancelled, "%s was cancelled", out.Method) // the server never saw it
		}
		select {
		case <-l.done: // the process ended: say how
			return nil, lost(l.spec.Name, out, sent, l.exited().Error())
		case <-time.After(time.Second):
		}
		return nil, lost(l.spec.Name, out, sent, "it does not take messages any more")
	}
	r, why := c.wait(ctx, l.spec.timeout(out))
	switch why {
	case timedOut:
		l.cancel(c)
		return nil, l.spec.late(out, true)
	case cancelled:
		l.cancel(c)
		return nil, crib.Errorf(crib.Cancelled, "%s was cancelled", out.Method)
	}
	if isEndOfLeg(r.err) {
		return nil, lost(l.spec.Name, out, true, r.err.Error())
	}
	if r.err != nil {
		return nil, r.err
	}
	return &Reply{Message: r.m, Era: l.Hello().Era}, nil
}

// cancel tells the server that nobody waits for c any more. Cancellations
// bypass whatever waits to be written behind a slow reader.
func (l *stdioLeg) cancel(c *call) {
	if c.out.Method == "initialize" {
		return
	}
	l.answer(cancelledBody(c.id))
}

// connectStdio starts a server's process and finds out its era: discover
// first; on another error, or when nothing came for a while, initialize on the
// same pipe, and the first valid answer wins. A process that ends during the
// probe is started once more, straight into initialize: some servers take any
// other first message as fatal.
//
// alive is called when the process shows life, or has had its time to.
func connectStdio(ctx context.Context, spec *Spec, opts *Options, era wire.Era, declare Declaration, alive func()) (Leg, []wire.Era, error) {
	if declare.Dir != "" {
		there := *spec
		there.Dir = declare.Dir
		spec = &there
	}
	creds, err := spec.Connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	l, err := startStdio(spec, opts, creds)
	if err != nil {
		return nil, nil, err
	}
	defer l.whenAlive(alive)()
	hello, err := l.negotiate(ctx, era, declare)
	if err != nil && l.ended() && era == "" {
		l.Close()
		if l, err = startStdio(spec, opts, creds); err != nil {
			return nil, nil, err
		}
		hello, err = l.negotiate(ctx, wire.Legacy, declare)
	}
	if err != nil {
		l.Close()
		return nil, nil, err
	}
	l.hello.Store(hello)
	if hello.Era == wire.Legacy {
		if _, err := l.send([]byte(initialized)); err != nil {
			l.Close()
			return nil, nil, unavailable(spec.Name, "does not take messages any more")
		}
	}
	return l, []wire.Era{hello.Era}, nil
}

// whenAlive calls f when the process shows life, after the time for that, or
// when the function it returns is called.
func (l *stdioLeg) whenAlive(f func()) (stop func()) {
	stopped := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		patience := time.NewTimer(l.opts.ProbeTimeout)
		defer patience.Stop()
		select {
		case <-l.proc.Alive():
		case <-patience.C:
		case <-stopped:
		}
		f()
	})
	return func() {
		close(stopped)
		waiting.Wait()
	}
}

// ended reports whether the process is gone or about to be.
func (l *stdioLeg) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// greeting is the outcome of one of the two first requests.
type greeting struct {
	discover bool
	reply    *Reply
	err      error
}

func (l *stdioLeg) negotiate(ctx context.Context, era wire.Era, declare Declaration) (*wire.Hello, error) {
	ctx, cancel := context.WithCancel(ctx)
	answers := make(chan greeting, 2) // room for both, so that neither is left hanging
	var asked sync.WaitGroup
	defer asked.Wait()
	defer cancel()
	ask := func(discover bool) {
		out := declare.initialize(l.opts.Version)
		if discover {
			out = declare.request(wire.Modern, l.opts.Version, "server/discover", "")
		}
		out.Forever = true // ctx holds the limit
		asked.Go(func() {
			reply, err := l.Do(ctx, out, Nobody{})
			answers <- greeting{discover, reply, err}
		})
	}
	switch era {
	case wire.Legacy:
		ask(false)
		return l.firstHello(ctx, answers, nil)
	case wire.Modern:
		ask(true)
		return l.firstHello(ctx, answers, nil)
	}
	ask(true)
	return l.firstHello(ctx, answers, func() { ask(false) })
}

// firstHello waits for the first valid answer. fallBack, if not nil, sends
// initialize behind server/discover; it is called at most once. A server that
// is slow to start finds both in its pipe and answers the one it knows.
func (l *stdioLeg) firstHello(ctx context.Context, answers <-chan greeting, fallBack func()) (*wire.Hello, error) {
	patience := time.NewTimer(l.opts.ProbeTimeout)
	defer patience.Stop()
	waiting := 1
	retreat := func() {
		if fallBack != nil {
			waiting++
			fallBack()
			fallBack = nil
		}
	}
	var last error
	for waiting > 0 {
		select {
		case <-patience.C:
			retreat()
		case g := <-answers:
			waiting--
			hello, legacy, err := l.read(g)
			if hello != nil {
				return hello, nil
			}
			if legacy {
				retreat()
			}
			last = err
		}
	}
	return nil, last
}

// read judges one answer; legacy tells that the server is worth an initialize.
func (l *stdioLeg) read(g greeting) (hello *wire.Hello, legacy bool, err error) {
	if g.err != nil {
		return nil, false, g.err
	}
	m := g.reply.Message
	if g.discover {
		v := judge(l.spec.Name, m)
		if v.hello == nil && v.err == nil {
			return nil, true, unavailable(l.spec.Name, "does not speak %s; set era: legacy or auto on its page", wire.NewestModern)
		}
		return v.hello, false, v.err
	}
	hello, err = l.welcomed(m)
	return hello, false, err
}
