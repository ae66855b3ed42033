package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/internal/clients"
	"github.com/toolcrib/toolcrib/internal/crib"
)

// BackupFolder is where in the data folder the changes are kept that can be
// undone.
const BackupFolder = "backups"

// Kind is what made a change that can be undone.
type Kind string

// The kinds of changes.
const (
	Import     Kind = "import"     // new pages and keys
	Register   Kind = "client"     // the crib in a client
	Replace    Kind = "replace"    // the crib in place of a client's servers
	Unregister Kind = "unregister" // the crib taken out of a client by hand
)

// Backup is a change that can be undone.
type Backup struct {
	clients.Backup
	Kind   Kind
	Client string // id; "" for Import
	Server string // for which alone the crib was registered; "" is all
}

// Registers reports whether b put the crib into a client.
func (b Backup) Registers() bool { return b.Kind == Register || b.Kind == Replace }

// A label is kind, client, server and time, with a dot between them: none of
// the first three has one. The time keeps labels apart.
const (
	labelParts = 4
	labelTime  = "20060102T150405.000000000"
)

// Commit makes changes, all or none, so that they can be undone.
func (w *Workspace) Commit(kind Kind, client, server string, changes []clients.Change) error {
	label := strings.Join([]string{string(kind), client, server, time.Now().UTC().Format(labelTime)}, ".")
	return clients.Commit(w.backups(), label, changes)
}

// Backups lists what can be undone, oldest first.
func (w *Workspace) Backups() ([]Backup, error) {
	found, err := clients.List(w.backups())
	if err != nil {
		return nil, err
	}
	var list []Backup
	for _, b := range found {
		if parts := strings.SplitN(b.Label, ".", labelParts); len(parts) == labelParts {
			list = append(list, Backup{b, Kind(parts[0]), parts[1], parts[2]})
		}
	}
	return list, nil
}

// Undo takes a change back. The report says what became of each file.
func (w *Workspace) Undo(b Backup) (report []string, err error) {
	report, err = clients.Undo(w.backups(), b.Label)
	if err == nil || b.Kind != Import {
		return report, err
	}
	// Pages and keys are taken away whole, or not at all.
	var changed []string
	for _, path := range b.Files {
		if _, err := os.Stat(path); err == nil {
			changed = append(changed, path)
		}
	}
	if changed == nil {
		return report, err
	}
	return report, crib.Errorf(crib.Busy, "changed since the import, and therefore still there: %s; remove what you do not need, with toolcrib remove or by hand, and take the import back again", strings.Join(changed, ", "))
}

func (w *Workspace) backups() string { return filepath.Join(w.Config.Data, BackupFolder) }
