package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// Limits of the HTTP server. There is no limit on the time of a whole answer:
// streams stay open for as long as both sides wish. See Patient for that of
// each write.
const (
	// ReadHeaderTimeout is how long a client may take to send its headers.
	ReadHeaderTimeout = 10 * time.Second

	// BodyTimeout is how long a client may take to send a request with its body.
	BodyTimeout = 60 * time.Second

	// IdleTimeout is how long a connection is kept between two requests.
	IdleTimeout = 120 * time.Second

	// MaxHeaderBytes is the greatest size of a request's headers, in bytes.
	// Arguments that a server mirrors in Mcp-Param- headers count too.
	MaxHeaderBytes = 64 << 10

	// MaxBody is the greatest size of a request's body, in bytes.
	MaxBody = 16 << 20

	// maxTrusted is how much room, in bytes, is made at once for a body on the
	// word of its Content-Length.
	maxTrusted = 1 << 20
)

// Server returns a server for h with the limits of this package. It logs what
// net/http has to say, such as a broken TLS handshake, to log.
func Server(h http.Handler, log *slog.Logger) *http.Server { return server(h, log, BodyTimeout) }

// server gives the body of a request its time from the start of the request,
// whether or not a handler reads it: what a handler leaves, net/http waits for
// before it sends the answer, for as long as the client likes. Whoever may not
// come in must not hold a connection by that. Behind the body net/http lifts the
// limit, so that it cuts no stream.
func server(h http.Handler, log *slog.Logger, bodyTimeout time.Duration) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: ReadHeaderTimeout,
		ReadTimeout:       bodyTimeout,
		IdleTimeout:       IdleTimeout,
		MaxHeaderBytes:    MaxHeaderBytes,
		ConnContext:       remember,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),

		// net/http would answer "OPTIONS *" itself, past every check.
		DisableGeneralOptionsHandler: true,
	}
}

// ReadBody appends the body of r to buf. A body over MaxBody bytes is a
// TooLarge error, one that ends early or takes longer than BodyTimeout an
// Invalid one. The server must be one of Server.
func ReadBody(w http.ResponseWriter, r *http.Request, buf *bytes.Buffer) error {
	return readBody(w, r, buf, MaxBody)
}

func readBody(w http.ResponseWriter, r *http.Request, buf *bytes.Buffer, limit int64) error {
	if r.ContentLength > limit {
		return tooLarge(limit)
	}
	var body io.Reader = r.Body
	if r.ContentLength < 0 { // net/http holds every other to its length
		body = http.MaxBytesReader(w, r.Body, limit)
	}
	var err error
	if n := r.ContentLength; n > 0 && n <= maxTrusted {
		buf.Grow(int(n))
		whole := buf.AvailableBuffer()[:n]
		if _, err = io.ReadFull(body, whole); err == nil {
			buf.Write(whole) // in place
		}
	} else {
		_, err = buf.ReadFrom(body)
	}
	if err == nil {
		return nil
	}
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return tooLarge(limit)
	}
	return fmt.Errorf("read request: %w: %w", crib.Errorf(crib.Invalid, "the request's body ended early or came too slowly; send it again"), err)
}

func tooLarge(limit int64) error {
	return crib.Errorf(crib.TooLarge, "the request's body is over %d bytes; send less at a time", limit)
}

// securityHeaders are values that all answers share; whoever sets another puts
// it in their place.
var securityHeaders = map[string][]string{
	"X-Content-Type-Options":       {"nosniff"},
	"Cross-Origin-Resource-Policy": {"same-origin"},
	"Cache-Control":                {"no-store"},
}

// SecurityHeaders sets the headers that keep a browser from taking an answer
// for anything but data, from keeping it, and from giving it to another site. A
// handler that serves pages adds those that pages need.
func SecurityHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		maps.Copy(w.Header(), securityHeaders)
		next.ServeHTTP(w, r)
	})
}

var errPanicked = errors.New("a request handler panicked")

// Recover returns the middleware that logs a panic with its stack and answers
// 500. Where the answer has begun it cuts the connection instead, so that half
// an answer cannot be taken for a whole one.
func Recover(log *slog.Logger) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			tw := &trackedWriter{ResponseWriter: w}
			defer func() {
				fault := recover()
				if fault == nil {
					return
				}
				if fault == http.ErrAbortHandler { // a handler that cuts on purpose
					panic(fault)
				}
				log.ErrorContext(r.Context(), errPanicked.Error(),
					"method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(fault), "stack", string(debug.Stack()))
				if tw.begun {
					panic(http.ErrAbortHandler)
				}
				w.Header().Del("Content-Length") // of the answer that will not come
				WriteRPCError(w, http.StatusInternalServerError, codeInternal, crib.SafeText(errPanicked))
			}()
			next.ServeHTTP(tw, r)
		})
	}
}

// trackedWriter knows whether the answer has begun. Whatever else the writer
// below can do is reached through http.ResponseController.
type trackedWriter struct {
	http.ResponseWriter
	begun bool
}

func (w *trackedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *trackedWriter) WriteHeader(status int) {
	w.begun = w.begun || status >= http.StatusOK // 1xx may be followed by another
	w.ResponseWriter.WriteHeader(status)
}

func (w *trackedWriter) Write(b []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(b)
}

func (w *trackedWriter) Flush() { _ = w.FlushError() }

func (w *trackedWriter) FlushError() error {
	w.begun = true
	return http.NewResponseController(w.ResponseWriter).Flush()
}
