package upstream

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolcrib/toolcrib/internal/alarm"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// heard keeps what a Listener was told.
type heard struct {
	notifications []string
	requests      []string
	thinks        bool // answers nothing at once
}

func (h *heard) Notification(m wire.Message) { h.notifications = append(h.notifications, m.Method) }
func (h *heard) Request(m wire.Message, answer func([]byte)) {
	h.requests = append(h.requests, m.Method)
	if !h.thinks {
		answer([]byte(m.Method))
	}
}

func (h *heard) all() []string { return append(slices.Clone(h.notifications), h.requests...) }

// opened opens a request for a test.
func opened(t *testing.T, f *inflight, out *Outgoing) (*call, *heard) {
	t.Helper()
	h := &heard{}
	c, err := f.add(out, h, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c, h
}

// A message of a server reaches the one request that it belongs to, or nobody.
func TestRoute(t *testing.T) {
	const (
		nobody  = -1
		message = `"method":"notifications/message","params":{"level":"info","data":1}`
		asks    = `"id":"q","method":"elicitation/create","params":{}`
	)
	progress := func(token string) string {
		return `"method":"notifications/progress","params":{"progressToken":` + token + `,"progress":1}`
	}
	told := func(id string) string {
		return `"method":"notifications/x","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}`
	}
	owner, other := &Outgoing{Owner: true}, &Outgoing{}
	tests := []struct {
		name   string
		open   []*Outgoing // with the ids 1, 2, …
		proven int         // the request on whose own stream it came, nobody for none
		m      string
		want   int
	}{
		{"progress by token", []*Outgoing{owner, owner}, nobody, progress("2"), 1},
		{"progress for who owns nothing", []*Outgoing{owner, other}, nobody, progress("2"), 1},
		{"progress for a token that we did not give", []*Outgoing{owner}, nobody, progress("7"), nobody},
		{"progress for a token that is no number", []*Outgoing{owner}, nobody, progress(`"1"`), nobody},
		{"progress without a token", []*Outgoing{owner}, nobody, `"method":"notifications/progress","params":{"progress":1}`, nobody},
		{"progress on a request's own stream", []*Outgoing{owner, owner}, 0, progress("2"), 0},

		{"a log message for the sole owner", []*Outgoing{other, owner, other}, nobody, message, 1},
		{"a log message for two owners", []*Outgoing{owner, owner}, nobody, message, nobody},
		{"a log message for no owner", []*Outgoing{other}, nobody, message, nobody},
		{"a log message on a stream of two owners", []*Outgoing{owner, owner}, 1, message, 1},
		{"a log message with nothing open", nil, nobody, message, nobody},

		{"a question to the sole owner", []*Outgoing{other, owner}, nobody, asks, 1},
		{"a question to two owners", []*Outgoing{owner, owner}, nobody, asks, nobody},
		{"a question to no owner", []*Outgoing{other}, nobody, asks, nobody},
		{"a question on a stream of two owners", []*Outgoing{owner, owner}, 0, asks, 0},

		{"an ended elicitation for the sole owner", []*Outgoing{owner}, nobody, `"method":"notifications/elicitation/complete","params":{}`, 0},
		{"a notification that nobody knows", []*Outgoing{owner}, nobody, `"method":"notifications/x"`, nobody},
		{"a notification that nobody knows, on a stream", []*Outgoing{owner, owner}, 1, `"method":"notifications/x"`, 1},

		{"a subscription", []*Outgoing{owner, {Forever: true}}, nobody, told("2"), 1},
		{"a subscription that is not ours", []*Outgoing{owner}, nobody, told("7"), nobody},
		{"a changed list on a subscription", []*Outgoing{owner, {Forever: true}}, nobody, `"method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2}}`, 1},

		{"a changed list", []*Outgoing{owner}, nobody, `"method":"notifications/tools/list_changed"`, nobody},
		{"a changed list on a call's stream", []*Outgoing{owner}, 0, `"method":"notifications/prompts/list_changed"`, nobody},
		{"a changed resource on a call's stream", []*Outgoing{owner}, 0, `"method":"notifications/resources/updated","params":{"uri":"x:y"}`, nobody},

		{"a withdrawn question that nobody asked", []*Outgoing{owner}, nobody, `"method":"notifications/cancelled","params":{"requestId":"q"}`, nobody},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var f inflight
			var calls []*call
			var ears []*heard
			for _, out := range tt.open {
				c, h := opened(t, &f, out)
				calls, ears = append(calls, c), append(ears, h)
			}
			var proven *call
			if tt.proven != nobody {
				proven = calls[tt.proven]
			}
			m := scanned(t, `{"jsonrpc":"2.0",`+tt.m+`}`)
			answers := 0
			if took := f.route(m, proven, func([]byte) { answers++ }); took != (tt.want != nobody) {
				t.Errorf("somebody took it: %v", took)
			}
			for i, h := range ears {
				want := []string{m.Method}
				if i != tt.want {
					want = nil
				}
				if got := h.all(); !slices.Equal(got, want) {
					t.Errorf("request %d heard %v, want %v", i+1, got, want)
				}
			}
			if m.Kind == wire.RequestKind && tt.want != nobody && answers != 1 {
				t.Errorf("%d answers went out", answers)
			}
		})
	}
}

