package app

import (
	"fmt"
	"slices"
	"time"

	"github.com/toolcrib/toolcrib/internal/auth"
	"github.com/toolcrib/toolcrib/internal/bridge"
	"github.com/toolcrib/toolcrib/internal/catalog"
	"github.com/toolcrib/toolcrib/internal/child"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/gateway"
	"github.com/toolcrib/toolcrib/internal/gateway/lane"
	"github.com/toolcrib/toolcrib/internal/gateway/task"
	"github.com/toolcrib/toolcrib/internal/mcphttp"
	"github.com/toolcrib/toolcrib/internal/mcpstdio"
	"github.com/toolcrib/toolcrib/internal/page"
	"github.com/toolcrib/toolcrib/internal/secret"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/store"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/upstream/gate"
	"github.com/toolcrib/toolcrib/internal/web"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Limit is one of the crib's limits, for people to read.
type Limit struct{ About, What, Value string }

// Limits lists the limits that people can meet, each from where it is kept.
// Those of one subject stand together.
func Limits() []Limit {
	return slices.Concat(
		about("clients", clientLimits),
		about("a server", serverLimits),
		about("pages and secrets", fileLimits),
		about("the crib", cribLimits),
		about("toolcrib connect", connectLimits),
	)
}

func about(what string, list []Limit) []Limit {
	out := slices.Clone(list)
	for i := range out {
		out[i].About = what
	}
	return out
}

func number(what string, n int) Limit { return Limit{What: what, Value: fmt.Sprint(n)} }

func lasts(what string, d time.Duration) Limit { return Limit{What: what, Value: d.String()} }

func size(what string, bytes int) Limit {
	switch {
	case bytes >= 1<<20:
		return Limit{What: what, Value: fmt.Sprintf("%d MiB", bytes>>20)}
	case bytes >= 1<<10:
		return Limit{What: what, Value: fmt.Sprintf("%d KiB", bytes>>10)}
	}
	return Limit{What: what, Value: fmt.Sprintf("%d bytes", bytes)}
}

var clientLimits = []Limit{
	size("body of a request", web.MaxBody),
	size("headers of a request", web.MaxHeaderBytes),
	lasts("time for the headers of a request", web.ReadHeaderTimeout),
	lasts("time for a request with its body", web.BodyTimeout),
	lasts("time for a client to take the next 256 KiB of an answer", web.WriteTimeout),
	lasts("time of a connection between two requests", web.IdleTimeout),
	number("requests and streams open, of all together", mcphttp.MaxRequests),
	size("bodies of open requests in memory, of all together", mcphttp.MaxBodies),
	lasts("time between comments on a quiet stream", mcphttp.KeepAlive),
	size("how far a client may be behind on a stream before it loses it", mcphttp.MaxBehind),
	size("events kept of a stream of a legacy session, to be taken up again", mcphttp.KeptEvents),
	number("streams of a legacy session that are kept for that", mcphttp.KeptStreams),
	size("messages kept for a legacy session that has no stream open", mcphttp.KeptIdle),
	number("legacy sessions; over it, of whoever has most of them the one idle for longest ends", gateway.MaxSessions),
	lasts("time without a request after which a legacy session ends", gateway.SessionIdle),
	number("resources that one client is told of", gateway.MaxSubscribed),
	size("state that comes back with the answers to a call's questions", bridge.MaxState),
	number("tasks of one principal that are known; over it, the oldest is forgotten", task.Max),
	lasts("time that a task is known", task.MaxTime),
}

var serverLimits = []Limit{
	size("a message, an event or a body", upstream.MaxMessage),
	lasts("time for an answer or a sign of life, where its page does not say", upstream.DefaultTimeout),
	lasts("time of one request, whatever progress it makes", upstream.MaxCallTime),
	lasts("time for the answer to a question of a server, while its request waits", upstream.QuestionTime),
	lasts("time to connect over the network", upstream.DialTimeout),
	lasts("time to start", upstream.StartTimeout),
	lasts("time for an answer to server/discover, from the first sign of life", upstream.ProbeTimeout),
	lasts("wait behind the first attempt to start or connect that failed; doubles with each", upstream.FirstBackoff),
	lasts("wait behind any attempt that failed", upstream.MaxBackoff),
	number("attempts to take up the broken stream of a request", upstream.ResumeAttempts),
	lasts("time between questions for a sign of life, while it is not in use", upstream.Liveness),
	lasts("time for open requests to end on a connection that is replaced", upstream.Drain),
	number("requests that it works on at a time", gate.MaxOpen),
	number("requests that wait for a place", gate.MaxQueued),
	lasts("time that one waits for a place", gate.QueueTime),
	size("requests and answers in memory", gate.MaxHeld),
	number("failures in a row before it is left alone for as long as the last one took", gate.TripAfter),
	lasts("time that it is left alone, at least", gate.MinPause),
	lasts("time that it is left alone, at most", gate.MaxPause),
	number("questions of one call that come one after the other", bridge.MaxRounds),
	number("questions of one call that are open at one time", bridge.MaxQuestions),
	lasts("time that further questions are waited for, to be put together", bridge.JoinQuestions),
	lasts("wait before a call is tried again that needs nothing but that; doubles with each", bridge.FirstPause),
	lasts("wait before any such call is tried again", bridge.MaxPause),
	lasts("time for a client to say which folder it works in", gateway.RootTime),
	number("connections that calls of one principal have beside each other because they may wait for answers", lane.Max),
	lasts("time for a client to answer a question", bridge.RoundTime),
	number("pages of a list", catalog.MaxPages),
	size("lists that are kept on disk", store.MaxList),
	number("arguments of a tool that it wants as headers", wire.MaxParamHeaders),
	lasts("age of a list from a server that does not tell of changes", catalog.LegacyTTL),
	size("stderr that is kept", child.DefaultStderrKeep),
	lasts("time for each step of ending a process", child.DefaultStopGrace),
	lasts("time for a process to read a message", child.DefaultWriteTimeout),
}

var fileLimits = []Limit{
	number("pages in a workspace", servers.MaxPages),
	size("a page", page.MaxPageBytes),
	size("front matter of a page; toolcrib.yaml; TOOLCRIB_MCP_SERVERS", page.MaxYAMLBytes),
	size("name of a server", crib.MaxServerName),
	size("pattern of tools, prompts, resources or methods", page.MaxPattern),
	lasts("timeout on a page, at least", page.MinTimeout),
	lasts("timeout on a page, at most", page.MaxTimeout),
	size("a secret", secret.MaxSecretBytes),
	lasts("time for the command of an exec store", secret.DefaultExecTimeout),
	lasts("time to look up the secrets of all servers at a reload", RenewTime),
	size("least size of a secret that is hidden in logs and errors", secret.MinRedacted),
	size("name of a token", auth.MaxName),
}

var cribLimits = []Limit{
	number("requests open at all servers, those that wait included", gate.MaxOpenTotal),
	size("requests and answers in memory, of all servers", gate.MaxHeldTotal),
	number("processes that start at one time, until they show life", upstream.MaxStarting),
	lasts("wait of a list for servers that have to be asked", catalog.Budget),
	lasts("wait of a list where there is nothing at all to show", catalog.FirstWait),
	size("name of a tool or prompt at the address of all servers; a longer one is shortened", catalog.MaxPublicName),
	size("instructions of the address of all servers", gateway.MaxInstructions),
	lasts("time for open requests to end when it stops", Drain),
}

var connectLimits = []Limit{
	size("a message of the client", mcpstdio.MaxLine),
	size("a message of the crib", mcpstdio.MaxAnswer),
	number("requests of the client open", mcpstdio.MaxOpen),
	lasts("time for open requests to end when the client has closed its end", mcpstdio.Grace),
	number("attempts to take up the broken stream of a request", mcpstdio.ResumeAttempts),
}
