package demo

import (
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// maxBody is the greatest size in bytes of a request to the notebook.
const maxBody = 256 << 10

// HTTP is a new, empty notebook over Streamable HTTP: both eras, without
// sessions. It is meant for loopback, and refuses what comes from a browser.
func HTTP() http.Handler { return &web{newNotebook()} }

type web struct{ server *server }

func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	refuse := func(status, code int, text string) {
		answer(rw, status, wire.ErrorBody(nil, code, text, nil))
	}
	if r.Header.Get("Origin") != "" {
		refuse(http.StatusForbidden, wire.CodeInvalidRequest, "pages of a browser have no business here")
		return
	}
	if r.Method != http.MethodPost {
		rw.Header().Set("Allow", "POST")
		refuse(http.StatusMethodNotAllowed, wire.CodeInvalidRequest, "this address takes POST")
		return
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refuse(http.StatusUnsupportedMediaType, wire.CodeInvalidRequest, "send Content-Type: application/json")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxBody))
	if err != nil {
		refuse(http.StatusRequestEntityTooLarge, wire.CodeInvalidRequest, "the message cannot be read or is too large")
		return
	}
	m, err := wire.Scan(body)
	if err != nil {
		code := wire.CodeInvalidRequest
		if errors.Is(err, wire.ErrParse) {
			code = wire.CodeParse
		}
		refuse(http.StatusBadRequest, code, err.Error())
		return
	}
	if m.Kind != wire.RequestKind {
		rw.WriteHeader(http.StatusAccepted)
		return
	}
	w.request(rw, r, m)
}

func (w *web) request(rw http.ResponseWriter, r *http.Request, m wire.Message) {
	era := eraOf(m, r.Header.Get(wire.HeaderProtocolVersion))
	if era == wire.Modern && m.Meta.ProtocolVersion.OK() {
		if err := wire.CheckHeaders(r.Header, &m); err != nil {
			answer(rw, http.StatusBadRequest, wire.ErrorBody(m.ID.In(m.Body), wire.CodeHeaderMismatch, err.Error(), nil))
			return
		}
	}
	body := w.server.handle(r.Context(), era, m, nil)
	answer(rw, statusOf(era, body), body)
}

// statusOf is the status of an answer (2026-07-28, Streamable HTTP, Sending
// Messages); a legacy one is always 200.
func statusOf(era wire.Era, body []byte) int {
	e := wire.Get(body, "error")
	if e == nil || era == wire.Legacy {
		return http.StatusOK
	}
	switch wire.ReadError(e).Code {
	case wire.CodeMethodNotFound:
		return http.StatusNotFound
	case wire.CodeInvalidParams, wire.CodeUnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

func answer(rw http.ResponseWriter, status int, body []byte) {
	rw.Header().Set("Content-Type", "application/json")
	rw.Header().Set("X-Content-Type-Options", "nosniff")
	rw.WriteHeader(status)
	rw.Write(body) //nolint:errcheck // a client that is gone needs no answer
}
