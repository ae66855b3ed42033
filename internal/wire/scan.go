package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Span is a half-open range of bytes of a message. The zero Span is absent:
// no value can start at the first byte of a message, which is its "{".
type Span struct{ From, To int }

// OK reports whether the value is there.
func (s Span) OK() bool { return s.To > 0 }

// In returns the bytes of b that s covers, nil when s is absent.
func (s Span) In(b []byte) []byte {
	if !s.OK() {
		return nil
	}
	return b[s.From:s.To:s.To]
}

// Kind is what a JSON-RPC message is.
type Kind int

// The kinds of messages.
const (
	RequestKind Kind = iota + 1
	NotificationKind
	ResponseKind
)

// Params are the members of params that the relay must know.
type Params struct {
	All             Span // the whole object
	Name            Span // tools/call, prompts/get
	URI             Span // resources/read, resources/subscribe, notifications/resources/updated
	Arguments       Span
	Meta            Span
	Cursor          Span
	RequestState    Span
	InputResponses  Span
	Level           Span // logging/setLevel, notifications/message
	Ref             Span // completion/complete
	Notifications   Span // subscriptions/listen
	RequestID       Span // notifications/cancelled
	ProgressToken   Span // notifications/progress
	ProtocolVersion Span // initialize
	Capabilities    Span // initialize
	ClientInfo      Span // initialize
	TaskID          Span // tasks/*
}

// paramNames are the names of the members, in the order of slots.
var paramNames = newNames("name", "uri", "arguments", "_meta", "cursor", "requestState", "inputResponses",
	"level", "ref", "notifications", "requestId", "progressToken", "protocolVersion", "capabilities", "clientInfo", "taskId")

func (p *Params) slot(i int) *Span {
	switch paramNames.list[i] {
	case "name":
		return &p.Name
	case "uri":
		return &p.URI
	case "arguments":
		return &p.Arguments
	case "_meta":
		return &p.Meta
	case "cursor":
		return &p.Cursor
	case "requestState":
		return &p.RequestState
	case "inputResponses":
		return &p.InputResponses
	case "level":
		return &p.Level
	case "ref":
		return &p.Ref
	case "notifications":
		return &p.Notifications
	case "requestId":
		return &p.RequestID
	case "progressToken":
		return &p.ProgressToken
	case "protocolVersion":
		return &p.ProtocolVersion
	case "capabilities":
		return &p.Capabilities
	case "clientInfo":
		return &p.ClientInfo
	case "taskId":
		return &p.TaskID
	}
	return nil
}

// Meta are the reserved members of params._meta.
type Meta struct {
	ProtocolVersion    Span
	ClientInfo         Span
	ClientCapabilities Span
	LogLevel           Span
	ProgressToken      Span
	SubscriptionID     Span
}

var metaNames = newNames(MetaProtocolVersion, MetaClientInfo, MetaClientCapabilities, MetaLogLevel, MetaProgressToken, MetaSubscriptionID)

func (m *Meta) slot(i int) *Span {
	switch metaNames.list[i] {
	case MetaProtocolVersion:
		return &m.ProtocolVersion
	case MetaClientInfo:
		return &m.ClientInfo
	case MetaClientCapabilities:
		return &m.ClientCapabilities
	case MetaLogLevel:
		return &m.LogLevel
	case MetaProgressToken:
		return &m.ProgressToken
	case MetaSubscriptionID:
		return &m.SubscriptionID
	}
	return nil
}

// Message is one JSON-RPC message: the bytes that came, and where in them the
// members lie that the relay must know.
type Message struct {
	Body   []byte
	Kind   Kind
	ID     Span // a string or an integer, as it was spelled
	Method string
	Params Params
	Meta   Meta
	Result Span
	Error  Span
}

var envelopeNames = newNames("jsonrpc", "id", "method", "params", "result", "error")

