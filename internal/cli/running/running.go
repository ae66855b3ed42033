// Package running finds the crib that serves a data folder, starts one for a
// command or in the background, and ends it.
package running

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/toolcrib/toolcrib/internal/app"
	"github.com/toolcrib/toolcrib/internal/cli/mcp"
	"github.com/toolcrib/toolcrib/internal/config"
	"github.com/toolcrib/toolcrib/internal/crib"
)

const (
	// readyTime is how long a crib that is starting may take until it serves.
	// It connects nothing before that, so it is a matter of milliseconds.
	readyTime = 30 * time.Second

	// readyPoll is the time between two looks whether it does.
	readyPoll = 20 * time.Millisecond

	// stoppingTime is how long a command waits for a crib that is stopping, such
	// as one that another command had for itself, before it says so.
	stoppingTime = 2 * time.Second

	// reloadTime is how long a crib may take to read its configuration again: to
	// look up its secrets, which it gives up by itself, and longer.
	reloadTime = 2*app.RenewTime + 30*time.Second

	// stopSlack is what a crib may need to end behind its drain time.
	stopSlack = 10 * time.Second

	// AnyPort is an address of this machine that is always free.
	AnyPort = "127.0.0.1:0"
)

// Place is where a crib runs or would run.
type Place struct {
	Config  *config.Config
	Load    config.Options // what Config was made of
	Environ []string       // of this process
	Version string         // of this program
}

// Crib is a crib that a command talks to.
type Crib struct {
	Operator *app.Operator
	MCP      *mcp.Client // with the token of this machine's commands
	Address  string      // host:port

	own bool         // it runs in this process
	end func() error // of one that does; else it does nothing
}

// With runs act with a crib: the one that serves the data folder, or one in
// this process for the time of act. It may be one that another command started
// for itself and that ends just now; then act runs again, since what is
// Unavailable was not executed.
func (p Place) With(ctx context.Context, act func(*Crib) error) error {
	for {
		c, err := p.attach(ctx)
		if err != nil {
			return err
		}
		err = act(c)
		if err := c.end(); err != nil {
			return err
		}
		if c.own || crib.CodeOf(err) != crib.Unavailable {
			return err
		}
		now, ok, lookErr := p.ready(ctx)
		if lookErr != nil || ok && now.Address == c.Address {
			return err // it is there: the trouble is another one
		}
	}
}

func (p Place) attach(ctx context.Context) (*Crib, error) {
	for {
		now, ok, err := p.ready(ctx)
		if err != nil {
			return nil, err
		}
		if ok {
			return p.attachTo(now.Address)
		}
		own, err := p.startHere(ctx)
		if crib.CodeOf(err) == crib.Busy {
			continue // another one was faster
		}
		return own, err
	}
}

// Status asks the crib that serves the data folder for its state, also one that
// is stopping. That none runs is no error.
func (p Place) Status(ctx context.Context) (st app.Status, running bool, err error) {
	limited, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	running, err = p.operate(limited, func(o *app.Operator) (err error) {
		st, err = o.Status(limited)
		return err
	})
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = crib.Errorf(crib.Unavailable, "the crib has not answered for %v; look at its log, or end it and try again", readyTime)
	}
	return st, running, err
}

// operate has a crib do something at its operator socket, whatever else it is
// about to do, and reports false if none serves the data folder.
func (p Place) operate(ctx context.Context, act func(*app.Operator) error) (running bool, err error) {
	patience := time.NewTimer(readyTime)
	defer patience.Stop()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		now, ok, err := app.FindRunning(p.Config.Data)
		if err != nil || !ok {
			return false, err
		}
		if err := act(app.Dial(p.Config.Data)); !errors.Is(err, app.ErrNotRunning) {
			return true, err
		}
		// For a moment at its start and at its end it serves the folder, but
		// not the socket.
		select {
		case <-tick.C:
		case <-patience.C:
			return true, crib.Errorf(crib.Unavailable, "the crib of process %d has not opened its operator socket for %v; end it and try again", now.PID, readyTime)
		case <-ctx.Done():
			return true, ctx.Err()
		}
	}
}

func (p Place) attachTo(address string) (*Crib, error) {
	token, err := p.Token()
	if err != nil {
		return nil, err
	}
	return &Crib{
		Operator: app.Dial(p.Config.Data),
		MCP:      p.Client(address, token),
		Address:  address,
		end:      func() error { return nil },
	}, nil
}

// Client is an MCP client of the crib at address; an empty token is none.
func (p Place) Client(address, token string) *mcp.Client {
	return &mcp.Client{
		HTTP:    &http.Client{Transport: &http.Transport{DisableCompression: true}},
		Base:    "http://" + address,
		Host:    HostHeader(p.Config.AllowedHosts, address),
		Token:   token,
		Version: p.Version,
	}
}

