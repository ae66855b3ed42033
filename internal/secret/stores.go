package secret

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// Limits of looking up secrets.
const (
	// MaxSecretBytes is the greatest size of one secret, in bytes.
	MaxSecretBytes = 64 << 10

	// DefaultExecTimeout is how long the command of an exec store may run.
	DefaultExecTimeout = 10 * time.Second
)

// StoreKind says how a store finds a secret.
type StoreKind string

// The kinds of stores.
const (
	EnvStore  StoreKind = "env"  // the crib's own environment
	FileStore StoreKind = "file" // a folder with one file a secret
	ExecStore StoreKind = "exec" // a command that prints the secret
)

// StoreSpec describes one store, as toolcrib.yaml lists it.
type StoreSpec struct {
	Kind    StoreKind
	Name    string   // what references call it; empty: as its kind
	Dir     string   // FileStore: the folder, absolute or relative to Options.Dir
	Command []string // ExecStore: program and arguments; the secret's name is appended
}

// Label is how s is named to a person, such as "file:secrets". It shows no
// path outside the workspace, so that it may stand in an answer to a caller.
func (s StoreSpec) Label() string {
	if s.Kind == FileStore && filepath.IsLocal(s.Dir) {
		return s.name() + ":" + filepath.ToSlash(s.Dir)
	}
	return s.name()
}

func (s StoreSpec) name() string {
	if s.Name == "" {
		return string(s.Kind)
	}
	return s.Name
}

// DefaultStores are the stores of a crib whose toolcrib.yaml lists none: its
// environment, then the folder secrets in the workspace.
func DefaultStores() []StoreSpec {
	return []StoreSpec{{Kind: EnvStore}, {Kind: FileStore, Dir: "secrets"}}
}

// Options are what Stores work with.
type Options struct {
	Specs []StoreSpec

	// Dir is the folder that relative folders start from and commands run in:
	// the workspace.
	Dir string

	// LookupEnv reads the crib's own environment; nil is os.LookupEnv.
	LookupEnv func(string) (string, bool)

	// Redactor learns every secret that is looked up; nil is none.
	Redactor *Redactor

	// ExecTimeout ends commands of exec stores; 0 is DefaultExecTimeout.
	ExecTimeout time.Duration
}

// Stores looks secrets up. It keeps none of them: each Resolve reads the
// store again, so a rotated secret is used from the next connection on.
type Stores struct {
	stores   []store
	redactor *Redactor
}

// store is one place where secrets are kept.
type store interface {
	spec() StoreSpec

	// checkName reports why no secret here can have this name.
	checkName(name string) error

	// lookup returns "" for a secret that is missing or empty, and an error
	// when the store could not say.
	lookup(ctx context.Context, name string) (string, error)

	// warnings says what about the store deserves a look.
	warnings() []string
}

// NewStores makes the stores that o describes. It reads none of them.
func NewStores(o Options) (*Stores, error) {
	if o.LookupEnv == nil {
		o.LookupEnv = os.LookupEnv
	}
	if o.ExecTimeout == 0 {
		o.ExecTimeout = DefaultExecTimeout
	}
	s := &Stores{redactor: o.Redactor}
	seen := map[string]bool{}
	for _, spec := range o.Specs {
		if err := CheckSpec(spec); err != nil {
			return nil, err
		}
		if seen[spec.name()] {
			return nil, crib.Errorf(crib.Invalid, "two secret stores are called %q: give one of them another name", spec.name())
		}
		seen[spec.name()] = true
		s.stores = append(s.stores, newStore(spec, o))
	}
	return s, nil
}

func newStore(spec StoreSpec, o Options) store {
	switch spec.Kind {
	case FileStore:
		dir := spec.Dir
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(o.Dir, dir)
		}
		return fileStore{of: spec, dir: dir}
	case ExecStore:
		return execStore{of: spec, dir: o.Dir, timeout: o.ExecTimeout}
	}
	return envStore{of: spec, lookupEnv: o.LookupEnv}
}

// CheckSpec reports, as an Invalid error, what is wrong with spec.
func CheckSpec(spec StoreSpec) error {
	switch {
	case spec.Name == AnyStore:
		return crib.Errorf(crib.Invalid, "a secret store cannot be called %q: that name means all stores in order", AnyStore)
	case !storeName.MatchString(spec.name()):
		return crib.Errorf(crib.Invalid, "secret store name %q: use lower-case letters, digits, - and _", spec.name())
	}
	switch spec.Kind {
	case EnvStore:
		return nil
	case FileStore:
		if spec.Dir == "" {
			return crib.Errorf(crib.Invalid, "a file store needs dir, the folder that its secrets are in")
		}
		return nil
	case ExecStore:
		if len(spec.Command) == 0 || spec.Command[0] == "" {
			return crib.Errorf(crib.Invalid, "an exec store needs command, such as [op, read]")
		}
		return nil
	}
	return crib.Errorf(crib.Invalid, "secret store %q is not known: use env, file or exec", spec.Kind)
}

