package gateway

import (
	"context"
	"strconv"
	"sync"

	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// MaxLanes is how many connections to one server the clients of a principal may
// have beside each other because their calls may wait for answers. What is more
// shares the first one.
const MaxLanes = 16

// lanes are the connections on which dialogues are held. Where one pipe carries
// all requests, nothing proves because of which of them a server asks; so a
// dialogue has one to itself, and a client that never comes back keeps nobody
// else from being asked.
type lanes struct {
	mu   sync.Mutex // guards busy
	busy map[lane]*[MaxLanes]bool
}

// lane is where the lanes of those who share a leg lead.
type lane struct {
	server string
	share  upstream.Share
}

func (l *lanes) init() { l.busy = make(map[lane]*[MaxLanes]bool) }

// enter takes the first lane that is free, ok is false if there is none.
func (l *lanes) enter(key lane) (n int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	busy := l.busy[key]
	if busy == nil {
		busy = new([MaxLanes]bool)
		l.busy[key] = busy
	}
	for n := range busy {
		if !busy[n] {
			busy[n] = true
			return n, true
		}
	}
	return 0, false
}

func (l *lanes) leave(key lane, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	busy := l.busy[key]
	busy[n] = false
	if *busy == [MaxLanes]bool{} {
		delete(l.busy, key)
	}
}

// lane returns a leg for a dialogue: the one that fits want, or one like it that
// is closed when it is left.
func (g *Gateway) lane(ctx context.Context, t *target, leg upstream.Leg, want upstream.Want) (_ upstream.Leg, leave func(), err error) {
	if !leg.OneStream() {
		return leg, func() {}, nil
	}
	key := lane{t.server.Name(), want.Share}
	n, ok := g.dialogues.lanes.enter(key)
	switch {
	case !ok:
		return leg, func() {}, nil
	case n == 0:
		return leg, func() { g.dialogues.lanes.leave(key, 0) }, nil
	}
	want.Share.Name += " " + strconv.Itoa(n)
	leave = func() {
		t.server.Drop(want.Share)
		g.dialogues.lanes.leave(key, n)
	}
	own, err := t.server.Up().Leg(ctx, want)
	if err == nil && own.Hello().Era != wire.Legacy {
		err = errChanged
	}
	if err != nil {
		leave()
		return nil, nil, err
	}
	return own, leave, nil
}
