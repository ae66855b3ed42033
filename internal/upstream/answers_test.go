package upstream

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// peers are servers of both eras over every carrier.
func peers(t *testing.T, run func(t *testing.T, s *Server, era wire.Era)) {
	t.Helper()
	for _, era := range []wire.Era{wire.Modern, wire.Legacy} {
		t.Run(string(era)+" process", func(t *testing.T) {
			s, _ := stdioServer(t, Spec{}, Options{}, "-era", string(era))
			run(t, s, era)
		})
		t.Run(string(era)+" address", func(t *testing.T) {
			peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{Options: mcptest.Options{Era: string(era)}})
			run(t, serverOf(t, Spec{URL: peer.URL}, Options{}), era)
		})
	}
	t.Run("legacy stream", func(t *testing.T) {
		run(t, serverOf(t, Spec{URL: ssePeer(t, mcptest.HTTPOptions{}).URL}, Options{}), wire.Legacy)
	})
}

// textOf is the text of the first block of the result of a tool.
func textOf(r *Reply) string {
	content := wire.Get(r.Message.Result.In(r.Message.Body), "content")
	for _, at := range wire.Elements(content) {
		text, _ := wire.GetText(at.In(content), "text")
		return text
	}
	return ""
}

// Answers to nobody, in ids that look like ours and are not, and an answer that
// comes twice, reach nobody: each of many calls gets its own, and the
// connection goes on.
func TestAnswersToNobody(t *testing.T) {
	const calls = 100
	peers(t, func(t *testing.T, s *Server, era wire.Era) {
		leg := mustLeg(t, s, Want{Era: era})
		var all sync.WaitGroup
		for n := range calls {
			all.Go(func() {
				say := fmt.Sprint("call ", n)
				reply, err := leg.Do(patiently(t), toolCall(leg, "stray", `{"say":"`+say+`"}`), Nobody{})
				if err != nil {
					t.Errorf("%s: %v", say, err)
				} else if got := textOf(reply); got != say {
					t.Errorf("%s was answered with %q", say, got)
				}
			})
		}
		all.Wait()
		if err := echo(t, leg); err != nil || leg.Retired() || leg.Open() != 0 {
			t.Errorf("afterwards: %v, retired %v, %d open", err, leg.Retired(), leg.Open())
		}
	})
}

// A server that does not heed a cancellation answers a call that nobody waits
// for any more. That answer is nobody's, least of all that of the next call.
func TestAnAnswerThatComesTooLate(t *testing.T) {
	peers(t, func(t *testing.T, s *Server, era wire.Era) {
		leg := mustLeg(t, s, Want{Era: era})
		release := filepath.Join(t.TempDir(), "release")
		ctx, cancel := context.WithCancel(patiently(t))
		ended := make(chan error, 1)
		go func() {
			_, err := leg.Do(ctx, toolCall(leg, "stray", fmt.Sprintf(`{"say":"late","release":%q}`, release)), Nobody{})
			ended <- err
		}()
		mcptest.Eventually(t, "the call is open", func() bool { return leg.Open() == 1 })
		cancel()
		if err := <-ended; crib.CodeOf(err) != crib.Cancelled {
			t.Fatalf("got %v", err)
		}
		if err := os.WriteFile(release, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for n := range 20 {
			say := fmt.Sprint("next ", n)
			reply, err := leg.Do(patiently(t), toolCall(leg, "stray", `{"say":"`+say+`"}`), Nobody{})
			if err != nil || textOf(reply) != say {
				t.Fatalf("%s: %v, %v", say, reply, err)
			}
		}
	})
}

// A greeting that comes to nothing is not cancelled (2025-11-25, Cancellation).
func TestInitializeIsNotCancelled(t *testing.T) {
	brief := Options{StartTimeout: 300 * time.Millisecond, ProbeTimeout: 100 * time.Millisecond}
	t.Run("process", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("there is no cat")
		}
		record := filepath.Join(t.TempDir(), "record")
		s := serverOf(t, Spec{Era: wire.Legacy, Command: []string{"/bin/sh", "-c", `exec cat >"$0"`, record}}, brief)
		if _, err := s.Leg(patiently(t), Want{Era: wire.Legacy}); err == nil {
			t.Fatal("a leg was made")
		}
		s.Close()
		came, err := os.ReadFile(record)
		if err != nil || !strings.Contains(string(came), `"initialize"`) || strings.Contains(string(came), "cancelled") {
			t.Errorf("it got %s, %v", came, err)
		}
	})
	t.Run("address", func(t *testing.T) {
		peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
		peer.Script(func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
			if strings.Contains(string(body), `"initialize"`) {
				<-r.Context().Done()
				return true
			}
			return false
		})
		s := serverOf(t, Spec{Era: wire.Legacy, URL: peer.URL}, brief)
		if _, err := s.Leg(patiently(t), Want{Era: wire.Legacy}); err == nil {
			t.Fatal("a leg was made")
		}
		s.Close()
		if n := len(peer.Seen()); n != 1 {
			t.Errorf("%d requests came: %v", n, peer.Seen())
		}
	})
}
