package demo

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

//go:embed notebook.json
var notebookOffer []byte

// Limits of the notebook.
const (
	maxNotes = 200   // the oldest make room
	maxTitle = 200   // characters, also of a query
	maxText  = 4_000 // characters
)

// note is one note.
type note struct {
	ID    int    `json:"id"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

// notebook keeps notes in memory.
type notebook struct {
	mu    sync.Mutex // guards notes and last
	notes []note
	last  int // id
}

func newNotebook() *server {
	n := &notebook{}
	s := newServer("notebook", "Notebook", "A notebook that forgets everything when the demonstration ends.", notebookOffer)
	s.tools = map[string]tool{"add_note": n.add, "list_notes": n.list, "search_notes": n.search}
	return s
}

func (n *notebook) add(c *call) (output, error) {
	var in struct {
		Title string `json:"title"`
		Text  string `json:"text"`
	}
	if err := c.arguments(&in); err != nil {
		return output{}, err
	}
	err := errors.Join(between("the length of title", utf8.RuneCountInString(in.Title), 1, maxTitle),
		between("the length of text", utf8.RuneCountInString(in.Text), 0, maxText))
	if err != nil {
		return output{}, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last++
	n.notes = append(n.notes, note{n.last, in.Title, in.Text})
	if len(n.notes) > maxNotes {
		n.notes = n.notes[len(n.notes)-maxNotes:]
	}
	return output{
		text: fmt.Sprintf("Note %d is written.", n.last),
		data: object{"id": n.last, "notes": len(n.notes)},
	}, nil
}

func (n *notebook) list(c *call) (output, error) {
	if err := c.arguments(&struct{}{}); err != nil {
		return output{}, err
	}
	return listing(n.having("")), nil
}

func (n *notebook) search(c *call) (output, error) {
	var in struct {
		Query string `json:"query"`
	}
	if err := c.arguments(&in); err != nil {
		return output{}, err
	}
	if err := between("the length of query", utf8.RuneCountInString(in.Query), 1, maxTitle); err != nil {
		return output{}, err
	}
	return listing(n.having(in.Query)), nil
}

// having returns the notes that have the words, whatever their case.
func (n *notebook) having(words string) []note {
	n.mu.Lock()
	defer n.mu.Unlock()
	words = strings.ToLower(words)
	found := []note{}
	for _, note := range n.notes {
		if strings.Contains(strings.ToLower(note.Title+"\n"+note.Text), words) {
			found = append(found, note)
		}
	}
	return found
}

func listing(notes []note) output {
	if len(notes) == 0 {
		return output{text: "There are no such notes.", data: object{"notes": notes}}
	}
	lines := make([]string, len(notes))
	for i, n := range notes {
		lines[i] = fmt.Sprintf("%d. %s", n.ID, n.Title)
	}
	return output{text: strings.Join(lines, "\n"), data: object{"notes": notes}}
}
