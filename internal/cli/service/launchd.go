package service

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"path/filepath"
	"strings"
)

const label = "com.github.toolcrib.toolcrib"

func newLaunchd(o Options) *Manager {
	file := filepath.Join(o.Home, "Library", "LaunchAgents", label+".plist")
	domain := fmt.Sprintf("gui/%d", o.UID)
	log := filepath.Join(o.Home, "Library", "Logs", "toolcrib.log")
	loaded := func(ctx context.Context) (string, bool) {
		out, err := o.Run(ctx, "launchctl", "print", domain+"/"+label)
		return out, err == nil
	}
	return &Manager{
		File: file, Name: label, run: o.Run, render: func(s Spec) []byte { return plist(s, log) },
		load: [][]string{
			{"launchctl", "enable", domain + "/" + label},
			{"launchctl", "bootstrap", domain, file},
			{"launchctl", "kickstart", "-k", domain + "/" + label},
		},
		unload: [][]string{{"launchctl", "bootout", domain + "/" + label}},
		enabled: func(ctx context.Context) bool {
			_, ok := loaded(ctx)
			return ok
		},
		active: func(ctx context.Context) bool {
			out, ok := loaded(ctx)
			return ok && strings.Contains(out, "state = running")
		},
		logs: "tail -f " + log,
	}
}

// plist is the agent (launchd.plist(5)).
func plist(s Spec, log string) []byte {
	var b bytes.Buffer
	text := func(s string) string {
		var out bytes.Buffer
		xml.EscapeText(&out, []byte(s)) //nolint:errcheck // a buffer takes everything
		return out.String()
	}
	fmt.Fprintf(&b, `<?xml version="1.0" encoding="UTF-8"?>
<!-- Written by "toolcrib service install"; "toolcrib service uninstall" removes it. -->
<!-- %s -->
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
	<key>Label</key><string>%s</string>
	<key>ProgramArguments</key>
	<array>
`, marked(s), label)
	for _, w := range s.command() {
		fmt.Fprintf(&b, "\t\t<string>%s</string>\n", text(w))
	}
	fmt.Fprintf(&b, `	</array>
	<key>EnvironmentVariables</key>
	<dict><key>PATH</key><string>%s</string></dict>
	<key>RunAtLoad</key><true/>
	<key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
	<key>ThrottleInterval</key><integer>10</integer>
	<key>ExitTimeOut</key><integer>%d</integer>
	<key>Umask</key><integer>63</integer>
	<key>StandardErrorPath</key><string>%s</string>
</dict>
</plist>
`, text(s.Path), stopSeconds, text(log))
	return b.Bytes()
}
