// Package mcpstdio is the door for MCP clients that speak only stdio. It is a
// relay: what a client writes goes to the crib's HTTP endpoint, and what the
// crib answers goes back, both as the bytes that came. Both eras may use the
// pipe at the same time.
package mcpstdio

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// Limits and times.
const (
	MaxLine    = 16 << 20         // bytes of one message of the client; the crib takes no more over HTTP
	MaxAnswer  = 32 << 20         // bytes of one message of the crib: what a server may send, and room for what the crib adds
	MaxOpen    = 1_000            // requests of the client at one time
	Grace      = 10 * time.Second // for open requests after the client closed its end
	RetryDelay = time.Second      // before a stream that broke is opened again; doubled each time, up to maxRetry

	hurriedGrace   = time.Second      // for open requests after a signal: harnesses kill after two seconds
	maxRetry       = 30 * time.Second // between two attempts to open a stream
	ResumeAttempts = 5                // to take up the stream of one request
	maxPosting     = 256              // messages on their way at one time that are no requests
	noticeTime     = 10 * time.Second // for the crib to take a notification or a response
	deleteTime     = time.Second      // for the crib to end a session, when the relay ends
	dialTime       = 5 * time.Second  // to connect
	continueTime   = 5 * time.Second  // for the crib to say that it takes a call, before it is sent without that
)

// Options of a relay. In, Out and URL are required.
type Options struct {
	In  io.Reader
	Out io.Writer
	// URL is the crib's endpoint: …/v1/mcp or …/v1/mcp/{server}.
	URL string
	// Host is sent as the Host header, where the crib is to be called by
	// another name than the address in URL; "" is that address.
	Host string
	// Root is the folder that the client works in, as a file URI; "" says
	// nothing of it.
	Root string
	// Token returns the bearer token. It is asked again when the crib refuses
	// the last one. Nil, or an empty token, is none.
	Token func(ctx context.Context) (string, error)
	// Ensure starts a crib if none answers, and returns when one does. It is
	// called at the start, and again when a request finds that nobody listens.
	Ensure func(ctx context.Context) error
	Log    *slog.Logger

	Grace   time.Duration // 0 is Grace
	Retry   time.Duration // 0 is RetryDelay
	MaxLine int           // 0 is MaxLine
}

// relay is one run.
type relay struct {
	opts Options
	log  *slog.Logger
	out  *output
	crib *client
	life context.Context // ends with the run
	end  context.CancelFunc
	stop <-chan struct{} // closed when nothing more is taken from the client
	open openRequests

	calls   sync.WaitGroup // what came from the client and is on its way
	work    sync.WaitGroup // everything else that the run waits for
	posting chan struct{}  // a place for each message on its way that is no request

	// Only the goroutine of Run touches these.
	talk      *conversation // what the client opened with initialize last, nil before
	delivered chan struct{} // closed when the crib has the legacy notification that came last
}

// Run relays until the client closes In, ctx ends or Out cannot be written,
// which is the only error but that of wrong options. Open requests may finish
// for Grace after the first, for a second after ctx ended. A caller that writes
// to standard output has to ignore SIGPIPE. A read of In that does not return
// when ctx ends is left behind.
func Run(ctx context.Context, o Options) error {
	r, err := newRelay(ctx, o)
	if err != nil {
		return err
	}
	r.crib.start.begin()
	lines := make(chan line)
	go readLines(o.In, r.opts.MaxLine, lines, r.life.Done())
	reading := true
	for reading {
		select {
		case l, ok := <-lines:
			if reading = ok; ok {
				r.take(l)
			}
		case <-ctx.Done():
			reading = false
		case <-r.out.failed:
			reading = false
		}
	}
	r.finish(ctx)
	return r.out.error()
}

func newRelay(ctx context.Context, o Options) (*relay, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" {
		return nil, crib.Errorf(crib.Invalid, "%q is no URL of a crib; write it like http://127.0.0.1:8090/v1/mcp", o.URL)
	}
	if o.In == nil || o.Out == nil {
		return nil, errors.New("mcpstdio: In and Out are required")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Grace == 0 {
		o.Grace = Grace
	}
	if o.Retry == 0 {
		o.Retry = RetryDelay
	}
	if o.MaxLine == 0 {
		o.MaxLine = MaxLine
	}
	r := &relay{opts: o, log: o.Log, out: newOutput(o.Out), stop: ctx.Done(), posting: make(chan struct{}, maxPosting), delivered: make(chan struct{})}
	close(r.delivered)
	// Requests outlive ctx by a moment: that is what the grace is for.
	r.life, r.end = context.WithCancel(context.WithoutCancel(ctx))
	r.open.init()
	r.crib = newClient(u, o.Host, o.Token, &starter{ensure: o.Ensure, life: r.life, work: &r.work})
	r.crib.root = o.Root
	return r, nil
}

// finish lets open requests end for a moment, ends everything that is left and
// waits for it.
func (r *relay) finish(ctx context.Context) {
	r.open.endSubscriptions()
	timer := time.NewTimer(r.opts.Grace)
	defer timer.Stop()
	answered := waiting(&r.calls)
	hurry := ctx.Done()
wait:
	for {
		select {
		case <-answered:
			break wait
		case <-timer.C:
			break wait
		case <-r.out.failed:
			break wait
		case <-hurry:
			hurry = nil
			timer.Reset(min(r.opts.Grace, hurriedGrace))
		}
	}
	if r.talk != nil {
		r.talk.end()
		r.deleteSession(r.talk.current())
	}
	r.end()
	select {
	case <-waiting(&r.calls, &r.work):
	case <-time.After(hurriedGrace):
		// A client that neither reads nor leaves holds its writers. The end of
		// the process frees them.
	}
	r.crib.close()
}

// waiting is closed when the groups are done.
func waiting(groups ...*sync.WaitGroup) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, g := range groups {
			g.Wait()
		}
	}()
	return done
}
