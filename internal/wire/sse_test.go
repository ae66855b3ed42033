package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// framing is a stream with each line end of the format, text of several bytes
// a character, and an event that the stream ends in.
var framing = func() string {
	block := ": hi\n\n" +
		"id: 7\n\n" +
		"event: message\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":{\"t\":\"é漢\"}}\n\n"
	return "\uFEFF" +
		strings.ReplaceAll(block, "\n", "\r\n") +
		strings.ReplaceAll(block, "\n", "\r") +
		block +
		"id: 8\ndata: cut"
}()

// show writes an event out, so that events can be compared and printed.
func show(e Event) string {
	return fmt.Sprintf("id %q (%t) name %q retry %v data %q", e.ID, e.HasID, e.Name, e.Retry, e.Data)
}

func showAll(events ...Event) []string {
	var out []string
	for _, e := range events {
		out = append(out, show(e))
	}
	return out
}

// readAll shows what each call of Next returned.
func readAll(t *testing.T, r io.Reader, maxEvent int) []string {
	t.Helper()
	events := NewEventReader(r, maxEvent)
	var out []string
	for {
		e, err := events.Next()
		if err == io.EOF {
			return out
		}
		var tooLarge *EventTooLargeError
		switch {
		case errors.As(err, &tooLarge):
			e := tooLarge.Event
			e.Data = nil // how much of it is there depends on how it came
			out = append(out, "too large: "+show(e))
		case err != nil:
			t.Fatal(err)
		default:
			out = append(out, show(e))
		}
	}
}

// chunks returns each string by one Read.
func chunks(parts ...string) io.Reader {
	readers := make([]io.Reader, len(parts))
	for i, p := range parts {
		readers[i] = strings.NewReader(p)
	}
	return io.MultiReader(readers...)
}

func TestEventReaderFramingAtEverySplit(t *testing.T) {
	block := showAll(
		Event{ID: "7", HasID: true},
		Event{Name: "message", Data: []byte("{\"jsonrpc\":\"2.0\",\n\"id\":1,\"result\":{\"t\":\"é漢\"}}")},
	)
	want := slices.Repeat(block, 3)
	for i := range len(framing) + 1 {
		if got := readAll(t, chunks(framing[:i], framing[i:]), 1<<10); !slices.Equal(got, want) {
			t.Fatalf("split at %d of %q:\n got %q\nwant %q", i, framing, got, want)
		}
	}
	for name, r := range map[string]io.Reader{
		"byte by byte":        iotest.OneByteReader(strings.NewReader(framing)),
		"last bytes with EOF": iotest.DataErrReader(strings.NewReader(framing)),
		"bytes, last one EOF": iotest.DataErrReader(iotest.OneByteReader(strings.NewReader(framing))),
	} {
		if got := readAll(t, r, 1<<10); !slices.Equal(got, want) {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestEventReaderFields(t *testing.T) {
	data := func(s string) Event { return Event{Data: []byte(s)} }
	for name, tc := range map[string]struct {
		stream string
		want   []Event
	}{
		"one space is taken away":   {"data:  a \n\n", []Event{data(" a ")}},
		"no space is needed":        {"data:a\n\n", []Event{data("a")}},
		"a colon in the value":      {"data: a: b\n\n", []Event{data("a: b")}},
		"empty data lines count":    {"data\ndata:\ndata: x\n\n", []Event{data("\n\nx")}},
		"nothing but line ends":     {"data\ndata\n\n", []Event{data("\n")}},
		"empty data is no event":    {"data:\n\ndata\n\nevent: x\n\n", nil},
		"empty data with an id":     {"id: 1\ndata:\n\n", []Event{{ID: "1", HasID: true}}},
		"an id is not handed on":    {"id: 1\ndata: a\n\ndata: b\n\n", []Event{{ID: "1", HasID: true, Data: []byte("a")}, data("b")}},
		"an empty id is an id":      {"id\ndata: a\n\n", []Event{{HasID: true, Data: []byte("a")}}},
		"the last id counts":        {"id: 1\nid: 2\n\n", []Event{{ID: "2", HasID: true}}},
		"an id with NUL is none":    {"id: 1\x002\ndata: a\n\n", []Event{data("a")}},
		"a name":                    {"event: ping\ndata: a\n\n", []Event{{Name: "ping", Data: []byte("a")}}},
		"names are told by case":    {"Data: a\nDATA: b\ndata : c\n data: d\n\n", nil},
		"unknown fields":            {"x\ndatabase: 1\nd: 2\nlonger-than-any-field\n: c\n:\ndata: a\n\n", []Event{data("a")}},
		"retry":                     {"retry: 1500\n\n", []Event{{Retry: 1500 * time.Millisecond}}},
		"retry of digits only":      {"retry: 1s\nretry: -1\nretry: +1\nretry: 1.5\nretry:\n\n", nil},
		"retry that is nonsense":    {"retry: 99999999999999999999\n\n", nil},
		"a BOM only at the start":   {"\uFEFFdata: a\n\n\uFEFFdata: b\n\n", []Event{data("a")}},
		"one BOM only":              {"\uFEFF\uFEFFdata: a\n\n", nil},
		"a part of a BOM":           {"\xEF\xBBdata: a\n\ndata: b\n\n", []Event{data("b")}},
		"a blank line is missing":   {"data: a\n", nil},
		"CR, then CRLF":             {"data: a\r\r\ndata: b\n\n", []Event{data("a"), data("b")}},
		"LF, then CR":               {"data: a\n\rdata: b\n\r", []Event{data("a"), data("b")}},
		"a short line at the end":   {"data: a\n\nid", []Event{data("a")}},
		"an empty stream":           {"", nil},
		"bytes that are not UTF-8":  {"data: \xff\n\n", []Event{data("\xff")}},
		"NUL in data":               {"data: a\x00b\n\n", []Event{data("a\x00b")}},
		"many blank lines":          {"\n\n\r\r\r\n\r\n\ndata: a\n\n", []Event{data("a")}},
		"spaces are not a blank":    {"data: a\n \ndata: b\n\n", []Event{data("a\nb")}},
		"a line longer than a read": {"data: " + strings.Repeat("x", 3*eventBuffer) + "\n\n", []Event{data(strings.Repeat("x", 3*eventBuffer))}},
	} {
		want := showAll(tc.want...)
		for how, r := range map[string]io.Reader{
			"at once":      strings.NewReader(tc.stream),
			"byte by byte": iotest.OneByteReader(strings.NewReader(tc.stream)),
		} {
			if got := readAll(t, r, 1<<20); !slices.Equal(got, want) {
				t.Errorf("%s, %s:\n got %.200q\nwant %.200q", name, how, got, want)
			}
		}
	}
}

// An event must come out when its blank line has come, even if that ends with
// a CR that an LF could follow.
func TestEventReaderDoesNotWaitForTheNextByte(t *testing.T) {
	for _, end := range []string{"\n\n", "\r\r", "\r\n\r\n", "\r\n\r"} {
		noMore := errors.New("read on")
		r := NewEventReader(io.MultiReader(strings.NewReader("data: a"+end), iotest.ErrReader(noMore)), 1<<10)
		if e, err := r.Next(); err != nil || string(e.Data) != "a" {
			t.Errorf("%q: %q, %v", end, e.Data, err)
		}
		if _, err := r.Next(); !errors.Is(err, noMore) {
			t.Errorf("%q: the error of the reader came out as %v", end, err)
		}
	}
}

func TestEventReaderDataIsFresh(t *testing.T) {
	r := NewEventReader(strings.NewReader("data: first\n\ndata: other\n\n"), 1<<10)
	first, _ := r.Next()
	second, _ := r.Next()
	if string(first.Data) != "first" || string(second.Data) != "other" {
		t.Fatalf("%q, %q", first.Data, second.Data)
	}
}

func TestEventReaderGoesOnBehindATooLargeEvent(t *testing.T) {
	const limit = 8 << 10
	head := `{"jsonrpc":"2.0","id":42,"result":"`
	long := head + strings.Repeat("x", 3*limit)
	for name, tc := range map[string]struct {
		stream string
		want   Event
	}{
		"one line":            {"id: 9\ndata: " + long + "\n", Event{ID: "9", HasID: true, Data: []byte(long[:EventPrefix])}},
		"id behind the data":  {"data: " + long + "\nid: 9\n", Event{Data: []byte(long[:EventPrefix])}},
		"many lines":          {strings.Repeat("data: 0123456\n", limit/8+1), Event{Data: []byte(strings.Repeat("0123456\n", limit/8)[:EventPrefix])}},
		"many empty lines":    {strings.Repeat("data\n", limit+2), Event{Data: []byte(strings.Repeat("\n", EventPrefix))}},
		"a long id":           {"data: a\nid: " + strings.Repeat("i", maxEventField+1) + "\ndata: b\n", Event{Data: []byte("a")}},
		"a long name":         {"event: " + strings.Repeat("n", maxEventField+1) + "\n", Event{}},
		"one byte too much":   {"data: " + strings.Repeat("x", limit+1) + "\n", Event{Data: bytes.Repeat([]byte("x"), EventPrefix)}},
		"a line end too much": {"data: " + strings.Repeat("x", limit) + "\ndata\n", Event{Data: bytes.Repeat([]byte("x"), EventPrefix)}},
	} {
		r := NewEventReader(strings.NewReader(tc.stream+"\ndata: next\n\n"), limit)
		_, err := r.Next()
		var tooLarge *EventTooLargeError
		if !errors.Is(err, ErrTooLarge) || !errors.As(err, &tooLarge) {
			t.Errorf("%s: got error %v", name, err)
			continue
		}
		if got, want := show(tooLarge.Event), show(tc.want); got != want || tooLarge.Limit != limit {
			t.Errorf("%s: got %.200s, want %.200s", name, got, want)
		}
		if !strings.Contains(err.Error(), "8192 bytes") {
			t.Errorf("%s: the message %q does not name the limit", name, err)
		}
		if e, err := r.Next(); err != nil || show(e) != show(Event{Data: []byte("next")}) {
			t.Errorf("%s: then got %s, %v", name, show(e), err)
		}
	}
}

func TestEventReaderTakesTheLimitItself(t *testing.T) {
	for _, limit := range []int{0, 1, EventPrefix, eventBuffer, eventBuffer + 1} {
		data := strings.Repeat("x", limit)
		got := readAll(t, strings.NewReader("id: 1\ndata: "+data+"\n\n"), limit)
		if want := showAll(Event{ID: "1", HasID: true, Data: []byte(data)}); !slices.Equal(got, want) {
			t.Errorf("limit %d: got %.100q", limit, got)
		}
	}
}

// endless returns text over and over until n bytes are out.
func endless(text string, n int64) io.Reader {
	return io.LimitReader(&repeater{text: text}, n)
}

type repeater struct {
	text string
	at   int
}

func (r *repeater) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		c := copy(p[n:], r.text[r.at:])
		n += c
		r.at = (r.at + c) % len(r.text)
	}
	return n, nil
}

func TestEventReaderMemoryIsBounded(t *testing.T) {
	const limit, sent = 64 << 10, 2 << 20
	kilobyte := strings.Repeat("x", 1<<10)
	for name, stream := range map[string]io.Reader{
		"data line":    io.MultiReader(strings.NewReader("data: "), endless(kilobyte, sent)),
		"data lines":   endless("data: xxxxxxxxxxxxxxxxxxxx\n", sent),
		"id line":      io.MultiReader(strings.NewReader("id: "), endless(kilobyte, sent)),
		"field name":   endless(kilobyte, sent),
		"comment":      io.MultiReader(strings.NewReader(":"), endless(kilobyte, sent)),
		"comments":     endless(": x\n\n", sent),
		"empty events": endless("data\n\n", sent),
		"blank lines":  endless(strings.Repeat("\r", 1<<10), sent),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		events := NewEventReader(stream, limit)
		_, err := events.Next()
		for errors.Is(err, ErrTooLarge) {
			_, err = events.Next()
		}
		runtime.ReadMemStats(&after)
		if err != io.EOF {
			t.Errorf("%s: got %v", name, err)
		}
		// Growing a slice to the limit allocates a few times the limit.
		if used := after.TotalAlloc - before.TotalAlloc; used > 8*limit {
			t.Errorf("%s: %d bytes allocated for %d read", name, used, sent)
		}
	}
}

func TestEventReaderAReaderThatStandsStill(t *testing.T) {
	r := NewEventReader(readerFunc(func([]byte) (int, error) { return 0, nil }), 1<<10)
	if _, err := r.Next(); !errors.Is(err, io.ErrNoProgress) {
		t.Fatal(err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestAppendEvent(t *testing.T) {
	for _, tc := range []struct{ id, data, want string }{
		{"", `{"a":1}`, "event: message\ndata: {\"a\":1}\n\n"},
		{"s-1", `{}`, "id: s-1\nevent: message\ndata: {}\n\n"},
		{"1", "{\r\n\"a\":1\n}", "id: 1\nevent: message\ndata: {  \"a\":1 }\n\n"},
		{"1\ndata: x", `{}`, "event: message\ndata: {}\n\n"},
		{"1", ``, "id: 1\nevent: message\ndata: \n\n"},
	} {
		if got := string(AppendEvent([]byte("before"), tc.id, []byte(tc.data))); got != "before"+tc.want {
			t.Errorf("%q, %q: got %q", tc.id, tc.data, got)
		}
	}
}

func TestAppendedEventsAreRead(t *testing.T) {
	stream := AppendComment(nil)
	stream = AppendEvent(stream, " padded ", []byte("{\"a\":\n\"é漢 \\n\"}\n"))
	stream = AppendComment(stream)
	stream = AppendEvent(stream, "", []byte(`[]`))
	want := showAll(
		Event{ID: " padded ", HasID: true, Name: "message", Data: []byte(`{"a": "é漢 \n"}`)},
		Event{Name: "message", Data: []byte(`[]`)},
	)
	if got := readAll(t, bytes.NewReader(stream), 1<<10); !slices.Equal(got, want) {
		t.Fatalf("got %q", got)
	}
}

func FuzzEventReader(f *testing.F) {
	f.Add([]byte(framing), []byte{0})
	f.Add([]byte(framing), []byte{0, 1, 2, 3, 200})
	f.Add([]byte("data: "+strings.Repeat("x", 100)+"\r\r\nid:1\rretry: 5\r\n\r\n"), []byte{6})
	f.Add([]byte("\xEF\xBB\xBF\r\n\r\ndata\n\n"), []byte{1, 0})
	f.Fuzz(func(t *testing.T, stream, sizes []byte) {
		const limit = 64 // small, so that inputs get over it
		want := readAll(t, bytes.NewReader(stream), limit)
		if got := readAll(t, &splitReader{rest: stream, sizes: sizes}, limit); !slices.Equal(got, want) {
			t.Fatalf("at once:\n%q\nin parts:\n%q", want, got)
		}
	})
}

// splitReader returns one byte more than each of sizes in turn.
type splitReader struct {
	rest  []byte
	sizes []byte
	at    int
}

func (r *splitReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := 1
	if len(r.sizes) > 0 {
		n += int(r.sizes[r.at%len(r.sizes)])
		r.at++
	}
	n = copy(p, r.rest[:min(n, len(r.rest))])
	r.rest = r.rest[n:]
	return n, nil
}

func BenchmarkEventReader(b *testing.B) {
	for _, size := range []int{100, 10 << 10, 1 << 20} {
		data := []byte(`{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", size) + `"}`)
		for name, stream := range map[string][]byte{
			"LF":   AppendEvent(nil, "1", data),
			"CRLF": bytes.ReplaceAll(AppendEvent(nil, "1", data), []byte("\n"), []byte("\r\n")),
		} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				b.SetBytes(int64(len(stream)))
				b.ReportAllocs()
				r := NewEventReader(&repeater{text: string(stream)}, 4<<20)
				for b.Loop() {
					if _, err := r.Next(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkEventReaderComments(b *testing.B) {
	b.ReportAllocs()
	stream := bytes.Repeat([]byte(": keep-alive\r\n"), 1000)
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		if _, err := NewEventReader(bytes.NewReader(stream), 1<<10).Next(); err != io.EOF {
			b.Fatal(err)
		}
	}
}
