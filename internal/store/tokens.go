package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolcrib/toolcrib/internal/auth"
	"github.com/toolcrib/toolcrib/internal/crib"
)

const (
	tokensFile    = "tokens.json"
	tokensVersion = 1
)

// Tokens keeps the hashes of tokens in a file. It is an auth.Store.
type Tokens struct {
	folder *Folder

	mu   sync.Mutex  // guards seen
	seen fs.FileInfo // of the file last read or written here, nil if there was none
}

var _ auth.Store = (*Tokens)(nil)

// NewTokens returns the tokens kept in the folder.
func (f *Folder) NewTokens() *Tokens { return &Tokens{folder: f} }

type tokensDoc struct {
	Version int        `json:"version"`
	Tokens  []tokenDoc `json:"tokens"`
}

type tokenDoc struct {
	Name    string   `json:"name"`
	SHA256  [32]byte `json:"sha256"`     // base64
	Created int64    `json:"created_us"` // microseconds since 1970, UTC
}

// Tokens returns all tokens, oldest first.
func (t *Tokens) Tokens() ([]auth.Token, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.read()
}

func (t *Tokens) read() ([]auth.Token, error) {
	data, info, err := t.folder.readInfo(tokensFile, othersWrite)
	if errors.Is(err, fs.ErrNotExist) {
		t.seen = nil
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	tokens, err := parseTokens(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tokensFile, err)
	}
	t.seen = info
	return tokens, nil
}

func parseTokens(data []byte) ([]auth.Token, error) {
	var doc tokensDoc
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("%w: %w", crib.Errorf(crib.Invalid, "the file of tokens is damaged; restore it, or remove it and run `toolcrib client add` for each client"), err)
	}
	if doc.Version != tokensVersion {
		return nil, crib.Errorf(crib.Unsupported, "the file of tokens has version %d and this program reads %d; use the program that wrote it", doc.Version, tokensVersion)
	}
	tokens := make([]auth.Token, 0, len(doc.Tokens))
	for _, d := range doc.Tokens {
		tokens = append(tokens, auth.Token{Name: d.Name, Hash: d.SHA256, Created: time.UnixMicro(d.Created).UTC()})
	}
	return tokens, nil
}

// Update replaces the tokens by what change makes of them, while no other
// process can do the same.
func (t *Tokens) Update(change func([]auth.Token) ([]auth.Token, error)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.folder.exclusively(func() error {
		tokens, err := t.read()
		if err != nil {
			return err
		}
		changed, err := change(tokens)
		if err != nil {
			return err
		}
		return t.write(changed)
	})
}

func (t *Tokens) write(tokens []auth.Token) error {
	doc := tokensDoc{Version: tokensVersion, Tokens: make([]tokenDoc, 0, len(tokens))}
	for _, k := range tokens {
		doc.Tokens = append(doc.Tokens, tokenDoc{Name: k.Name, SHA256: k.Hash, Created: k.Created.UnixMicro()})
	}
	data, err := json.Marshal(doc, jsontext.WithIndent("  "))
	if err != nil {
		return fmt.Errorf("write %s: %w", tokensFile, err)
	}
	if err := t.folder.write(tokensFile, append(data, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", tokensFile, err)
	}
	t.seen, err = t.folder.root.Stat(tokensFile)
	return err
}

// Changed reports whether the file is another one than was last read or
// written here, that is, whether another process changed the tokens. It costs
// one look at the file's name, size and time.
func (t *Tokens) Changed() (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, err := t.folder.root.Stat(tokensFile)
	if errors.Is(err, fs.ErrNotExist) {
		return t.seen != nil, nil
	}
	if err != nil {
		return false, err
	}
	// Every write makes a new file, so two writes within one tick of the
	// clock still differ.
	same := t.seen != nil && os.SameFile(t.seen, now) && t.seen.ModTime().Equal(now.ModTime()) && t.seen.Size() == now.Size()
	return !same, nil
}
