package store

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/toolcrib/toolcrib/internal/crib"
)

const (
	sealingKeyFile = "sealing.key"
	localTokenFile = "local.token"

	// SealingKeySize is the length of the sealing key in bytes.
	SealingKeySize = 32
)

// SealingKey returns the key under which the crib seals what it gives away and
// takes back. It is made when it is first asked for, and then never changes:
// all processes get the same.
func (f *Folder) SealingKey() ([SealingKeySize]byte, error) {
	key, err := f.readSealingKey()
	if errors.Is(err, fs.ErrNotExist) {
		err = f.exclusively(func() error {
			key, err = f.readSealingKey() // another process may have been first
			if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if _, err := rand.Read(key[:]); err != nil { // it does not return one
				return err
			}
			return f.write(sealingKeyFile, key[:])
		})
	}
	if err != nil {
		return [SealingKeySize]byte{}, fmt.Errorf("sealing key: %w", err)
	}
	return key, nil
}

func (f *Folder) readSealingKey() (key [SealingKeySize]byte, err error) {
	data, err := f.read(sealingKeyFile, othersAny)
	if err != nil {
		return key, err
	}
	if len(data) != SealingKeySize {
		return key, crib.Errorf(crib.Invalid,
			"%s in the data folder has %d bytes and not %d; restore it, or remove it: what was sealed with it is then refused, and calls that wait for an answer must be made again", sealingKeyFile, len(data), SealingKeySize)
	}
	return [SealingKeySize]byte(data), nil
}

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