// Labels names the stores in the order they are tried.
func (s *Stores) Labels() []string {
	var labels []string
	for _, st := range s.stores {
		labels = append(labels, st.spec().Label())
	}
	return labels
}

// Warnings says which files of the stores are open to other users of this
// machine. It reads names and permissions only.
func (s *Stores) Warnings() []string {
	var all []string
	for _, st := range s.stores {
		all = append(all, st.warnings()...)
	}
	return all
}

// Check reports whether ref can be looked up at all: its store exists and
// could hold a secret of that name. It reads nothing.
func (s *Stores) Check(ref Ref) error {
	_, err := s.candidates(ref)
	return err
}

// Resolve replaces the references of t by the secrets of the stores. What a
// secret contains is never expanded again. A secret that is missing or empty
// is an Unavailable error that shows its name only; a store that fails stops
// the resolving, because it cannot say that the secret is not there.
func (s *Stores) Resolve(ctx context.Context, t Template) (Value, error) {
	var b strings.Builder
	for _, p := range t.parts {
		if p.ref.Name == "" {
			if LooksLikeKey("", p.text) {
				s.learn(p.text)
			}
			b.WriteString(p.text)
			continue
		}
		text, err := s.lookup(ctx, p.ref)
		if err != nil {
			return Value{}, err
		}
		b.WriteString(text)
	}
	return NewValue(b.String()), nil
}

// ResolveHeader resolves t for the HTTP header called name and refuses a
// value that could end the header or start another one (RFC 9110, section
// 5.5).
func (s *Stores) ResolveHeader(ctx context.Context, name string, t Template) (Value, error) {
	v, err := s.Resolve(ctx, t)
	if err != nil {
		return Value{}, err
	}
	if strings.ContainsFunc(v.Reveal(), func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
		return Value{}, crib.Errorf(crib.Invalid, "the value for header %s (%s) contains a line break or another control character, which no header may hold", name, refNames(t))
	}
	return v, nil
}

// ResolveEnv resolves t for the environment variable called name and refuses
// a value that no environment can hold.
func (s *Stores) ResolveEnv(ctx context.Context, name string, t Template) (Value, error) {
	v, err := s.Resolve(ctx, t)
	if err != nil {
		return Value{}, err
	}
	if strings.ContainsRune(v.Reveal(), 0) {
		return Value{}, crib.Errorf(crib.Invalid, "the value for variable %s (%s) contains a NUL character, which no variable may hold", name, refNames(t))
	}
	return v, nil
}

func refNames(t Template) string {
	var names []string
	for _, r := range t.Refs() {
		names = append(names, r.Name)
	}
	if names == nil {
		return "literal"
	}
	return "from " + strings.Join(names, ", ")
}

// candidates returns the stores that ref could be in, in order.
func (s *Stores) candidates(ref Ref) ([]store, error) {
	if ref.Store != AnyStore {
		for _, st := range s.stores {
			if st.spec().name() == ref.Store {
				return []store{st}, st.checkName(ref.Name)
			}
		}
		return nil, crib.Errorf(crib.Invalid, "%s: there is no secret store %q; the stores are: %s", ref, ref.Store, s.list())
	}
	var found []store
	for _, st := range s.stores {
		if st.checkName(ref.Name) == nil {
			found = append(found, st)
		}
	}
	if len(found) == 0 {
		return nil, crib.Errorf(crib.Invalid, "no secret store (%s) can hold a secret called %q", s.list(), ref.Name)
	}
	return found, nil
}

func (s *Stores) learn(text string) {
	if s.redactor != nil {
		s.redactor.Add(NewValue(text))
	}
}

func (s *Stores) list() string {
	if len(s.stores) == 0 {
		return "none"
	}
	return strings.Join(s.Labels(), ", ")
}

func (s *Stores) lookup(ctx context.Context, ref Ref) (string, error) {
	stores, err := s.candidates(ref)
	if err != nil {
		return "", err
	}
	var tried []string
	for _, st := range stores {
		text, err := st.lookup(ctx, ref.Name)
		if err != nil {
			return "", fmt.Errorf("%w: %w", crib.Errorf(crib.Unavailable, "secret store %s could not say whether it holds %s", st.spec().Label(), ref.Name), err)
		}
		if text != "" {
			s.learn(text)
			return text, nil
		}
		tried = append(tried, st.spec().Label())
	}
	return "", crib.Errorf(crib.Unavailable, "secret %s is not set, or empty, in: %s", ref.Name, strings.Join(tried, ", "))
}

var errTooLarge = fmt.Errorf("larger than a secret may be (%d bytes)", MaxSecretBytes)
