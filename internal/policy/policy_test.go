package policy

import (
	"testing"

	"github.com/toolcrib/toolcrib/internal/crib"
)

func TestDecide(t *testing.T) {
	alice := crib.Principal{Kind: crib.Token, ID: "alice"}
	for _, tc := range []struct {
		name string
		q    Question
		want crib.Effect
	}{
		{"no gate", Question{Principal: alice, Offered: true}, crib.Allow},
		{"allow", Question{Principal: alice, Offered: true, Gate: crib.Allow}, crib.Allow},
		{"ask", Question{Principal: alice, Offered: true, Gate: crib.Ask}, crib.Ask},
		{"deny", Question{Principal: alice, Offered: true, Gate: crib.Deny}, crib.Deny},
		{"not offered beats allow", Question{Principal: alice, Gate: crib.Allow}, crib.Deny},
		{"unknown effect", Question{Principal: alice, Offered: true, Gate: "maybe"}, crib.Deny},
		{"nobody", Question{Offered: true, Gate: crib.Allow}, crib.Deny},
	} {
		got := Decide(tc.q)
		if got.Effect != tc.want || got.Reason == "" {
			t.Errorf("%s: %+v, want %s with a reason", tc.name, got, tc.want)
		}
	}
}
