// Bench measures what the crib costs. In one run, on the same cheap server, it
// compares calling directly, through a bare httputil.ReverseProxy and through
// the crib, in both eras and across them, one call at a time and 32 at once.
//
// Every part is a process of its own. CPU per call is the steady figure; times
// depend on what else the machine does, and mean something only as ratios of
// one run. It needs Linux, for the CPU time of other processes.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// The budgets: CPU per call at 32 calls at once, as a part of that of the
// reverse proxy.
var budgets = map[pairing]float64{
	{"modern", "modern"}: 0.8, {"legacy", "legacy"}: 0.9,
	{"modern", "legacy"}: 1.1, {"legacy", "modern"}: 1.1,
}

// pairing is the eras of a client and of the server behind the crib. Direct and
// through the proxy, which translates nothing, both are the client's.
type pairing struct{ client, server string }

func (p pairing) String() string {
	if p.client == p.server {
		return p.client
	}
	return p.client + "-" + p.server
}

// pairingOf reads a pairing: one era, or the client's and the server's.
func pairingOf(text string) (pairing, error) {
	client, server, crossed := strings.Cut(text, "-")
	if !crossed {
		server = client
	}
	p := pairing{client, server}
	if _, ok := budgets[p]; !ok {
		return p, fmt.Errorf("-eras %s: write modern, legacy, modern-legacy or legacy-modern", text)
	}
	return p, nil
}

const gatedConcurrency = 32

type settings struct {
	rounds  int
	calls   int // of each target in each round, at 32 at once; a quarter of it one at a time
	gate    bool
	profile string
	eras    string
	conc    string
}

func main() {
	if len(os.Args) > 1 {
		if part, ok := parts[os.Args[1]]; ok {
			if err := part(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, "bench:", err)
				os.Exit(1)
			}
			return
		}
	}
	var s settings
	flag.IntVar(&s.rounds, "rounds", 31, "rounds; figures are medians over them")
	flag.IntVar(&s.calls, "calls", 2000, "calls of each target in a round")
	flag.BoolVar(&s.gate, "gate", true, "fail where a budget is missed")
	flag.StringVar(&s.profile, "profile", "", "write CPU profiles of the crib to `PREFIX`-ERA.pb.gz")
	flag.StringVar(&s.eras, "eras", "modern,legacy,modern-legacy,legacy-modern", "eras to measure, the client's and the server's")
	flag.StringVar(&s.conc, "c", "1,32", "calls at once to measure")
	flag.Parse()
	ok, err := run(s)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	if !ok && s.gate {
		os.Exit(1)
	}
}

// target is what calls are sent to.
type target struct {
	name  string
	url   string
	token string // bearer, "" for none
	tool  string
	proc  *process
}

func run(s settings) (ok bool, err error) {
	if s.rounds < 5 {
		fmt.Println("note: medians of fewer than five rounds mean little")
	}
	b, err := start()
	if err != nil {
		return false, err
	}
	defer b.stop()
	ok = true
	for text := range strings.SplitSeq(s.eras, ",") {
		era, err := pairingOf(text)
		if err != nil {
			return false, err
		}
		for conc := range strings.SplitSeq(s.conc, ",") {
			var c int
			if _, err := fmt.Sscan(conc, &c); err != nil || c < 1 || c > 256 {
				return false, fmt.Errorf("-c %s: write numbers from 1 to 256", conc)
			}
			calls := s.calls
			if c == 1 {
				calls /= 4
			}
			results, err := b.cell(era, c, s.rounds, calls)
			if err != nil {
				return false, fmt.Errorf("%s, %d at once: %w", era, c, err)
			}
			table(era, c, calls, s.rounds, results)
			if c == gatedConcurrency {
				ok = verdict(era, results) && ok
			}
		}
		if s.profile != "" {
			if err := b.profileCrib(era, s.profile); err != nil {
				return false, err
			}
		}
	}
	return ok, nil
}

// cell measures all targets in turn, round by round, each round beginning with
// another one.
func (b *bench) cell(era pairing, conc, rounds, calls int) (map[string][]sample, error) {
	targets := b.targets(era)
	results := make(map[string][]sample, len(targets))
	for round := range rounds {
		at := round % len(targets)
		for _, t := range slices.Concat(targets[at:], targets[:at]) {
			got, err := measure(t, era.client, conc, calls)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", t.name, err)
			}
			results[t.name] = append(results[t.name], got)
		}
	}
	return results, nil
}

