package mcptest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// fillerChunk is how many bytes of filler are written at once.
const fillerChunk = 64 << 10

// noise is what a careless server prints between its replies.
var noise = []string{"debug: replied", `{"level":"info","msg":"replied"}`, "[1,2]", "42", "null", ""}

// errInputEnded is why calls end whose client did not cancel them.
var errInputEnded = errors.New("the input ended")

// stdioPeer is a Server on the pipes of its process.
type stdioPeer struct {
	server *Server
	opts   pipeOptions
	conn   *conn
	begun  bool // the first message has come

	mu  sync.Mutex // guards out, the stream of bytes
	out io.Writer
}

func ignoreTerm() { signal.Ignore(syscall.SIGTERM) }

// runPeer serves until stdin ends and returns the exit code.
func runPeer(args []string) int {
	opts, pipe, err := parseFlags(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 64
	}
	p := &stdioPeer{server: NewServer(opts), opts: pipe, out: os.Stdout}
	p.conn = newConn(p.send)
	p.server.addConn(p.conn)
	if err := p.begin(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 70
	}
	if code, ended := p.read(bufio.NewReader(os.Stdin)); ended {
		return code
	}
	if pipe.ignoreEOF {
		select {}
	}
	return pipe.exitCode
}

// begin does what comes before the first message is read.
func (p *stdioPeer) begin() error {
	if p.opts.ignoreTerm {
		ignoreTerm()
	}
	if p.opts.ignoreEOF {
		signal.Ignore(syscall.SIGPIPE)
	}
	if err := p.noteStart(os.Getpid()); err != nil {
		return err
	}
	if p.opts.grandchild {
		if err := p.startOrphan(); err != nil {
			return err
		}
	}
	p.floodStderr()
	time.Sleep(p.opts.delay)
	if p.opts.bom {
		p.write([]byte("\uFEFF"))
	}
	p.write([]byte(p.opts.banner))
	return nil
}

func (p *stdioPeer) noteStart(pid int) error {
	if p.opts.starts == "" {
		return nil
	}
	return appendLine(p.opts.starts, fmt.Sprint(pid))
}

func (p *stdioPeer) startOrphan() error {
	cmd := exec.Command(os.Args[0], orphanArg)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	return p.noteStart(cmd.Process.Pid)
}

func (p *stdioPeer) floodStderr() {
	if p.opts.stderr > 0 {
		os.Stderr.Write(bytes.Repeat([]byte("e"), p.opts.stderr))
	}
}

// read takes line after line. ended says that the peer has to exit at once.
func (p *stdioPeer) read(in *bufio.Reader) (code int, ended bool) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(errInputEnded)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return 0, false // what has no line end is no message
		}
		line = bytes.TrimRight(line, "\r\n")
		if p.opts.record != "" {
			if err := appendLine(p.opts.record, string(line)); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 70, true
			}
		}
		m, par, err := readMessage(line)
		if err != nil {
			p.send([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no JSON-RPC message"}}`))
			continue
		}
		if !p.begun && p.opts.exitUnlessInitialize && m.Method != "initialize" {
			fmt.Fprintf(os.Stderr, "expected initialize, got %s\n", m.Method)
			return max(p.opts.exitCode, 1), true
		}
		p.begun = true
		p.take(ctx, m, par)
	}
}

// take serves a message: requests side by side, unless the peer is serial or
// the others depend on it.
func (p *stdioPeer) take(ctx context.Context, m message, par params) {
	x := &exchange{
		ctx:     ctx,
		conn:    p.conn,
		msg:     m,
		par:     par,
		era:     p.server.eraOf(m, par, p.conn),
		send:    p.send,
		carrier: p,
	}
	serve := func() {
		body := p.server.serve(x).body(m.ID, x.era)
		if body == nil {
			return
		}
		p.floodStderr()
		p.send(body)
		if p.opts.noise {
			for _, line := range noise {
				p.send([]byte(line))
			}
		}
	}
	if p.opts.serial || !m.isRequest() || m.Method == "initialize" {
		serve()
		return
	}
	go serve()
}

// send writes one line.
func (p *stdioPeer) send(line []byte) {
	end := "\n"
	if p.opts.crlf {
		end = "\r\n"
	}
	p.write(append(bytes.Clone(line), end...))
}

func (p *stdioPeer) write(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mustWrite(b)
}

// mustWrite reports whether somebody still reads. If not, it ends the peer,
// unless that ignores such things. The caller holds mu.
func (p *stdioPeer) mustWrite(b []byte) bool {
	_, err := p.out.Write(b)
	if err != nil && !p.opts.ignoreEOF {
		exit(p.opts.exitCode)
	}
	return err == nil
}

// raw implements carrier.
func (p *stdioPeer) raw(start []byte, size int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mustWrite(start)
	if size < 0 {
		exit(p.opts.exitCode)
	}
	filler := bytes.Repeat([]byte("x"), fillerChunk)
	for left := size - len(start); size == 0 || left > 0; left -= fillerChunk {
		if !p.mustWrite(filler[:fillerLen(size, left)]) {
			return true
		}
	}
	p.mustWrite([]byte("\n"))
	return true
}

func fillerLen(size, left int) int {
	if size == 0 {
		return fillerChunk
	}
	return min(left, fillerChunk)
}

// die implements carrier.
func (p *stdioPeer) die() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		exit(137)
	}
}
