package child

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary is its own child: with helperArg as its first argument it
// does what the second one names.
const helperArg = "child-helper"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == helperArg {
		helpers[os.Args[2]](os.Args[3:])
		syscall.Exit(0) // os.Exit lingers for a second under the race detector
	}
	goleak.VerifyTestMain(m)
}

func helper(args ...string) []string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return append([]string{self, helperArg}, args...)
}

var helpers = map[string]func(args []string){
	"print": func(args []string) { fmt.Fprint(os.Stdout, must(strconv.Unquote(args[0]))) },
	"exit":  func(args []string) { syscall.Exit(must(strconv.Atoi(args[0]))) },
	"dir":   func([]string) { fmt.Fprintln(os.Stdout, must(os.Getwd())) },
	"self":  printSelf,
	"echo":  echo,
	"flood": flood,
	"late":  late,
	"farewell": func([]string) {
		io.Copy(io.Discard, os.Stdin)
		fmt.Fprintln(os.Stdout, "bye")
	},
	"polite": func([]string) { fmt.Fprintln(os.Stdout, os.Getpid()); io.Copy(io.Discard, os.Stdin) },
	"deaf":   func([]string) { fmt.Fprintln(os.Stdout, os.Getpid()); forever() },
	"stubborn": func([]string) {
		signal.Ignore(syscall.SIGTERM)
		fmt.Fprintln(os.Stdout, os.Getpid())
		forever()
	},
	"launcher": launcher,
	"endless":  endless,
	"doomed":   doomed,
	"crib":     registering,
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// forever waits without the runtime noticing that nothing can happen.
func forever() {
	for {
		<-time.After(time.Hour)
	}
}

func printSelf([]string) {
	env := append([]string{}, os.Environ()...)
	fmt.Fprintf(os.Stdout, "%s\n%s\n", must(json.Marshal(env)), must(json.Marshal(os.Args)))
}

// echo answers each line with its length and its first byte, so that messages
// that mixed show.
func echo([]string) {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		line = bytes.TrimSuffix(line, []byte{'\n'})
		pure := len(bytes.Trim(line, string(line[:1]))) == 0
		fmt.Fprintf(os.Stdout, "%c %d %v\n", line[0], len(line), pure)
	}
}

// flood writes bytes without a line end to stderr before each answer.
func flood(args []string) {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		os.Stderr.WriteString(strings.Repeat("x", must(strconv.Atoi(args[0]))))
		fmt.Fprintln(os.Stdout, in.Text())
	}
}

// late reads nothing until a file exists, then echoes.
func late(args []string) {
	fmt.Fprintln(os.Stdout, "waiting")
	for {
		if _, err := os.Stat(args[0]); err == nil {
			break
		}
		<-time.After(time.Millisecond)
	}
	echo(nil)
}

// launcher starts the helper that its second argument names, on the same
// pipes. With "exit" it leaves it behind at once, else at the end of its input.
// With "escape" the helper also leaves the process group.
func launcher(args []string) {
	argv := helper(args[1])
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if len(args) > 2 {
		escape(cmd)
	}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	if args[0] != "exit" {
		io.Copy(io.Discard, os.Stdin)
	}
}

// endless writes a line of the length given and then a short one.
func endless(args []string) {
	chunk := strings.Repeat("y", 1<<20)
	for range must(strconv.Atoi(args[0])) >> 20 {
		os.Stdout.WriteString(chunk)
	}
	fmt.Fprint(os.Stdout, "\nafter\n")
}

// doomed starts a stubborn child as the crib does, and dies.
func doomed([]string) {
	ready := make(chan string, 1)
	_, err := Start(Options{Argv: helper("stubborn"), OnLine: func(line []byte) { ready <- string(line) }})
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(os.Stdout, <-ready)
	killSelf()
}

// registering starts a launcher with a registry, as the crib does, and dies.
func registering(args []string) {
	r, err := OpenRegistry(args[0])
	if err != nil {
		panic(err)
	}
	ready := make(chan string, 1)
	_, err = Start(Options{
		Argv: helper(append([]string{"launcher"}, args[1:]...)...), Registry: r,
		OnLine: func(line []byte) { ready <- string(line) },
	})
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(os.Stdout, <-ready)
	killSelf()
}

// lines collects what a child writes.
type lines chan string

func (l lines) take(line []byte) { l <- string(line) }

func (l lines) next(t *testing.T) string {
	t.Helper()
	select {
	case line := <-l:
		return line
	case <-time.After(patience):
		t.Fatal("no line came")
		return ""
	}
}

// patience is how long a test waits for something that must happen.
const patience = 20 * time.Second

// start starts a helper and stops it when the test ends.
func start(t *testing.T, opts Options) (*Process, lines) {
	t.Helper()
	out := make(lines, 1000)
	if opts.OnLine == nil {
		opts.OnLine = out.take
	}
	if opts.Env == nil {
		opts.Env = os.Environ() // coverage and race options of the test binary
	}
	p, err := Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(t.Context()); err != nil { // the context has ended: kills at once
			t.Error(err)
		}
	})
	return p, out
}

func waitFor(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	if !within(c, patience) {
		t.Fatalf("%s did not happen", what)
	}
}

// eventually polls until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s did not happen", what)
		}
	}
}
