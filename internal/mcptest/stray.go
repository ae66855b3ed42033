package mcptest

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// stray sends responses that answer nobody before its own, says the same thing
// twice, and takes no heed of a cancellation: with {"release":PATH} it waits for
// the file whatever happens.
func stray(_ *Server, x *exchange, args toolArgs) answer {
	var own struct {
		Say string `json:"say"`
	}
	if err := json.Unmarshal(x.par.Arguments, &own); err != nil {
		return answer{}
	}
	id := string(x.msg.ID)
	bare := strings.Trim(id, `"`)
	for _, wrong := range []string{`"` + bare + `"`, bare + ".0", bare + "e0", "-" + bare, "0", "987654321", `""`, "null", "{}", "[" + bare + "]", "9007199254740993"} {
		if wrong != id {
			x.send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, wrong, textResult("stray "+wrong)))
		}
	}
	poll := time.NewTicker(releasePoll)
	defer poll.Stop()
	for args.Release != "" {
		if _, err := os.Stat(args.Release); err == nil {
			break
		}
		<-poll.C
	}
	said := ok(textResult(own.Say))
	x.send(said.body(x.msg.ID, x.era))
	x.send(ok(textResult("again")).body(x.msg.ID, x.era))
	return said
}
