package app

import (
	"fmt"
	"time"

	"github.com/toolcrib/toolcrib/internal/bridge"
	"github.com/toolcrib/toolcrib/internal/catalog"
	"github.com/toolcrib/toolcrib/internal/child"
	"github.com/toolcrib/toolcrib/internal/gateway"
	"github.com/toolcrib/toolcrib/internal/mcphttp"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/upstream/gate"
	"github.com/toolcrib/toolcrib/internal/web"
)

// Limit is one of the crib's limits, for people to read.
type Limit struct{ About, What, Value string }

// Limits lists the limits of a crib, each from where it is kept.
func Limits() []Limit {
	n := func(v int) string { return fmt.Sprint(v) }
	b := func(v int) string {
		if v >= 1<<20 {
			return fmt.Sprintf("%d MiB", v>>20)
		}
		return fmt.Sprintf("%d KiB", v>>10)
	}
	d := func(v time.Duration) string { return v.String() }
	const clients, servers, crib = "clients", "a server", "the crib"
	return []Limit{
		{clients, "body of a request", b(web.MaxBody)},
		{clients, "headers of a request", b(web.MaxHeaderBytes)},
		{clients, "time for the headers of a request", d(web.ReadHeaderTimeout)},
		{clients, "time for the body of a request", d(web.BodyTimeout)},
		{clients, "time for a client to take the next 256 KiB of an answer", d(web.WriteTimeout)},
		{clients, "time of a connection between two requests", d(web.IdleTimeout)},
		{clients, "requests and streams open, of all together", n(mcphttp.MaxRequests)},
		{clients, "bodies of open requests in memory, of all together", b(mcphttp.MaxBodies)},
		{clients, "time between comments on a quiet stream", d(mcphttp.KeepAlive)},
		{clients, "how far a client may be behind on a stream before it loses it", b(mcphttp.MaxBehind)},
		{clients, "legacy sessions; over it, of whoever has most of them the one idle for longest ends", n(gateway.MaxSessions)},
		{clients, "time without a request after which a legacy session ends", d(gateway.SessionIdle)},
		{clients, "resources that one client is told of", n(gateway.MaxSubscribed)},
		{servers, "a message, an event or a body", b(upstream.MaxMessage)},
		{servers, "time for an answer or a sign of life, where its page does not say", d(upstream.DefaultTimeout)},
		{servers, "time of one request, whatever progress it makes", d(upstream.MaxCallTime)},
		{servers, "time to start", d(upstream.StartTimeout)},
		{servers, "time for an answer to server/discover, from the first sign of life", d(upstream.ProbeTimeout)},
		{servers, "time between questions for a sign of life, while it is not in use", d(upstream.Liveness)},
		{servers, "requests that it works on at a time", n(gate.MaxOpen)},
		{servers, "requests that wait for a place", n(gate.MaxQueued)},
		{servers, "time that one waits for a place", d(gate.QueueTime)},
		{servers, "requests and answers in memory", b(gate.MaxHeld)},
		{servers, "failures in a row before it is left alone for as long as the last one took", n(gate.TripAfter)},
		{servers, "questions of one call that come one after the other", n(bridge.MaxRounds)},
		{servers, "time for a client to answer a question", d(bridge.RoundTime)},
		{servers, "pages of a list", n(catalog.MaxPages)},
		{servers, "age of a list from a server that does not tell of changes", d(catalog.LegacyTTL)},
		{servers, "stderr that is kept", b(child.DefaultStderrKeep)},
		{servers, "time for each step of ending a process", d(child.DefaultStopGrace)},
		{servers, "time for a process to read a message", d(child.DefaultWriteTimeout)},
		{crib, "requests open at all servers, those that wait included", n(gate.MaxOpenTotal)},
		{crib, "requests and answers in memory, of all servers", b(gate.MaxHeldTotal)},
		{crib, "processes that start at one time, until they show life", n(upstream.MaxStarting)},
		{crib, "wait of a list for servers that have to be asked", d(catalog.Budget)},
		{crib, "wait of a list where there is nothing at all to show", d(catalog.FirstWait)},
		{crib, "instructions of the address of all servers", b(gateway.MaxInstructions)},
		{crib, "time for open requests to end when it stops", d(Drain)},
	}
}
