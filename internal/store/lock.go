package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/gofrs/flock"

	"github.com/toolcrib/toolcrib/internal/crib"
)

const (
	// serveLockFile is locked by the system for as long as its holder lives,
	// so a holder that was killed leaves no lock behind. It stays empty: on
	// Windows a locked file cannot be read.
	serveLockFile = "serve.lock"

	// holderFile says who has the lock. It is believed only while the lock is
	// held.
	holderFile = "serving.json"

	// A look by Running takes the lock for an instant, so one refusal does not
	// mean that the folder is served.
	serveLockWait  = 200 * time.Millisecond
	serveLockRetry = 10 * time.Millisecond
)

// Holder is the crib that serves a data folder.
type Holder struct {
	PID     int    `json:"pid"`
	Address string `json:"address,omitempty"` // where it listens, "" until it does
}

func (h Holder) String() string {
	s := "another crib"
	if h.PID != 0 {
		s += fmt.Sprintf(", process %d", h.PID)
	}
	if h.Address != "" {
		s += " at " + h.Address
	}
	return s
}

// Lock is the right of this process to serve a data folder.
type Lock struct {
	folder *Folder
	flock  *flock.Flock
}

// Lock takes the right to serve the folder. If a crib serves it already, that
// is a Busy error that says which. Whoever has the lock must Unlock it; a
// process that dies loses it.
func (f *Folder) Lock() (*Lock, error) {
	l := &Lock{folder: f, flock: f.newFlock(serveLockFile)}
	ctx, cancel := context.WithTimeout(context.Background(), serveLockWait)
	defer cancel()
	if _, err := l.flock.TryLockContext(ctx, serveLockRetry); err != nil {
		if ctx.Err() != nil {
			return nil, crib.Errorf(crib.Busy, "%s serves this data folder; stop it, or choose another folder with --data", f.holder())
		}
		return nil, fmt.Errorf("lock data folder: %w", err)
	}
	if err := errors.Join(f.sweep(time.Now()), l.Announce("")); err != nil {
		return nil, errors.Join(fmt.Errorf("lock data folder: %w", err), l.Unlock())
	}
	return l, nil
}

// Announce tells other processes where the holder listens.
func (l *Lock) Announce(address string) error {
	data, err := json.Marshal(Holder{PID: os.Getpid(), Address: address})
	if err != nil {
		return err
	}
	return l.folder.write(holderFile, data)
}

// Unlock gives the right back.
func (l *Lock) Unlock() error {
	return errors.Join(l.folder.remove(holderFile), l.flock.Close())
}

// Running returns the crib that serves the folder, and false if none does.
func (f *Folder) Running() (Holder, bool, error) {
	probe := f.newFlock(serveLockFile)
	free, err := probe.TryRLock()
	if err != nil {
		return Holder{}, false, fmt.Errorf("look who serves the data folder: %w", err)
	}
	if free {
		return Holder{}, false, probe.Close()
	}
	return f.holder(), true, nil
}

// holder returns what is known of the holder of the lock. It is for texts and
// for finding the address: a file that cannot be read is a holder unknown.
func (f *Folder) holder() Holder {
	data, err := f.read(holderFile, othersWrite)
	if err != nil {
		return Holder{}
	}
	var h Holder
	if json.Unmarshal(data, &h) != nil {
		return Holder{}
	}
	return h
}
