package catalog

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolcrib/toolcrib/internal/bridge"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/servers"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Kind is one of the four lists of a server.
type Kind int

// The kinds of lists.
const (
	Tools Kind = iota
	Prompts
	Resources
	Templates
	kinds
)

// Kinds are all kinds of lists.
var Kinds = [...]Kind{Tools, Prompts, Resources, Templates}

var kindFacts = [...]struct{ method, member, id, capability, changed string }{
	Tools:     {"tools/list", "tools", "name", "tools", "notifications/tools/list_changed"},
	Prompts:   {"prompts/list", "prompts", "name", "prompts", "notifications/prompts/list_changed"},
	Resources: {"resources/list", "resources", "uri", "resources", "notifications/resources/list_changed"},
	Templates: {"resources/templates/list", "resourceTemplates", "uriTemplate", "resources", "notifications/resources/list_changed"},
}

// Method is the method that lists k.
func (k Kind) Method() string { return kindFacts[k].method }

// Member is the name of the array in the result of Method.
func (k Kind) Member() string { return kindFacts[k].member }

// Changed is the notification of a change of k.
func (k Kind) Changed() string { return kindFacts[k].changed }

// Item is one tool, prompt, resource or template of a server. It is not
// changed after it was made.
type Item struct {
	ID       string // name or URI as the server spells it
	Own      []byte // the definition as the server's own endpoint shows it
	Public   []byte // the definition as the aggregate shows it; nil where it is left out there
	PublicID string

	// Own and Public as a client of the other era is shown them. They are the
	// same bytes where nothing changes.
	OwnAcross, PublicAcross []byte

	TaskOnly bool // a tool that is called as a task or not at all

	Params []wire.ParamHeader // of a tool: arguments that are mirrored into headers
}

// Problem is an item that was left out, and why.
type Problem struct {
	ID    string
	Why   string
	Every bool // left out everywhere; else only on the aggregate
}

// List is what a server answered the last time it was asked. It is not changed
// after it was made.
type List struct {
	Items    []*Item
	Problems []Problem
	Era      wire.Era // in which the server gave it
	Head     []byte   // the first page's result without its items, for the members beside them
	Fetched  time.Time
	TTL      time.Duration // from Fetched; negative: until the server says otherwise

	pages    [][]byte // as they came
	byID     map[string]*Item
	byPublic map[string]*Item // those the aggregate shows
}

// Get finds an item by the server's own name for it.
func (l *List) Get(id string) *Item {
	if l == nil {
		return nil
	}
	return l.byID[id]
}

// getPublic finds an item of the aggregate by its public name.
func (l *List) getPublic(public string) *Item {
	if l == nil {
		return nil
	}
	return l.byPublic[public]
}

// Fresh reports whether l need not be fetched again.
func (l *List) Fresh(now time.Time) bool {
	return l != nil && (l.TTL < 0 || now.Before(l.Fetched.Add(l.TTL)))
}

// build makes a List of the pages that came in an era. def is the server's
// definition.
func build(k Kind, def *servers.Definition, era wire.Era, pages [][]byte) *List {
	l := &List{Era: era, pages: pages, byID: make(map[string]*Item), byPublic: make(map[string]*Item)}
	if len(pages) > 0 {
		l.readHead(k, pages[0])
	}
	raws := make(map[string][]byte)
	twice := make(map[string]bool)
	for _, page := range pages {
		array := wire.Get(page, k.Member())
		for _, at := range wire.Elements(array) {
			raw := at.In(array)
			item, why := makeItem(k, def, era, raw)
			if why == skipped {
				continue
			}
			if why != "" {
				l.Problems = append(l.Problems, Problem{ID: item.ID, Why: why, Every: true})
				continue
			}
			if old, ok := raws[item.ID]; ok {
				twice[item.ID] = twice[item.ID] || !bytes.Equal(old, raw)
				continue
			}
			raws[item.ID] = raw
			l.Items = append(l.Items, item)
			l.byID[item.ID] = item
		}
	}
	l.drop(twice)
	if k == Tools {
		l.holdUnusable()
	}
	l.dropClashes()
	return l
}

