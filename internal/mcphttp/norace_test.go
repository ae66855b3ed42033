//go:build !race

package mcphttp_test

// raceEnabled says that times and memory are those of the race detector.
const raceEnabled = false
