package soak

import (
	"fmt"
	"net/http"
	"regexp"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// verdict is what an answer says of the call it answers.
type verdict string

const (
	completed   verdict = "completed"    // it was executed once
	notExecuted verdict = "not executed" // and never will be
	uncertain   verdict = "uncertain"    // it was executed once or never, and the answer says so
	left        verdict = "left"         // the client did not want to wait for the answer
	gaveUp      verdict = "gave up"      // the client waited as long as it could
	wrong       verdict = "wrong"        // no answer that anybody could rely on
)

// read tells what an answer to a call says, and why it is wrong where it is.
func read(r *mcptest.Reply, token string) (verdict, string) {
	if r.Err != nil {
		return wrong, fmt.Sprintf("no whole answer: %v", r.Err)
	}
	for _, other := range tokens.FindAllStringSubmatch(r.Message(), -1) {
		if other[1] != token {
			return wrong, fmt.Sprintf("it carries the token of another call, %s: %s", other[1], r)
		}
	}
	switch r.Status {
	case http.StatusOK, http.StatusBadRequest:
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusNotFound:
		return notExecuted, ""
	default:
		return wrong, r.String()
	}
	if code := wire.Text(wire.GetPath([]byte(r.Result()), "_meta", wire.MetaCode)); len(code) > 0 {
		return ofCode(crib.Code(code), r)
	}
	switch e := r.RPCError(); {
	case r.Result() != "":
		return completed, ""
	case e.Code == wire.CodeInvalidParams:
		return notExecuted, "" // an unknown tool
	case e.Code == wire.CodeInternal:
		return uncertain, "" // it was cancelled
	}
	return wrong, r.String()
}

// ofCode reads the code of an error of the crib, as docs/reference/errors.md
// explains it.
func ofCode(code crib.Code, r *mcptest.Reply) (verdict, string) {
	switch code {
	case crib.Unavailable, crib.Busy, crib.NotFound:
		return notExecuted, ""
	case crib.Timeout, crib.Unknown, crib.Cancelled, crib.TooLarge:
		return uncertain, ""
	}
	return wrong, r.String()
}

// tokens finds the tokens in an answer, also where its JSON stands inside a
// string.
var tokens = regexp.MustCompile(`token\\*":\\*"([^"\\]+)`)