// A server that withdraws a question means the request that made it ask,
// whatever else is open by then.
func TestWithdrawnQuestionsGoToTheAsker(t *testing.T) {
	var f inflight
	drop := func([]byte) {}
	asker, ear := opened(t, &f, &Outgoing{Owner: true})
	ear.thinks = true
	question := scanned(t, `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`)
	if !f.route(question, nil, drop) {
		t.Fatal("nobody took the question")
	}
	second, other := opened(t, &f, &Outgoing{Owner: true})
	withdrawn := scanned(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}`)
	if !f.route(withdrawn, second, drop) || len(ear.notifications) != 1 || len(other.all()) != 0 {
		t.Errorf("the asker heard %v, the other %v", ear.all(), other.all())
	}
	spelled := scanned(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	if f.route(spelled, nil, drop) {
		t.Error("a question under another id was found")
	}
	f.remove(asker)
	if f.route(withdrawn, nil, drop) {
		t.Error("the question outlived its request")
	}
	if len(f.asked) != 0 {
		t.Errorf("%d questions are kept", len(f.asked))
	}
}

// What is routed to a request is a sign of its life.
func TestRouteTouches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f inflight
		c, _ := opened(t, &f, &Outgoing{})
		before := c.seen.Load()
		<-time.After(time.Second)
		f.route(scanned(t, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}`), nil, nil)
		if c.seen.Load() <= before {
			t.Error("progress was no sign of life")
		}
	})
}

func TestNothingOpensBehindTheEnd(t *testing.T) {
	var f inflight
	one, _ := opened(t, &f, &Outgoing{})
	forever, _ := opened(t, &f, &Outgoing{Forever: true})
	first := errors.New("first")
	f.end(first)
	f.end(errors.New("second"))
	for _, c := range []*call{one, forever} {
		if r := <-c.reply; !errors.Is(r.err, first) {
			t.Errorf("request %d ended with %v", c.id, r.err)
		}
	}
	if _, err := f.add(&Outgoing{}, Nobody{}, nil); !errors.Is(err, first) {
		t.Errorf("got %v", err)
	}
}

// Only the first result counts, and nobody waits to give one.
func TestOneResult(t *testing.T) {
	var f inflight
	c, _ := opened(t, &f, &Outgoing{})
	answer := scanned(t, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	c.finish(result{m: answer})
	c.finish(result{err: errors.New("late")})
	if r, why := c.wait(t.Context(), time.Minute); r.err != nil || why != answered || string(r.m.Body) != string(answer.Body) {
		t.Errorf("got %v, %v", r, why)
	}
}

func TestGet(t *testing.T) {
	var f inflight
	c, _ := opened(t, &f, &Outgoing{})
	for raw, want := range map[string]*call{"1": c, "2": nil, `"1"`: nil, "1.0": nil, "1e0": nil, "": nil, "null": nil, "-1": nil} {
		if got := f.get([]byte(raw)); got != want {
			t.Errorf("%q: got %v", raw, got)
		}
	}
	f.remove(c)
	if f.get([]byte("1")) != nil {
		t.Error("a closed request is found")
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Quiet is the moment at which no request waits; a stream is none.
func TestWhenQuiet(t *testing.T) {
	var f inflight
	if !isClosed(f.whenQuiet()) {
		t.Fatal("an unused leg is not quiet")
	}
	forever, _ := opened(t, &f, &Outgoing{Forever: true})
	if !isClosed(f.whenQuiet()) || f.open() != 0 {
		t.Fatal("a stream counts as a request")
	}
	one, _ := opened(t, &f, &Outgoing{})
	two, _ := opened(t, &f, &Outgoing{})
	quiet := f.whenQuiet()
	again := f.whenQuiet()
	f.remove(one)
	if isClosed(quiet) || f.open() != 1 {
		t.Fatalf("quiet with %d open", f.open())
	}
	f.remove(two)
	if !isClosed(quiet) || !isClosed(again) {
		t.Fatal("not quiet when the last request ended")
	}
	three, _ := opened(t, &f, &Outgoing{})
	if isClosed(f.whenQuiet()) {
		t.Fatal("the quiet of before counts again")
	}
	f.remove(three)
	f.remove(forever)
	if f.open() != 0 || !isClosed(f.whenQuiet()) {
		t.Fatal("not quiet at the end")
	}
}

func TestWait(t *testing.T) {
	const idle = time.Minute
	tests := []struct {
		name    string
		forever bool
		touches []time.Duration // after the start
		answer  time.Duration   // 0 for none
		cancel  time.Duration   // 0 for none
		want    outcome
		after   time.Duration
	}{
		{"an answer", false, nil, 10 * time.Second, 0, answered, 10 * time.Second},
		{"silence", false, nil, 0, 0, timedOut, idle},
		{"a sign of life", false, []time.Duration{50 * time.Second}, 0, 0, timedOut, 110 * time.Second},
		{"signs of life until the answer", false, []time.Duration{50 * time.Second, 100 * time.Second, 150 * time.Second}, 200 * time.Second, 0, answered, 200 * time.Second},
		{"a sign of life that came too late", false, []time.Duration{61 * time.Second}, 70 * time.Second, 0, timedOut, idle},
		{"the caller leaves", false, nil, 0, 5 * time.Second, cancelled, 5 * time.Second},
		{"a stream", true, nil, 2 * MaxCallTime, 0, answered, 2 * MaxCallTime},
		{"the caller leaves a stream", true, nil, 0, MaxCallTime + time.Second, cancelled, MaxCallTime + time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var f inflight
				c, _ := opened(t, &f, &Outgoing{Forever: tt.forever})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for _, d := range tt.touches {
					defer time.AfterFunc(d, c.touch).Stop()
				}
				if tt.answer > 0 {
					defer time.AfterFunc(tt.answer, func() { c.finish(result{}) }).Stop()
				}
				if tt.cancel > 0 {
					defer time.AfterFunc(tt.cancel, cancel).Stop()
				}
				began := time.Now()
				if _, why := c.wait(ctx, idle); why != tt.want || time.Since(began) != tt.after {
					t.Errorf("got %v after %s, want %v after %s", why, time.Since(began), tt.want, tt.after)
				}
			})
		})
	}
}

