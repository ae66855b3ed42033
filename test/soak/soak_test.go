package soak

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/app"
)

const (
	clients    = 50
	startLimit = 2 * time.Minute // how long a server may take to start; see upstream.StartTimeout
	settleTime = 2 * time.Minute // until what the clients left behind is given back

	// How long an answer may take: of a server that hangs the longest that one
	// may take to start, of the others the limit of a call and a restart.
	hangLimit   = startLimit + 10*time.Second
	answerLimit = 20 * time.Second

	// What may be held when everything was given back, over what an idle crib
	// held in the beginning.
	spareGoroutines  = 5
	spareDescriptors = 5
	spareHeap        = 8 << 20 // bytes; the sessions that clients abandoned are among them

	// What a server that is still defined may hold: its pipes or connections
	// and who reads them.
	perServer = 12
)

// Each request gets exactly one answer, which says the truth of what the
// server did; no call is executed twice; and when the clients have left, all
// that was taken is given back.
func TestSoak(t *testing.T) {
	seed := *soakSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("go test ./test/soak -run TestSoak -soak %s -seed %d", *soakFor, seed)
	servers := fleet(t, seed, *soakFor)
	pages := map[string]string{}
	for _, u := range servers {
		pages[u.name] = u.page
	}
	c := startCrib(t, nil)
	idle := c.measure()
	c.define(pages)

	b := &books{calls: map[string]*entry{}}
	// A short soak cannot wait for servers that hang: its clients leave them.
	patience := slower(min(max(*soakFor/2, 2*time.Second), hangLimit))
	var most figures
	t.Run("load", func(t *testing.T) { // behind it the clients are gone, and their connections
		ctx, cancel := context.WithTimeout(context.Background(), *soakFor)
		defer cancel()
		var work sync.WaitGroup
		for n := range clients {
			cl := newClient(t, c, b, servers, n, seed, patience)
			work.Go(func() { cl.run(ctx) })
		}
		most = c.watch(ctx)
		work.Wait()
	})
	b.judge(t, servers, patience)

	defer func() {
		if t.Failed() {
			c.writeStacks()
			t.Logf("the crib's log: %s", c.logTail())
		}
	}()
	for _, u := range servers {
		if u.peer != nil {
			u.peer.CutConnections() // that nobody uses are kept open for a while
		}
	}
	withServers := c.settles("the clients left", idle, figures{
		Goroutines: len(servers) * perServer, Descriptors: len(servers) * perServer, Heap: raceFactor * 2 * spareHeap,
	})
	sessions := c.define(nil).Sessions
	end := c.settles("the servers were taken away", idle, figures{
		Goroutines: spareGoroutines, Descriptors: spareDescriptors, Heap: raceFactor * spareHeap,
	})
	if children := childrenOf(c.cmd.Process.Pid); len(children) > 0 {
		t.Errorf("the crib left processes: %v", children)
	}
	t.Logf("idle %+v, most %+v, without clients %+v, without servers but with %d abandoned sessions %+v", idle, most, withServers, sessions, end)
}

// define makes the crib's pages these, and no others, and returns its status.
func (c *cribProcess) define(pages map[string]string) app.Status {
	c.t.Helper()
	old, err := os.ReadDir(filepath.Dir(c.page("any")))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, f := range old {
		if err := os.Remove(c.page(strings.TrimSuffix(f.Name(), ".md"))); err != nil {
			c.t.Fatal(err)
		}
	}
	for name, text := range pages {
		if err := os.WriteFile(c.page(name), []byte(text), 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), slower(10*time.Second))
	defer cancel()
	st, err := app.Dial(c.data).Reload(ctx)
	if err != nil || len(st.Servers) != len(pages) || len(st.Faults) > 0 {
		c.t.Fatalf("reload: %d servers of %d, faults %v, %v", len(st.Servers), len(pages), st.Faults, err)
	}
	return st
}

