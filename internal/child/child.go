// Package child runs a child process that speaks lines on stdin and stdout:
// it finds the command, gives it exactly the environment it was given, reads
// its lines within a bound, keeps the end of its stderr, and ends it with
// everything that it started.
//
// No shell is ever involved.
package child

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// Defaults of Options, and limits that are not options.
const (
	DefaultMaxLine      = 16 << 20         // bytes of one line on stdout
	DefaultStderrKeep   = 64 << 10         // bytes of stderr that are kept
	DefaultStopGrace    = 2 * time.Second  // each rung of the ladder of Stop
	DefaultWriteTimeout = 30 * time.Second // one message to a child that does not read
	OversizePrefix      = 4 << 10          // bytes of a line over MaxLine that are shown to OnOversize

	readChunk = 64 << 10         // bytes of one read from stdout or stderr
	hookQueue = 64               // chunks of stderr that wait for OnStderr
	afterKill = 10 * time.Second // how long Stop waits for the system to end a killed process
	// drainGrace is how long the output may still come when the child has
	// exited and something it started holds the pipes open. It is short, since
	// open calls wait for it.
	drainGrace = 500 * time.Millisecond
)

// Options say what to run and where its output goes. Argv and one of
// OnLine and OnOutput are required.
type Options struct {
	// Argv is the command and its arguments. Argv[0] is looked up in the PATH
	// of Env; "~/" at its start is the HOME of Env. With a separator in it, it
	// is a file, taken from Dir if it is relative.
	Argv []string
	// Dir is the folder that the child starts in, the crib's own if empty.
	// "~/" at its start is the HOME of Env.
	Dir string
	// Env is the complete environment of the child, as NAME=value. Nothing is
	// inherited; an empty Env is an empty environment. See BaseEnv.
	Env []string

	MaxLine      int           // bytes of one line, without its end; 0 is DefaultMaxLine
	StderrKeep   int           // bytes; 0 is DefaultStderrKeep
	StopGrace    time.Duration // 0 is DefaultStopGrace
	WriteTimeout time.Duration // 0 is DefaultWriteTimeout

	// Registry remembers the child until it has ended, and marks it; nil does
	// not, and leaves Env as it is.
	Registry *Registry

	// OnLine gets each line of stdout that is not blank, in order and from one
	// goroutine, without line end and byte order mark. It may keep the slice.
	// The child waits while OnLine works, and so do Done and Stop.
	OnLine func(line []byte)
	// OnOutput, if set, gets stdout in chunks as it comes, in place of OnLine and
	// OnOversize, and from one goroutine. It must not keep the slice.
	OnOutput func(chunk []byte)
	// OnOversize, if set, gets the first OversizePrefix bytes of a line that is
	// longer than MaxLine, as soon as it is. The rest of the line is dropped.
	// It is called from the goroutine that calls OnLine.
	OnOversize func(prefix []byte)
	// OnStderr, if set, gets what the child writes to stderr, in chunks. Chunks
	// are dropped and counted when it is slower than the child.
	OnStderr func(chunk []byte)
}

func (o *Options) complete() error {
	if len(o.Argv) == 0 || o.Argv[0] == "" {
		return crib.Errorf(crib.Invalid, "no command to start; give a program and its arguments")
	}
	if o.OnLine == nil && o.OnOutput == nil {
		return crib.Errorf(crib.Internal, "child: OnLine is missing")
	}
	if o.OnOversize == nil {
		o.OnOversize = func([]byte) {}
	}
	setDefault(&o.MaxLine, DefaultMaxLine)
	setDefault(&o.StderrKeep, DefaultStderrKeep)
	setDefault(&o.StopGrace, DefaultStopGrace)
	setDefault(&o.WriteTimeout, DefaultWriteTimeout)
	return nil
}

func setDefault[T int | time.Duration](v *T, otherwise T) {
	if *v <= 0 {
		*v = otherwise
	}
}

// Process is a started child.
type Process struct {
	opts   Options
	cmd    *exec.Cmd
	stdin  *os.File
	stderr *stderrLog
	group  group
	record *record // nil without a Registry

	slot chan struct{} // holds one token: the right to write to stdin
	buf  []byte        // the message being written; belongs to the holder of the token

	alive     chan struct{}
	aliveOnce sync.Once
	done      chan struct{}
	exit      Exit // set before done is closed
	ladder    ladder
}

// Start starts the child. An error of code Unavailable means that it could not
// be started; its text says which PATH was searched.
func Start(opts Options) (*Process, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	cmd, err := command(opts)
	if err != nil {
		return nil, err
	}
	record, err := opts.Registry.enter(opts.Argv[0])
	if err != nil {
		return nil, err
	}
	cmd.Env = record.environ(cmd.Env)
	pipes, err := openPipes(cmd)
	if err != nil {
		record.forget()
		return nil, crib.Errorf(crib.Unavailable, "open pipes for %s: %v", opts.Argv[0], err)
	}
	p := &Process{
		opts:   opts,
		cmd:    cmd,
		record: record,
		stdin:  pipes.stdin,
		stderr: newStderrLog(opts.StderrKeep, opts.OnStderr),
		slot:   make(chan struct{}, 1),
		alive:  make(chan struct{}),
		done:   make(chan struct{}),
		ladder: newLadder(),
	}
	p.slot <- struct{}{}
	started := make(chan error)
	go p.run(pipes, started)
	if err := <-started; err != nil {
		return nil, startError(cmd, err)
	}
	return p, nil
}

