package edit_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/tailscale/hujson"

	"github.com/toolcrib/toolcrib/internal/clients/edit"
	"github.com/toolcrib/toolcrib/internal/crib"
)

var entry = edit.Fields{
	edit.F("url", "http://127.0.0.1:8090/v1/mcp"),
	edit.F("oauth", false),
	edit.F("args", []string{"a", `b "c"`, "ü\\"}),
	edit.F("headers", edit.Fields{edit.F("Authorization", "Bearer abc")}),
}

var decodedEntry = map[string]any{
	"url":     "http://127.0.0.1:8090/v1/mcp",
	"oauth":   false,
	"args":    []any{"a", `b "c"`, "ü\\"},
	"headers": map[string]any{"Authorization": "Bearer abc"},
}

// Files as people and programs write them. Each must get its bytes back.
var jsonFiles = map[string]string{
	"empty":                    "",
	"blank line":               "\n",
	"braces":                   "{}",
	"braces and newline":       "{}\n",
	"braces with a space":      "{ }",
	"braces on two lines":      "{\n}\n",
	"empty table":              "{\n  \"servers\": {}\n}\n",
	"empty table, last":        "{\n  \"a\": 1,\n  \"servers\": {}\n}\n",
	"empty table, not last":    "{\n  \"servers\": {},\n  \"a\": 1\n}\n",
	"empty table, spaced":      "{\n  \"servers\": { }\n}\n",
	"empty table, open":        "{\n  \"servers\": {\n  }\n}\n",
	"empty table, comment":     "{\n  \"servers\": {\n    // none yet\n  }\n}\n",
	"empty table, one line":    "{\"servers\": {}}",
	"empty table, minified":    "{\"servers\":{}}",
	"no table":                 "{\n    \"theme\": \"dark\"\n}\n",
	"no table, one line":       `{"theme": "dark"}`,
	"no table, tabs":           "{\n\t\"theme\": \"dark\"\n}",
	"no table, trailing comma": "{\n  \"theme\": \"dark\",\n}\n",
	"others":                   "{\n  \"servers\": {\n    \"a\": {\n      \"command\": \"x\"\n    }\n  }\n}\n",
	"others, trailing comma":   "{\n  \"servers\": {\n    \"a\": {\"command\": \"x\"},\n  },\n}\n",
	"others, one line":         `{"servers": {"a": {"command": "x"}}, "b": [1, 2]}`,
	"others, comma and comment": `{
  // the servers
  "servers": {
    "a": {"command": "x"}, // mine
    /* and */ "b": {"command": "y"} // yours
    // the end
  } // really
}
`,
	"comma after a comment":  "{\"servers\": {\"a\": 1 /* one */, }, }",
	"CRLF":                   "{\r\n  \"servers\": {\r\n    \"a\": {}\r\n  }\r\n}\r\n",
	"CRLF, no table":         "{\r\n  \"a\": 1\r\n}\r\n",
	"byte order mark":        "\ufeff{\n  \"a\": 1\n}\n",
	"only a mark":            "\ufeff",
	"odd layout":             "{ \"a\": 1,\n\"servers\"\n:{\"a\":{}}}",
	"brace on the last line": "{\n  \"servers\": {\n    \"a\": 1,\n    \"b\": 2 }\n}\n",
	"first on the brace":     "{\"servers\": {\"a\": 1,\n  \"b\": 2\n}}",
	"unicode and numbers":    "{\n  \"ключ\": 123456789012345678901234567890,\n  \"e\": 1e2, \"s\": \"\\u00fc\\/\"\n}\n",
	"the name elsewhere":     "{\n  \"crib\": {\"servers\": {\"crib\": 1}},\n  \"servers\": {\"other\": {\"crib\": 2}}\n}\n",
}

func TestJSONSetThenRemoveLeavesEveryByte(t *testing.T) {
	for name, content := range jsonFiles {
		for _, path := range [][]string{{"servers"}, {"mcp", "servers"}} {
			t.Run(name+"/"+strings.Join(path, "."), func(t *testing.T) {
				roundTrip(t, "x.json", []byte(content), path)
			})
		}
	}
	t.Run("no file", func(t *testing.T) { roundTrip(t, "x.json", nil, []string{"servers"}) })
}

