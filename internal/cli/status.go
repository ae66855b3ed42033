package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/app"
	"github.com/toolcrib/toolcrib/internal/cli/mcp"
	"github.com/toolcrib/toolcrib/internal/cli/text"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

func (e *env) statusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "status", GroupID: groupStart, Args: args(cobra.NoArgs),
		Short: "Show the running crib and its servers",
		Long: `Show the running crib: its servers and what became of them, the tools that are
let through without asking, what is left out of the lists and why, and where
its files are; also while it is stopping. If toolcrib.yaml was changed to
something that the crib would refuse, that is shown as well. If no crib is
running, the exit code is 3.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.status(cmd.Context(), asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// shownStatus is a Status, and what of the configuration on disk the crib would
// refuse.
type shownStatus struct {
	app.Status
	OnDisk []string `json:"on_disk_faults,omitempty"`
}

func (e *env) status(ctx context.Context, asJSON bool) error {
	cfg, wrong, err := e.whereabouts()
	if err != nil {
		return err
	}
	st, runs, err := e.place(cfg).Status(ctx)
	if err != nil {
		return err
	}
	if !runs {
		return noneRuns(cfg, wrong)
	}
	shown := shownStatus{st, wrong}
	if asJSON {
		return e.writeJSON(shown)
	}
	statusView{e.screen(), shown}.show()
	return nil
}

// writeJSON writes a value of ours as JSON.
func (e *env) writeJSON(v any) error {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // definitions of tools are in it, as their servers wrote them
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	return e.writeRaw(bytes.TrimSuffix(out.Bytes(), []byte("\n")))
}

// writeRaw writes JSON text: the bytes as they are, or, on a terminal, the same
// value with all of it to be seen.
func (e *env) writeRaw(raw []byte) error {
	out := string(raw)
	if text.IsTerminal(e.out) {
		out = text.VisibleJSON(out)
	}
	_, err := io.WriteString(e.out, out+"\n")
	return err
}

// statusView shows a Status to a person.
type statusView struct {
	text.Screen
	shownStatus
}

func (v statusView) show() {
	v.field("crib", fmt.Sprintf("%s, process %d, since %s", v.Version, v.PID, v.Started.Local().Format(time.DateTime)))
	if v.Draining {
		v.field("stopping", "it takes nothing new, and ends when what is open has ended")
	}
	v.field("address", "http://"+v.Address+mcp.Endpoint(""))
	v.field("workspace", v.Workspace)
	v.field("data", v.Data)
	v.field("isolation", isolationText(v.Isolation))
	if v.Anonymous {
		v.field("anonymous", "on: every program of this machine may list and call tools")
	}
	if len(v.Servers) == 0 {
		v.Line("\nNo servers yet. Take over those of your clients with: toolcrib import")
	} else {
		v.Line("")
		v.servers()
	}
	for _, s := range v.Servers {
		v.notes(s)
	}
	for _, s := range v.Shadowed {
		v.note(s.Name, text.Plain, fmt.Sprintf("its definition in %s is not used, because %s has the name", sourceText(s.Source), sourceText(s.By)))
	}
	if v.Refused != nil {
		v.refused(fmt.Sprintf("The last reload was refused (%s); what is shown is what was loaded before:", v.Refused.At.Format(time.TimeOnly)),
			strings.Split(strings.TrimSuffix(v.Refused.Why, "\n"), "\n"))
	}
	if len(v.OnDisk) > 0 {
		v.refused("What is configured now would be refused; what is shown is what was loaded before:", v.OnDisk)
	}
	for _, f := range v.Faults {
		v.Line(v.Styled(text.Red, text.Visible(f)))
	}
}

// refused shows why a configuration is not that of the crib.
func (v statusView) refused(what string, why []string) {
	v.Line("")
	v.Line(v.Styled(text.Red, text.Visible(what)))
	for _, line := range why {
		v.Line(v.Styled(text.Red, "  "+text.Visible(line)))
	}
}

func (v statusView) field(name, value string) {
	v.Line(v.Styled(text.Bold, fmt.Sprintf("%-10s", name)), " ", text.Visible(value))
}

func isolationText(isolation string) string {
	if isolation == "none" {
		return "none: commands run as the user of the crib and can read what it can"
	}
	return isolation
}

func sourceText(kind string) string {
	switch kind {
	case "page":
		return "mcp/"
	case "file":
		return "toolcrib.yaml"
	case "env":
		return "TOOLCRIB_MCP_SERVERS"
	}
	return kind
}

// stateBroken is that of a server whose definition cannot be used.
const stateBroken = "broken"

var stateStyles = map[string]text.Style{stateBroken: text.Red, "ready": text.Green, "failed": text.Red, "starting": text.Amber, "disabled": text.Dim}

func (v statusView) servers() {
	var rows [][]text.Cell
	for _, s := range v.Servers {
		tools := "?"
		if s.Known {
			tools = fmt.Sprint(len(s.Tools))
		}
		rows = append(rows, []text.Cell{{Text: s.Name}, stateStyles[s.State].Cell(s.State), {Text: tools}, {Text: protocolText(s.Eras)}, {Text: s.Target}})
	}
	v.Table([]string{"SERVER", "STATE", "TOOLS", "PROTOCOL", "WHERE"}, rows)
}

// protocolText names the protocol versions of a server as its documentation
// would.
func protocolText(eras []string) string {
	var list []string
	for _, era := range eras {
		if wire.Era(era) == wire.Modern {
			list = append(list, wire.NewestModern)
		} else {
			list = append(list, "to "+wire.NewestLegacy)
		}
	}
	if list == nil {
		return "-"
	}
	return strings.Join(list, ", ")
}

// notes says what about a server deserves a look.
func (v statusView) notes(s app.ServerStatus) {
	if s.Error != "" && s.State != stateBroken { // its faults are shown with all others
		v.note(s.Name, text.Red, s.Error)
	}
	if (s.State == "failed" || s.State == "starting") && s.Stderr != "" {
		v.note(s.Name, text.Amber, "its last words: "+lastLine(s.Stderr))
	}
	if s.Noise > 0 {
		v.note(s.Name, text.Amber, fmt.Sprintf("passed over, because it was no message: %s on its standard output", text.Count(s.Noise, "line")))
	}
	for _, line := range gateNotes(s) {
		v.note(s.Name, text.Amber, line)
	}
	for _, l := range s.LeftOut {
		where := "at the address of all servers"
		if l.Everywhere {
			where = "everywhere"
		}
		v.note(s.Name, text.Amber, fmt.Sprintf("%s is left out %s: %s", l.Name, where, l.Why))
	}
}

func (v statusView) note(server string, s text.Style, what string) {
	v.Line(v.Styled(text.Bold, server+":"), " ", v.Styled(s, text.OneLine(what)))
}

// namesShown is how many names of tools a note has.
const namesShown = 5

// gateNotes says which tools of a server are let through without asking, and
// which are refused because nobody can be asked.
func gateNotes(s app.ServerStatus) []string {
	by := map[string][]string{}
	for _, t := range s.Tools {
		by[t.Gate] = append(by[t.Gate], t.Name)
	}
	var lines []string
	add := func(gate, what string) {
		names := by[gate]
		if len(names) == 0 {
			return
		}
		list := strings.Join(names[:min(len(names), namesShown)], ", ")
		if len(names) > namesShown {
			list += ", …"
		}
		lines = append(lines, fmt.Sprintf("%s %s (%s)", text.Count(len(names), "tool"), what, list))
	}
	add(noGate, "without a gate: let through without asking")
	add(string(crib.Ask), "not listed and refused: their gate asks a person, which this crib cannot")
	add(string(crib.Deny), "not listed and refused: their gate denies them")
	if !s.Known && s.Enabled && s.LetsThrough {
		lines = append(lines, "its tools are not known yet; those without a gate are let through")
	}
	return lines
}

// noGate is what a Status calls a tool that no gate says anything about.
const noGate = "none"

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
