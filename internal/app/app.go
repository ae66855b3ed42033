// Package app builds a crib of its parts and runs it: built, started,
// reloaded and stopped in one visible order.
package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/toolcrib/toolcrib/internal/auth"
	"github.com/toolcrib/toolcrib/internal/bridge"
	"github.com/toolcrib/toolcrib/internal/catalog"
	"github.com/toolcrib/toolcrib/internal/child"
	"github.com/toolcrib/toolcrib/internal/config"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/gateway"
	"github.com/toolcrib/toolcrib/internal/mcphttp"
	"github.com/toolcrib/toolcrib/internal/page"
	"github.com/toolcrib/toolcrib/internal/secret"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/store"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/web"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Drain is how long requests may go on when the crib is told to stop.
const Drain = 30 * time.Second

// StoppingBody is what /readyz says with 503 while the crib waits for the end of
// what is open.
const StoppingBody = "stopping\n"

// LocalToken is the name of the token for this machine's own use: the command
// line and `toolcrib connect`.
const LocalToken = "local"

// Options build an App.
type Options struct {
	Load    config.Options // read again at each reload
	Log     *slog.Logger   // nil logs nothing; secrets are hidden in what it writes
	Version string
	Environ []string // of the crib; a child gets a choice of it
	// FreePort takes another port when the configured one is taken.
	FreePort  bool
	Drain     time.Duration // 0 is Drain
	RenewTime time.Duration // 0 is RenewTime
}

// App is a running crib.
type App struct {
	opts     Options
	log      *slog.Logger
	redactor secret.Redactor
	started  time.Time

	holding
	auth    *auth.Registry
	cat     *catalog.Catalog
	gw      *gateway.Gateway
	door    *mcphttp.Door
	guarded atomic.Pointer[http.Handler] // the door behind the checks that are configured now
	at      listeners
	current atomic.Pointer[state]
	reloading
}

// holding is what the crib has taken of its data folder.
type holding struct {
	folder   *store.Folder
	lock     *store.Lock
	children *child.Registry
}

// childrenFolder keeps a file for each running child, in the data folder.
const childrenFolder = "children"

// listeners are where the crib is reached.
type listeners struct {
	front net.Listener // by clients
	op    net.Listener // by operators
}

// state is what one load of the configuration brought. It is not changed.
type state struct {
	config *config.Config
	stores *secret.Stores
	set    servers.Set
	faults []page.Fault
}

// New builds a crib and takes its data folder and its address. Nothing is
// served before Run. A fault in toolcrib.yaml itself is an error; a fault in
// one server's definition costs that server.
func New(o Options) (_ *App, err error) {
	a := &App{opts: o, started: time.Now()}
	a.reloading.init()
	a.log = o.Log
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	a.log = slog.New(secret.NewHandler(a.log.Handler(), &a.redactor))
	defer func() {
		if err != nil {
			a.release()
		}
	}()
	st, err := a.load()
	if err != nil {
		return nil, err
	}
	a.current.Store(st)
	if err := a.openState(st); err != nil {
		return nil, err
	}
	if err := a.build(st); err != nil {
		return nil, err
	}
	if err := a.listen(st); err != nil {
		return nil, err
	}
	a.cat.Apply(st.set.All())
	return a, nil
}

// load reads configuration and definitions.
func (a *App) load() (*state, error) {
	cfg, faults := config.Load(a.opts.Load)
	if err := firstError(faults); err != nil {
		return nil, err
	}
	stores, err := secret.NewStores(secret.Options{Specs: cfg.Secrets, Dir: cfg.Workspace, LookupEnv: a.opts.Load.LookupEnv, Redactor: &a.redactor})
	if err != nil {
		return nil, err
	}
	set, more := servers.Load(cfg.Definitions())
	for _, text := range stores.Warnings() {
		a.log.Warn(text)
	}
	for _, f := range more {
		a.log.Warn(f.String())
	}
	return &state{config: cfg, stores: stores, set: set, faults: append(faults, more...)}, nil
}

