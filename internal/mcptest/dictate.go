package mcptest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Dictation says what the tool notify sends, message by message, while it is
// called.
type Dictation struct {
	t    testing.TB
	path string
}

// Dictate makes a Dictation for one call.
func Dictate(t testing.TB) Dictation { return Dictation{t, filepath.Join(t.TempDir(), "lines")} }

// Args are the arguments of notify, as raw JSON.
func (d Dictation) Args() string { return `{"lines":` + quote(d.path) + `}` }

// Say makes the server send these messages, in their order.
func (d Dictation) Say(messages ...string) {
	d.t.Helper()
	for _, m := range messages {
		if err := appendLine(d.path, m); err != nil {
			d.t.Fatal(err)
		}
	}
}

// Answer ends the call with a raw result.
func (d Dictation) Answer(result string) {
	d.t.Helper()
	d.Say(lastLine + result)
}

// lastLine begins the line that is a result.
const lastLine = "answer "

// dictated sends what is written to a file.
func dictated(x *exchange, path string) answer {
	poll := time.NewTicker(releasePoll)
	defer poll.Stop()
	for said := 0; ; {
		for _, line := range wholeLines(path, said) {
			if result, last := strings.CutPrefix(line, lastLine); last {
				return ok(result)
			}
			x.send([]byte(line))
			said++
		}
		select {
		case <-poll.C:
		case <-x.ctx.Done():
			return answer{}
		}
	}
}

// wholeLines are the lines of a file from a number on, without one that has no
// end yet; none while it cannot be read.
func wholeLines(path string, from int) []string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	lines := strings.Split(string(raw), "\n")
	return lines[min(from, len(lines)-1) : len(lines)-1]
}
