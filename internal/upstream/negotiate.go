package upstream

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Declaration is what a leg declares of its client in initialize. Nil members
// declare the crib itself, able to nothing: a leg that several callers share
// has nobody whom a server could ask.
type Declaration struct {
	Info         []byte // raw clientInfo
	Capabilities []byte // raw capabilities
	Dir          string // the client's folder, where a process starts in place of its own; "" says nothing
}

func (d Declaration) info(version string) []byte {
	if d.Info != nil {
		return d.Info
	}
	return append(append([]byte(`{"name":"toolcrib","version":`), wire.Quote(version)...), '}')
}

func (d Declaration) capabilities() []byte {
	if d.Capabilities != nil {
		return d.Capabilities
	}
	return []byte("{}")
}

// request builds a request of the crib's own. params is the inside of the
// params object, "" for none; the modern members of _meta are added.
func (d Declaration) request(era wire.Era, version, method, params string) *Outgoing {
	src := []byte(`{"jsonrpc":"2.0","id":`)
	id := wire.Span{From: len(src), To: len(src) + 1}
	src = append(src, `0,"method":`...)
	src = wire.AppendString(src, method)
	src = append(src, `,"params":{`...)
	src = append(src, params...)
	if era == wire.Modern {
		if params != "" {
			src = append(src, ',')
		}
		src = append(src, `"_meta":`...)
		src = append(src, d.modernMeta(version)...)
	}
	src = append(src, "}}"...)
	return &Outgoing{Method: method, Src: src, ID: id, Read: true}
}

// modernMeta returns the _meta object that each modern request carries
// (2026-07-28, Overview, _meta).
func (d Declaration) modernMeta(version string) []byte {
	return slices.Concat([]byte(`{"`+wire.MetaProtocolVersion+`":"`+wire.NewestModern+`","`+wire.MetaClientInfo+`":`), d.info(version),
		[]byte(`,"`+wire.MetaClientCapabilities+`":`), d.capabilities(), []byte("}"))
}

func (d Declaration) initialize(version string) *Outgoing {
	params := slices.Concat([]byte(`"protocolVersion":"`+wire.NewestLegacy+`","capabilities":`), d.capabilities(), []byte(`,"clientInfo":`), d.info(version))
	return d.request(wire.Legacy, version, "initialize", string(params))
}

const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// NewRequest builds a request of the crib's own for leg. params is the inside
// of the params object.
func NewRequest(leg Leg, version, method, params string) *Outgoing {
	return Declaration{}.request(leg.Hello().Era, version, method, params)
}

// modernHello reads the result of server/discover. The second value are the
// eras that the server speaks.
func modernHello(server string, result []byte) (*wire.Hello, []wire.Era, error) {
	var eras []wire.Era
	for _, at := range wire.Elements(wire.Get(result, "supportedVersions")) {
		era := wire.EraOf(wire.Text(at.In(wire.Get(result, "supportedVersions"))))
		if era != "" && !slices.Contains(eras, era) {
			eras = append(eras, era)
		}
	}
	if !slices.Contains(eras, wire.Modern) {
		if slices.Contains(eras, wire.Legacy) {
			return nil, eras, nil
		}
		return nil, nil, unavailable(server, "speaks no protocol version that the crib speaks (%v)", wire.SupportedVersions)
	}
	return &wire.Hello{Era: wire.Modern, Version: wire.NewestModern, Result: result}, eras, nil
}

// legacyHello reads the result of initialize.
func legacyHello(server string, result []byte) (*wire.Hello, error) {
	version, _ := wire.GetText(result, "protocolVersion")
	if wire.EraOf(version) != wire.Legacy {
		return nil, unavailable(server, "answered initialize with the protocol version %q, which the crib does not speak", version)
	}
	return &wire.Hello{Era: wire.Legacy, Version: version, Result: result}, nil
}

// welcomed reads the answer to initialize.
func (l *common) welcomed(m wire.Message) (*wire.Hello, error) {
	if m.Error.OK() {
		e := wire.ReadError(m.Error.In(m.Body))
		return nil, unavailable(l.spec.Name, "refuses initialize: %s (%d)", l.opts.Redact(e.Message), e.Code)
	}
	return legacyHello(l.spec.Name, m.Result.In(m.Body))
}

// verdict is what an answer to server/discover says of a server.
type verdict struct {
	hello *wire.Hello // set for a modern server
	eras  []wire.Era
	err   error // the server can not be used now; nothing is learned of its era
	again bool  // it refused the version that it says it supports: once more is worth it
}

// judge reads an answer to server/discover (2026-07-28, Versioning, Backward
// Compatibility). Without hello and error the server is a legacy one.
func judge(server string, m wire.Message) verdict {
	if m.Result.OK() {
		hello, eras, err := modernHello(server, m.Result.In(m.Body))
		if hello == nil && err == nil {
			eras = []wire.Era{wire.Legacy}
		}
		return verdict{hello: hello, eras: eras, err: err}
	}
	e := wire.ReadError(m.Error.In(m.Body))
	if !wire.IsModernError(e.Code) {
		return verdict{eras: []wire.Era{wire.Legacy}}
	}
	refused := unavailable(server, "refuses server/discover: %s (%d)", e.Message, e.Code)
	if e.Code == wire.CodeUnsupportedVersion {
		supported := wire.Get(e.Data, "supported")
		legacy := false
		for _, at := range wire.Elements(supported) {
			v := wire.Text(at.In(supported))
			if v == wire.NewestModern {
				return verdict{again: true, err: refused}
			}
			legacy = legacy || wire.EraOf(v) == wire.Legacy
		}
		if legacy {
			return verdict{eras: []wire.Era{wire.Legacy}}
		}
	}
	return verdict{err: refused}
}