var tomlFiles = map[string]string{
	"empty":               "",
	"newline":             "\n",
	"no last newline":     "model = 'x'",
	"last newline":        "model = 'x'\n",
	"blank line at end":   "model = 'x'\n\n",
	"blank lines at end":  "model = 'x'\n\n\n\n",
	"CRLF":                "model = 'x'\r\n[servers.a]\r\ncommand = 'y'\r\n",
	"comment at end":      "[servers.a]\ncommand = 'y'\n\n# the end",
	"explicit table":      "[servers]\n\n[servers.a] # mine\ncommand = 'y'\n[servers.a.env]\nK = 'v'\n",
	"quoted headers":      "[ \"servers\" . 'a.b' ]\ncommand = 'y'\n[servers.\"c d\".env]\n\"x=y\" = '''\n[servers.crib]\n'''\n",
	"dotted keys":         "servers.a.command = 'y'\nservers.a.args = [\n  'x', # one\n  ']',\n]\n",
	"array of tables":     "[[profiles]]\nname = 'a'\n[[profiles]]\nname = 'b'\n",
	"byte order mark":     "\ufeffmodel = 'x'\n",
	"looks like an entry": "text = \"\"\"\n[servers.crib]\nurl = 1\n\"\"\"\n# [servers.crib]\n",
	"dates and numbers":   "d = 1979-05-27T07:32:00Z\nl = 1979-05-27\nf = 1e6\ni = 0xff\nb = true\n",
}

func TestTOMLSetThenRemoveLeavesEveryByte(t *testing.T) {
	for name, content := range tomlFiles {
		t.Run(name, func(t *testing.T) { roundTrip(t, "x.toml", []byte(content), []string{"servers"}) })
	}
	t.Run("no file", func(t *testing.T) { roundTrip(t, "x.toml", nil, []string{"servers"}) })
}

func roundTrip(t *testing.T, file string, before []byte, path []string) {
	t.Helper()
	doc := mustParse(t, file, before)
	after, err := doc.Set(path, "crib", entry)
	if err != nil {
		t.Fatal(err)
	}
	set := mustParse(t, file, after)
	if got := value(t, set, path, "crib"); !reflect.DeepEqual(got, any(decodedEntry)) {
		t.Errorf("the entry reads as %v\nin %s", got, after)
	}
	again, err := set.Set(path, "crib", entry)
	if err != nil || !bytes.Equal(again, after) {
		t.Errorf("setting the same again gives %q, %v", again, err)
	}
	restored, err := set.Remove(path, "crib")
	if err != nil {
		t.Fatalf("%v\nin %s", err, after)
	}
	if !bytes.Equal(restored, before) || (restored == nil) != (before == nil) {
		t.Errorf("before\n%q\nwith the entry\n%q\nafter\n%q", before, after, restored)
	}
}

func mustParse(t *testing.T, file string, data []byte) edit.Document {
	t.Helper()
	doc, err := edit.Parse(file, data)
	if err != nil {
		t.Fatalf("%v\nin %q", err, data)
	}
	return doc
}