// run starts the child, waits for it, and closes done when nothing of it is
// left. It keeps its thread: on Linux the child is told of the death of the
// thread that started it, which must therefore live as long as the child.
func (p *Process) run(pipes *pipes, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.begin()
	pipes.closeChildEnds()
	if err != nil {
		p.record.end()
		pipes.closeOurEnds()
		p.stderr.close()
		<-p.stderr.hookDone
		started <- err
		return
	}
	drained := p.drain(pipes)
	started <- nil

	reap := awaitExit(p.cmd)
	p.stdin.Close() // whatever the child left behind is told as well
	grace := min(drainGrace, p.opts.StopGrace)
	complete := within(drained, grace)
	p.group.end()
	p.record.end() // before the id of the child, by which its group is proved, is free
	p.exit = exitOf(p.cmd, reap())
	if !complete && !within(drained, grace) {
		// A process that left the group, and carries no mark, still holds the
		// pipes. It cannot be ended, but it need not be waited for.
		pipes.closeOurEnds()
	}
	<-drained
	pipes.closeOurEnds()
	<-p.slot // the last write has ended, and there will be no other
	p.stderr.close()
	within(p.stderr.hookDone, grace)
	close(p.done)
}

// begin starts the child as the head of a group, and registers it. Of a child
// that could not be registered nothing is left.
func (p *Process) begin() error {
	if err := p.cmd.Start(); err != nil {
		return err
	}
	if err := p.group.begin(p.cmd.Process); err != nil {
		return err
	}
	if err := p.record.started(p.Pid()); err != nil {
		p.group.end()
		_ = p.cmd.Wait() // it was killed
		return fmt.Errorf("register it in the data folder: %w", err)
	}
	return nil
}

// drain reads stdout and stderr, each in its own goroutine, and returns a
// channel that is closed when both have ended.
func (p *Process) drain(pipes *pipes) <-chan struct{} {
	var readers sync.WaitGroup
	readers.Go(func() {
		if p.opts.OnOutput != nil {
			p.read(pipes.stdout, p.opts.OnOutput)
			return
		}
		lines := splitter{max: p.opts.MaxLine, onLine: p.opts.OnLine, onOversize: p.opts.OnOversize}
		p.read(pipes.stdout, lines.write)
		lines.end()
	})
	readers.Go(func() { p.read(pipes.stderr, p.stderr.write) })
	drained := make(chan struct{})
	go func() {
		readers.Wait()
		close(drained)
	}()
	return drained
}

func (p *Process) read(from *os.File, take func(chunk []byte)) {
	buf := make([]byte, readChunk)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			p.aliveOnce.Do(func() { close(p.alive) })
			take(buf[:n])
		}
		if err != nil {
			return // EOF, or we closed our end
		}
	}
}

// within reports whether c was closed before d had passed.
func within(c <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
		return false
	}
}

// Alive is closed when the child wrote its first byte, to stdout or stderr.
// Before that it may still be importing or installing itself.
func (p *Process) Alive() <-chan struct{} { return p.alive }

// Done is closed when the child has exited, everything it wrote was handed
// over, and the processes that it left were killed: those of its group and,
// with a Registry on Linux, those that carry its mark. A process that keeps
// stdout or stderr open after that delays it by a second at most.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit says how the child ended. It waits for Done.
func (p *Process) Exit() Exit {
	<-p.done
	return p.exit
}

// Pid is the process id of the child.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// StderrTail returns the last n lines of stderr, as far as they were kept. A
// line that was redrawn with carriage returns is shown as it looked last.
// Control characters are kept.
func (p *Process) StderrTail(n int) string { return p.stderr.tail(n) }

// StderrDropped counts the chunks of stderr that OnStderr missed because it
// was too slow.
func (p *Process) StderrDropped() int64 { return p.stderr.dropped.Load() }

// Stop ends the child and everything in its process group: it closes stdin,
// waits StopGrace, asks the group to terminate (SIGTERM; not on Windows),
// waits StopGrace and kills it (2025-11-25, Lifecycle, Shutdown). It returns
// when Done is closed. When ctx ends first, or the Registry is told to hurry,
// the group is killed at once. Stop may be called often, also after the child
// has ended by itself.
func (p *Process) Stop(ctx context.Context) error {
	p.ladder.climb(p)
	select {
	case <-p.ladder.end:
	case <-ctx.Done():
		p.ladder.skipWaits()
		<-p.ladder.end
	}
	select {
	case <-p.done:
		return nil
	default:
		return crib.Errorf(crib.Internal, "process %d (%s) still runs %v after it was killed", p.Pid(), p.opts.Argv[0], afterKill)
	}
}

// ladder is the way down: each rung is taken only when the one before did not
// help.
type ladder struct {
	begin sync.Once
	skip  sync.Once
	hurry chan struct{} // closed: no more waiting between rungs
	end   chan struct{} // closed: the last rung was taken or the child is gone
}

func newLadder() ladder {
	return ladder{hurry: make(chan struct{}), end: make(chan struct{})}
}

func (l *ladder) climb(p *Process) {
	l.begin.Do(func() {
		go func() {
			defer close(l.end)
			p.stdin.Close()
			if l.gone(p) {
				return
			}
			p.group.terminate()
			if l.gone(p) {
				return
			}
			p.group.kill()
			within(p.done, afterKill)
		}()
	})
}

func (l *ladder) skipWaits() { l.skip.Do(func() { close(l.hurry) }) }

// gone waits for one rung and reports whether the child is gone.
func (l *ladder) gone(p *Process) bool {
	timer := time.NewTimer(p.opts.StopGrace)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
	case <-l.hurry:
	case <-p.opts.Registry.Hurried().Done():
	}
	return false
}
