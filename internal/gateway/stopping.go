package gateway

import (
	"net/http"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// StoppingText says why a request is refused while the crib ends.
const StoppingText = "the crib is stopping, so nothing was sent to a server; try again when it is back"

// StoppingRetry is the Retry-After, in seconds, of such an answer. Most of what
// is open when a crib stops has ended by then, and so has the crib.
const StoppingRetry = "5"

// continues reports whether a request belongs to what is open already: the
// answer to a question of a server, whose seal is looked at where it is opened,
// and the end of a task. A ping asks for nothing.
func continues(req *Request) bool {
	switch m := req.Message; {
	case m.Method == "ping" && req.Era == wire.Legacy, m.Method == "tasks/cancel":
		return true
	default:
		return req.Era == wire.Modern && owns(m.Method) && m.Params.RequestState.OK()
	}
}

// turnedAway answers a request that came when the crib was stopping.
func turnedAway(req *Request) Answer {
	data := append([]byte(`{"`+wire.MetaCode+`":`), wire.Quote(string(crib.Unavailable))...)
	return Answer{
		Body:   wire.ErrorBody(req.id(), wire.CodeInternal, StoppingText, append(data, '}')),
		Status: http.StatusServiceUnavailable, RetryAfter: StoppingRetry,
	}
}
