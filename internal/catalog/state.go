package catalog

import (
	"encoding/json"
	"time"

	"github.com/toolcrib/toolcrib/internal/upstream"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// document is what is kept of a server between runs.
type document struct {
	Fingerprint string                 `json:"fingerprint"`
	Speaks      []wire.Era             `json:"speaks"`
	Eras        map[wire.Era]*savedEra `json:"eras"`
}

type savedEra struct {
	Version string            `json:"version"`
	Hello   []byte            `json:"hello"` // base64, so that not one byte changes
	Lists   map[Kind][][]byte `json:"lists"`
	Fetched time.Time         `json:"fetched"`
}

// load reads what was known of the server in the last run, and returns the
// eras it spoke. A document that cannot be read, or that is of another way to
// reach the server, is as good as none.
func (s *Server) load() []wire.Era {
	raw, err := s.c.opts.Store.Load(s.Name())
	if err != nil {
		s.c.opts.Log.Warn("the last lists of a server cannot be read", "server", s.Name(), "err", err)
		return nil
	}
	var doc document
	if raw == nil || json.Unmarshal(raw, &doc) != nil || doc.Fingerprint != s.Def().Fingerprint() {
		return nil
	}
	for _, era := range []wire.Era{wire.Modern, wire.Legacy} {
		saved := doc.Eras[era]
		if saved == nil {
			continue
		}
		kn := &known{hello: &wire.Hello{Era: era, Version: saved.Version, Result: saved.Hello}}
		for k, pages := range saved.Lists {
			if k >= 0 && k < kinds {
				kn.lists[k] = build(k, s.Def(), era, pages)
				kn.lists[k].Fetched = saved.Fetched
			}
		}
		s.known[place{era: era}] = kn
	}
	return doc.Speaks
}

func (s *Server) save() {
	s.saving.Lock()
	defer s.saving.Unlock()
	if now, err := s.c.Server(s.Name()); err != nil || now != s {
		return // what is in the store is its successor's
	}
	doc := document{Fingerprint: s.Def().Fingerprint(), Speaks: s.up.State().Eras, Eras: make(map[wire.Era]*savedEra)}
	s.mu.Lock()
	for at, kn := range s.known {
		if at.share != (upstream.Share{}) {
			continue // of somebody
		}
		saved := &savedEra{Version: kn.hello.Version, Hello: kn.hello.Result, Lists: make(map[Kind][][]byte), Fetched: time.Now()}
		for k, l := range kn.lists {
			if l != nil {
				saved.Lists[Kind(k)] = l.pages
			}
		}
		doc.Eras[at.era] = saved
	}
	s.mu.Unlock()
	raw, err := json.Marshal(doc)
	if err == nil {
		err = s.c.opts.Store.Save(s.Name(), raw)
	}
	if err != nil {
		s.c.opts.Log.Warn("the last lists of a server cannot be kept", "server", s.Name(), "err", err)
	}
}
