package service

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

const unit = "toolcrib.service"

// stopSeconds is how long the manager waits for the crib to end: the time to
// drain, and some for ending the servers behind it.
const stopSeconds = 45

func newSystemd(o Options) *Manager {
	config := o.ConfigHome
	if !filepath.IsAbs(config) { // XDG Base Directory: a relative one is ignored
		config = filepath.Join(o.Home, ".config")
	}
	says := func(verb, want string) func(context.Context) bool {
		return func(ctx context.Context) bool {
			out, _ := o.Run(ctx, "systemctl", "--user", verb, unit)
			return strings.TrimSpace(out) == want
		}
	}
	return &Manager{
		File: filepath.Join(config, "systemd", "user", unit), Name: unit, run: o.Run, render: systemdUnit,
		load: [][]string{
			{"systemctl", "--user", "daemon-reload"},
			{"systemctl", "--user", "enable", unit},
			{"systemctl", "--user", "restart", unit},
		},
		unload:  [][]string{{"systemctl", "--user", "disable", "--now", unit}},
		enabled: says("is-enabled", "enabled"), active: says("is-active", "active"),
		logs: "journalctl --user -u " + unit,
	}
}

// systemdUnit is the unit (systemd.service(5)). It hardens nothing: the servers
// are the person's own programs and do what they do in a terminal.
func systemdUnit(s Spec) []byte {
	return fmt.Appendf(nil, `# Written by "toolcrib service install"; "toolcrib service uninstall" removes it.
# %s

[Unit]
Description=Toolcrib, MCP servers behind one address
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=exec
ExecStart=%s
ExecReload=/bin/kill -HUP $MAINPID
Environment=%s
Restart=on-failure
RestartSec=2
KillMode=mixed
TimeoutStopSec=%d
UMask=0077

[Install]
WantedBy=default.target
`, marked(s), systemdCommand(s.command()), systemdQuote("PATH="+s.Path), stopSeconds)
}

// systemdCommand writes a command line: "$" stands for a variable in all but
// the program.
func systemdCommand(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = systemdQuote(w)
		if i > 0 {
			out[i] = strings.ReplaceAll(out[i], "$", "$$")
		}
	}
	return strings.Join(out, " ")
}

// systemdQuote writes one word (systemd.syntax(7), Quoting; systemd.unit(5),
// Specifiers).
func systemdQuote(w string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%").Replace(w) + `"`
}
