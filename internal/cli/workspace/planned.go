package workspace

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/clients"
	"github.com/toolcrib/toolcrib/internal/crib"
	pages "github.com/toolcrib/toolcrib/internal/page"
	"github.com/toolcrib/toolcrib/internal/secret"
)

// Planned is a server that is about to be written as a page.
type Planned struct {
	clients.Imported
	Block pages.Block
	Notes []string         // what a person should know
	Files []clients.Change // the page and the keys, all of them new
}

// makeBlock turns a planned server into what a page says. Its error says why
// no page can say it.
func makeBlock(s clients.Imported) (Planned, error) {
	p := Planned{Imported: s, Block: pages.NewBlock(), Notes: slices.Clone(s.Problems)}
	p.Block.Enabled = !s.Disabled
	var err error
	if p.Block.Transport, err = makeTransport(s); err != nil {
		return p, err
	}
	for _, kv := range s.Env {
		if err := pages.CheckEnvName(kv.Name); err != nil {
			p.note("left out: %v", err)
			continue
		}
		p.Block.Env = append(p.Block.Env, pages.NamedTemplate{Name: kv.Name, Value: template(kv)})
	}
	for _, kv := range s.Headers {
		if err := pages.CheckHeaderName(kv.Name); err != nil {
			p.note("left out: %v", err)
			continue
		}
		p.Block.Headers = append(p.Block.Headers, pages.NamedTemplate{Name: kv.Name, Value: template(kv)})
	}
	return p, nil
}

func (p *Planned) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
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

// Target is where a server is reached, as a person reads it.
func (p *Planned) Target() string {
	if p.Block.Transport.IsHTTP() {
		return p.Block.Transport.URL
	}
	return strings.Join(p.Block.Transport.Command, " ")
}

// SecretNames are the names of the keys that go into the file store.
func (p *Planned) SecretNames() []string {
	var names []string
	for _, s := range p.Secrets {
		names = append(names, s.Name)
	}
	return names
}

// page is the text of the page, and what should be known of it is noted.
func (p *Planned) page(text string) ([]byte, error) {
	src, err := pages.Render(p.Block, p.Name, text)
	if err != nil {
		return nil, err
	}
	_, faults := pages.Parse(p.Name, src)
	for _, f := range faults {
		p.note("%s", f.Msg)
	}
	return src, nil
}

// newFile is a file that must not exist.
func newFile(path string, content []byte) clients.Change {
	return clients.Change{Path: path, After: content, Mode: fileMode}
}

// secretFiles are the files of keys.
func (w *Workspace) secretFiles(secrets []clients.Secret) ([]clients.Change, error) {
	if len(secrets) == 0 {
		return nil, nil
	}
	dir, err := w.SecretFolder()
	if err != nil {
		return nil, err
	}
	var files []clients.Change
	for _, s := range secrets {
		files = append(files, newFile(filepath.Join(dir, s.Name), []byte(s.Value)))
	}
	return files, nil
}

// files are the page of a server and its keys, all of them new.
func (w *Workspace) files(p *Planned, text string) ([]clients.Change, error) {
	page, err := p.page(text)
	if err != nil {
		return nil, err
	}
	files, err := w.secretFiles(p.Secrets)
	if err != nil {
		return nil, err
	}
	return append(files, newFile(w.PagePath(p.Name), page)), nil
}
