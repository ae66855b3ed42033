package mcphttp_test

import (
	"fmt"
	"testing"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// A client cancels in the way of its era, and its server is told in the way of
// its own, with the id that it knows.
func TestCancelAcrossTheEras(t *testing.T) {
	for _, era := range []string{mcptest.EraLegacy, mcptest.EraModern} {
		for name, server := range recorders(t, era) {
			t.Run(fmt.Sprintf("legacy client of %s over %s", era, name), func(t *testing.T) {
				c := newCrib(t, cribOptions{}, server.def)
				cl := c.enter(name)
				stays, goes := newGate(t), newGate(t)
				kept, gone := make(chan *mcptest.Reply, 1), make(chan *mcptest.Reply, 1)
				go func() {
					kept <- replyTo(cl.OpenID(wire.Legacy, `"0"`, "tools/call", callOf("slow", stays.args(mark("stays")))))
				}()
				server.idOf(t, "stays")
				go func() {
					gone <- replyTo(cl.OpenID(wire.Legacy, `0`, "tools/call", callOf("slow", goes.args(mark("goes")))))
				}()
				id := server.idOf(t, "goes")
				cl.Post(wire.Legacy, "notifications/cancelled", `{"requestId":0}`)
				server.wantCancelled(t, id)
				if r := <-gone; r.Text() == "released" {
					t.Errorf("the cancelled call: %s", r)
				}
				stays.open()
				if r := <-kept; r.Text() != "released" {
					t.Errorf("the other call: %s", r)
				}
			})
		}
		for name, server := range recorders(t, era) {
			t.Run(fmt.Sprintf("modern client of %s over %s", era, name), func(t *testing.T) {
				c := newCrib(t, cribOptions{}, server.def)
				cl := c.dial(name)
				stays := newGate(t)
				kept := make(chan *mcptest.Reply, 1)
				go func() {
					kept <- cl.Post(wire.Modern, "tools/call", callOf("slow", stays.args(mark("stays"))))
				}()
				server.idOf(t, "stays")
				conn := rawModern(t, cl, "slow", newGate(t).args(mark("goes")))
				id := server.idOf(t, "goes")
				conn.Close()
				server.wantCancelled(t, id)
				stays.open()
				if r := <-kept; r.Text() != "released" {
					t.Errorf("the other call: %s", r)
				}
			})
		}
	}
}

// A call that is cancelled while its server still starts is never sent.
func TestCancelBeforeTheServerIsThere(t *testing.T) {
	for _, client := range bothEras {
		t.Run(string(client), func(t *testing.T) {
			b := behindStdio(t, "s", string(client), "-delay", "700ms")
			b.def.Era = client
			c := newCrib(t, cribOptions{}, b.def)
			cl := c.enter("") // the endpoint of all does not wait for one
			if client == wire.Modern {
				rawModern(t, cl, "s__echo", `{"mark":"early"}`).Close()
			} else {
				done := make(chan *mcptest.Reply, 1)
				s := make(chan struct{})
				go func() {
					close(s)
					done <- replyTo(cl.OpenID(client, "9", "tools/call", callOf("s__echo", `{"mark":"early"}`)))
				}()
				<-s
				mcptest.Eventually(t, "the end of the call", func() bool {
					cl.Post(client, "notifications/cancelled", `{"requestId":9}`) // it may be ahead of the call
					select {
					case r := <-done:
						if r.Text() == `{"mark":"early"}` {
							t.Errorf("the call was answered: %s", r)
						}
						return true
					default:
						return false
					}
				})
			}
			works(t, cl, client, "s__echo")
			for _, m := range b.received("tools/call") {
				if wire.MayHave(m.Body, "early") {
					t.Errorf("the cancelled call was sent: %s", m.Body)
				}
			}
		})
	}
}
