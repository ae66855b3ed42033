// Package policy decides who may do what. It is pure: everything that a
// decision depends on is in the question, so that the list a model sees and
// the call it makes are decided alike.
package policy

import (
	"fmt"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// Question is one thing that a principal wants to see or to call.
type Question struct {
	Principal crib.Principal
	Address   crib.Address
	// Offered says that the server's definition offers the tool at all.
	Offered bool
	// Gate is the effect that the definition sets for the tool, "" where it
	// sets none.
	Gate crib.Effect
	// Pattern is what the gate was written for.
	Pattern string
}

// Decide answers q. What it does not know it denies.
func Decide(q Question) crib.Decision {
	switch {
	case q.Principal == crib.Principal{}:
		return crib.Decision{Effect: crib.Deny, Reason: "nobody asks"}
	case !q.Offered:
		return crib.Decision{Effect: crib.Deny, Reason: "the server's page does not offer it"}
	}
	switch q.Gate {
	case "":
		return crib.Decision{Effect: crib.Allow, Reason: "no gate is set"}
	case crib.Allow:
		return crib.Decision{Effect: crib.Allow, Reason: "its gate allows it"}
	case crib.Ask:
		return crib.Decision{Effect: crib.Ask, Reason: fmt.Sprintf("gate %q asks a person", q.Pattern)}
	case crib.Deny:
		return crib.Decision{Effect: crib.Deny, Reason: fmt.Sprintf("gate %q denies it", q.Pattern)}
	}
	return crib.Decision{Effect: crib.Deny, Reason: fmt.Sprintf("gate %q has the unknown effect %q", q.Pattern, q.Gate)}
}