func firstError(faults []page.Fault) error {
	var lines []string
	for _, f := range faults {
		if f.Severity == page.Error {
			lines = append(lines, f.String())
		}
	}
	if lines == nil {
		return nil
	}
	return crib.Errorf(crib.Invalid, "%s", strings.Join(lines, "\n"))
}

// openState takes the data folder, for this process alone.
func (a *App) openState(st *state) (err error) {
	if a.folder, err = store.Open(st.config.Data); err != nil {
		return err
	}
	if a.lock, err = a.folder.Lock(); err != nil {
		return err
	}
	if a.children, err = child.OpenRegistry(filepath.Join(a.folder.Path(), childrenFolder)); err != nil {
		return err
	}
	a.reap()
	if a.auth, err = auth.New(auth.Options{Store: a.folder.NewTokens(), Anonymous: st.config.Anonymous}); err != nil {
		return err
	}
	return a.ensureLocalToken()
}

// reap ends what a crib that was killed left running. The lock says that no
// living one needs it.
func (a *App) reap() {
	done := a.children.Reap(0)
	for _, text := range done.Ended {
		a.log.Warn("ended what a crib that was killed left running", "child", text)
	}
	for _, text := range done.Warnings {
		a.log.Warn(text)
	}
}

// ensureLocalToken makes sure that the command line of this user can call.
func (a *App) ensureLocalToken() error {
	text, err := a.folder.LocalToken()
	if err == nil {
		if name, ok := a.auth.Lookup(text); ok && name == LocalToken {
			return nil
		}
	}
	if text, err = a.auth.Create(LocalToken); err != nil {
		return err
	}
	return a.folder.SaveLocalToken(text)
}

func (a *App) build(st *state) error {
	sealer, err := bridge.NewSealer()
	if err != nil {
		return err
	}
	a.cat = catalog.New(catalog.Options{
		Store:   a.folder.Lists(),
		Connect: a.credentials,
		Dir:     st.config.Workspace,
		Fake:    a.opts.Load.Getenv(config.VarProviders) == config.FakeProviders,
		Log:     a.log,
		Other:   func(server string, share upstream.Share, m wire.Message) { a.gw.Told(server, share, m) },
		Upstream: upstream.Options{
			Log: a.log, Redact: a.redactor.RedactString, Environ: a.opts.Environ, Version: a.opts.Version,
			Children: a.children,
		},
	})
	a.gw, err = gateway.New(gateway.Options{Catalog: a.cat, Sealer: sealer, Version: a.opts.Version, Log: a.log, Redact: a.redactor.RedactString})
	if err != nil {
		return err
	}
	if a.door, err = mcphttp.New(mcphttp.Options{Gateway: a.gw, Auth: a.auth, Log: a.log}); err != nil {
		return err
	}
	guarded, err := a.guard(st)
	if err != nil {
		return err
	}
	a.guarded.Store(&guarded)
	return nil
}

// listen takes the address for clients and the socket for operators.
func (a *App) listen(st *state) error {
	l, err := net.Listen("tcp", st.config.Listen)
	if err != nil && a.opts.FreePort {
		host, _, splitErr := net.SplitHostPort(st.config.Listen)
		if splitErr == nil {
			l, err = net.Listen("tcp", net.JoinHostPort(host, "0"))
		}
	}
	if err != nil {
		return crib.Errorf(crib.Unavailable, "cannot listen on %s: %s; another program may have it: choose another address with --listen or listen: in toolcrib.yaml", st.config.Listen, listenText(err))
	}
	a.at.front = l
	if a.at.op, err = listenOperator(a.folder.Path()); err != nil {
		return err
	}
	return a.lock.Announce(l.Addr().String())
}

func listenText(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err.Error()
	}
	return err.Error()
}

// Addr is where clients reach the crib, as host:port.
func (a *App) Addr() string { return a.at.front.Addr().String() }

