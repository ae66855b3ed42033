package crib

import (
	"errors"
	"fmt"
)

// Code is the kind of an error that may be shown to a caller.
type Code string

// The codes. docs/reference/errors.md is made from this list.
const (
	Invalid      Code = "invalid"      // the request cannot be understood; repeating it will not help
	NotFound     Code = "not_found"    // no such thing, or not given to this caller: the two look the same
	Denied       Code = "denied"       // understood and refused
	Unavailable  Code = "unavailable"  // a server cannot be reached or is not ready; nothing was executed
	Unauthorized Code = "unauthorized" // a server refuses the crib's own credential for it
	Timeout      Code = "timeout"      // no answer in time; it is not known whether the call was executed
	Unknown      Code = "unknown"      // the connection was lost after sending; it is not known whether the call was executed
	Cancelled    Code = "cancelled"    // the caller cancelled
	TooLarge     Code = "too_large"    // over a documented limit
	Busy         Code = "busy"         // over a documented limit of things at one time; try again later
	Unsupported  Code = "unsupported"  // a known part of the protocol that does not work here
	Internal     Code = "internal"     // a fault of the crib
)

// Codes lists every code with its meaning, in the order of the reference.
func Codes() []CodeMeaning {
	return []CodeMeaning{
		{Invalid, "The request cannot be understood. Repeating it unchanged will not help."},
		{NotFound, "There is no such thing, or it was not given to this caller; the two look the same."},
		{Denied, "Understood and refused by policy."},
		{Unavailable, "A server cannot be reached or is not ready. Nothing was executed."},
		{Unauthorized, "A server refuses the credential that the crib holds for it."},
		{Timeout, "No answer in time. It is not known whether the call was executed."},
		{Unknown, "The connection was lost after sending. It is not known whether the call was executed."},
		{Cancelled, "The caller cancelled."},
		{TooLarge, "Over a documented size limit."},
		{Busy, "Over a documented limit of things at one time. Try again later."},
		{Unsupported, "A known part of the protocol that does not work on this path."},
		{Internal, "A fault of the crib."},
	}
}

// CodeMeaning is one row of the error reference.
type CodeMeaning struct {
	Code    Code
	Meaning string
}

// Error is an error whose message is safe to show to a caller: it holds no
// secret and no address of the crib's own machine.
type Error struct {
	Code Code
	Msg  string
}

func (e *Error) Error() string { return e.Msg }

// Errorf makes an Error.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Msg: fmt.Sprintf(format, args...)}
}

// CodeOf returns the code of the first Error in err's chain, or Internal.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Internal
}

// SafeText returns what of err may be shown to a caller: the message of the
// first Error in its chain, or a general sentence.
func SafeText(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Msg
	}
	return "the crib met an internal fault; its log says which"
}
