package mcptest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// peerArg is the first argument by which a test binary knows that it is to be
// a peer; orphanArg makes it the child of one.
const (
	peerArg   = "mcptest-peer"
	orphanArg = "mcptest-orphan"
)

// peerLife ends a peer that a test forgot.
const peerLife = 10 * time.Minute

// Peer returns the command of a stdio peer: this test binary with flags. The
// package under test must call RunPeerIfAsked in its TestMain.
//
// Which protocol: -era modern|legacy|dual|first, -version V, -instructions T,
// -capabilities JSON, -tools FILE, -page-size N, -cursor-loop, -dup-tool,
// -discover-error CODE, -silent-discover, -discover-delay D,
// -tasks, -list-changed-on TOOL, -line N (bytes of big), -ledger FILE.
//
// How the pipe behaves: -banner TEXT (Go escapes, before the first line), -bom,
// -crlf, -noise (stray lines behind each reply), -stderr N (bytes without line
// end, at the start and before each answer), -delay D (before anything is
// read), -serial (one request at a time), -exit-unless-initialize (as the first
// message), -die-on TOOL (SIGKILL itself in the call), -exit-code N (of every
// exit), -ignore-term, -ignore-eof, -grandchild (starts a process that ignores
// both and shares the pipes), -record FILE (every line that came), -starts FILE
// (a line for each start: the process id; then that of the grandchild, if any).
func Peer(flags ...string) []string {
	self, err := os.Executable()
	if err != nil {
		panic(err) // a test binary that cannot find itself can test nothing
	}
	return append([]string{self, peerArg}, flags...)
}

// RunPeerIfAsked turns the process into a stdio peer, and never returns, if it
// was started with the command that Peer returns. Call it first in TestMain.
func RunPeerIfAsked() {
	if len(os.Args) < 2 {
		return
	}
	switch os.Args[1] {
	case peerArg:
		time.AfterFunc(peerLife, func() { exit(99) })
		exit(runPeer(os.Args[2:]))
	case orphanArg:
		time.AfterFunc(peerLife, func() { exit(99) })
		ignoreTerm()
		select {}
	}
}

// exit ends the process at once. os.Exit would linger for a second under the
// race detector.
func exit(code int) { syscall.Exit(code) }

// pipeOptions say how a stdio peer treats its pipes.
type pipeOptions struct {
	banner               string
	bom, crlf, noise     bool
	stderr               int
	delay                time.Duration
	serial               bool
	exitUnlessInitialize bool
	exitCode             int
	ignoreTerm           bool
	ignoreEOF            bool
	grandchild           bool
	record               string
	starts               string
}

func parseFlags(args []string) (Options, pipeOptions, error) {
	var o Options
	var p pipeOptions
	fs := flag.NewFlagSet(peerArg, flag.ContinueOnError)
	fs.StringVar(&o.Era, "era", EraDual, "")
	fs.StringVar(&o.Version, "version", "", "")
	fs.StringVar(&o.Instructions, "instructions", "", "")
	fs.StringVar(&o.Capabilities, "capabilities", "", "")
	toolsFile := fs.String("tools", "", "")
	fs.IntVar(&o.PageSize, "page-size", 0, "")
	fs.BoolVar(&o.CursorLoop, "cursor-loop", false, "")
	fs.BoolVar(&o.DupTool, "dup-tool", false, "")
	fs.IntVar(&o.DiscoverError, "discover-error", 0, "")
	fs.BoolVar(&o.SilentDiscover, "silent-discover", false, "")
	fs.DurationVar(&o.DiscoverDelay, "discover-delay", 0, "")
	fs.BoolVar(&o.Tasks, "tasks", false, "")
	fs.StringVar(&o.ListChangedOn, "list-changed-on", "", "")
	fs.StringVar(&o.DieOn, "die-on", "", "")
	fs.IntVar(&o.BigLine, "line", 0, "")
	fs.StringVar(&o.Ledger, "ledger", "", "")

	fs.StringVar(&p.banner, "banner", "", "")
	fs.BoolVar(&p.bom, "bom", false, "")
	fs.BoolVar(&p.crlf, "crlf", false, "")
	fs.BoolVar(&p.noise, "noise", false, "")
	fs.IntVar(&p.stderr, "stderr", 0, "")
	fs.DurationVar(&p.delay, "delay", 0, "")
	fs.BoolVar(&p.serial, "serial", false, "")
	fs.BoolVar(&p.exitUnlessInitialize, "exit-unless-initialize", false, "")
	fs.IntVar(&p.exitCode, "exit-code", 0, "")
	fs.BoolVar(&p.ignoreTerm, "ignore-term", false, "")
	fs.BoolVar(&p.ignoreEOF, "ignore-eof", false, "")
	fs.BoolVar(&p.grandchild, "grandchild", false, "")
	fs.StringVar(&p.record, "record", "", "")
	fs.StringVar(&p.starts, "starts", "", "")
	if err := fs.Parse(args); err != nil {
		return o, p, err
	}
	if fs.NArg() > 0 {
		return o, p, fmt.Errorf("mcptest peer: unknown argument %q", fs.Arg(0))
	}
	return o, p, finishOptions(&o, &p, *toolsFile)
}

func finishOptions(o *Options, p *pipeOptions, toolsFile string) error {
	if o.Era == "both" {
		o.Era = EraDual
	}
	var errs []error
	if toolsFile != "" {
		raw, err := os.ReadFile(toolsFile)
		errs = append(errs, err)
		o.Tools = string(raw)
	}
	if p.banner != "" {
		banner, err := strconv.Unquote(`"` + p.banner + `"`)
		errs = append(errs, err)
		p.banner = banner
	}
	return errors.Join(errs...)
}