// under is the same answer of the server, read under another definition.
func (l *List) under(k Kind, def *servers.Definition) *List {
	now := build(k, def, l.Era, l.pages)
	now.Fetched, now.TTL = l.Fetched, l.TTL
	return now
}

// readHead keeps the first page. Where it cannot be read as a whole, only the
// members beside the items are kept, and of these the ones that can.
func (l *List) readHead(k Kind, page []byte) {
	if utf8.Valid(page) {
		l.Head = wire.SetMembers(nil, page, wire.Set{Key: k.Member(), Val: []byte("[]")})
		return
	}
	head, left := wire.LegibleMembers(wire.SetMembers(nil, page, wire.Set{Key: k.Member()}))
	l.Head = head
	for _, name := range left {
		l.Problems = append(l.Problems, Problem{ID: name, Why: "this member beside the items holds bytes that are no UTF-8", Every: true})
	}
}

// dropClashes takes items out of the aggregate whose public names are equal,
// which takes a clash of hashes: neither may answer for the other.
func (l *List) dropClashes() {
	clash := make(map[string]bool)
	for _, it := range l.Items {
		if it.Public == nil {
			continue
		}
		if l.byPublic[it.PublicID] != nil {
			clash[it.PublicID] = true
		}
		l.byPublic[it.PublicID] = it
	}
	for _, it := range l.Items {
		if clash[it.PublicID] {
			it.Public = nil
			delete(l.byPublic, it.PublicID)
			l.Problems = append(l.Problems, Problem{ID: it.ID, Why: "another item has the same public name " + it.PublicID})
		}
	}
}

// drop takes out items that the server defines twice and differently: nobody
// can say which of them a call would mean.
func (l *List) drop(twice map[string]bool) {
	kept := l.Items[:0]
	for _, it := range l.Items {
		if !twice[it.ID] {
			kept = append(kept, it)
			continue
		}
		delete(l.byID, it.ID)
		l.Problems = append(l.Problems, Problem{ID: it.ID, Why: "the server defines it twice, and differently", Every: true})
	}
	l.Items = kept
}

// holdUnusable leaves tools out of the aggregate whose schema no client would
// take: one of them would cost the client the whole list. Its own endpoint
// shows them as they are.
func (l *List) holdUnusable() {
	for _, it := range l.Items {
		if why := unusable(it.Own); why != "" {
			it.Public = nil
			l.Problems = append(l.Problems, Problem{ID: it.ID, Why: why})
		}
	}
}

// unusable says why no client would take the tool raw, "" if clients do
// (2026-07-28, Tools, Data Types: inputSchema has a root of type object).
func unusable(raw []byte) string {
	schema := wire.Get(raw, "inputSchema")
	switch {
	case len(schema) == 0:
		return "it has no inputSchema"
	case schema[0] != '{':
		return "its inputSchema is no object"
	case wire.Text(wire.Get(schema, "type")) != "object":
		return `its inputSchema does not say "type": "object"`
	}
	if p := wire.Get(schema, "properties"); p != nil && p[0] != '{' {
		return "the properties of its inputSchema are no object"
	}
	return ""
}

const skipped = "skipped" // not offered by the page: no problem, just not there

