package cli

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/internal/app"
	"github.com/toolcrib/toolcrib/internal/config"
	"github.com/toolcrib/toolcrib/internal/crib"
)

const (
	// readyTime is how long a crib that is starting may take until it serves.
	// It connects nothing before that, so it is a matter of milliseconds.
	readyTime = 30 * time.Second

	// readyPoll is the time between two looks whether it does.
	readyPoll = 20 * time.Millisecond
)

// attached is a crib that a command talks to.
type attached struct {
	operator *app.Operator
	mcp      *mcpClient
	end      func() error // of a crib in this process; else it does nothing
}

// attach finds the crib that serves the data folder. If there is none, it
// starts one in this process, at a free port, until end is called.
func (e *env) attach(ctx context.Context, cfg *config.Config) (*attached, error) {
	for {
		running, ok, err := waitReady(ctx, cfg)
		if err != nil {
			return nil, err
		}
		if ok {
			return e.attachTo(cfg, running.Address, func() error { return nil })
		}
		own, err := e.startHere(ctx, cfg)
		if crib.CodeOf(err) == crib.Busy {
			continue // another one was faster
		}
		return own, err
	}
}

// attachRunning is attach for commands that are of no use without a crib that
// somebody else started.
func (e *env) attachRunning(ctx context.Context, cfg *config.Config) (*attached, error) {
	running, ok, err := waitReady(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, crib.Errorf(crib.Unavailable, "no crib is running for the data folder %s; start one with: toolcrib serve", cfg.Data)
	}
	return e.attachTo(cfg, running.Address, func() error { return nil })
}

func (e *env) attachTo(cfg *config.Config, address string, end func() error) (*attached, error) {
	token, err := localToken(cfg)
	if err != nil {
		return nil, err
	}
	return &attached{operator: app.Dial(cfg.Data), mcp: newMCPClient(cfg, address, token), end: end}, nil
}

func newMCPClient(cfg *config.Config, address, token string) *mcpClient {
	return &mcpClient{
		http:    &http.Client{Transport: &http.Transport{DisableCompression: true}},
		base:    "http://" + address,
		host:    hostHeader(cfg.AllowedHosts, address),
		token:   token,
		version: version(),
	}
}

// startHere starts a crib in this process.
func (e *env) startHere(ctx context.Context, cfg *config.Config) (*attached, error) {
	load := e.load()
	load.Listen = loopbackAnyPort
	a, err := app.New(app.Options{Load: load, Version: version(), Environ: e.environ})
	if err != nil {
		return nil, err
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(life) }()
	end := func() error { stop(); return <-ended }
	own, err := e.attachTo(cfg, a.Addr(), end)
	if err != nil {
		end() //nolint:errcheck // the error that matters is at hand
		return nil, err
	}
	return own, nil
}

const loopbackAnyPort = "127.0.0.1:0"

// waitReady returns the crib that serves the data folder when it is ready, and
// false if none does.
func waitReady(ctx context.Context, cfg *config.Config) (app.Running, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		running, ok, err := app.FindRunning(cfg.Data)
		if err != nil || !ok {
			return running, false, err
		}
		if running.Address != "" && isReady(ctx, cfg, running.Address) {
			return running, true, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) {
				return running, false, err
			}
			return running, false, crib.Errorf(crib.Unavailable, "the crib of process %d has not been ready for %v; look at its log, or end it and try again", running.PID, readyTime)
		}
	}
}

func isReady(ctx context.Context, cfg *config.Config, address string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return false
	}
	req.Host = hostHeader(cfg.AllowedHosts, address)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close() //nolint:errcheck // nothing was wanted of it
	return resp.StatusCode == http.StatusOK
}

// hostHeader is a Host that the crib at address takes: the address itself,
// unless only other names are allowed.
func hostHeader(allowed []string, address string) string {
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
