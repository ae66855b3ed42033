package running

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/toolcrib/toolcrib/internal/app"
	"github.com/toolcrib/toolcrib/internal/child"
	"github.com/toolcrib/toolcrib/internal/crib"
)

// What a crib in the background keeps in the data folder.
const (
	StartLockFile = "start.lock"
	BackgroundLog = "serve.log"
)

const (
	startLockRetry = 50 * time.Millisecond

	// maxLog is the size in bytes from which the log of a crib in the
	// background is begun anew when one starts.
	maxLog = 10 << 20

	// maxLogTail is how much of the log, in bytes, is shown when it did not
	// start.
	maxLogTail = 2 << 10
)

// Background returns the crib that serves the data folder, and starts one in
// the background if none does. One process at a time starts one.
func (p Place) Background(ctx context.Context) (app.Running, error) {
	if running, ok, err := p.ready(ctx); ok || err != nil {
		return running, err
	}
	data, err := app.OpenData(p.Config.Data)
	if err != nil {
		return app.Running{}, err
	}
	defer data.Close() //nolint:errcheck // nothing was written
	lock := flock.New(filepath.Join(data.Path(), StartLockFile), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, startLockRetry); err != nil {
		return app.Running{}, fmt.Errorf("wait for whoever starts the crib: %w", err)
	}
	defer lock.Close() //nolint:errcheck // the system frees it with the process
	if running, ok, err := p.ready(ctx); ok || err != nil {
		return running, err
	}
	return p.startBackground(ctx)
}

// startBackground starts a crib that outlives this process, whatever becomes
// of the terminal and the process group of this one.
func (p Place) startBackground(ctx context.Context) (app.Running, error) {
	program, err := Program()
	if err != nil {
		return app.Running{}, err
	}
	log, begin, err := openLog(filepath.Join(p.Config.Data, BackgroundLog))
	if err != nil {
		return app.Running{}, err
	}
	defer log.Close() //nolint:errcheck // the child has its own
	// Any port will do: whoever needs this crib reads its address.
	cmd := exec.Command(program, "serve", "--any-port", "--workspace", p.Config.Workspace, "--data", p.Config.Data, "--listen", p.Config.Listen) //nolint:noctx // it outlives ctx
	// It is nobody's child, also where a server of another crib starts it.
	cmd.Env, cmd.Dir = child.Unmarked(p.Environ), p.Config.Data
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = detached()
	if err := cmd.Start(); err != nil {
		return app.Running{}, fmt.Errorf("start a crib in the background: %w", err)
	}
	// Whoever waits is left behind when the crib is ready: it takes the exit
	// of a child that ends before this process.
	ended := make(chan struct{})
	go func() {
		cmd.Wait() //nolint:errcheck // the log says what happened
		close(ended)
	}()
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		if running, ok, err := p.ready(ctx); ok || err != nil {
			return running, err
		}
		select {
		case <-tick.C:
		case <-ended:
			return app.Running{}, crib.Errorf(crib.Unavailable, "a crib was started in the background and ended: %s", logTail(log.Name(), begin))
		case <-ctx.Done():
			return app.Running{}, crib.Errorf(crib.Unavailable, "a crib was started in the background and is not ready; its log is %s", log.Name())
		}
	}
}

// openLog opens the log and returns where what is written next begins.
func openLog(path string) (*os.File, int64, error) {
	log, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("open the log of the crib: %w", err)
	}
	begin, err := log.Seek(0, io.SeekEnd)
	if err == nil && begin > maxLog {
		begin, err = 0, log.Truncate(0)
	}
	if err != nil {
		log.Close() //nolint:errcheck // the error that matters is at hand
		return nil, 0, fmt.Errorf("open the log of the crib: %w", err)
	}
	return log, begin, nil
}

// logTail is the end of what was written to the log from begin on.
func logTail(path string, begin int64) string {
	text, err := os.ReadFile(path)
	if err != nil || int64(len(text)) <= begin {
		return "it said nothing; see " + path
	}
	text = text[begin:]
	if len(text) > maxLogTail {
		text = text[len(text)-maxLogTail:]
	}
	return strings.TrimSpace(string(text))
}