// Redactor hides every secret that was resolved so far.
func (a *App) Redactor() *secret.Redactor { return &a.redactor }

// Hurry makes the end of the crib wait for nothing any more: open requests are
// cut, and children are killed.
func (a *App) Hurry() { a.children.Hurry() }

// Run serves until ctx ends, then lets open requests finish for Drain, or
// until Hurry.
func (a *App) Run(ctx context.Context) (err error) {
	defer a.release()
	front, op := web.Server(a.handler(), a.log), a.operatorServer()
	failed := make(chan error, 2)
	go func() { failed <- serve(front, web.Patient(a.at.front)) }()
	go func() { failed <- serve(op, a.at.op) }()
	a.log.Info("serving", "address", a.Addr(), "servers", len(a.cat.Servers()))
	select {
	case <-ctx.Done():
	case err = <-failed:
		failed <- nil // its slot, for the wait below
	}
	a.stop(front, op)
	for range 2 {
		err = errors.Join(err, <-failed)
	}
	return err
}

func serve(s *http.Server, l net.Listener) error {
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// stop takes no new requests, ends what is only a stream, waits for calls, and
// cuts what is left after the drain time. While it waits, both listeners are
// open: whoever asks is told that the crib is stopping, and what belongs to the
// calls, such as their cancellation, still arrives.
func (a *App) stop(front, op *http.Server) {
	drain := a.opts.Drain
	if drain == 0 {
		drain = Drain
	}
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	defer context.AfterFunc(a.children.Hurried(), cancel)()
	a.reloading.end()
	a.gw.Drain()
	a.log.Info("stopping", "limit", drain)
	select {
	case <-a.gw.Drained():
	case <-ctx.Done():
	}
	if err := front.Shutdown(ctx); err != nil {
		a.log.Warn("requests were cut because they did not end in time", "limit", drain)
		front.Close() //nolint:errcheck // nothing is left to be done about it
	}
	op.Close() //nolint:errcheck // likewise
	a.gw.Close()
	a.door.Wait() // what goes on without its client has an end of its own
}

// release gives back everything that New took.
func (a *App) release() {
	a.reloading.close()
	if a.gw != nil {
		a.gw.Close()
	}
	if a.cat != nil {
		a.cat.Close()
	}
	if a.at.front != nil {
		a.at.front.Close() //nolint:errcheck // may be closed already
	}
	if a.at.op != nil {
		a.at.op.Close() //nolint:errcheck // likewise
	}
	if a.children != nil {
		a.children.Close() //nolint:errcheck // nothing was left unwritten
	}
	if a.lock != nil {
		a.lock.Unlock() //nolint:errcheck // the system frees it with the process
	}
	if a.folder != nil {
		a.folder.Close() //nolint:errcheck // nothing was left unwritten
	}
}

// handler is everything that clients reach.
func (a *App) handler() http.Handler {
	return web.Recover(a.log)(web.SecurityHeaders(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		(*a.guarded.Load()).ServeHTTP(w, r)
	})))
}

// guard puts the configured checks before the door.
func (a *App) guard(st *state) (http.Handler, error) {
	guard, err := checks(st)
	if err != nil {
		return nil, err
	}
	return guard(a.routes()), nil
}

func checks(st *state) (web.Middleware, error) {
	return web.Guard(web.Options{AllowedHosts: st.config.AllowedHosts, AllowedOrigins: st.config.AllowedOrigins})
}

// routes are what lies behind the checks.
func (a *App) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if a.gw.Stopping() {
			plain(w, http.StatusServiceUnavailable, StoppingBody)
			return
		}
		plain(w, http.StatusOK, "ok\n")
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		plain(w, http.StatusNotFound, "nothing is here: MCP is at /v1/mcp, one server's at /v1/mcp/{server}\n")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/") {
			a.door.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	w.Write([]byte(text)) //nolint:errcheck // a client that is gone needs no answer
}
