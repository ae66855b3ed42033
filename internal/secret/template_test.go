package secret

import (
	"strings"
	"testing"
)

func TestParsePageValue(t *testing.T) {
	tests := []struct {
		in   string
		want string // Source; "" with err
		err  string // part of the error
	}{
		{in: "GH_TOKEN", want: "${ secrets:GH_TOKEN }"},
		{in: "A", want: "${ secrets:A }"},
		{in: "Bearer ${ env:TOKEN }", want: "Bearer ${ env:TOKEN }"},
		{in: "Bearer ${env:TOKEN}", want: "Bearer ${ env:TOKEN }"},
		{in: "${  op : op://vault/my item/field?x=y  }", want: "${ op:op://vault/my item/field?x=y }"},
		{in: "${a:X}${b:Y}", want: "${ a:X }${ b:Y }"},
		{in: "$$${env:X}$$", want: "$$${ env:X }$$"},
		{in: "$${LIT} ${env:X}", want: "$${LIT} ${ env:X }"},
		{in: "AKIAIOSFODNN7EXAMPLE", err: "looks like a key"},
		{in: "gh_token", err: "{ value: … }"},
		{in: "8TOKEN", err: "{ value: … }"},
		{in: "", err: "{ value: … }"},
		{in: "$$", err: "{ value: … }"},
		{in: "Bearer ${NOPE}", err: "${ secrets:NOPE }"},
		{in: "${A:-d}", err: "with a default is not known"},
		{in: "${}", err: "write ${ store:NAME }"},
		{in: "${env:}", err: "write ${ store:NAME }"},
		{in: "${:X}", err: "write ${ store:NAME }"},
		{in: "${ENV:X}", err: "write ${ store:NAME }"},
		{in: "${env:${x}}", err: "write ${ store:NAME }"},
		{in: "${env:X", err: "closing brace"},
		{in: "$HOME", err: "write $$ for a dollar"},
		{in: "$(x)", err: "write $$ for a dollar"},
		{in: "costs 5$", err: "write $$ for a dollar"},
	}
	for _, tt := range tests {
		got, err := ParsePageValue(tt.in)
		check(t, tt.in, got, err, tt.want, tt.err)
	}
}

func TestParseToolValue(t *testing.T) {
	tests := []struct {
		name, in string
		want     string
		err      string
	}{
		{"LOG_LEVEL", "debug", "debug", ""},
		{"LOG_LEVEL", "DEBUG", "DEBUG", ""},
		{"X", "", "", ""},
		{"X", "a$$b", "a$$b", ""},
		{"X", "Bearer ${ env:T }", "Bearer ${ env:T }", ""},
		{"X", "$HOME", "", "write $$"},
		{"gh API_KEY", "sk-" + strings.Repeat("a", 30), "", "secrets/GH_API_KEY"},
		{"gh Authorization", "Bearer abcdefghijklmnop1234", "", "${ secrets:GH_AUTHORIZATION }"},
		{"X", "${ env:T } ghp_" + strings.Repeat("a", 36), "", "looks like a key"},
	}
	for _, tt := range tests {
		got, err := ParseToolValue(tt.name, tt.in)
		check(t, tt.in, got, err, tt.want, tt.err)
		if err != nil && len(tt.in) > 20 && strings.Contains(err.Error(), tt.in[len(tt.in)-16:]) {
			t.Errorf("%s: the error shows the value: %v", tt.name, err)
		}
	}
}

func check(t *testing.T, in string, got Template, err error, want, wantErr string) {
	t.Helper()
	switch {
	case wantErr == "" && err != nil:
		t.Errorf("%q: %v", in, err)
	case wantErr != "" && err == nil:
		t.Errorf("%q: no error, got %s", in, got.Source())
	case wantErr != "" && !strings.Contains(err.Error(), wantErr):
		t.Errorf("%q: error %q does not say %q", in, err, wantErr)
	case wantErr == "" && got.Source() != want:
		t.Errorf("%q: got %s, want %s", in, got.Source(), want)
	}
}

