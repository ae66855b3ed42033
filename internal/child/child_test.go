package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
)

func TestLinesComeInOrderAndExitIsTold(t *testing.T) {
	p, out := start(t, Options{Argv: helper("print", `"\ufeffStarting\r\n\n[1,2]\n{\"a\":1}\r\n   \nnull\n{\"id\":2,\"res"`)})
	waitFor(t, "done", p.Done())
	close(out)
	var got []string
	for line := range out {
		got = append(got, line)
	}
	want := []string{"Starting", "[1,2]", `{"a":1}`, "null", `{"id":2,"res`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if e := p.Exit(); e != (Exit{}) || e.String() != "exit code 0" {
		t.Errorf("exit %+v %v", e, e)
	}
}

func TestExitCode(t *testing.T) {
	p, _ := start(t, Options{Argv: helper("exit", "7")})
	if e := p.Exit(); e.Code != 7 || e.Signal != "" || e.String() != "exit code 7" {
		t.Errorf("exit %+v %v", e, e)
	}
	if err := p.Send([]byte("x")); !isUnsent(err) {
		t.Errorf("a message to a child that ended: %v", err)
	}
}

func isUnsent(err error) bool {
	e, ok := errors.AsType[*SendError](err)
	return ok && !e.Wrote && crib.CodeOf(err) == crib.Unavailable
}

func TestMessagesNeverMix(t *testing.T) {
	p, out := start(t, Options{Argv: helper("echo")})
	const senders, each, size = 8, 10, 100_000 // more than a pipe holds
	var wg sync.WaitGroup
	for i := range senders {
		wg.Go(func() {
			for range each {
				if err := p.Send([]byte(strings.Repeat(string(rune('a'+i)), size+i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	count := map[string]int{}
	for range senders * each {
		count[out.next(t)]++
	}
	for i := range senders {
		if line := fmt.Sprintf("%c %d true", 'a'+i, size+i); count[line] != each {
			t.Errorf("%d of %q, want %d", count[line], line, each)
		}
	}
}

func TestSendRefusesLineBreaks(t *testing.T) {
	p, _ := start(t, Options{Argv: helper("echo")})
	for _, line := range []string{"a\nb", "a\r", "\n"} {
		if err := p.Send([]byte(line)); crib.CodeOf(err) != crib.Invalid {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestChildThatDoesNotRead(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "read-now")
	p, out := start(t, Options{Argv: helper("late", gate), WriteTimeout: 50 * time.Millisecond})
	if line := out.next(t); line != "waiting" {
		t.Fatal(line)
	}
	big := strings.Repeat("a", 1<<20)
	err := p.Send([]byte(big))
	if e, ok := errors.AsType[*SendError](err); !ok || !e.Wrote || crib.CodeOf(err) != crib.Unknown {
		t.Fatalf("a message that was begun: %v", err)
	}
	if err := p.Send([]byte("b")); !isUnsent(err) {
		t.Fatalf("a message behind it: %v", err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// What was begun arrives whole, what was withdrawn never.
	if line, want := out.next(t), fmt.Sprintf("a %d true", len(big)); line != want {
		t.Errorf("got %q, want %q", line, want)
	}
	eventually(t, "sending again", func() bool { return p.Send([]byte("c")) == nil })
	if line := out.next(t); line != "c 1 true" {
		t.Errorf("got %q", line)
	}
}

func TestStopEndsABlockedSend(t *testing.T) {
	p, out := start(t, Options{Argv: helper("deaf"), StopGrace: 20 * time.Millisecond})
	out.next(t)
	sent := make(chan error, 1)
	go func() { sent <- p.Send([]byte(strings.Repeat("a", 1<<20))) }()
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-sent:
		if _, ok := errors.AsType[*SendError](err); !ok {
			t.Errorf("got %v", err)
		}
	case <-time.After(patience):
		t.Fatal("Send still waits")
	}
}

func TestFirstLife(t *testing.T) {
	for _, tc := range []struct {
		name string
		argv []string
	}{
		{"stdout", helper("echo")},
		{"stderr", helper("flood", "1")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, _ := start(t, Options{Argv: tc.argv})
			select {
			case <-p.Alive():
				t.Fatal("alive before it wrote anything")
			default:
			}
			if err := p.Send([]byte("a")); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "first life", p.Alive())
		})
	}
}

func TestStderrIsAlwaysDrained(t *testing.T) {
	stuck := make(chan struct{})
	var once sync.Once
	p, out := start(t, Options{
		Argv:       helper("flood", "262144"),
		StderrKeep: 1000,
		OnStderr: func([]byte) {
			once.Do(func() { <-stuck })
		},
	})
	for range 100 {
		if err := p.Send([]byte("a")); err != nil {
			t.Fatal(err)
		}
		out.next(t)
	}
	close(stuck)
	if p.StderrDropped() == 0 {
		t.Error("a hook that never returned missed nothing")
	}
	if got := p.StderrTail(5); got != strings.Repeat("x", 1000) {
		t.Errorf("kept %d bytes, want the last 1000", len(got))
	}
}

func TestLongLines(t *testing.T) {
	var mu sync.Mutex // guards prefixes
	var prefixes []string
	p, out := start(t, Options{
		Argv:    helper("endless", "41943040"),
		MaxLine: 1 << 20,
		OnOversize: func(prefix []byte) {
			mu.Lock()
			defer mu.Unlock()
			prefixes = append(prefixes, string(prefix))
		},
	})
	if line := out.next(t); line != "after" {
		t.Errorf("the line after the long one is %q", line)
	}
	waitFor(t, "done", p.Done())
	mu.Lock()
	defer mu.Unlock()
	if len(prefixes) != 1 || prefixes[0] != strings.Repeat("y", OversizePrefix) {
		t.Errorf("%d prefixes of long lines", len(prefixes))
	}
}

func TestChildGetsExactlyItsArgumentsAndEnvironment(t *testing.T) {
	t.Setenv("CRIB_SECRET_OF_ANOTHER_SERVER", "x")
	args := []string{"/opt/My Srv/x", `--c="a b"`, "", `{"a":"$HOME"}`, "a && b", `C:\x`, "*"}
	env := []string{"PATH=/bin", "A=1", "A=2", "HOME=/nowhere"}
	_, out := start(t, Options{Argv: append(helper("self"), args...), Env: env})
	var gotEnv, gotArgs []string
	decode(t, out.next(t), &gotEnv)
	decode(t, out.next(t), &gotArgs)
	slices.Sort(gotEnv)
	wantEnv := []string{"A=2", "HOME=/nowhere", "PATH=/bin"}
	if onWindows {
		wantEnv = append(wantEnv, "SYSTEMROOT="+os.Getenv("SYSTEMROOT"))
	}
	if !slices.Equal(gotEnv, wantEnv) {
		t.Errorf("environment %q, want %q", gotEnv, wantEnv)
	}
	if !slices.Equal(gotArgs[3:], args) {
		t.Errorf("arguments %q, want %q", gotArgs[3:], args)
	}
}

func TestEmptyEnvironmentInheritsNothing(t *testing.T) {
	_, out := start(t, Options{Argv: helper("self"), Env: []string{}})
	var got []string
	decode(t, out.next(t), &got)
	if len(got) > 0 && !onWindows {
		t.Errorf("inherited %q", got)
	}
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func TestOptionsThatAreMissing(t *testing.T) {
	for _, opts := range []Options{
		{OnLine: func([]byte) {}},
		{OnLine: func([]byte) {}, Argv: []string{""}},
		{Argv: helper("echo")},
	} {
		if p, err := Start(opts); err == nil {
			t.Errorf("%+v started process %d", opts, p.Pid())
		}
	}
}
