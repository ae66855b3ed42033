package cli

// ignoreBrokenPipe does nothing: a write that nobody will read is an error
// here anyway.
func ignoreBrokenPipe() {}
