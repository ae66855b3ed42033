// Package matrix shows which of the protocol's features work for each pairing of
// a client and a server through the crib: both of either era, the client at the
// HTTP endpoint or behind `toolcrib connect`, the server over HTTP or stdio.
// `make matrix` prints the table.
package matrix

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

func TestMain(m *testing.M) {
	mcptest.RunPeerIfAsked()
	// The pairings wait more than they work. It stands before the command line is
	// read, so that -parallel is obeyed.
	if err := flag.Set("test.parallel", fmt.Sprint(len(pairings))); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// side is a client or a server.
type side struct {
	era  wire.Era
	over string // http, connect (clients) or stdio (servers)
}

func (s side) String() string { return string(s.era) + " " + s.over }

// pairing is a client before a server.
type pairing struct{ client, server side }

func (p pairing) String() string { return fmt.Sprintf("%s before %s", p.client, p.server) }

// page names the server of the pairing: no other meets it.
func (p pairing) page() string {
	return strings.ReplaceAll(fmt.Sprintf("%s %s", p.client, p.server), " ", "-")
}

// crosses reports whether the two are of different eras.
func (p pairing) crosses() bool { return p.client.era != p.server.era }

var pairings = func() (all []pairing) {
	for _, client := range sides("http", "connect") {
		for _, server := range sides("http", "stdio") {
			all = append(all, pairing{client, server})
		}
	}
	return all
}()

func sides(over ...string) (all []side) {
	for _, era := range []wire.Era{wire.Modern, wire.Legacy} {
		for _, o := range over {
			all = append(all, side{era, o})
		}
	}
	return all
}

// TestMatrix checks each feature in each pairing, and prints what it found.
func TestMatrix(t *testing.T) {
	crib := startCrib(t)
	var found findings
	t.Run("pairing", func(t *testing.T) {
		for _, p := range pairings {
			t.Run(p.String(), func(t *testing.T) {
				t.Parallel()
				for _, f := range features {
					t.Run(f.name, func(t *testing.T) {
						c := &cell{T: t, pairing: p, crib: crib}
						mark := failed
						defer func() { found.add(finding{p, f.name, mark, c.why}) }()
						c.dial()
						if got := f.check(c); !c.Failed() {
							mark = got
						}
					})
				}
			})
		}
	})
	fmt.Fprint(t.Output(), found.table())
}

// verdict is what a cell of the table shows.
type verdict string

const (
	works   verdict = "ok"
	sameEra verdict = "same era"
	failed  verdict = "FAIL"
	notRun  verdict = "-" // -run left it out
)

const legend = `
ok        both sides of the check saw what they should
same era  works between a client and a server of one era only; across the eras
          it was not offered, and was refused
`

type finding struct {
	pairing
	feature string
	mark    verdict
	why     string // the first reason, if it failed
}

// findings are of all cells.
type findings struct {
	mu  sync.Mutex // guards all
	all []finding
}

func (fs *findings) add(f finding) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.all = append(fs.all, f)
}

func (fs *findings) of(p pairing, feature string) finding {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.all {
		if f.pairing == p && f.feature == feature {
			return f
		}
	}
	return finding{mark: notRun}
}

// table has a row for each pairing and a column for each feature, and below it
// why cells failed.
func (fs *findings) table() string {
	var rows, reasons strings.Builder
	fmt.Fprintf(&rows, "%-15s %-13s", "client", "server")
	for _, f := range features {
		fmt.Fprintf(&rows, " %-*s", width(f.name), f.name)
	}
	for _, p := range pairings {
		fmt.Fprintf(&rows, "\n%-15s %-13s", p.client, p.server)
		for _, f := range features {
			cell := fs.of(p, f.name)
			fmt.Fprintf(&rows, " %-*s", width(f.name), cell.mark)
			if cell.mark == failed {
				fmt.Fprintf(&reasons, "\nFAIL %s, %s: %s\n", p, f.name, cell.why)
			}
		}
	}
	return rows.String() + "\n" + legend + reasons.String()
}

// width is that of a column; tasks shows the longest mark.
func width(name string) int {
	if name == "tasks" {
		return len(sameEra)
	}
	return len(name)
}
