package soak

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// bePeer gives the process a bad habit and returns the arguments of the peer
// that it is beside that: what stands behind "--".
func bePeer(args []string) []string {
	switch args[0] {
	case "mortal":
		life, err := time.ParseDuration(args[1])
		if err != nil {
			panic(err)
		}
		time.AfterFunc(life, func() { syscall.Exit(3) }) // at once, in the middle of whatever it does
	case "loud":
		go shout()
	case "mute":
		io.Copy(io.Discard, os.Stdin) //nolint:errcheck // it ends when the crib lets go
		syscall.Exit(0)
	case "mad":
		seed, err := strconv.ParseUint(args[1], 10, 64)
		if err != nil {
			panic(err)
		}
		rave(rand.New(rand.NewPCG(seed, 0)))
	}
	for i, arg := range args {
		if arg == "--" {
			return args[i+1:]
		}
	}
	panic("no -- in the arguments of a peer")
}

// shout writes 64 KiB to stderr a hundred times a second: more than anybody
// reads, without taking the processor from the rest.
func shout() {
	chunk := []byte(strings.Repeat("it goes on and on ", 4096)[:64<<10])
	for range time.Tick(10 * time.Millisecond) {
		os.Stderr.Write(chunk) //nolint:errcheck // the end of stdin ends the process
	}
}

// rave puts nonsense between the lines that go to stdout, and in place of some.
func rave(rng *rand.Rand) {
	out := os.Stdout
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	os.Stdout = w
	go func() {
		lines := bufio.NewReader(r)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			if rng.IntN(2) == 0 {
				fmt.Fprintln(out, ravings[rng.IntN(len(ravings))])
			}
			if strings.Contains(line, `"token`) && rng.IntN(8) == 0 {
				line = strings.Replace(line, `"result":{`, `"result":{"twice":1,"twice":`+strings.Repeat("9", 400)+`,"utf8":"`+"\xff"+`",`, 1)
			}
			io.WriteString(out, line) //nolint:errcheck // the end of stdin ends the process
		}
	}()
}

// ravings are lines that are nobody's answer.
var ravings = []string{
	"starting up…", "", "42", "null", "[]", `{"level":"info"}`, "\xff\xfe\x00", strings.Repeat("x", 100_000),
	`{"jsonrpc":"2.0","id":987654321,"result":{}}`,
	`{"jsonrpc":"2.0","id":"1","result":{"content":[]}}`,
	`{"jsonrpc":"2.0","id":1,"id":2,"result":{}}`,
	`{"jsonrpc":"2.0","id":1e999,"result":{}}`,
	`{"jsonrpc":"2.0","method":"notifications/unheard-of","params":{"n":1e999}}`,
	`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":5,"progress":1}}`,
	`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`,
	`<html><body>502</body></html>`,
}
