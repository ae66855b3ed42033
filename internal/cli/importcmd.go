package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/clients"
	"github.com/toolcrib/toolcrib/internal/crib"
	pages "github.com/toolcrib/toolcrib/internal/page"
)

func (e *env) importCommand() *cobra.Command {
	var yes, undo bool
	cmd := &cobra.Command{
		Use: "import [CLIENT | FILE]", GroupID: groupServers, Args: args(cobra.MaximumNArgs(1)),
		Short: "Take over the servers of the clients on this machine",
		Long: `Take over the servers of the clients on this machine, of one client, or of one
configuration file. Nothing is changed there: each server becomes a page in the
workspace, and its keys go into the file store, in files that only you can read.
What will be written is shown first.

Then "toolcrib client add CLIENT --replace" makes a client use the crib instead.
--undo takes back the last import, and every such replacement since.

Clients: ` + strings.Join(clientNames(), ", ") + ".",
		RunE: func(cmd *cobra.Command, given []string) error {
			switch {
			case undo && len(given) > 0:
				return usagef("--undo takes back the last import whole; write: toolcrib import --undo")
			case undo:
				return e.undoImport(cmd.Context())
			}
			return e.importServers(cmd.Context(), strings.Join(given, ""), yes)
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&undo, "undo", false, "take the last import back")
	cmd.ValidArgsFunction = func(_ *cobra.Command, given []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(given) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list, _ := words(clientNames(), typed)
		return list, cobra.ShellCompDirectiveDefault // or a file
	}
	return cmd
}

// Labels of changes that can be undone begin with what made them.
const (
	importLabel   = "import"
	registerLabel = "client"
	replaceLabel  = "replace"
)

func (e *env) importServers(ctx context.Context, from string, yes bool) error {
	w, err := e.openWorkspace()
	if err != nil {
		return err
	}
	entries, err := e.readEntries(from)
	if err != nil {
		return err
	}
	found := w.sort(w.plan(entries))
	e.preview(found)
	if len(found.take) == 0 {
		fmt.Fprintln(e.out, "There is nothing to take over.")
		return nil
	}
	var files []clients.Change
	keys := 0
	for _, p := range found.take {
		files = append(files, p.files...)
		keys += len(p.Secrets)
	}
	question := fmt.Sprintf("Write %s to %s", count(len(found.take), "page"), w.cfg.Workspace)
	if keys > 0 {
		question += fmt.Sprintf(" and %s to the file store", count(keys, "key"))
	}
	if err := e.confirm(ctx, yes, question+"?"); err != nil {
		return err
	}
	if err := w.write(label(importLabel), files); err != nil {
		return err
	}
	if err := e.done(ctx, w, "Took over "+count(len(found.take), "server")); err != nil {
		return err
	}
	fmt.Fprintln(e.out, "See their tools with: toolcrib tools. Let a client use them with: toolcrib client add CLIENT --replace")
	return nil
}

// readEntries reads the servers of a client, of a file, or of every client.
func (e *env) readEntries(from string) ([]clients.Entry, error) {
	where := e.clients()
	if from != "" {
		client, err := clients.ByID(from)
		if err == nil {
			return client.Read(where)
		}
		if _, statErr := os.Stat(from); errors.Is(statErr, fs.ErrNotExist) {
			return nil, crib.Errorf(crib.NotFound, "%q is neither a client nor a file; clients are %s", from, strings.Join(clientNames(), ", "))
		}
		return clients.ReadFile(where, from)
	}
	var entries []clients.Entry
	for _, c := range clients.All() {
		found, err := c.Read(where)
		if err != nil {
			e.say("%s: %v", c.Title(), err)
		}
		entries = append(entries, found...)
	}
	return entries, nil
}

// sorted is what becomes of the servers that were found.
type sorted struct {
	take []planned
	left []leftServer
}

// leftServer is one that is not taken over.
type leftServer struct{ name, from, reason string }

// sort tells the servers that can be taken over from those that cannot, and
// from those that are here already.
func (w *workspace) sort(plan clients.Plan) sorted {
	var out sorted
	for _, s := range plan.Skipped {
		out.left = append(out.left, leftServer{s.Entry.Name, sourceOf(s.Entry.Source), s.Reason})
	}
	for _, s := range plan.Servers {
		p, err := makeBlock(s)
		if err == nil {
			p.files, err = w.files(&p, "Taken over from "+sourcesOf(p.Sources)+".")
		}
		if err != nil {
			out.left = append(out.left, leftServer{s.Sources[0].Name, sourceOf(s.Sources[0]), err.Error()})
			continue
		}
		if twin, ok := w.twin(p); ok {
			out.left = append(out.left, leftServer{s.Sources[0].Name, sourceOf(s.Sources[0]), "it is here already, as " + twin})
			continue
		}
		out.take = append(out.take, p)
	}
	return out
}

// twin returns the server of the workspace that is reached as p is, with the
// same headers and variables. Their values are not compared: they may have been
// moved into the file store.
func (w *workspace) twin(p planned) (string, bool) {
	for _, d := range w.set.All() {
		same := d.Transport.URL == p.block.Transport.URL && slices.Equal(d.Transport.Command, p.block.Transport.Command) &&
			d.Transport.Dir == p.block.Transport.Dir && sameNames(d.Headers, p.block.Headers) && sameNames(d.Env, p.block.Env)
		if same {
			return d.Name, true
		}
	}
	return "", false
}

func sameNames(a, b []pages.NamedTemplate) bool {
	names := func(list []pages.NamedTemplate) []string {
		var out []string
		for _, n := range list {
			out = append(out, strings.ToLower(n.Name))
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(names(a), names(b))
}

func sourceOf(s clients.Source) string {
	from := s.Client
	if c, err := clients.ByID(s.Client); err == nil {
		from = c.Title()
	}
	if s.Project != "" {
		from += ", " + s.Project
	}
	return from
}

func sourcesOf(list []clients.Source) string {
	var from []string
	for _, s := range list {
		if text := sourceOf(s); !slices.Contains(from, text) {
			from = append(from, text)
		}
	}
	return strings.Join(from, "; ")
}

// preview shows what will be written and what will not.
func (e *env) preview(found sorted) {
	s := e.screen()
	if len(found.take) > 0 {
		var rows [][]cell
		for _, p := range found.take {
			name := cell{text: p.Name}
			if !p.block.Enabled {
				name = cell{p.Name + " (off)", dim}
			}
			rows = append(rows, []cell{name, {text: sourcesOf(p.Sources)}, {text: strings.Join(p.secretNames(), " ")}, {text: p.target()}})
		}
		s.table([]string{"SERVER", "FROM", "KEYS MOVED", "WHERE"}, rows)
	}
	for _, p := range found.take {
		for _, note := range p.notes {
			s.line(s.styled(amber, oneLine(p.Name+": "+note)))
		}
	}
	for _, l := range found.left {
		s.line(s.styled(dim, oneLine(fmt.Sprintf("%s (%s) is not taken over: %s", l.name, l.from, l.reason))))
	}
}

// undoImport takes the last import back, and before it what was done since to
// clients whose servers the crib replaced.
func (e *env) undoImport(ctx context.Context) error {
	w, err := e.openWorkspace()
	if err != nil {
		return err
	}
	backups, err := clients.List(w.backups())
	if err != nil {
		return err
	}
	last := -1
	for i, b := range backups {
		if kindOf(b.Label) == importLabel {
			last = i
		}
	}
	if last < 0 {
		return crib.Errorf(crib.NotFound, "there is no import to take back")
	}
	for _, b := range backups[last:] {
		if kindOf(b.Label) != replaceLabel {
			continue
		}
		if _, err := e.undoClient(w, clientOf(b.Label), backups[last].Time); err != nil {
			return err
		}
	}
	if err := e.undo(w, backups[last].Label); err != nil {
		return err
	}
	return e.done(ctx, w, "The import is taken back")
}

// kindOf is what made the change of a label.
func kindOf(label string) string {
	kind, _, _ := strings.Cut(label, ".")
	return kind
}

// undo takes one change back and tells what became of each file. The token of
// a client that is not registered any more ends.
func (e *env) undo(w *workspace, label string) error {
	report, err := clients.Undo(w.backups(), label)
	for _, line := range report {
		fmt.Fprintln(e.out, visible(line))
	}
	if err != nil {
		return err
	}
	if clientOf(label) == "" {
		return nil
	}
	return w.revoke(tokenOf(label))
}
