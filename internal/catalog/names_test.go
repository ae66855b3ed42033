package catalog

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/toolcrib/toolcrib/internal/crib"
)

func TestPublicName(t *testing.T) {
	long := "a_tool_whose_name_is_far_too_long_for_any_model_to_be_called_by"
	for _, tc := range []struct{ server, tool, want string }{
		{"files", "read_file", "files__read_file"},
		{"a", "_x", "a___x"},
		{"a", "b.c", "a--b_c-"},
		{"files", long, "files--a_tool_whose_name_is_far_too-"},
		{"s", "", "s--"},
	} {
		got := PublicName(crib.Address{Server: tc.server, Tool: tc.tool})
		if len(got) > MaxPublicName || got[:len(tc.want)] != tc.want {
			t.Errorf("%s %q: got %s (%d), want %s…", tc.server, tc.tool, got, len(got), tc.want)
		}
		if serverOfName(got) != tc.server {
			t.Errorf("%s: server %q", got, serverOfName(got))
		}
	}
}

// Whatever names servers and tools have, no two addresses share a public name,
// and each one leads back to its server.
func TestPublicNameIsInjective(t *testing.T) {
	seen := map[string]crib.Address{}
	check := func(a crib.Address) {
		got := PublicName(a)
		if old, ok := seen[got]; ok && old != a {
			t.Fatalf("%v and %v are both %s", old, a, got)
		}
		seen[got] = a
		if serverOfName(got) != a.Server {
			t.Fatalf("%v: %s leads to server %q", a, got, serverOfName(got))
		}
		if len(got) > MaxPublicName {
			t.Fatalf("%s has %d characters", got, len(got))
		}
	}
	for _, a := range []crib.Address{
		{Server: "a", Tool: "b__c"}, {Server: "a", Tool: "b--c"}, {Server: "a-b", Tool: "c"}, {Server: "a", Tool: "B"}, {Server: "a", Tool: "b"},
		{Server: "my", Tool: "get-user"}, {Server: "my", Tool: "get_user"}, {Server: "my", Tool: "get.user"}, {Server: "my", Tool: "get user"},
	} {
		check(a)
		check(crib.Address{Server: a.Server, Tool: PublicName(a)})
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	letters := []rune("ab_-.Aé /0")
	for range 20000 {
		tool := make([]rune, rnd.IntN(60))
		for i := range tool {
			tool[i] = letters[rnd.IntN(len(letters))]
		}
		check(crib.Address{Server: fmt.Sprintf("s%d-x", rnd.IntN(3)), Tool: string(tool)})
	}
}

func TestURIsGoThereAndBack(t *testing.T) {
	for _, tc := range []struct{ uri, public string }{
		{"file:///a b", "crib.s-1+file:///a b"},
		{"x://t/{id}", "crib.s-1+x://t/{id}"},
		{"ui://panel/main", "ui://crib.s-1/panel/main"},
		{"crib.other+x://y", "crib.s-1+crib.other+x://y"},
		{"http://a/b", "crib.s-1+http://a/b"},
	} {
		if got := PublicURI("s-1", tc.uri); got != tc.public {
			t.Errorf("%s: got %s", tc.uri, got)
		}
		server, uri, ok := OwnURI(tc.public)
		if !ok || server != "s-1" || uri != tc.uri {
			t.Errorf("%s: back to %q %q %v", tc.public, server, uri, ok)
		}
	}
	if server, uri, ok := OwnURI("https://a/b"); server != "" || uri != "https://a/b" || !ok {
		t.Error("https is not left alone")
	}
	for _, bad := range []string{"file:///x", "crib.UPPER+x:y", "crib.a", "ui://panel"} {
		if _, _, ok := OwnURI(bad); ok {
			t.Errorf("%s was taken for a public URI", bad)
		}
	}
}
