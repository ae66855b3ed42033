package upstream

import (
	"context"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/mcptest"
	"github.com/toolcrib/toolcrib/internal/wire"
)

func noSecrets(context.Context) (Credentials, error) { return Credentials{}, nil }

// A server that is gone shows without anybody calling it.
func TestASilentServerShows(t *testing.T) {
	for _, era := range []wire.Era{wire.Modern, wire.Legacy} {
		t.Run(string(era), func(t *testing.T) {
			peer := mcptest.NewHTTP(t, mcptest.HTTPOptions{})
			s := New(Spec{Name: "s", URL: peer.URL, Era: era, Connect: noSecrets}, Options{Liveness: 20 * time.Millisecond, ProbeTimeout: time.Second})
			defer s.Close()
			leg, err := s.Leg(t.Context(), Want{Era: era})
			if err != nil {
				t.Fatal(err)
			}
			method := map[wire.Era]string{wire.Modern: "server/discover", wire.Legacy: "ping"}[era]
			mcptest.Eventually(t, "it is asked for a sign of life", func() bool { return peer.Requests(method) > 1 })
			if st := s.State(); st.Phase != Ready || leg.Retired() {
				t.Fatalf("a server that answers: %+v", st)
			}
			peer.Close()
			mcptest.Eventually(t, "it shows that the server is gone", func() bool {
				st := s.State()
				return st.Phase == Failed && st.Error != ""
			})
			<-leg.Done()
		})
	}
}
