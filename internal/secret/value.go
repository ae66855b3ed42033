// Package secret keeps credentials out of sight: values that print as
// [redacted], templates that name a secret instead of holding it, the stores
// that names are looked up in, and a redactor for everything that is written
// down.
package secret

import (
	"fmt"
	"io"
	"log/slog"
)

// Mask is what is shown in place of a secret.
const Mask = "[redacted]"

// Value is a resolved secret, or text that contains one. Every way of
// printing it prints Mask; only Reveal gives the text. The zero Value is
// empty.
type Value struct {
	// A pointer, because fmt calls no methods on unexported fields of other
	// structs: there it prints an address instead of the text.
	text *string
}

// NewValue makes a Value of text.
func NewValue(text string) Value { return Value{text: &text} }

// Reveal returns the text. Call it only where the text is sent.
func (v Value) Reveal() string {
	if v.text == nil {
		return ""
	}
	return *v.text
}

// String returns Mask.
func (v Value) String() string { return Mask }

// GoString returns Mask.
func (v Value) GoString() string { return Mask }

// Format writes Mask for every verb.
func (v Value) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Mask) }

// MarshalText returns Mask.
func (v Value) MarshalText() ([]byte, error) { return []byte(Mask), nil }

// MarshalJSON returns Mask as a JSON string.
func (v Value) MarshalJSON() ([]byte, error) { return []byte(`"` + Mask + `"`), nil }

// LogValue returns Mask.
func (v Value) LogValue() slog.Value { return slog.StringValue(Mask) }