// makeItem reads one element of a list. A reason means that it is left out
// everywhere.
func makeItem(k Kind, def *servers.Definition, era wire.Era, raw []byte) (*Item, string) {
	if !utf8.Valid(raw) {
		name, _ := wire.GetText(raw, kindFacts[k].id)
		return &Item{ID: cmp.Or(strings.ToValidUTF8(name, "\uFFFD"), "?")}, "it holds bytes that are no UTF-8"
	}
	var id, description, meta, schema, output, execution wire.Member
	for _, m := range wire.Members(raw) {
		switch m.Key {
		case kindFacts[k].id:
			id = m
		case "description":
			description = m
		case "_meta":
			meta = m
		case "inputSchema":
			schema = m
		case "outputSchema":
			output = m
		case "execution":
			execution = m
		}
	}
	text, ok := id.Val.Text(raw)
	if !ok || text == "" {
		return &Item{ID: "?"}, fmt.Sprintf("it has no %s", kindFacts[k].id)
	}
	it := &Item{ID: text}
	var own []wire.Edit
	if k == Tools {
		if !def.Offers(text) {
			return it, skipped
		}
		var err error
		if it.Params, err = wire.ParamHeaders(schema.Val.In(raw)); err != nil {
			return it, "its x-mcp-header cannot be used: " + err.Error()
		}
		own = describe(raw, description, id, def.Description)
	}
	it.Own = wire.Apply(nil, raw, own...)
	public := append([]wire.Edit(nil), own...)
	if k == Tools || k == Prompts {
		it.PublicID = PublicName(crib.Address{Server: def.Name, Tool: text})
	} else {
		it.PublicID = PublicURI(def.Name, text)
	}
	public = append(public, wire.Edit{At: id.Val, With: wire.Quote(it.PublicID)})
	public = append(public, uiEdits(def.Name, raw, meta.Val)...)
	it.Public = wire.Apply(nil, raw, public...)
	it.OwnAcross, it.PublicAcross = it.Own, it.Public
	if era == wire.Modern && output.Val.OK() {
		it.OwnAcross, it.PublicAcross = bridge.LegacyTool(it.Own), bridge.LegacyTool(it.Public)
	}
	if execution.Val.OK() {
		it.TaskOnly = wire.Text(wire.Get(execution.Val.In(raw), "taskSupport")) == "required"
		if era == wire.Modern { // on the aggregate, legacy clients may make tasks
			it.PublicAcross = wire.SetMembers(nil, it.PublicAcross, wire.Set{Key: "execution"})
		}
	}
	return it, ""
}

// describe puts the page's text before the tool's own description, whose
// bytes stay as they are.
func describe(raw []byte, description, id wire.Member, text string) []wire.Edit {
	if text == "" {
		return nil
	}
	own := description.Val
	if !own.OK() {
		with := append([]byte(`,"description":`), wire.Quote(text)...)
		return []wire.Edit{{At: wire.Span{From: id.At.To, To: id.At.To}, With: with}}
	}
	if old, ok := own.Text(raw); !ok || old == "" {
		return []wire.Edit{{At: own, With: wire.Quote(text)}}
	}
	quoted := wire.Quote(text + "\n\n")
	return []wire.Edit{{At: wire.Span{From: own.From + 1, To: own.From + 1}, With: quoted[1 : len(quoted)-1]}}
}

// uiEdits makes the resource of a tool's user interface lead through the crib
// (MCP Apps: _meta.ui.resourceUri, and the flat form before it).
func uiEdits(server string, raw []byte, meta wire.Span) []wire.Edit {
	var out []wire.Edit
	splice := func(base int, val []byte, at wire.Span) {
		if uri := wire.Text(at.In(val)); uri != "" {
			out = append(out, wire.Edit{At: wire.Span{From: base + at.From, To: base + at.To}, With: wire.Quote(PublicURI(server, uri))})
		}
	}
	obj := meta.In(raw)
	if len(obj) == 0 {
		return nil
	}
	for _, m := range wire.Members(obj) {
		switch m.Key {
		case "ui/resourceUri":
			splice(meta.From, obj, m.Val)
		case "ui":
			ui := m.Val.In(obj)
			for _, u := range wire.Members(ui) {
				if u.Key == "resourceUri" {
					splice(meta.From+m.Val.From, ui, u.Val)
				}
			}
		}
	}
	return out
}