// Token returns the token of this machine's commands.
func (p Place) Token() (string, error) {
	data, err := app.OpenData(p.Config.Data)
	if err != nil {
		return "", err
	}
	defer data.Close() //nolint:errcheck // nothing was written
	return data.LocalToken()
}

// startHere starts a crib in this process.
func (p Place) startHere(ctx context.Context) (*Crib, error) {
	load := p.Load
	load.Listen = AnyPort
	a, err := app.New(app.Options{Load: load, Version: p.Version, Environ: p.Environ})
	if err != nil {
		return nil, err
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(life) }()
	end := func() error { stop(); return <-ended }
	c, err := p.attachTo(a.Addr())
	if err != nil {
		return nil, errors.Join(err, end())
	}
	c.own, c.end = true, end
	return c, nil
}

// ready returns the crib that serves the data folder when it is ready, and
// false if none does. One that is stopping is Unavailable: it takes nothing new,
// and until it has ended no other one can have the folder.
func (p Place) ready(ctx context.Context) (app.Running, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	var patience <-chan time.Time // with a crib that is stopping
	for {
		now, ok, err := app.FindRunning(p.Config.Data)
		if err != nil || !ok {
			return now, false, err
		}
		switch p.look(ctx, now.Address) {
		case serving:
			return now, true, nil
		case stopping:
			if patience == nil {
				patience = time.After(stoppingTime)
			}
		default:
			patience = nil
		}
		select {
		case <-tick.C:
		case <-patience:
			return now, false, crib.Errorf(crib.Unavailable, "the crib of process %d is stopping: it takes nothing new and waits for its open requests, %v at most; try again when it has ended", now.PID, app.Drain)
		case <-ctx.Done():
			if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) {
				return now, false, err
			}
			return now, false, crib.Errorf(crib.Unavailable, "the crib of process %d has not been ready for %v; look at its log, or end it and try again", now.PID, readyTime)
		}
	}
}

// phase is what a crib says of itself.
type phase int

const (
	silent   phase = iota // it starts, or ends
	serving               // it takes requests
	stopping              // it waits for the end of what is open
)

func (p Place) look(ctx context.Context, address string) phase {
	if address == "" {
		return silent
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return silent
	}
	req.Host = HostHeader(p.Config.AllowedHosts, address)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return silent
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	body, _ := io.ReadAll(io.LimitReader(resp.Body, int64(len(app.StoppingBody))+1))
	switch {
	case resp.StatusCode == http.StatusOK:
		return serving
	case resp.StatusCode == http.StatusServiceUnavailable && string(body) == app.StoppingBody:
		return stopping
	}
	return silent
}

// Reload makes a running crib read its configuration again. That none runs is
// no error.
func (p Place) Reload(ctx context.Context) (running bool, err error) {
	limited, cancel := context.WithTimeout(ctx, reloadTime)
	defer cancel()
	running, err = p.operate(limited, func(o *app.Operator) error {
		_, err := o.Reload(limited)
		return err
	})
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = crib.Errorf(crib.Unavailable, "the running crib has not answered for %v, so it is not known whether it read its configuration again; see `toolcrib status`, or end it and start it again", reloadTime)
	}
	return running, err
}

// Announce is Reload behind a change that was written.
func (p Place) Announce(ctx context.Context) (running bool, err error) {
	if running, err = p.Reload(ctx); err != nil {
		return running, fmt.Errorf("the change is written, but the running crib does not take it: %w", err)
	}
	return running, nil
}

// Stop ends the crib that serves the data folder, and waits until it has let
// go of it.
func (p Place) Stop(ctx context.Context, r app.Running) error {
	if r.PID <= 0 {
		return crib.Errorf(crib.Unavailable, "a crib is running, and its process is not known; end it and try again")
	}
	process, err := os.FindProcess(r.PID)
	if err != nil {
		return fmt.Errorf("end the running crib: %w", err)
	}
	if process.Signal(syscall.SIGTERM) != nil {
		// Windows has no such signal.
		if err := process.Kill(); err != nil {
			return fmt.Errorf("end the running crib: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, app.Drain+stopSlack)
	defer cancel()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		_, ok, err := app.FindRunning(p.Config.Data)
		if err != nil || !ok {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return crib.Errorf(crib.Busy, "the crib of process %d has not ended; end it and try again", r.PID)
		}
	}
}

// HostHeader is a Host that the crib at address takes: the address itself,
// unless only other names are allowed.
func HostHeader(allowed []string, address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil || len(allowed) == 0 {
		return address
	}
	for _, entry := range allowed {
		if entry == "*" || entry == "localhost" || entry == host {
			return address
		}
	}
	name := strings.Replace(allowed[0], "*.", "crib.", 1)
	if _, _, err := net.SplitHostPort(name); err == nil {
		return name
	}
	return net.JoinHostPort(strings.Trim(name, "[]"), port)
}
