package clients

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/toolcrib/toolcrib/internal/clients/edit"
)

// A tableRecord is a table that a commit changed, as the commit left it.
type tableRecord struct {
	Path    []string      `json:"path"` // keys from the root of the document
	Entries []entryRecord `json:"entries,omitempty"`
}

// An entryRecord knows an entry again without keeping what it says.
type entryRecord struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
}

func tableRecords(c Change) ([]tableRecord, error) {
	if len(c.Tables) == 0 {
		return nil, nil
	}
	doc, err := edit.Parse(c.Path, c.After)
	if err != nil {
		return nil, err
	}
	var records []tableRecord
	for _, path := range c.Tables {
		members, err := doc.Members(path)
		if err != nil {
			return nil, err
		}
		t := tableRecord{Path: path}
		for _, m := range members {
			t.Entries = append(t.Entries, entryRecord{m.Name, valueDigest(m.Value)})
		}
		records = append(records, t)
	}
	return records, nil
}

// contentDigest is the SHA-256 of a file in hexadecimal, "" for no file.
func contentDigest(data []byte) string {
	if data == nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// valueDigest is equal for values that decode to the same, however they are
// laid out.
func valueDigest(v any) string {
	h := sha256.New()
	writeValue(h, v)
	return hex.EncodeToString(h.Sum(nil))
}

// writeValue writes a decoded value so that no two values give the same text:
// counts go before what is counted, and texts are quoted.
func writeValue(w io.Writer, v any) {
	switch v := v.(type) {
	case map[string]any:
		fmt.Fprintf(w, "table %d\n", len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			fmt.Fprintf(w, "%q\n", name)
			writeValue(w, v[name])
		}
	case []any:
		fmt.Fprintf(w, "list %d\n", len(v))
		for _, item := range v {
			writeValue(w, item)
		}
	default:
		fmt.Fprintf(w, "%T %q\n", v, fmt.Sprint(v))
	}
}
