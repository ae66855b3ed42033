package child

import (
	"errors"
	"os"
	"os/exec"
)

// pipes are the three pipes of a child. They are our own and not those of
// package exec, whose Wait closes them or waits for them: a grandchild that
// keeps one open must not decide when the child has ended.
type pipes struct {
	stdin, stdout, stderr *os.File // our ends
	theirs                []*os.File
}

func openPipes(cmd *exec.Cmd) (*pipes, error) {
	p := &pipes{}
	var errs [3]error
	open := func(err *error) (r, w *os.File) {
		r, w, *err = os.Pipe()
		return r, w
	}
	var stdin, stdout, stderr *os.File
	stdin, p.stdin = open(&errs[0])
	p.stdout, stdout = open(&errs[1])
	p.stderr, stderr = open(&errs[2])
	p.theirs = []*os.File{stdin, stdout, stderr}
	if err := errors.Join(errs[:]...); err != nil {
		p.closeChildEnds()
		p.closeOurEnds()
		return nil, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	return p, nil
}

func (p *pipes) closeChildEnds() {
	for _, f := range p.theirs {
		f.Close() // a nil or closed file only returns an error
	}
}

func (p *pipes) closeOurEnds() {
	p.stdin.Close()
	p.stdout.Close()
	p.stderr.Close()
}
