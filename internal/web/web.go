// Package web is what every HTTP door of the crib shares: the checks of Host
// and Origin, security headers, limits of time and size, and how an error
// becomes a status.
package web

import (
	"encoding/json"
	"net/http"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// Middleware wraps a handler with a check or a duty.
type Middleware func(http.Handler) http.Handler

// CodeRefused is the JSON-RPC code of a request that was refused before its
// body was read: -32600, Invalid Request (JSON-RPC 2.0, Error object). Neither
// JSON-RPC nor MCP has a code of its own for a refusal by HTTP headers.
const CodeRefused = -32600

// codeInternal is the JSON-RPC code of a fault of the crib.
const codeInternal = -32603

// StatusCancelled is the status of a call that its caller cancelled. HTTP has
// none, and nobody is there to read it; access logs know 499 for this.
const StatusCancelled = 499

// Status returns the HTTP status for an error, by its crib.Code. An error
// without a code is a fault of the crib.
func Status(err error) int {
	switch crib.CodeOf(err) {
	case crib.Invalid:
		return http.StatusBadRequest
	case crib.Denied:
		return http.StatusForbidden
	case crib.NotFound:
		return http.StatusNotFound
	case crib.TooLarge:
		return http.StatusRequestEntityTooLarge
	case crib.Busy:
		return http.StatusTooManyRequests
	case crib.Cancelled:
		return StatusCancelled
	case crib.Unsupported:
		return http.StatusNotImplemented
	case crib.Unauthorized, crib.Unknown:
		// The client's own credential is fine: it is a server behind the crib
		// that refused, or was lost.
		return http.StatusBadGateway
	case crib.Unavailable:
		return http.StatusServiceUnavailable
	case crib.Timeout:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

// WriteRPCError answers with a JSON-RPC error that has no id, for a request
// whose body was not read (2025-11-25, Transports, Security Warning).
func WriteRPCError(w http.ResponseWriter, status, code int, message string) {
	body, err := json.Marshal(rpcError{Version: "2.0", Error: rpcErrorObject{code, message}})
	if err != nil { // a struct of strings and an integer
		panic(err)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // whoever asked may have left
}

type rpcError struct {
	Version string         `json:"jsonrpc"`
	Error   rpcErrorObject `json:"error"`
}

type rpcErrorObject struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}
