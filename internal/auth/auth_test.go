package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// memory is a Store without a disk.
type memory struct {
	mu     sync.Mutex // guards tokens and err
	tokens []Token
	err    error
}

func (m *memory) Tokens() ([]Token, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.tokens), m.err
}

func (m *memory) Update(change func([]Token) ([]Token, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	changed, err := change(slices.Clone(m.tokens))
	if err != nil {
		return err
	}
	m.tokens = changed
	return nil
}

func newRegistry(t *testing.T, anonymous bool) (*Registry, *memory) {
	t.Helper()
	m := &memory{}
	r, err := New(Options{Store: m, Anonymous: anonymous})
	if err != nil {
		t.Fatal(err)
	}
	return r, m
}

func create(t *testing.T, r *Registry, name string) string {
	t.Helper()
	text, err := r.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func request(remote string, authorization ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/v1/mcp", nil)
	r.RemoteAddr = remote
	if len(authorization) > 0 {
		r.Header["Authorization"] = authorization
	}
	return r
}

const here = "127.0.0.1:5000"

func TestIdentify(t *testing.T) {
	with, _ := newRegistry(t, false)
	anon, _ := newRegistry(t, true)
	empty, _ := newRegistry(t, false)
	token := create(t, with, "client-codex")
	other := create(t, anon, "local")
	changed := token[:len(token)-2] + "__"

	named := func(id string) crib.Principal { return crib.Principal{Kind: crib.Token, ID: id} }
	nobody := crib.Principal{Kind: crib.Anonymous, ID: "anonymous"}
	for _, tc := range []struct {
		name      string
		r         *Registry
		req       *http.Request
		want      crib.Principal
		says      string // part of the message where it is refused
		challenge string
	}{
		{"the token", with, request("203.0.113.9:1", "Bearer "+token), named("client-codex"), "", ""},
		{"scheme in lower case", with, request(here, "bearer "+token), named("client-codex"), "", ""},
		{"several spaces", with, request(here, "BEARER   "+token), named("client-codex"), "", ""},
		{"no header", with, request(here), crib.Principal{}, "toolcrib client add", `Bearer realm="toolcrib"`},
		{"no header and no tokens", empty, request(here), crib.Principal{}, "no tokens yet", `Bearer realm="toolcrib"`},
		{"a token where none exist", empty, request(here, "Bearer "+token), crib.Principal{}, "no tokens yet", `error="invalid_token"`},
		{"empty header", with, request(here, ""), crib.Principal{}, "scheme Bearer", `error="invalid_request"`},
		{"no token", with, request(here, "Bearer"), crib.Principal{}, "not known", `error="invalid_token"`},
		{"empty token", with, request(here, "Bearer "), crib.Principal{}, "not known", `error="invalid_token"`},
		{"wrong token", with, request(here, "Bearer "+changed), crib.Principal{}, "not known", `error="invalid_token"`},
		{"token and more", with, request(here, "Bearer "+token+"x"), crib.Principal{}, "not known", `error="invalid_token"`},
		{"token and a space", with, request(here, "Bearer "+token+" "), crib.Principal{}, "not known", `error="invalid_token"`},
		{"its hash", with, request(here, "Bearer "+string(hashOf(token))), crib.Principal{}, "not known", `error="invalid_token"`},
		{"other scheme", with, request(here, "Basic "+token), crib.Principal{}, "scheme Bearer", `error="invalid_request"`},
		{"without scheme", with, request(here, token), crib.Principal{}, "scheme Bearer", `error="invalid_request"`},
		{"two headers", with, request(here, "Bearer "+token, "Bearer "+token), crib.Principal{}, "more than one", `error="invalid_request"`},
		{"two headers, anonymous on", anon, request(here, "", ""), crib.Principal{}, "more than one", `error="invalid_request"`},
		{"anonymous", anon, request(here), nobody, "", ""},
		{"anonymous over IPv6", anon, request("[::1]:5000"), nobody, "", ""},
		{"anonymous over mapped IPv4", anon, request("[::ffff:127.0.0.1]:5000"), nobody, "", ""},
		{"anonymous from elsewhere", anon, request("192.0.2.7:5000"), crib.Principal{}, "another machine", `Bearer realm="toolcrib"`},
		{"anonymous from nowhere", anon, request(""), crib.Principal{}, "another machine", `Bearer realm="toolcrib"`},
		{"a token where anonymous is on", anon, request(here, "Bearer "+other), named("local"), "", ""},
		{"a wrong token where anonymous is on", anon, request(here, "Bearer "+token), crib.Principal{}, "not known", `error="invalid_token"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.r.Identify(tc.req)
			if got != tc.want || (err == nil) != (tc.says == "") {
				t.Fatalf("got %v %v, want %v", got, err, tc.want)
			}
			if err == nil {
				return
			}
			checkChallenge(t, err, tc.says, tc.challenge)
			if strings.Contains(err.Error(), token) || strings.Contains(err.Error(), changed) {
				t.Error("the error repeats the token")
			}
		})
	}
}

func hashOf(text string) []byte {
	h := sha256.Sum256([]byte(text))
	return bytes.ToValidUTF8(h[:], nil)
}

func checkChallenge(t *testing.T, err error, says, challenge string) {
	t.Helper()
	if crib.CodeOf(err) != crib.Denied {
		t.Errorf("code %s", crib.CodeOf(err))
	}
	w := httptest.NewRecorder()
	Challenge(w, err)
	var body struct {
		ID    json.RawMessage
		Error struct{ Message string }
	}
	if uerr := json.Unmarshal(w.Body.Bytes(), &body); uerr != nil {
		t.Fatal(uerr)
	}
	if w.Code != http.StatusUnauthorized || body.ID != nil || !strings.Contains(body.Error.Message, says) {
		t.Errorf("%d %s, want a message about %q", w.Code, w.Body, says)
	}
	got := w.Header().Get("WWW-Authenticate")
	if !strings.HasPrefix(got, `Bearer realm="toolcrib"`) || !strings.HasSuffix(got, challenge) {
		t.Errorf("challenge %s, want %s", got, challenge)
	}
}

func TestCredentialsElsewhereAreIgnored(t *testing.T) {
	r, _ := newRegistry(t, false)
	token := create(t, r, "local")
	for _, url := range []string{
		"/v1/mcp?token=" + token,
		"/v1/mcp?access_token=" + token,
		"http://Bearer:" + token + "@localhost/v1/mcp",
	} {
		req := httptest.NewRequest(http.MethodPost, url, strings.NewReader("access_token="+token))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Cookie", "token="+token)
		req.Header.Set("Proxy-Authorization", "Bearer "+token)
		if p, err := r.Identify(req); err == nil {
			t.Errorf("%s was taken for %v", url, p)
		}
	}
}

func TestAnonymousOverUnixSocket(t *testing.T) {
	r, _ := newRegistry(t, true)
	req := request("@")
	req = req.WithContext(context.WithValue(req.Context(), http.LocalAddrContextKey, &net.UnixAddr{Name: "x", Net: "unix"}))
	if p, err := r.Identify(req); err != nil || p.Kind != crib.Anonymous {
		t.Fatal(p, err)
	}
}

func TestTokensAreReplacedAndRevoked(t *testing.T) {
	r, m := newRegistry(t, false)
	first := create(t, r, "client-codex")
	if !regexp.MustCompile(`^tcb_[A-Za-z0-9_-]{43}$`).MatchString(first) {
		t.Errorf("token %q", first)
	}
	second := create(t, r, "client-codex")
	if _, ok := r.Lookup(first); ok {
		t.Error("the replaced token still works")
	}
	if name, ok := r.Lookup(second); !ok || name != "client-codex" {
		t.Error("the new token does not work")
	}
	create(t, r, "client-a")
	if got := names(r); !slices.Equal(got, []string{"client-a", "client-codex"}) {
		t.Errorf("names %v", got)
	}
	for _, kept := range m.tokens {
		if bytes.Contains(kept.Hash[:], []byte(second)) || kept.Name == second {
			t.Error("the store holds the text of a token")
		}
	}
	if err := r.Revoke("client-codex"); err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Lookup(second); ok {
		t.Error("the revoked token still works")
	}
	if err := r.Revoke("client-codex"); crib.CodeOf(err) != crib.NotFound {
		t.Errorf("revoking what is not there: %v", err)
	}
	if got := names(r); !slices.Equal(got, []string{"client-a"}) {
		t.Errorf("names %v", got)
	}
}

func names(r *Registry) []string {
	var out []string
	for _, i := range r.List() {
		out = append(out, i.Name)
	}
	return out
}

func TestNamesAreChecked(t *testing.T) {
	r, m := newRegistry(t, false)
	for _, name := range []string{"", "A", "a b", "a/b", "-a", "a--b", "a\n", "é", strings.Repeat("a", MaxName+1)} {
		if _, err := r.Create(name); crib.CodeOf(err) != crib.Invalid {
			t.Errorf("%q: %v", name, err)
		}
	}
	if len(m.tokens) != 0 {
		t.Error("a token with a bad name was kept")
	}
}

func TestReload(t *testing.T) {
	r, m := newRegistry(t, false)
	elsewhere, err := New(Options{Store: m})
	if err != nil {
		t.Fatal(err)
	}
	text := create(t, elsewhere, "local")
	if _, ok := r.Lookup(text); ok {
		t.Fatal("known before it was read")
	}
	if _, err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Lookup(text); !ok {
		t.Error("not known after Reload")
	}

	m.err = errors.New("disk gone")
	if _, err := r.Reload(); err == nil {
		t.Error("an unreadable store was not reported")
	}
	if _, ok := r.Lookup(text); !ok {
		t.Error("an unreadable store shut everybody out")
	}
	if _, err := r.Create("x"); err == nil {
		t.Error("a token that was not kept was handed out")
	}
	if err := r.Revoke("local"); err == nil {
		t.Error("a revocation that was not kept was reported as done")
	}
	if _, err := New(Options{Store: m}); err == nil {
		t.Error("a registry started without its tokens")
	}
}

func TestCreatedUsesTheClock(t *testing.T) {
	at := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	r, err := New(Options{Store: &memory{}, Now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	create(t, r, "local")
	if got := r.List()[0].Created; !got.Equal(at) {
		t.Errorf("created %v", got)
	}
}

func TestIdentifyWhileTokensChange(t *testing.T) {
	r, _ := newRegistry(t, false)
	text := create(t, r, "kept")
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 200 {
			create(t, r, "other")
		}
	})
	for range 4 {
		wg.Go(func() {
			for range 500 {
				if _, err := r.Identify(request(here, "Bearer "+text)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestIdentifyDoesNotAllocate(t *testing.T) {
	r, _ := newRegistry(t, false)
	req := request(here, "Bearer "+create(t, r, "local"))
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := r.Identify(req); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations for one call", allocs)
	}
}

func BenchmarkIdentify(b *testing.B) {
	r, err := New(Options{Store: &memory{}})
	if err != nil {
		b.Fatal(err)
	}
	text, err := r.Create("local")
	if err != nil {
		b.Fatal(err)
	}
	req := request(here, "Bearer "+text)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Identify(req); err != nil {
			b.Fatal(err)
		}
	}
}
