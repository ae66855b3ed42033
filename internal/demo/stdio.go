package demo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// Limits of the workshop's pipe.
const (
	maxLine = 256 << 10 // bytes of one message
	maxOpen = 64        // requests at one time; the client has to wait for more
)

// Stdio serves the workshop until in ends: one message on a line, both eras.
// Open requests are answered before it returns. Its error is that of in or
// out. A nil log is none.
func Stdio(in io.Reader, out io.Writer, log *slog.Logger) error {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return newPipe(newWorkshop(passTime), out, log).serve(in)
}

// pipe serves one client over stdio.
type pipe struct {
	server *server
	log    *slog.Logger
	slots  chan struct{}
	work   sync.WaitGroup

	writing sync.Mutex // guards out and failed
	out     io.Writer
	failed  error

	mu   sync.Mutex // guards open
	open map[string]context.CancelFunc
}

func newPipe(s *server, out io.Writer, log *slog.Logger) *pipe {
	return &pipe{server: s, log: log, out: out, slots: make(chan struct{}, maxOpen), open: make(map[string]context.CancelFunc)}
}

func (p *pipe) serve(in io.Reader) error {
	r := bufio.NewReaderSize(in, maxLine)
	for {
		line, more, err := r.ReadLine()
		if err != nil {
			p.work.Wait()
			if errors.Is(err, io.EOF) {
				return p.err()
			}
			return fmt.Errorf("read from the client: %w", err)
		}
		if more {
			for more && err == nil {
				_, more, err = r.ReadLine()
			}
			p.send(wire.ErrorBody(nil, wire.CodeInvalidRequest, fmt.Sprintf("a message may have at most %d bytes", maxLine), nil))
			continue
		}
		if len(bytes.TrimSpace(line)) > 0 {
			p.take(bytes.Clone(line))
		}
		if err := p.err(); err != nil {
			p.cancelAll()
			p.work.Wait()
			return err
		}
	}
}

// take serves one message: requests side by side.
func (p *pipe) take(line []byte) {
	m, err := wire.Scan(line)
	if err != nil {
		code := wire.CodeInvalidRequest
		if errors.Is(err, wire.ErrParse) {
			code = wire.CodeParse
		}
		p.send(wire.ErrorBody(nil, code, err.Error(), nil))
		return
	}
	switch {
	case m.Method == "notifications/cancelled":
		p.cancel(string(m.Params.RequestID.In(line)))
		return
	case m.Kind != wire.RequestKind:
		return
	}
	p.slots <- struct{}{}
	id := string(m.ID.In(line))
	ctx, cancel := context.WithCancel(context.Background())
	p.mu.Lock()
	p.open[id] = cancel
	p.mu.Unlock()
	p.work.Go(func() {
		defer func() { <-p.slots }()
		defer cancel()
		p.log.Debug("request", "method", m.Method)
		body := p.server.handle(ctx, eraOf(m, ""), m, p.send)
		p.mu.Lock()
		delete(p.open, id)
		p.mu.Unlock()
		if ctx.Err() == nil { // a cancelled request gets no answer
			p.send(body)
		}
	})
}

func (p *pipe) cancel(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cancel := p.open[id]; cancel != nil {
		cancel()
	}
}

func (p *pipe) cancelAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cancel := range p.open {
		cancel()
	}
}

func (p *pipe) send(message []byte) {
	p.writing.Lock()
	defer p.writing.Unlock()
	if p.failed != nil {
		return
	}
	if _, err := p.out.Write(append(message, '\n')); err != nil {
		p.failed = fmt.Errorf("write to the client: %w", err)
	}
}

func (p *pipe) err() error {
	p.writing.Lock()
	defer p.writing.Unlock()
	return p.failed
}
