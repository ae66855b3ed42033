package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// keepBuffer is the greatest write buffer, in bytes, that is kept for the next
// message.
const keepBuffer = 64 << 10

// SendError says why a message was not sent whole. Its code is Unavailable
// when no byte of it was written and Unknown when some were.
type SendError struct {
	// Wrote reports that the child may have got some of the message, or will.
	Wrote bool
	err   error
}

func (e *SendError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *SendError) Unwrap() error { return e.err }

// Send writes one message and a line feed. Messages never mix, whoever sends
// them. The message must lie on one line: a line feed or carriage return in it
// is refused, since some children read either as its end.
//
// A child that does not read keeps Send for WriteTimeout at most. A message of
// which no byte was written by then is withdrawn. The rest of one that was
// begun is still written when the child reads again, so that the stream stays
// whole; until then nothing else can be sent. Whether a child that does not
// read should be ended is for the owner to decide: it may be busy with a call.
//
// Every error that is not of code Invalid is a *SendError.
func (p *Process) Send(line []byte) error { return p.SendFor(context.Background(), line) }

// SendFor is Send for somebody who waits no longer than ctx: a message whose
// turn to be written has not come by then is withdrawn.
func (p *Process) SendFor(ctx context.Context, line []byte) error {
	if bytes.ContainsAny(line, "\r\n") {
		return crib.Errorf(crib.Invalid, "a message to a child process contains a line break; write it on one line")
	}
	deadline := time.Now().Add(p.opts.WriteTimeout)
	if err := p.acquire(ctx); err != nil {
		return p.sendError(false, err)
	}
	p.buf = append(append(p.buf[:0], line...), '\n')
	if err := p.stdin.SetWriteDeadline(deadline); errors.Is(err, os.ErrNoDeadline) {
		return p.sendAside(deadline)
	}
	n, err := p.stdin.Write(p.buf)
	if n > 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		p.finish(p.buf[n:])
		return p.sendError(true, err)
	}
	p.release()
	if err != nil {
		return p.sendError(n > 0, err)
	}
	return nil
}

// acquire takes the token that allows writing. It gives up after WriteTimeout,
// with ctx, and when the child is gone.
func (p *Process) acquire(ctx context.Context) error {
	select {
	case <-p.slot:
		return nil
	default:
	}
	timer := time.NewTimer(p.opts.WriteTimeout)
	defer timer.Stop()
	select {
	case <-p.slot:
		return nil
	case <-timer.C:
		return os.ErrDeadlineExceeded
	case <-ctx.Done():
		return ctx.Err()
	case <-p.done:
		return os.ErrClosed
	}
}

func (p *Process) release() {
	if cap(p.buf) > keepBuffer {
		p.buf = nil
	}
	p.slot <- struct{}{}
}

// finish writes the rest of a message that was begun, however long it takes,
// and then lets others write. It ends when stdin is closed at the latest.
func (p *Process) finish(rest []byte) {
	go func() { // holds the token, which run takes before it closes done
		defer p.release()
		if p.stdin.SetWriteDeadline(time.Time{}) == nil {
			_, _ = p.stdin.Write(rest) // an error means that the child or its stdin is gone
		}
	}()
}

// sendAside writes the message where the system knows no deadlines for pipes.
// What was begun there cannot be taken back, and counts as written.
func (p *Process) sendAside(deadline time.Time) error {
	type outcome struct {
		n   int
		err error
	}
	result := make(chan outcome, 1)
	go func() { // holds the token, which run takes before it closes done
		defer p.release()
		n, err := p.stdin.Write(p.buf)
		result <- outcome{n, err}
	}()
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case r := <-result:
		if r.err != nil {
			return p.sendError(r.n > 0, r.err)
		}
		return nil
	case <-timer.C:
		return p.sendError(true, os.ErrDeadlineExceeded)
	}
}

func (p *Process) sendError(wrote bool, cause error) error {
	code, outcome := crib.Unavailable, "nothing was sent"
	if wrote {
		code, outcome = crib.Unknown, "it is not known whether the message arrived"
	}
	why := "the process has closed its input or ended"
	if errors.Is(cause, os.ErrDeadlineExceeded) {
		why = fmt.Sprintf("the process has not read its input for %v", p.opts.WriteTimeout)
	}
	return &SendError{Wrote: wrote, err: fmt.Errorf("%w: %w", crib.Errorf(code, "%s; %s", why, outcome), cause)}
}