// Errors of Scan. Every error of Scan wraps one of them.
var (
	ErrParse   = errors.New("not valid JSON")               // answer -32700
	ErrBatch   = errors.New("JSON-RPC batches are refused") // answer -32600
	ErrInvalid = errors.New("not a valid JSON-RPC message") // answer -32600
)

// Scan reads a message that a client sent. It is strict: names are matched by
// case, and a name that occurs twice at any depth, a name that differs from a
// known one only by case, invalid UTF-8 and anything behind the message are
// refused, so that no later reader can see another message than the one that
// was decided on.
func Scan(b []byte) (Message, error) {
	return scan(b, true)
}

// ScanServer reads a message that a server sent. It is strict about the
// envelope only: what lies in results and params is the server's business and
// is carried as it came.
func ScanServer(b []byte) (Message, error) {
	return scan(b, false)
}

// scanner is a pooled decoder over bytes that are already in memory.
type scanner struct {
	dec *jsontext.Decoder
	buf bytes.Buffer
}

var scanners = sync.Pool{New: func() any { return &scanner{dec: jsontext.NewDecoder(new(bytes.Buffer))} }}

var (
	strictOptions  = []jsontext.Options{jsontext.AllowDuplicateNames(false), jsontext.AllowInvalidUTF8(false)}
	lenientOptions = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
)

func newScanner(b []byte, strict bool) *scanner {
	s := scanners.Get().(*scanner)
	s.buf = *bytes.NewBuffer(b)
	if strict {
		s.dec.Reset(&s.buf, strictOptions...)
	} else {
		s.dec.Reset(&s.buf, lenientOptions...)
	}
	return s
}

func (s *scanner) free() {
	s.buf = bytes.Buffer{}
	s.dec.Reset(&s.buf)
	scanners.Put(s)
}

// value skips the next value and returns where it lay.
func (s *scanner) value() (Span, error) {
	v, err := s.dec.ReadValue()
	if err != nil {
		return Span{}, parseError(err)
	}
	to := int(s.dec.InputOffset())
	return Span{to - len(v), to}, nil
}

// names are the known members of an object.
type names struct {
	list   []string
	folded map[string]int // by the name in lower case
}

func newNames(list ...string) *names {
	n := &names{list: list, folded: make(map[string]int, len(list))}
	for i, name := range list {
		n.folded[strings.ToLower(name)] = i
	}
	return n
}

// find returns the place of a name as it stands in JSON, with quotes, -1 if
// none is known. strict refuses one that differs from a known one only by case.
func (n *names) find(raw []byte, strict bool) (int, error) {
	key := raw[1 : len(raw)-1]
	if bytes.IndexByte(key, '\\') >= 0 {
		key, _ = jsontext.AppendUnquote(nil, raw)
	}
	for i, name := range n.list {
		if string(key) == name {
			return i, nil
		}
	}
	if !strict {
		return -1, nil
	}
	var buf [64]byte
	if i, ok := n.folded[string(fold(buf[:0], key))]; ok {
		return -1, fmt.Errorf("%w: %q differs from %q only by case", ErrInvalid, key, n.list[i])
	}
	return -1, nil
}