func value(t *testing.T, doc edit.Document, path []string, name string) any {
	t.Helper()
	members, err := doc.Members(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

func TestSetKeepsTheLayout(t *testing.T) {
	short := edit.Fields{edit.F("url", "u")}
	for _, c := range []struct{ name, before, want string }{
		{"new file", "", "{\n\t\"servers\": {\n\t\t\"crib\": {\n\t\t\t\"url\": \"u\"\n\t\t}\n\t}\n}"},
		{"beside others", "{\n    \"servers\": {\n        \"a\": 1 // one\n    }\n}",
			"{\n    \"servers\": {\n        \"a\": 1, // one\n        \"crib\": {\n            \"url\": \"u\"\n        }\n    }\n}"},
		{"one line", `{"servers": {"a": 1}}`, `{"servers": {"a": 1, "crib": {"url": "u"}}}`},
		{"in place", "{\n  \"servers\": {\n    \"crib\": 1, // ours\n    \"a\": 2\n  }\n}",
			"{\n  \"servers\": {\n    \"crib\": {\n      \"url\": \"u\"\n    }, // ours\n    \"a\": 2\n  }\n}"},
	} {
		got, err := mustParse(t, "x.json", []byte(c.before)).Set([]string{"servers"}, "crib", short)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n got %s\nwant %s", c.name, err, got, c.want)
		}
	}
}

func TestRemoveKeepsCommentsAndOthers(t *testing.T) {
	for _, c := range []struct{ name, file, before, want string }{
		{"first of several", "x.json", "{\"servers\": {\n  // one\n  \"crib\": {}, // ours\n  // two\n  \"b\": 2\n}}", "{\"servers\": {\n  // one\n  // ours\n  // two\n  \"b\": 2\n}}"},
		{"first on one line", "x.json", `{"servers": {"crib": 1, "b": 2}}`, `{"servers": {"b": 2}}`},
		{"between on one line", "x.json", `{"servers": {"a": 0, "crib": 1, "b": 2}}`, `{"servers": {"a": 0, "b": 2}}`},
		{"behind a comment", "x.json", "{\"servers\": { // c\n \"crib\": 1, \"b\": 2}}", "{\"servers\": { // c\n \"b\": 2}}"},
		{"a URL before", "x.json", "{\"servers\": {\n \"a\": \"http://x\",\n \"crib\": 1 }}", "{\"servers\": {\n \"a\": \"http://x\"\n  }}"},
		{"written otherwise", "x.json", `{"servers": {"\u0063rib": 1, "b": 2}}`, `{"servers": {"b": 2}}`},
		{"tables apart", "x.toml", "[servers.crib]\nurl = 'u'\n\n# a\n[servers.a]\ncommand = 'x'\n\n[servers.crib.http_headers]\nA = 'b'\n[z]\n", "\n# a\n[servers.a]\ncommand = 'x'\n[z]\n"},
		{"quoted header", "x.toml", "a = 1\n[\"servers\".'crib']\nurl = 'u'\n", "a = 1\n"},
		{"dotted keys", "x.toml", "servers.crib.url = 'u'\nservers.a.url = 'v'\n", "servers.a.url = 'v'\n"},
		{"inline entry", "x.toml", "[servers]\ncrib = { url = 'u' }\na = { url = 'v' }\n", "[servers]\na = { url = 'v' }\n"},
	} {
		got, err := mustParse(t, c.file, []byte(c.before)).Remove([]string{"servers"}, "crib")
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n got %q\nwant %q", c.name, err, got, c.want)
		}
	}
}

func TestWhatIsNotUnderstoodIsRefused(t *testing.T) {
	set := func(doc edit.Document) error { _, err := doc.Set([]string{"servers"}, "crib", entry); return err }
	for _, c := range []struct{ name, file, content, say string }{
		{"broken JSON", "x.json", "{\n  \"a\": 1\n  \"b\": 2\n}", "line 3"},
		{"broken TOML", "x.toml", "a = 1\nb = \n", "line 2"},
		{"redefined TOML", "x.toml", "[a]\n[a]\n", "fix"},
		{"list", "x.json", "[]", "object in braces"},
		{"null", "x.json", "null", "object in braces"},
		{"table is a list", "x.json", `{"servers": []}`, "servers is not a table"},
		{"table is null", "x.json", `{"servers": null}`, "servers is not a table"},
		{"table is a text", "x.toml", `servers = "x"`, "servers is not a table"},
		{"table twice", "x.json", "{\"servers\": {},\n\"servers\": {}}", "line 2"},
		{"entry twice", "x.json", `{"servers": {"crib": 1, "crib": 2}}`, "second time"},
		{"inline table", "x.toml", "servers = { a = { command = 'x' } }", "tables of their own"},
		{"array of tables", "x.toml", "[[servers]]\na = 1\n", "not a table"},
	} {
		doc, err := edit.Parse(c.file, []byte(c.content))
		if err == nil {
			err = set(doc)
		}
		if crib.CodeOf(err) != crib.Invalid || !strings.Contains(fmt.Sprint(err), c.say) || !strings.Contains(fmt.Sprint(err), c.file) {
			t.Errorf("%s: %v, want an error that says %q", c.name, err, c.say)
		}
	}
}

