package matrix

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/toolcrib/toolcrib/internal/wire"
)

// cell is one feature in one pairing. It is a testing.TB that keeps the first
// reason to fail, for the table.
type cell struct {
	*testing.T
	pairing
	talker
	crib     crib
	greeting string // what the crib says of itself

	mu  sync.Mutex // guards why
	why string     // it failed
}

// dial opens the conversation.
func (c *cell) dial() {
	url := c.crib.url(c.page())
	if c.client.over == "http" {
		c.talker = newOverHTTP(c, c.client.era, url)
	} else {
		c.talker = newPiped(c, c.client.era, url, c.crib.token)
	}
	r := c.hello()
	c.greeting = r.Result()
	if wire.Get([]byte(c.greeting), "capabilities") == nil {
		c.Fatalf("the crib said %v", r)
	}
}

// want fails the cell unless text contains all parts.
func (c *cell) want(text string, parts ...string) {
	c.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			c.Errorf("%s is missing in %q", p, text)
		}
	}
}

// callOf is the params of a call: more are raw members beside the arguments.
func callOf(tool, arguments string, more ...string) string {
	return `{"name":"` + tool + `","arguments":` + arguments + strings.Join(append([]string{""}, more...), ",") + `}`
}

func (c *cell) note(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why == "" {
		c.why = why
	}
}

func (c *cell) Error(args ...any) {
	c.Helper()
	c.note(fmt.Sprint(args...))
	c.T.Error(args...)
}

func (c *cell) Errorf(format string, args ...any) {
	c.Helper()
	c.note(fmt.Sprintf(format, args...))
	c.T.Errorf(format, args...)
}

func (c *cell) Fatal(args ...any) {
	c.Helper()
	c.note(fmt.Sprint(args...))
	c.T.Fatal(args...)
}

func (c *cell) Fatalf(format string, args ...any) {
	c.Helper()
	c.note(fmt.Sprintf(format, args...))
	c.T.Fatalf(format, args...)
}