// fold appends key in lower case. Two characters that are not ASCII have ASCII
// letters as their other case, U+017F and U+212A.
func fold(dst, key []byte) []byte {
	for i := 0; i < len(key); i++ {
		switch c := key[i]; {
		case 'A' <= c && c <= 'Z':
			dst = append(dst, c+'a'-'A')
		case c == 0xC5 && i+1 < len(key) && key[i+1] == 0xBF:
			dst = append(dst, 's')
			i++
		case c == 0xE2 && i+2 < len(key) && key[i+1] == 0x84 && key[i+2] == 0xAA:
			dst = append(dst, 'k')
			i += 2
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// known reads an object and calls member for each member with its place in n,
// -1 for one that is not known, and where its name lies; member must consume
// the value. A known member that occurs twice is refused.
func (s *scanner) known(n *names, strict bool, member func(i int, at Span) error) error {
	var seen uint64 // bit i: n.list[i] was there
	return s.members(func(raw []byte, at Span) error {
		i, err := n.find(raw, strict)
		if err != nil {
			return err
		}
		if i >= 0 {
			if seen&(1<<i) != 0 {
				return fmt.Errorf("%w: %q occurs twice", ErrInvalid, n.list[i])
			}
			seen |= 1 << i
		}
		return member(i, at)
	})
}

// object reads an object and calls member with each name, and where it lies;
// member must consume the value.
func (s *scanner) object(member func(key string, at Span) error) error {
	return s.members(func(raw []byte, at Span) error { return member(unquote(raw), at) })
}

// members reads an object and calls member with each name as it stands there.
func (s *scanner) members(member func(raw []byte, at Span) error) error {
	if _, err := s.dec.ReadToken(); err != nil {
		return parseError(err)
	}
	for s.dec.PeekKind() != '}' {
		raw, err := s.dec.ReadValue()
		if err != nil {
			return parseError(err)
		}
		to := int(s.dec.InputOffset())
		if err := member(raw, Span{to - len(raw), to}); err != nil {
			return err
		}
	}
	if _, err := s.dec.ReadToken(); err != nil {
		return parseError(err)
	}
	return nil
}

func parseError(err error) error {
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: %w", ErrParse, err)
}

// unquote returns the text of a JSON string. It does not allocate for a
// string without escapes that is compared and dropped.
func unquote(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		if text, ok := wellKnown[string(raw[1:len(raw)-1])]; ok {
			return text
		}
		return string(raw[1 : len(raw)-1])
	}
	out, _ := jsontext.AppendUnquote(nil, raw)
	return string(out)
}

// wellKnown are texts that stand in nearly every message, so that each of them
// is in memory once.
var wellKnown = known("tools/call", "tools/list", "prompts/get", "resources/read", "server/discover", "ping",
	"notifications/progress", "notifications/message", "notifications/cancelled", NewestModern, NewestLegacy, "complete")

func known(texts ...string) map[string]string {
	out := make(map[string]string, len(texts))
	for _, t := range texts {
		out[t] = t
	}
	return out
}

// Text returns the text of the JSON string at s, and false if the value is
// absent or no string.
func (s Span) Text(b []byte) (string, bool) {
	raw := s.In(b)
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	return unquote(raw), true
}

func scan(b []byte, strict bool) (Message, error) {
	if m, ok := quickScan(b, strict); ok {
		return m, nil
	}
	return fullScan(b, strict)
}

func fullScan(b []byte, strict bool) (Message, error) {
	m := Message{Body: b}
	trimmed := bytes.TrimLeft(b, " \t\r\n")
	if len(trimmed) == 0 {
		return m, fmt.Errorf("%w: empty", ErrParse)
	}
	if trimmed[0] == '[' {
		return m, ErrBatch
	}
	if trimmed[0] != '{' {
		if jsontext.Value(trimmed).IsValid() {
			return m, fmt.Errorf("%w: not an object", ErrInvalid)
		}
		return m, fmt.Errorf("%w: not an object", ErrParse)
	}
	s := newScanner(b, strict)
	defer s.free()
	var version, method Span
	err := s.known(envelopeNames, strict, func(i int, _ Span) error {
		if i < 0 {
			_, err := s.value()
			return err
		}
		var err error
		switch envelopeNames.list[i] {
		case "jsonrpc":
			version, err = s.value()
		case "id":
			m.ID, err = s.value()
		case "method":
			method, err = s.value()
		case "params":
			err = s.params(&m, strict)
		case "result":
			m.Result, err = s.value()
		case "error":
			m.Error, err = s.value()
		}
		return err
	})
	if err != nil {
		return m, err
	}
	if _, err := s.dec.ReadToken(); err != io.EOF {
		return m, fmt.Errorf("%w: something follows the message", ErrParse)
	}
	return m, m.classify(version, method)
}

func (s *scanner) params(m *Message, strict bool) error {
	if s.dec.PeekKind() != '{' {
		at, err := s.value()
		if err != nil {
			return err
		}
		if string(at.In(m.Body)) == "null" && !strict {
			return nil
		}
		return fmt.Errorf("%w: params is not an object", ErrInvalid)
	}
	from := 0
	err := s.known(paramNames, strict, func(i int, at Span) error {
		if from == 0 {
			from = at.From
		}
		if i >= 0 && paramNames.list[i] == "_meta" && s.dec.PeekKind() == '{' {
			return s.meta(m, strict)
		}
		v, err := s.value()
		if i >= 0 {
			*m.Params.slot(i) = v
		}
		return err
	})
	if err != nil {
		return err
	}
	m.Params.All = s.backToBrace(m.Body, from)
	return nil
}

func (s *scanner) meta(m *Message, strict bool) error {
	from := 0
	err := s.known(metaNames, strict, func(i int, at Span) error {
		if from == 0 {
			from = at.From
		}
		v, err := s.value()
		if i >= 0 {
			*m.Meta.slot(i) = v
		}
		return err
	})
	if err != nil {
		return err
	}
	m.Params.Meta = s.backToBrace(m.Body, from)
	return nil
}

// backToBrace returns the span of the object that just ended. first is where
// its first name began, or 0 for an empty object.
func (s *scanner) backToBrace(b []byte, first int) Span {
	to := int(s.dec.InputOffset())
	if first == 0 {
		first = to - 1 // the closing brace
	}
	return Span{bytes.LastIndexByte(b[:first], '{'), to}
}

// classify checks the envelope (JSON-RPC 2.0; 2026-07-28, Overview, Messages).
func (m *Message) classify(version, method Span) error {
	if string(version.In(m.Body)) != `"2.0"` {
		return fmt.Errorf("%w: jsonrpc is not \"2.0\"", ErrInvalid)
	}
	if method.OK() {
		text, ok := method.Text(m.Body)
		if !ok || text == "" {
			return fmt.Errorf("%w: method is not a string", ErrInvalid)
		}
		m.Method = text
	}
	isResponse := m.Result.OK() || m.Error.OK()
	switch {
	case method.OK() && isResponse:
		return fmt.Errorf("%w: both a method and a result or error", ErrInvalid)
	case method.OK() && m.ID.OK():
		m.Kind = RequestKind
	case method.OK():
		m.Kind = NotificationKind
		return nil
	case isResponse && !(m.Result.OK() && m.Error.OK()):
		m.Kind = ResponseKind
	default:
		return fmt.Errorf("%w: neither a method nor exactly one of result and error", ErrInvalid)
	}
	if m.Kind == ResponseKind && m.Error.OK() && (!m.ID.OK() || string(m.ID.In(m.Body)) == "null") {
		m.ID = Span{} // an error about a message whose id could not be read
		return nil
	}
	if !ValidID(m.ID.In(m.Body)) {
		m.ID = Span{}
		return fmt.Errorf("%w: id must be a string or an integer", ErrInvalid)
	}
	return nil
}

// ValidID reports whether raw is a string or an integer written without
// fraction and exponent. An id is compared and echoed by its spelling: 1 and
// "1" are different ids.
func ValidID(raw []byte) bool {
	if len(raw) == 0 {
		return false
	}
	if raw[0] == '"' {
		return true
	}
	for i, c := range raw {
		if (c < '0' || c > '9') && !(c == '-' && i == 0) {
			return false
		}
	}
	return true
}

// IDFromPrefix finds the id of a message of which only the start is at hand,
// nil if it is not there.
func IDFromPrefix(prefix []byte) []byte {
	s := newScanner(prefix, false)
	defer s.free()
	if _, err := s.dec.ReadToken(); err != nil {
		return nil
	}
	for {
		key, err := s.dec.ReadValue()
		if err != nil || s.dec.StackDepth() != 1 {
			return nil
		}
		isID := string(key) == `"id"`
		v, err := s.dec.ReadValue()
		if err != nil {
			return nil
		}
		if isID {
			return bytes.Clone(v)
		}
	}
}