func TestTOMLEntryInsideBracesIsNotRemoved(t *testing.T) {
	_, err := mustParse(t, "x.toml", []byte("servers = { crib = { url = 'u' } }\n")).Remove([]string{"servers"}, "crib")
	if crib.CodeOf(err) != crib.Invalid || !strings.Contains(fmt.Sprint(err), "tables of their own") {
		t.Errorf("got %v", err)
	}
}

func TestRestorePutsBackWhatWasWritten(t *testing.T) {
	for _, c := range []struct{ file, old, now, want string }{
		{"x.json", "{\"servers\": {\n  \"a\": {\"n\": 1e2 /* odd */}\n}}", "{\"servers\": {\n  \"b\": 1\n}}", "{\"servers\": {\n  \"b\": 1,\n  \"a\": {\"n\": 1e2 /* odd */}\n}}"},
		{"x.toml", "[servers.a] # mine\nn = 0x10\n[servers.b]\n[servers.a.env]\nK = 'v'\n", "m = 1\n", "m = 1\n\n[servers.a] # mine\nn = 0x10\n[servers.a.env]\nK = 'v'\n"},
	} {
		got, err := mustParse(t, c.file, []byte(c.now)).Restore([]string{"servers"}, "a", mustParse(t, c.file, []byte(c.old)))
		if err != nil || string(got) != c.want {
			t.Errorf("%v\n got %q\nwant %q", err, got, c.want)
		}
	}
}

func FuzzJSON(f *testing.F) {
	for _, content := range jsonFiles {
		f.Add([]byte(content))
	}
	f.Fuzz(func(t *testing.T, before []byte) {
		doc, err := edit.Parse("x.json", before)
		if err != nil {
			return
		}
		after, err := doc.Set([]string{"servers"}, "crib", entry)
		if err != nil {
			return
		}
		standard, err := hujson.Standardize(bytes.TrimPrefix(after, []byte("\ufeff")))
		if err != nil || !json.Valid(standard) {
			t.Fatalf("%q cannot be read: %v", after, err)
		}
		if _, err := mustParse(t, "x.json", after).Remove([]string{"servers"}, "crib"); err != nil {
			t.Fatalf("%q, which was %q: %v", after, before, err)
		}
	})
}

func FuzzTOML(f *testing.F) {
	for _, content := range tomlFiles {
		f.Add([]byte(content), "crib")
	}
	f.Add([]byte("a = 1\n"), "a-b_C")
	f.Fuzz(func(t *testing.T, before []byte, name string) {
		if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
			return
		}
		doc, err := edit.Parse("x.toml", before)
		if err != nil {
			return
		}
		after, err := doc.Set([]string{"servers"}, name, entry)
		if err != nil {
			return
		}
		var was, is map[string]any
		if err := toml.Unmarshal(bytes.TrimPrefix(after, []byte("\ufeff")), &is); err != nil {
			t.Fatalf("%q cannot be read: %v", after, err)
		}
		_ = toml.Unmarshal(bytes.TrimPrefix(before, []byte("\ufeff")), &was)
		servers := is["servers"].(map[string]any)
		if !reflect.DeepEqual(servers[name], any(decodedEntry)) {
			t.Fatalf("%q: the entry reads as %v", after, servers[name])
		}
		delete(servers, name)
		old, _ := was["servers"].(map[string]any)
		delete(old, name)
		if len(old) == 0 && len(servers) == 0 {
			delete(was, "servers")
			delete(is, "servers")
		}
		if fmt.Sprint(was) != fmt.Sprint(is) {
			t.Fatalf("%q: more than the entry changed: %v, was %v", after, is, was)
		}
		if _, err := mustParse(t, "x.toml", after).Remove([]string{"servers"}, name); err != nil {
			t.Fatalf("%q: %v", after, err)
		}
	})
}