// connectHTTP makes a leg to a server with an address in era, or in the era it
// finds when era is "". The last way is the older transport: an address that
// takes no messages may have a stream that tells where they go (2025-11-25,
// Transports, Backwards Compatibility).
func connectHTTP(ctx context.Context, spec *Spec, opts *Options, era wire.Era, declare Declaration) (Leg, []wire.Era, error) {
	creds, err := spec.Connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	if spec.older.Load() && era != wire.Modern {
		leg, err := connectSSE(ctx, spec, opts, creds.Header, declare)
		switch {
		case err == nil:
			return leg, []wire.Era{wire.Legacy}, nil
		case !errors.Is(err, errNoStream) && !errors.Is(err, errNoEndpoint):
			return nil, nil, err
		}
		spec.older.Store(false) // it has learned since
	}
	l, err := newHTTPLeg(spec, opts, creds.Header)
	if err != nil {
		return nil, nil, err
	}
	l.declare = declare
	eras, err := l.negotiate(ctx, era)
	if err == nil {
		return l, eras, nil
	}
	l.Close()
	status, ok := errors.AsType[*statusError](err)
	if !ok || !saysLegacy(status.status) || era == wire.Modern {
		return nil, nil, err
	}
	leg, err := connectSSE(ctx, spec, opts, creds.Header, declare)
	if errors.Is(err, errNoStream) {
		return nil, nil, crib.Errorf(crib.Unavailable, "%s, and has no stream of the older HTTP+SSE transport; is its address right?", status.err.Msg)
	}
	if err != nil {
		return nil, nil, err
	}
	spec.older.Store(true)
	return leg, []wire.Era{wire.Legacy}, nil
}

func (l *httpLeg) negotiate(ctx context.Context, era wire.Era) ([]wire.Era, error) {
	if era == wire.Legacy {
		return []wire.Era{wire.Legacy}, l.initialize(ctx)
	}
	l.hello.Store(&wire.Hello{Era: wire.Modern, Version: wire.NewestModern})
	v := l.discover(ctx)
	if v.again {
		v = l.discover(ctx)
	}
	switch {
	case v.err != nil:
		return nil, v.err
	case v.hello != nil:
		l.hello.Store(v.hello)
		return v.eras, nil
	case era == wire.Modern:
		return nil, unavailable(l.spec.Name, "does not speak %s; set era: legacy or auto on its page", wire.NewestModern)
	}
	return v.eras, l.initialize(ctx)
}

// discover asks the server for its era. Over HTTP a 4xx that names no reason
// of its own means a legacy server; an answer that could come from anything in
// between, such as 401 or 429, means nothing.
func (l *httpLeg) discover(ctx context.Context) verdict {
	out := l.declare.request(wire.Modern, l.opts.Version, "server/discover", "")
	out.Timeout = l.opts.ProbeTimeout
	reply, err := l.Do(ctx, out, Nobody{})
	var status *statusError
	switch {
	case errors.As(err, &status) && saysLegacy(status.status):
		return verdict{eras: []wire.Era{wire.Legacy}}
	case err != nil:
		return verdict{err: err}
	case reply.Status/100 != 2 && !(reply.Message.Error.OK() && saysLegacy(reply.Status)):
		return verdict{err: unavailable(l.spec.Name, "answered server/discover with HTTP %d", reply.Status)}
	}
	return judge(l.spec.Name, reply.Message)
}

// saysLegacy reports whether a status can be a legacy server's refusal of a
// request it does not know.
func saysLegacy(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return status/100 == 4
}

// initialize opens a legacy session (2025-11-25, Lifecycle, Initialization).
func (l *httpLeg) initialize(ctx context.Context) error {
	if h := l.Hello(); h == nil || h.Era != wire.Legacy {
		l.hello.Store(&wire.Hello{Era: wire.Legacy})
	}
	reply, err := l.Do(ctx, l.declare.initialize(l.opts.Version), Nobody{})
	if err != nil {
		return err
	}
	hello, err := l.welcomed(reply.Message)
	if err != nil {
		return err
	}
	l.hello.Store(hello)
	l.retired.Store(false) // what the server refused before told of its era only
	if err := l.Notify(ctx, []byte(initialized)); err != nil {
		return err
	}
	session := l.session.Load()
	l.work.start(func() { l.listen(session) })
	return nil
}

func (l *httpLeg) keepSession(resp *http.Response) {
	id := resp.Header.Get(wire.HeaderSession)
	if id == "" {
		l.session.Store(nil)
		return
	}
	l.session.Store(&id)
}

// renew opens a new session in place of lost, once for all that wait for it.
// If that fails the leg ends, and with it all that wait.
func (l *httpLeg) renew(ctx context.Context, lost *string) error {
	select {
	case l.renewing <- struct{}{}:
		defer func() { <-l.renewing }()
	case <-ctx.Done():
		return transportError{ctx.Err()}
	}
	if err := l.life.Err(); err != nil {
		return unavailable(l.spec.Name, "cannot be reached: %s", wasClosed)
	}
	if l.session.Load() != lost {
		return nil
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.opts.StartTimeout)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	if err := l.initialize(ctx); err != nil {
		l.fail(endOfLeg("it lost its session and gave no new one"))
		return unavailable(l.spec.Name, "lost its session and gave no new one: %s", crib.SafeText(err))
	}
	l.opts.Log.Info("a server's session was renewed", "server", l.spec.Name, "took", time.Since(began))
	if l.opts.Events != nil {
		l.opts.Events.Renewed(l.spec.Name, l)
	}
	return nil
}
