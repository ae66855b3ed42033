package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"github.com/toolcrib/toolcrib/internal/catalog"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/gateway"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/web"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// socketName is the operator socket in the data folder. Who may open it is the
// user of the crib: the folder is 0700 and the socket 0600.
const socketName = "operator.sock"

// maxSocketPath is what the systems allow for the path of a socket, in bytes.
const maxSocketPath = 103

func socketPath(data string) string {
	path := filepath.Join(data, socketName)
	if len(path) <= maxSocketPath {
		return path
	}
	// A long path is reached from the folder that the process stands in.
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, path); err == nil && len(rel) <= maxSocketPath {
			return rel
		}
	}
	return path
}

// listenOperator opens the socket. One that is there already is a dead crib's:
// this one holds the lock of the folder.
func listenOperator(data string) (net.Listener, error) {
	path := socketPath(data)
	if len(path) > maxSocketPath {
		return nil, crib.Errorf(crib.Invalid, "the path of the data folder %s is too long for a socket; choose a shorter one with --data", data)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the old operator socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("open the operator socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close() //nolint:errcheck // the error that matters is at hand
		return nil, fmt.Errorf("protect the operator socket: %w", err)
	}
	return l, nil
}

func (a *App) operatorServer() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { a.writeJSON(w, a.Status()) })
	mux.HandleFunc("POST /reload", func(w http.ResponseWriter, _ *http.Request) {
		if err := a.Reload(); err != nil {
			a.writeError(w, err)
			return
		}
		a.writeJSON(w, a.Status())
	})
	mux.HandleFunc("POST /connect/{server}", func(w http.ResponseWriter, r *http.Request) {
		if a.gw.Stopping() {
			a.writeError(w, crib.Errorf(crib.Unavailable, "%s", gateway.StoppingText))
			return
		}
		st, err := a.connect(r.Context(), r.PathValue("server"))
		if err != nil {
			a.writeError(w, err)
			return
		}
		a.writeJSON(w, st)
	})
	return web.Server(mux, a.log)
}

// connect connects a server and asks for its lists, if that was not done.
func (a *App) connect(ctx context.Context, name string) (ServerStatus, error) {
	srv, err := a.cat.Server(name)
	if err != nil {
		return ServerStatus{}, err
	}
	for _, k := range catalog.Kinds {
		if err := srv.Relist(ctx, upstream.Want{Era: wire.Modern}, k); err != nil && k == catalog.Tools {
			return a.serverStatus(srv.Def()), err
		}
	}
	return a.serverStatus(srv.Def()), nil
}

type errorDoc struct {
	Code  crib.Code `json:"code"`
	Error string    `json:"error"`
}

// writeJSON answers an operator. Secrets are hidden here, once for all that a
// server may have repeated one in.
func (a *App) writeJSON(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		a.writeError(w, fmt.Errorf("write the answer: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(a.redactor.Redact(body)) //nolint:errcheck // a client that is gone needs no answer
}

func (a *App) writeError(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(web.Status(err))
	json.NewEncoder(w).Encode(errorDoc{crib.CodeOf(err), a.redactor.RedactString(crib.SafeText(err))}) //nolint:errcheck // likewise
}

// ErrNotRunning says that nobody listens at the operator socket.
var ErrNotRunning error = crib.Errorf(crib.Unavailable, "no crib is running for this data folder; start one with: toolcrib serve")

// Operator talks to the running crib of a data folder.
type Operator struct {
	path string // of the socket
	http *http.Client
}

// Dial makes an Operator. Whether a crib runs shows at the first request.
func Dial(data string) *Operator {
	path := socketPath(data)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
	return &Operator{path, &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// nobodyListens reports whether a request failed because there is no socket, or
// one that a crib which is gone has left. Anything else, such as a socket that
// this user may not open or a crib that ended in the middle, says nothing about
// whether one runs.
func nobodyListens(path string, err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); !ok || op.Op != "dial" {
		return false
	}
	if errors.Is(err, errRefused) {
		return true
	}
	_, statErr := os.Lstat(path)
	return errors.Is(statErr, fs.ErrNotExist)
}

// socketText is what is wrong, without the address that every request has.
func socketText(err error) string {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	return err.Error()
}

// Status asks for the crib's state. Like that of every request, the error is
// ErrNotRunning if nobody listens.
func (o *Operator) Status(ctx context.Context) (Status, error) {
	var st Status
	return st, o.do(ctx, http.MethodGet, "/status", &st)
}

// Reload makes the crib read its configuration again.
func (o *Operator) Reload(ctx context.Context) (Status, error) {
	var st Status
	return st, o.do(ctx, http.MethodPost, "/reload", &st)
}

// Connect makes the crib connect a server and ask for its lists, and waits.
func (o *Operator) Connect(ctx context.Context, server string) (ServerStatus, error) {
	var st ServerStatus
	return st, o.do(ctx, http.MethodPost, "/connect/"+server, &st)
}

func (o *Operator) do(ctx context.Context, method, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://operator"+path, nil)
	if err != nil {
		return err
	}
	resp, err := o.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if nobodyListens(o.path, err) {
			return ErrNotRunning
		}
		return fmt.Errorf("ask the crib: %w: %w", crib.Errorf(crib.Unavailable, "the running crib cannot be reached, or ended before it answered: %s", socketText(err)), err)
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(resp.Body); err != nil {
		return fmt.Errorf("read the crib's answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		var doc errorDoc
		if json.Unmarshal(body.Bytes(), &doc) != nil {
			return crib.Errorf(crib.Internal, "the crib answered HTTP %d", resp.StatusCode)
		}
		return &crib.Error{Code: doc.Code, Msg: doc.Error}
	}
	return json.Unmarshal(body.Bytes(), into)
}
