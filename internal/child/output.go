package child

import (
	"context"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// Output runs a program that needs no input to its end, and returns what it
// wrote to stdout and how it exited. It is ended, with its group and at once,
// when ctx ends, which is an error that wraps ctx.Err, or when it writes more
// than max bytes, a TooLarge error. An exit code is no error. What it left
// running neither spoils its output nor outlives it by more than a second.
//
// Of opts, the functions are not used.
func Output(ctx context.Context, opts Options, max int) ([]byte, Exit, error) {
	var out []byte
	over := make(chan struct{})
	isOver := false
	opts.OnOutput = func(chunk []byte) {
		if isOver {
			return
		}
		if len(out)+len(chunk) > max {
			isOver = true
			close(over)
			return
		}
		out = append(out, chunk...)
	}
	opts.OnStderr = nil
	if err := ctx.Err(); err != nil {
		return nil, Exit{}, err
	}
	p, err := Start(opts)
	if err != nil {
		return nil, Exit{}, err
	}
	p.stdin.Close()
	select {
	case <-p.Done():
	case <-over:
	case <-ctx.Done():
	}
	err = ctx.Err()
	select {
	case <-p.Done():
		err = nil // it was in time
	default:
		if stop := p.kill(); stop != nil {
			return nil, Exit{}, stop
		}
	}
	if err == nil && isOver { // Done orders this read behind the last chunk
		err = crib.Errorf(crib.TooLarge, "%s wrote more than %d bytes", opts.Argv[0], max)
	}
	if err != nil {
		return nil, p.Exit(), err
	}
	return out, p.Exit(), nil
}

// kill ends the child and its group at once.
func (p *Process) kill() error {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	return p.Stop(now)
}
