package wire

import "sync"

// Hello is a server's answer to server/discover or initialize. It is not
// changed once it is in use.
type Hello struct {
	Era     Era
	Version string
	Result  []byte // the whole result, as it came

	looked       sync.Once
	capabilities []byte
	logs         bool
}

func (h *Hello) look() {
	h.looked.Do(func() {
		h.capabilities = Get(h.Result, "capabilities")
		h.logs = Get(h.capabilities, "logging") != nil
	})
}

// Capabilities returns the raw capabilities object, nil if there is none.
func (h *Hello) Capabilities() []byte {
	h.look()
	return h.capabilities
}

// Logs reports whether the server has the logging capability.
func (h *Hello) Logs() bool {
	h.look()
	return h.logs
}

// Instructions returns the server's instructions.
func (h *Hello) Instructions() string {
	text, _ := GetText(h.Result, "instructions")
	return text
}

// Info returns the raw serverInfo object, nil if there is none.
func (h *Hello) Info() []byte {
	if h.Era == Legacy {
		return Get(h.Result, "serverInfo")
	}
	return GetPath(h.Result, "_meta", MetaServerInfo)
}
