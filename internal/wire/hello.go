package wire

// Hello is a server's answer to server/discover or initialize.
type Hello struct {
	Era     Era
	Version string
	Result  []byte // the whole result, as it came
}

// Capabilities returns the raw capabilities object, nil if there is none.
func (h *Hello) Capabilities() []byte { return Get(h.Result, "capabilities") }

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