// sample is one target in one round.
type sample struct {
	p50, p99 time.Duration
	perSec   float64
	cpu      time.Duration // per call, of the target's process
	mallocs  float64       // per call
	bytes    float64       // allocated per call
	resident float64       // MiB behind it
}

func measure(t target, era string, conc, calls int) (sample, error) {
	l, err := open(t, era, conc)
	if err != nil {
		return sample{}, err
	}
	defer l.close()
	if _, err := l.drive(max(conc*4, 50)); err != nil { // connections and caches are warm then
		return sample{}, err
	}
	before, err := t.proc.usage()
	if err != nil {
		return sample{}, err
	}
	began := time.Now()
	latencies, err := l.drive(calls)
	if err != nil {
		return sample{}, err
	}
	took := time.Since(began)
	after, err := t.proc.usage()
	if err != nil {
		return sample{}, err
	}
	n := float64(len(latencies))
	slices.Sort(latencies)
	return sample{
		p50: latencies[len(latencies)/2], p99: latencies[len(latencies)*99/100],
		perSec:  n / took.Seconds(),
		cpu:     time.Duration(float64(after.cpu-before.cpu) / n),
		mallocs: float64(after.Mallocs-before.Mallocs) / n,
		bytes:   float64(after.Bytes-before.Bytes) / n, resident: after.resident,
	}, nil
}

func median(rs []sample, of func(sample) float64) float64 {
	v := make([]float64, len(rs))
	for i, r := range rs {
		v[i] = of(r)
	}
	slices.Sort(v)
	if len(v)%2 == 0 {
		return (v[len(v)/2-1] + v[len(v)/2]) / 2
	}
	return v[len(v)/2]
}

// columns are the figures, and whether their ratio to the proxy is of use.
var columns = []struct {
	head string
	of   func(sample) float64
	form string
}{
	{"p50 ms", func(s sample) float64 { return s.p50.Seconds() * 1e3 }, "%.3f"},
	{"p99 ms", func(s sample) float64 { return s.p99.Seconds() * 1e3 }, "%.3f"},
	{"calls/s", func(s sample) float64 { return s.perSec }, "%.0f"},
	{"CPU µs", func(s sample) float64 { return float64(s.cpu) / 1e3 }, "%.1f"},
	{"allocs", func(s sample) float64 { return s.mallocs }, "%.0f"},
	{"bytes", func(s sample) float64 { return s.bytes }, "%.0f"},
	{"RSS MiB", func(s sample) float64 { return s.resident }, "%.1f"},
}

func table(era pairing, conc, calls, rounds int, results map[string][]sample) {
	fmt.Printf("\n%s, %d at once: medians of %d rounds of %d calls; in brackets the ratio to the reverse proxy\n\n| target |", era, conc, rounds, calls)
	for _, c := range columns {
		fmt.Printf(" %s |", c.head)
	}
	fmt.Printf("\n|---|%s\n", strings.Repeat("--:|", len(columns)))
	for _, name := range []string{direct, proxy, one, all} {
		fmt.Printf("| %s |", name)
		for _, c := range columns {
			got, base := median(results[name], c.of), median(results[proxy], c.of)
			fmt.Printf(" "+c.form, got)
			if name != proxy && base > 0 {
				fmt.Printf(" (%.2f)", got/base)
			}
			fmt.Print(" |")
		}
		fmt.Println()
	}
}

// verdict holds the crib's CPU per call against its budget: the median of the
// ratios of each round, in which crib and proxy met the same machine.
func verdict(era pairing, results map[string][]sample) bool {
	ratios := make([]float64, len(results[one]))
	for i, mine := range results[one] {
		ratios[i] = float64(mine.cpu) / float64(results[proxy][i].cpu)
	}
	slices.Sort(ratios)
	n := len(ratios)
	ratio := (ratios[(n-1)/2] + ratios[n/2]) / 2
	word := "within"
	if ratio > budgets[era] {
		word = "OVER"
	}
	fmt.Printf("\n%s: CPU per call %.3f × that of the reverse proxy (half of %d rounds between %.2f and %.2f), %s the budget of %.2f\n",
		era, ratio, n, ratios[n/4], ratios[(n-1)-n/4], word, budgets[era])
	return ratio <= budgets[era]
}