func TestErrorsOfParseNeverEchoText(t *testing.T) {
	for _, in := range []string{"Bearer " + canary, canary, "${ " + canary, "${" + canary + "}", "$" + canary, "${bad store:" + canary + "}"} {
		if _, err := ParsePageValue(in); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%q: error %v", in, err)
		}
	}
}

func TestTemplateStringHidesKeys(t *testing.T) {
	key := Literal("sk-" + strings.Repeat("x1", 20))
	if key.String() != Mask {
		t.Errorf("String() = %q", key.String())
	}
	if got := Join(Literal("Bearer "), Reference("env", "T")).String(); got != "Bearer ${ env:T }" {
		t.Errorf("String() = %q", got)
	}
}

func TestSourceReadsBack(t *testing.T) {
	for _, in := range []Template{Literal("a$b${c}"), Join(Literal("$"), Reference("op", "a/b")), {}, Reference(AnyStore, "X")} {
		back, err := ParseToolValue("", in.Source())
		if err != nil || back.Source() != in.Source() {
			t.Errorf("%q read back as %q, %v", in.Source(), back.Source(), err)
		}
	}
}

func TestLooksLikeKey(t *testing.T) {
	tests := []struct {
		name, value string
		want        bool
	}{
		{"", "sk-proj-abcdefghijklmnop1234", true},
		{"", "ghp_0123456789abcdefghij0123456789abcdef", true},
		{"", "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz", true},
		{"", "xoxb-123456789012-abcdef", true},
		{"", "AKIAIOSFODNN7EXAMPLE", true},
		{"", "AIzaSyA-1234567890abcdefghijklmnopqrstu", true},
		{"", "glpat-abcdefghij0123456789", true},
		{"", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijkl", true},
		{"", "Bearer abcdefghijklmnop", true},
		{"", "basic dXNlcjpwYXNzd29yZDEyMw==", true},
		{"", "-----BEGIN RSA PRIVATE KEY-----\nabc", true},
		{"DATABASE_URL", "postgres://app:hunter2@db.example.com/app", true},
		{"API_KEY", "0123456789abcdef0123", true},
		{"X-Auth-Token", "f3b1c2d4-5e6f-7081-92a3-b4c5d6e7f809", true},
		{"api_key", "dGhpcyBpcyBhIHNlY3JldDEy", true},

		{"", "", false},
		{"", "0123456789abcdef0123", false},               // no telling name
		{"LOG_LEVEL", "debug", false},                     // a word
		{"API_KEY", "short1", false},                      // short
		{"AUTH_METHOD", "client_credentials_flow", false}, // words
		{"AUTH_URL", "https://login.example.com/oauth2/authorize", false},
		{"KEY_FILE", "/etc/keys/server-2024-07.pem", false},
		{"KEY_FILE", "~/keys/server-2024-07-18.pem", false},
		{"API_KEY", "11111111111111111111", false},
		{"API_KEY", "aaaaaaaaaaaaaaaaaaa1", false},
		{"", "risk-assessment-for-the-whole-year", false},
		{"", "Bearer of bad news", false},
		{"URL", "http://localhost:8080/a@b", false},
	}
	for _, tt := range tests {
		if got := LooksLikeKey(tt.name, tt.value); got != tt.want {
			t.Errorf("LooksLikeKey(%q, %q) = %v", tt.name, tt.value, got)
		}
	}
}

func TestSuggestName(t *testing.T) {
	for in, want := range map[string]string{"X-Api-Key": "X_API_KEY", "google-maps mcp_auth_token": "GOOGLE_MAPS_MCP_AUTH_TOKEN", "3d key": "D_KEY", "": "NAME", "äö": "NAME"} {
		if got := SuggestName(in); got != want {
			t.Errorf("SuggestName(%q) = %q, want %q", in, got, want)
		}
	}
}