// However much progress a server reports, a call ends.
func TestProgressDoesNotLastForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f inflight
		c, _ := opened(t, &f, &Outgoing{})
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					c.touch()
				case <-ctx.Done():
					return
				}
			}
		}()
		began := time.Now()
		_, why := c.wait(t.Context(), time.Minute)
		if took := time.Since(began); why != timedOut || took < MaxCallTime || took > MaxCallTime+time.Minute {
			t.Errorf("got %v after %s", why, took)
		}
		stop()
	})
}

// The watch over an HTTP request keeps the same rules, whether or not it waits
// with others.
func TestWatch(t *testing.T) {
	for name, after := range map[string]time.Duration{"with others": time.Minute, "alone": time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := alarm.New(after)
				var f inflight
				watched := func() (*call, context.Context) {
					c, _ := opened(t, &f, &Outgoing{})
					ctx, cancel := context.WithCancelCause(t.Context())
					c.cancel = cancel
					c.watch(q, time.Minute)
					return c, ctx
				}
				began := time.Now()
				c, ctx := watched()
				time.AfterFunc(50*time.Second, c.touch)
				<-ctx.Done()
				if took := time.Since(began); took != 110*time.Second || !errors.Is(context.Cause(ctx), errIdle) {
					t.Errorf("ended after %s with %v", took, context.Cause(ctx))
				}
				c.unwatch()

				early, one := watched()
				early.unwatch()
				late, other := watched()
				time.AfterFunc(50*time.Second, late.touch)
				<-time.After(100 * time.Second)
				late.unwatch()
				<-time.After(time.Hour)
				if one.Err() != nil || other.Err() != nil {
					t.Error("a watch that was ended still bit")
				}
			})
		})
	}
}

// While a server waits for the answer of a person the request is not silent; it
// is again from the answer on, and the person has a time too.
func TestWaitingForAPersonIsNoSilence(t *testing.T) {
	question := scanned(t, `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`)
	withdrawn := scanned(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}`)
	const idle, thinks = time.Minute, 5 * time.Minute
	for name, tt := range map[string]struct {
		then func(f *inflight, c *call, answer func([]byte))
		want time.Duration
	}{
		"answered":   {func(_ *inflight, _ *call, answer func([]byte)) { answer([]byte("{}")) }, thinks + idle},
		"withdrawn":  {func(f *inflight, c *call, _ func([]byte)) { f.route(withdrawn, c, func([]byte) {}) }, thinks + idle},
		"no answer":  {func(*inflight, *call, func([]byte)) {}, QuestionTime},
		"asked anew": {func(f *inflight, c *call, _ func([]byte)) { f.route(question, c, func([]byte) {}) }, thinks + QuestionTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var f inflight
				c, _ := opened(t, &f, &Outgoing{Owner: true})
				asked := &asker{}
				c.l = asked
				began := time.Now()
				f.route(question, c, func([]byte) {})
				time.AfterFunc(thinks, func() { tt.then(&f, c, asked.answer) })
				if _, why := c.wait(t.Context(), idle); why != timedOut || time.Since(began) != tt.want {
					t.Errorf("got %v after %s, want %s", why, time.Since(began), tt.want)
				}
			})
		})
	}
}

// asker keeps how the last question can be answered.
type asker struct {
	Nobody
	answer func([]byte)
}

func (a *asker) Request(_ wire.Message, answer func([]byte)) { a.answer = answer }

// Every number is given out once.
func TestNumbersAreNotReused(t *testing.T) {
	var f inflight
	seen := map[string]bool{}
	for range 100 {
		c, _ := opened(t, &f, &Outgoing{})
		id := strconv.FormatInt(c.id, 10)
		if seen[id] {
			t.Fatalf("%s was given out twice", id)
		}
		seen[id] = true
		f.remove(c)
	}
}
