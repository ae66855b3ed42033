package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/toolcrib/toolcrib/internal/crib"
)

func TestExitCodes(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{
		{nil, exitOK},
		{errors.New("disk on fire"), exitFailed},
		{context.Canceled, exitFailed},
		{usagef("wrong"), exitUsage},
		{fmt.Errorf("add: %w", crib.Errorf(crib.Invalid, "x")), exitUsage},
		{crib.Errorf(crib.NotFound, "x"), exitUsage},
		{fmt.Errorf("call: %w", crib.Errorf(crib.Unavailable, "x")), exitUnavailable},
		{crib.Errorf(crib.Unauthorized, "x"), exitUnavailable},
		{crib.Errorf(crib.Denied, "x"), exitRefused},
		{crib.Errorf(crib.Timeout, "x"), exitFailed},
		{crib.Errorf(crib.Unknown, "x"), exitFailed},
		{&exitError{code: exitTool}, exitTool},
		{fmt.Errorf("outer: %w", &exitError{exitTool, crib.Errorf(crib.Denied, "inner")}), exitTool},
	} {
		if got := exitCode(tt.err); got != tt.want {
			t.Errorf("exitCode(%v) = %d; want %d", tt.err, got, tt.want)
		}
	}
}

// Every code that a command may return is explained, once and in order.
func TestExitCodesAreExplained(t *testing.T) {
	for i, m := range exitMeanings() {
		if m.Code != i || m.Meaning == "" {
			t.Errorf("row %d explains %d as %q", i, m.Code, m.Meaning)
		}
	}
	if n := len(exitMeanings()); n != exitRefused+1 {
		t.Errorf("%d codes are explained", n)
	}
}

func TestReport(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{errors.New("one"), "toolcrib: one\n"},
		{errors.New("one\ntwo"), "toolcrib: one\n  two\n"},
		{errors.New("\x1b[2J\u202e"), "toolcrib: \\x1b[2J\\u202e\n"},
		{&exitError{code: exitUsage}, ""},
		{fmt.Errorf("call: %w", context.Canceled), "toolcrib: interrupted\n"},
	} {
		var out bytes.Buffer
		newEnv(nil, nil, &out, nil).report(tt.err)
		if got := out.String(); got != tt.want {
			t.Errorf("report(%v) says %q; want %q", tt.err, got, tt.want)
		}
	}
}
