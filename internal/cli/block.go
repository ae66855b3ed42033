package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/clients"
	"github.com/toolcrib/toolcrib/internal/crib"
	pages "github.com/toolcrib/toolcrib/internal/page"
	"github.com/toolcrib/toolcrib/internal/secret"
)

// planned is a server that is about to be written as a page.
type planned struct {
	clients.Imported
	block pages.Block
	notes []string // what a person should know
	files []clients.Change
}

// makeBlock turns a planned server into what a page says. Its error says why
// no page can say it.
func makeBlock(s clients.Imported) (planned, error) {
	p := planned{Imported: s, block: pages.NewBlock(), notes: slices.Clone(s.Problems)}
	p.block.Enabled = !s.Disabled
	var err error
	if p.block.Transport, err = makeTransport(s); err != nil {
		return p, err
	}
	for _, kv := range s.Env {
		if err := pages.CheckEnvName(kv.Name); err != nil {
			p.note("left out: %v", err)
			continue
		}
		p.block.Env = append(p.block.Env, pages.NamedTemplate{Name: kv.Name, Value: template(kv)})
	}
	for _, kv := range s.Headers {
		if err := pages.CheckHeaderName(kv.Name); err != nil {
			p.note("left out: %v", err)
			continue
		}
		p.block.Headers = append(p.block.Headers, pages.NamedTemplate{Name: kv.Name, Value: template(kv)})
	}
	return p, nil
}

func (p *planned) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// makeTransport reads what no page expands: other users of the machine can see
// the arguments of a command, and logs hold addresses.
func makeTransport(s clients.Imported) (pages.Transport, error) {
	if len(s.Command) == 0 {
		address, ok := s.URL.Literal()
		if !ok {
			return pages.Transport{}, crib.Errorf(crib.Unsupported, "its address has a key or a variable in it; give the key as a header instead: toolcrib add %s URL --header Authorization=KEY", s.Name)
		}
		return pages.Transport{URL: address}, pages.CheckURL(address)
	}
	var t pages.Transport
	for i, v := range append([]clients.Value{s.Command}, s.Args...) {
		text, ok := v.Literal()
		if !ok {
			return t, crib.Errorf(crib.Unsupported, "argument %d of its command has a key or a variable in it, and other users of this machine can read arguments; if the server takes it from a variable: toolcrib add %s -e NAME=KEY -- COMMAND", i, s.Name)
		}
		t.Command = append(t.Command, text)
	}
	var ok bool
	if t.Dir, ok = s.Cwd.Literal(); !ok {
		return t, crib.Errorf(crib.Unsupported, "its folder depends on a variable; write the whole path")
	}
	return t, nil
}

// template is a value as a page has it.
func template(kv clients.ImportedValue) secret.Template {
	var t secret.Template
	if kv.Scheme != "" && !bearerToken(kv) {
		t = secret.Literal(kv.Scheme + " ")
	}
	for _, part := range kv.Value {
		if part.Var != "" {
			t = secret.Join(t, secret.Reference(secret.AnyStore, part.Var))
			continue
		}
		t = secret.Join(t, secret.Literal(part.Text))
	}
	return t
}

// bearerToken reports whether kv is an Authorization of one secret as a
// Bearer: the crib adds that scheme itself, so the page has the name alone.
func bearerToken(kv clients.ImportedValue) bool {
	_, alone := kv.Value.Reference()
	return alone && strings.EqualFold(kv.Name, "Authorization") && strings.EqualFold(kv.Scheme, "Bearer")
}

// target is where a server is reached, as a person reads it.
func (p *planned) target() string {
	if p.block.Transport.IsHTTP() {
		return p.block.Transport.URL
	}
	return strings.Join(p.block.Transport.Command, " ")
}

// secretNames are the names of the keys that go into the file store.
func (p *planned) secretNames() []string {
	var names []string
	for _, s := range p.Secrets {
		names = append(names, s.Name)
	}
	return names
}

// page is the text of the page, and what should be known of it is noted.
func (p *planned) page(text string) ([]byte, error) {
	src, err := pages.Render(p.block, p.Name, text)
	if err != nil {
		return nil, err
	}
	_, faults := pages.Parse(p.Name, src)
	for _, f := range faults {
		p.note("%s", f.Msg)
	}
	return src, nil
}
