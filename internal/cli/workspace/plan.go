package workspace

import (
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/clients"
	"github.com/toolcrib/toolcrib/internal/crib"
	pages "github.com/toolcrib/toolcrib/internal/page"
)

// Fixed are values of a server in which there is nothing to decide.
type Fixed struct{ Env, Headers []pages.NamedTemplate }

// PlanOne decides how one server becomes a page. It writes nothing.
func (w *Workspace) PlanOne(entry clients.Entry, fixed Fixed) (Planned, error) {
	plan := w.plan([]clients.Entry{entry})
	if len(plan.Servers) == 0 {
		return Planned{}, crib.Errorf(crib.Invalid, "%s is not added: %s", entry.Name, plan.Skipped[0].Reason)
	}
	p, err := makeBlock(plan.Servers[0])
	if err != nil {
		return p, err
	}
	p.Block.Env = append(p.Block.Env, fixed.Env...)
	p.Block.Headers = append(p.Block.Headers, fixed.Headers...)
	p.Files, err = w.files(&p, "")
	return p, err
}

// Sorted is what becomes of servers that were found.
type Sorted struct {
	Take []Planned
	Left []Left
}

// Left is a server that is not taken over.
type Left struct {
	Name, From, Reason string
	Here               string // the server of the crib that it is, "" if it is none
}

// Plan tells the servers that can be taken over from those that cannot, and
// from those that are here already. It writes nothing.
func (w *Workspace) Plan(entries []clients.Entry) Sorted {
	var out Sorted
	plan := w.plan(entries)
	for _, s := range plan.Skipped {
		out.Left = append(out.Left, Left{Name: s.Entry.Name, From: sourceOf(s.Entry.Source), Reason: s.Reason})
	}
	for _, s := range plan.Servers {
		leave := func(reason string) {
			out.Left = append(out.Left, Left{Name: s.Sources[0].Name, From: sourceOf(s.Sources[0]), Reason: reason})
		}
		p, err := makeBlock(s)
		if err == nil {
			p.Files, err = w.files(&p, "Taken over from "+p.From()+".")
		}
		if err != nil {
			leave(err.Error())
			continue
		}
		if twin, ok := w.twin(p); ok {
			leave("it is here already, as " + twin)
			out.Left[len(out.Left)-1].Here = twin
			continue
		}
		out.Take = append(out.Take, p)
	}
	return out
}

// twin returns the server of the workspace that is reached as p is, with the
// same headers and variables. Their values are not compared: they may have been
// moved into the file store.
func (w *Workspace) twin(p Planned) (string, bool) {
	for _, d := range w.Set.All() {
		same := d.Transport.URL == p.Block.Transport.URL && slices.Equal(d.Transport.Command, p.Block.Transport.Command) &&
			d.Transport.Dir == p.Block.Transport.Dir && sameNames(d.Headers, p.Block.Headers) && sameNames(d.Env, p.Block.Env)
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

// From says which clients had the server.
func (p *Planned) From() string {
	var from []string
	for _, s := range p.Sources {
		if text := sourceOf(s); !slices.Contains(from, text) {
			from = append(from, text)
		}
	}
	return strings.Join(from, "; ")
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
