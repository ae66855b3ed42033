package upstream

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// fakeLeg answers as every server does under TOOLCRIB_PROVIDERS=fake: with one
// deterministic tool, echo, and no connection to anything.
type fakeLeg struct {
	name string
	next atomic.Int64
	done chan struct{}
	end  sync.Once
}

func newFake(name string) Leg { return &fakeLeg{name: name, done: make(chan struct{})} }

const (
	fakeHello = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":3600000,"cacheScope":"private","_meta":{"` + wire.MetaServerInfo + `":{"name":"fake","version":"1"}}}`
	fakeTools = `{"resultType":"complete","ttlMs":3600000,"cacheScope":"private","tools":[{"name":"echo","description":"Returns its arguments.","inputSchema":{"type":"object"}}]}`
)

func (l *fakeLeg) Hello() *wire.Hello {
	return &wire.Hello{Era: wire.Modern, Version: wire.NewestModern, Result: []byte(fakeHello)}
}
func (l *fakeLeg) Open() int                            { return 0 }
func (l *fakeLeg) Quiet() <-chan struct{}               { return new(inflight).whenQuiet() }
func (l *fakeLeg) Retire()                              {}
func (l *fakeLeg) OneStream() bool                      { return false }
func (l *fakeLeg) Retired() bool                        { return false }
func (l *fakeLeg) Done() <-chan struct{}                { return l.done }
func (l *fakeLeg) Notify(context.Context, []byte) error { return nil }

// Close ends the leg.
func (l *fakeLeg) Close() { l.end.Do(func() { close(l.done) }) }

// Do answers out.
func (l *fakeLeg) Do(_ context.Context, out *Outgoing, _ Listener) (*Reply, error) {
	body := out.body(l.next.Add(1))
	m, err := wire.ScanServer(body)
	if err != nil {
		return nil, unavailable(l.name, "cannot read the request: %v", err)
	}
	id := m.ID.In(body)
	var answer []byte
	switch m.Method {
	case "server/discover":
		answer = wire.ResultBody(id, []byte(fakeHello))
	case "tools/list":
		answer = wire.ResultBody(id, []byte(fakeTools))
	case "tools/call":
		args := m.Params.Arguments.In(body)
		if args == nil {
			args = []byte("{}")
		}
		answer = wire.ResultBody(id, slices.Concat([]byte(`{"resultType":"complete","content":[{"type":"text","text":`),
			wire.Quote(string(args)), []byte(`}],"structuredContent":`), args, []byte("}")))
	default:
		answer = wire.ErrorBody(id, wire.CodeMethodNotFound, "the fake server knows no "+m.Method, nil)
	}
	reply, err := wire.ScanServer(answer)
	if err != nil {
		return nil, err
	}
	return &Reply{Message: reply, Era: wire.Modern}, nil
}
