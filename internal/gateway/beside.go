package gateway

import (
	"context"
	"strconv"

	"github.com/toolcrib/toolcrib/internal/gateway/lane"
	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// lane returns a leg for a dialogue: the one that fits want, or one like it that
// is closed when it is left.
func (g *Gateway) lane(ctx context.Context, t *target, leg upstream.Leg, want upstream.Want) (_ upstream.Leg, leave func(), err error) {
	if !leg.OneStream() {
		return leg, func() {}, nil
	}
	at := lane.Of{Server: t.server.Name(), Share: want.Share}
	n, ok := g.dialogues.lanes.Enter(at)
	switch {
	case !ok:
		return leg, func() {}, nil
	case n == 0:
		return leg, func() { g.dialogues.lanes.Leave(at, 0) }, nil
	}
	want.Share.Name += " " + strconv.Itoa(n)
	leave = func() {
		t.server.Drop(want.Share)
		g.dialogues.lanes.Leave(at, n)
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
