package store

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/toolcrib/toolcrib/internal/crib"
)

const localTokenFile = "local.token"

// LocalToken returns the text of the token that commands of this user show to
// the crib. If none was kept it is a NotFound error.
func (f *Folder) LocalToken() (string, error) {
	data, err := f.read(localTokenFile, othersAny)
	if errors.Is(err, fs.ErrNotExist) {
		return "", crib.Errorf(crib.NotFound, "the data folder has no local token yet; `toolcrib serve` makes one")
	}
	if err != nil {
		return "", fmt.Errorf("local token: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// SaveLocalToken keeps the text of the local token.
func (f *Folder) SaveLocalToken(text string) error {
	if err := f.write(localTokenFile, []byte(text+"\n")); err != nil {
		return fmt.Errorf("save local token: %w", err)
	}
	return nil
}
