package store

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// holdVariable makes a run of this test program hold a folder until it is
// killed.
const holdVariable = "TOOLCRIB_TEST_HOLD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdVariable); dir != "" {
		hold(dir)
	}
	os.Exit(m.Run())
}

func hold(dir string) {
	f, err := Open(dir)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	lock, err := f.Lock()
	if err == nil {
		err = lock.Announce("http://127.0.0.1:8090")
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("holding")
	_, _ = os.Stdin.Read(make([]byte, 1)) // until killed, or the test ends
	os.Exit(0)
}

func TestOneCribServesAFolder(t *testing.T) {
	f := newFolder(t)
	other := open(t, f.Path())
	checkRunning(t, other, Holder{}, false)
	lock, err := f.Lock()
	if err != nil {
		t.Fatal(err)
	}
	checkRunning(t, other, Holder{PID: os.Getpid()}, true)
	if err := lock.Announce("http://127.0.0.1:8090"); err != nil {
		t.Fatal(err)
	}
	checkRunning(t, other, Holder{PID: os.Getpid(), Address: "http://127.0.0.1:8090"}, true)
	_, err = other.Lock()
	if crib.CodeOf(err) != crib.Busy || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) || !strings.Contains(err.Error(), "http://127.0.0.1:8090") {
		t.Errorf("a second crib: %v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	checkRunning(t, other, Holder{}, false)
	second, err := other.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Unlock(); err != nil {
		t.Fatal(err)
	}
}

func checkRunning(t *testing.T, f *Folder, want Holder, running bool) {
	t.Helper()
	got, ok, err := f.Running()
	if got != want || ok != running || err != nil {
		t.Errorf("running %v %t %v, want %v %t", got, ok, err, want, running)
	}
}

// Many who look must not keep the one out who wants to serve.
func TestLooksDoNotBlockALock(t *testing.T) {
	f := newFolder(t)
	stop := make(chan struct{})
	done := make(chan struct{})
	looker := open(t, f.Path())
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				if _, _, err := looker.Running(); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	for range 20 {
		lock, err := f.Lock()
		if err != nil {
			t.Error(err)
			break
		}
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	<-done
}

func TestALockDiesWithItsHolder(t *testing.T) {
	f := newFolder(t)
	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), holdVariable+"="+f.Path())
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdin.Close() }()
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	if strings.TrimSpace(line) != "holding" {
		_ = child.Process.Kill()
		t.Fatalf("the holder said %q", line)
	}
	checkRunning(t, f, Holder{PID: child.Process.Pid, Address: "http://127.0.0.1:8090"}, true)
	if _, err := f.Lock(); crib.CodeOf(err) != crib.Busy || !strings.Contains(err.Error(), strconv.Itoa(child.Process.Pid)) {
		t.Errorf("while it is held: %v", err)
	}

	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	checkRunning(t, f, Holder{}, false)
	lock, err := f.Lock()
	if err != nil {
		t.Fatalf("after its holder was killed: %v", err)
	}
	checkRunning(t, f, Holder{PID: os.Getpid()}, true)
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
}