// watch notes the most that the crib holds until ctx ends.
func (c *cribProcess) watch(ctx context.Context) figures {
	var most figures
	look := time.NewTicker(max(*soakFor/100, 500*time.Millisecond))
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return most
		case <-look.C:
		}
		f := c.measure()
		most = figures{max(most.Goroutines, f.Goroutines), max(most.Descriptors, f.Descriptors), max(most.Heap, f.Heap)}
	}
}

// settles waits until the crib holds no more than base and the spare.
func (c *cribProcess) settles(when string, base, spare figures) figures {
	c.t.Helper()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	deadline := time.After(slower(settleTime))
	began := time.Now()
	for {
		f := c.measure()
		if f.Goroutines <= base.Goroutines+spare.Goroutines && f.Descriptors <= base.Descriptors+spare.Descriptors && f.Heap <= base.Heap+spare.Heap {
			c.t.Logf("%s: given back within %s", when, time.Since(began).Round(time.Millisecond))
			return f
		}
		select {
		case <-look.C:
		case <-deadline:
			c.t.Errorf("%s: the crib holds %+v; idle it held %+v, and may hold %+v more", when, f, base, spare)
			return f
		}
	}
}

// entry is one call in the books.
type entry struct {
	server  *upstream
	verdict verdict
	took    time.Duration
}

// books are what the clients were told.
type books struct {
	mu     sync.Mutex // guards what follows
	calls  map[string]*entry
	faults []string
}

const maxFaults = 20 // that are shown

func (b *books) note(u *upstream, token string, v verdict, why string, took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if v == wrong && len(b.faults) < maxFaults {
		b.faults = append(b.faults, fmt.Sprintf("%s, call %s: %s", u.name, token, why))
	}
	if b.calls[token] != nil {
		b.faults = append(b.faults, fmt.Sprintf("%s: call %s was answered twice", u.name, token))
	}
	b.calls[token] = &entry{u, v, took}
}

// judge compares what the clients were told with what the servers did.
func (b *books) judge(t *testing.T, servers []*upstream, patience time.Duration) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, fault := range b.faults {
		t.Error(fault)
	}
	ran := map[string]int{}
	for _, u := range servers {
		for token, n := range readLedger(t, u) {
			ran[token] += n
			if e := b.calls[token]; e == nil || e.server != u {
				t.Errorf("%s executed the call %s, which nobody made there", u.name, token)
			}
		}
	}
	counts := map[kind]map[verdict]int{}
	for token, e := range b.calls {
		if counts[e.server.kind] == nil {
			counts[e.server.kind] = map[verdict]int{}
		}
		counts[e.server.kind][e.verdict]++
		if n := ran[token]; n > 1 || n == 0 && e.verdict == completed || n == 1 && e.verdict == notExecuted {
			t.Errorf("%s: call %s was executed %d times and answered as %s", e.server.name, token, n, e.verdict)
		}
		limit := slower(answerLimit)
		if e.server.kind == hangs {
			limit = slower(hangLimit)
		}
		if e.verdict != gaveUp && e.took > limit || e.verdict == gaveUp && patience >= limit {
			t.Errorf("%s: call %s, %s after %s, over %s", e.server.name, token, e.verdict, e.took, limit)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%-8s %v", k, counts[k])
	}
	if counts[healthy][completed] < clients {
		t.Errorf("healthy servers completed %d calls", counts[healthy][completed])
	}
}

// readLedger counts how often a server executed each call.
func readLedger(t *testing.T, u *upstream) map[string]int {
	t.Helper()
	f, err := os.Open(u.ledger)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ran := map[string]int{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		found := tokens.FindStringSubmatch(lines.Text())
		if found == nil {
			t.Errorf("%s executed a call without a token: %s", u.name, lines.Text())
			continue
		}
		ran[found[1]]++
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return ran
}

// childrenOf lists the processes that a process started and that are still
// there; none where the system does not tell.
func childrenOf(pid int) []string {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []string
	for _, e := range entries {
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // no process, or none any more
		}
		_, rest, _ := strings.Cut(string(stat), ") ") // the name may hold anything
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == fmt.Sprint(pid) {
			found = append(found, e.Name())
		}
	}
	return found
}
