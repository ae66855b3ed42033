package auth

import (
	"errors"
	"net/http"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/web"
)

// The error codes of a challenge (RFC 6750 section 3.1). A request without a
// credential gets none (section 3).
const (
	noCredential   = ""
	invalidRequest = "invalid_request"
	invalidToken   = "invalid_token"
)

// refusal is an error of Identify: what to say, and the code of the challenge.
type refusal struct {
	safe      *crib.Error
	challenge string
}

func refuse(challenge, format string, args ...any) error {
	return &refusal{safe: crib.Errorf(crib.Denied, format, args...), challenge: challenge}
}

func (r *refusal) Error() string { return r.safe.Error() }
func (r *refusal) Unwrap() error { return r.safe }

// Challenge answers a request that Identify refused with err: status 401, a
// challenge for a bearer token, and a JSON-RPC error without an id whose text
// says how to get one.
func Challenge(w http.ResponseWriter, err error) {
	challenge := `Bearer realm="toolcrib"`
	var r *refusal
	if errors.As(err, &r) && r.challenge != noCredential {
		challenge += `, error="` + r.challenge + `"`
	}
	w.Header().Set("WWW-Authenticate", challenge)
	web.WriteRPCError(w, http.StatusUnauthorized, web.CodeRefused, crib.SafeText(err))
}
