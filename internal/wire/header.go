package wire

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Names of headers, in the form in which http.Header keeps them.
const (
	HeaderProtocolVersion = "Mcp-Protocol-Version"
	HeaderMethod          = "Mcp-Method"
	HeaderName            = "Mcp-Name"
	HeaderSession         = "Mcp-Session-Id"
	HeaderParamPrefix     = "Mcp-Param-"
	HeaderLastEventID     = "Last-Event-Id"
)

// The marks around a header value that is base64 (2026-07-28, Streamable HTTP,
// Value Encoding). Their case matters.
const (
	encodedPrefix = "=?base64?"
	encodedSuffix = "?="
)

// EncodeHeader returns the header value that carries s: s itself where every
// reader will see it unchanged, else its base64 form.
func EncodeHeader(s string) string {
	if isPlain(s) {
		return s
	}
	return encodedPrefix + base64.StdEncoding.EncodeToString([]byte(s)) + encodedSuffix
}

// isPlain reports whether s survives as a header value. A tab is allowed in
// one, but it is a control character, and those are to be encoded.
func isPlain(s string) bool {
	if strings.HasPrefix(s, " ") || strings.HasSuffix(s, " ") {
		return false
	}
	if strings.HasPrefix(s, encodedPrefix) && strings.HasSuffix(s, encodedSuffix) {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// DecodeHeader returns the text that the header value v carries. It refuses
// bytes that a header value must not have, base64 that is not canonical, and
// text that is not UTF-8. A value with only one of the two marks is plain.
func DecodeHeader(v string) (string, error) {
	for i := range len(v) {
		if (v[i] < ' ' && v[i] != '\t') || v[i] > '~' {
			return "", fmt.Errorf("byte %#02x is not allowed in a header value; use the =?base64?…?= form", v[i])
		}
	}
	inner, marked := strings.CutPrefix(v, encodedPrefix)
	inner, closed := strings.CutSuffix(inner, encodedSuffix)
	if !marked || !closed {
		return v, nil
	}
	text, err := base64.StdEncoding.Strict().DecodeString(inner)
	if err != nil {
		return "", errors.New("what stands between =?base64? and ?= is not valid base64 with padding")
	}
	if !utf8.Valid(text) {
		return "", errors.New("the base64 form does not hold UTF-8 text")
	}
	return string(text), nil
}

// MirrorName returns the text that the Mcp-Name header of the request m
// carries, before encoding; false if m has none to carry (2026-07-28,
// Streamable HTTP, Standard Request Headers; SEP-2663 for tasks).
func MirrorName(m *Message) (string, bool) {
	if m.Kind != RequestKind {
		return "", false
	}
	switch {
	case m.Method == "tools/call", m.Method == "prompts/get":
		return m.Params.Name.Text(m.Body)
	case m.Method == "resources/read":
		return m.Params.URI.Text(m.Body)
	case strings.HasPrefix(m.Method, "tasks/"):
		return m.Params.TaskID.Text(m.Body)
	}
	return "", false
}

// HeaderError says that headers and body do not agree. Over HTTP it is
// answered with status 400 and CodeHeaderMismatch. The message is safe to show
// to the caller, and holds no arguments.
type HeaderError struct{ Msg string }

func (e *HeaderError) Error() string { return e.Msg }

func headerErrorf(format string, args ...any) error {
	return &HeaderError{Msg: fmt.Sprintf(format, args...)}
}

// CheckHeaders reports, as a *HeaderError, where the standard headers of the
// modern message m are missing or differ from its body (2026-07-28, Streamable
// HTTP, Server Validation). A version that is absent from _meta is the
// caller's case and not checked here. Notifications need no Mcp-Method: the
// revision does not define their headers.
func CheckHeaders(h http.Header, m *Message) error {
	if err := checkVersion(h, m); err != nil {
		return err
	}
	if err := checkMethod(h, m); err != nil {
		return err
	}
	return checkName(h, m)
}

func checkVersion(h http.Header, m *Message) error {
	got, _, err := headerField(h, HeaderProtocolVersion)
	if err != nil {
		return err
	}
	if got == "" {
		return missingHeader(HeaderProtocolVersion)
	}
	if !m.Meta.ProtocolVersion.OK() {
		return nil
	}
	want, ok := m.Meta.ProtocolVersion.Text(m.Body)
	if !ok || got != want {
		return headerMismatch(HeaderProtocolVersion, got, "_meta", want)
	}
	return nil
}

func checkMethod(h http.Header, m *Message) error {
	got, present, err := headerField(h, HeaderMethod)
	if err != nil {
		return err
	}
	if !present {
		if m.Kind == RequestKind {
			return missingHeader(HeaderMethod)
		}
		return nil
	}
	if got != m.Method {
		return headerMismatch(HeaderMethod, got, "method", m.Method)
	}
	return nil
}

func checkName(h http.Header, m *Message) error {
	want, known := MirrorName(m)
	required := needsName(m)
	if !known && !required {
		return nil
	}
	raw, present, err := headerField(h, HeaderName)
	if err != nil {
		return err
	}
	if !present {
		if required {
			return missingHeader(HeaderName)
		}
		return nil
	}
	got, err := DecodeHeader(raw)
	if err != nil {
		return headerErrorf("the %s header cannot be read: %v", HeaderName, err)
	}
	if !known || got != want {
		return headerMismatch(HeaderName, got, "params", want)
	}
	return nil
}

func needsName(m *Message) bool {
	if m.Kind != RequestKind {
		return false
	}
	return m.Method == "tools/call" || m.Method == "prompts/get" || m.Method == "resources/read"
}

// headerField returns the one value of a header. A header that is there twice
// is refused, even with equal values: it is not a list, and whoever joins the
// lines sees another value than we do (RFC 9110, section 5.3).
func headerField(h http.Header, name string) (value string, present bool, err error) {
	lines := h.Values(name)
	switch len(lines) {
	case 0:
		return "", false, nil
	case 1:
		return strings.Trim(lines[0], " \t"), true, nil
	}
	return "", true, headerErrorf("the %s header occurs %d times; send it once", name, len(lines))
}

func missingHeader(name string) error {
	return headerErrorf("the %s header is missing; it must carry the value from the body", name)
}

func headerMismatch(name, got, member, want string) error {
	return headerErrorf("header mismatch: %s is %.100q, but %s of the body says %.100q", name, got, member, want)
}
