package clients_test

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/clients"
	"github.com/toolcrib/toolcrib/internal/crib"
)

func fixtureKey(_, value string) bool { return strings.HasPrefix(value, "key-fixture-") }

func lookup(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
}

func TestPlanOfEverything(t *testing.T) {
	env := machine(t)
	plan := clients.MakePlan(readAll(t, env), clients.PlanOptions{
		Taken:        func(name string) bool { return name == "team" },
		SecretTaken:  func(name string) bool { return name == "MY_SERVER_API_KEY" },
		LooksLikeKey: fixtureKey,
		LookupEnv:    lookup(map[string]string{"HOME": "/home/me", "DOCS_TOKEN": "set", "MAPS_TOKEN": "set"}),
	})
	var b strings.Builder
	for _, s := range plan.Servers {
		showImported(&b, s)
	}
	for _, s := range plan.Skipped {
		fmt.Fprintf(&b, "skipped %s %q: %s\n", s.Entry.Client, s.Entry.Name, s.Reason)
	}
	golden(t, "plan.txt", strings.ReplaceAll(b.String(), filepath.Dir(env.Home), "ROOT"))
	for _, s := range plan.Servers {
		if err := crib.CheckServerName(s.Name); err != nil {
			t.Error(err)
		}
	}
}

func showImported(b *strings.Builder, s clients.Imported) {
	b.WriteString(s.Name)
	if s.Disabled {
		b.WriteString(" disabled")
	}
	b.WriteByte('\n')
	for _, from := range s.Sources {
		fmt.Fprintf(b, "    from %s %s %q\n", from.Client, from.Scope, from.Name)
	}
	line(b, "command", s.Command)
	for _, v := range s.Args {
		line(b, "arg", v)
	}
	line(b, "cwd", s.Cwd)
	line(b, "url", s.URL)
	for _, v := range s.Env {
		line(b, "env "+v.Name, v.Value)
	}
	for _, v := range s.Headers {
		line(b, strings.TrimSpace("header "+v.Name+" "+v.Scheme), v.Value)
	}
	for _, secret := range s.Secrets {
		fmt.Fprintf(b, "    secret %s = %s\n", secret.Name, secret.Value)
	}
	for _, p := range s.Problems {
		fmt.Fprintf(b, "    ! %s\n", p)
	}
}

func remote(name, url string, headers ...clients.KV) clients.Entry {
	return clients.Entry{Source: clients.Source{Client: "c", Name: name}, Transport: clients.HTTP, URL: clients.Text(url), Headers: headers}
}

func local(name, command string, args ...string) clients.Entry {
	e := clients.Entry{Source: clients.Source{Client: "c", Name: name}, Transport: clients.Stdio, Command: clients.Text(command)}
	for _, a := range args {
		e.Args = append(e.Args, clients.Text(a))
	}
	return e
}

func TestServerNames(t *testing.T) {
	for in, want := range map[string]string{
		"My Server": "my-server", "a": "a", "A__b--c": "a-b-c", " -x- ": "x", "日本": "server", "": "server",
		"../e": "e", "x]\n[mcp_servers.y": "x-mcp-servers-y", "a.b": "a-b", "__proto__": "proto", "Straße 7": "stra-e-7",
		strings.Repeat("a", 300):                strings.Repeat("a", 31),
		strings.Repeat("a", 30) + " b":          strings.Repeat("a", 30),
		"com.example.servers/very-long-name-of": "com-example-servers-very-long-n",
	} {
		got := clients.ServerName(in)
		if got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
		if err := crib.CheckServerName(got); err != nil {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestPlanNamesClashes(t *testing.T) {
	long := strings.Repeat("a", 31)
	plan := clients.MakePlan([]clients.Entry{
		remote("x", "https://1"), remote("X", "https://2"), remote("x ", "https://3"), remote(long, "https://4"), remote(long, "https://5"),
	}, clients.PlanOptions{Taken: func(name string) bool { return name == "x" }})
	var names []string
	for _, s := range plan.Servers {
		names = append(names, s.Name)
	}
	want := []string{"x-2", "x-3", "x-4", long, strings.Repeat("a", 29) + "-2"}
	if !reflect.DeepEqual(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}

func TestPlanJoinsOnlyWhatSaysTheSame(t *testing.T) {
	on, off := remote("a", "https://1"), remote("A", "https://1")
	off.Disabled, off.Transport = true, clients.SSE
	other := remote("a", "https://1", clients.KV{Name: "X", Value: clients.Text("1")})
	plan := clients.MakePlan([]clients.Entry{off, on, other}, clients.PlanOptions{LooksLikeKey: fixtureKey})
	if len(plan.Servers) != 2 || len(plan.Servers[0].Sources) != 2 || plan.Servers[0].Disabled || plan.Servers[1].Name != "a-2" {
		t.Errorf("got %+v", plan.Servers)
	}
}

func TestPlanLeavesTheCribOut(t *testing.T) {
	const address = "http://127.0.0.1:8090/v1/mcp"
	for _, c := range []struct {
		entry clients.Entry
		crib  bool
	}{
		{remote("toolcrib", "https://elsewhere"), true},
		{remote("x", address), true},
		{remote("x", address+"/files"), true},
		{remote("x", address+"s"), false},
		{local("x", "/usr/local/bin/toolcrib", "connect"), true},
		{local("x", `C:\Tools\Toolcrib.EXE`, "connect", "--server", "a"), true},
		{local("x", "toolcrib", "serve"), false},
		{local("x", "mytoolcrib", "connect"), false},
		{local("x", "toolcrib"), false},
	} {
		plan := clients.MakePlan([]clients.Entry{c.entry}, clients.PlanOptions{URL: address})
		if (len(plan.Skipped) == 1) != c.crib || (len(plan.Servers) == 0) != c.crib {
			t.Errorf("%v %v %v: skipped %v", c.entry.Name, c.entry.URL, c.entry.Command, plan.Skipped)
		}
	}
}

func TestPlanMovesKeysIntoSecrets(t *testing.T) {
	const key = "key-fixture-1234"
	header := func(name, value string) clients.Entry {
		return remote("my-server", "https://h", clients.KV{Name: name, Value: clients.Text(value)})
	}
	env := func(name, value string) clients.Entry {
		e := local("my-server", "c")
		e.Env = []clients.KV{{Name: name, Value: clients.Text(value)}}
		return e
	}
	for _, c := range []struct {
		entry  clients.Entry
		secret string // name, "" for none
		value  string
		shown  string // what the server has in the end
	}{
		{env("API_KEY", key), "MY_SERVER_API_KEY", key, "env API_KEY <MY_SERVER_API_KEY>"},
		{env("MY_SERVER_TOKEN", key), "MY_SERVER_TOKEN", key, "env MY_SERVER_TOKEN <MY_SERVER_TOKEN>"},
		{env("MODE", "fast"), "", "", `env MODE "fast"`},
		{env("EMPTY", ""), "", "", ""},
		{header("Authorization", "Bearer abc"), "MY_SERVER_TOKEN", "abc", "header Authorization Bearer <MY_SERVER_TOKEN>"},
		{header("authorization", "Basic  abc="), "MY_SERVER_TOKEN", "abc=", "header authorization Basic <MY_SERVER_TOKEN>"},
		{header("Authorization", "abc"), "MY_SERVER_TOKEN", "abc", "header Authorization <MY_SERVER_TOKEN>"},
		{header("X-API-Key", key), "MY_SERVER_API_KEY", key, "header X-API-Key <MY_SERVER_API_KEY>"},
		{header("X-Trace", "on"), "", "", `header X-Trace "on"`},
		{local("my-server", "c", "--api-key", key), "MY_SERVER_API_KEY", key, "arg <MY_SERVER_API_KEY>"},
		{local("my-server", "c", "--api-key="+key), "MY_SERVER_API_KEY", key, `arg "--api-key="<MY_SERVER_API_KEY>`},
		{local("my-server", "c", "-e", "GH_TOKEN="+key), "MY_SERVER_GH_TOKEN", key, `arg "GH_TOKEN="<MY_SERVER_GH_TOKEN>`},
		{local("my-server", "c", "--header", "Authorization: Bearer abc"), "MY_SERVER_TOKEN", "abc", `arg "Authorization: Bearer "<MY_SERVER_TOKEN>`},
		{local("my-server", "c", "--header", "Authorization:$AUTH"), "", "", `arg "Authorization:$AUTH"`},
		{local("my-server", "c", key), "MY_SERVER_KEY", key, "arg <MY_SERVER_KEY>"},
		{local("my-server", "c", "--verbose", "-y"), "", "", `arg "-y"`},
		{local("my-server", "c", "postgres://me:pw@h/db"), "MY_SERVER_PASSWORD", "pw", `arg "postgres://me:"<MY_SERVER_PASSWORD>"@h/db"`},
		{remote("my-server", "https://h/a?b=c&api_key=key-fixture-1%2F2#x"), "MY_SERVER_API_KEY", "key-fixture-1%2F2#x", `url "https://h/a?b=c&api_key="<MY_SERVER_API_KEY>`},
		{remote("my-server", "https://h/"+key+"/sse"), "MY_SERVER_KEY", key, `url "https://h/"<MY_SERVER_KEY>"/sse"`},
		{remote("my-server", "https://h:1"), "", "", `url "https://h:1"`},
		{remote("21st.dev", "https://h/"+key), "MCP_21ST_DEV_KEY", key, `url "https://h/"<MCP_21ST_DEV_KEY>`},
	} {
		plan := clients.MakePlan([]clients.Entry{c.entry}, clients.PlanOptions{LooksLikeKey: fixtureKey})
		var b strings.Builder
		showImported(&b, plan.Servers[0])
		var want []clients.Secret
		if c.secret != "" {
			want = []clients.Secret{{Name: c.secret, Value: c.value}}
		}
		if got := plan.Servers[0].Secrets; fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) || !reflect.DeepEqual(got, want) {
			t.Errorf("secrets of %s: %q", b.String(), got)
		}
		if !strings.Contains(b.String(), c.shown) {
			t.Errorf("got %s\nwant %s", b.String(), c.shown)
		}
	}
}

func TestPlanLeavesOutWhatItCannotResolve(t *testing.T) {
	for _, text := range []string{
		"${workspaceFolder}", "${A:-${B}}", "${A:?hush}", "${A", "key-fixture-${1}", "$${A:-}{x}", "{file:~/hush}",
	} {
		e := local("s", "c")
		v := clients.Text(text)
		if text == "$${A:-}{x}" { // a text only when its reference has become one
			v = clients.Value{{Text: "$"}, {Var: "A", HasDefault: true}, {Text: "{x}"}}
		}
		e.Env = []clients.KV{{Name: "TOKEN", Value: v}, {Name: "MODE", Value: clients.Text("fast")}}
		e.Headers = []clients.KV{{Name: "Authorization", Value: append(clients.Text("Bearer "), v...)}, {Name: "X-Key", Value: v}}
		plan := clients.MakePlan([]clients.Entry{e}, clients.PlanOptions{})
		s := plan.Servers[0]
		if len(s.Env) != 1 || s.Env[0].Name != "MODE" || len(s.Headers) != 0 || len(s.Secrets) != 1 || s.Secrets[0].Value != "fast" {
			t.Errorf("%q: env %v, headers %v", text, s.Env, s.Headers)
		}
		said := strings.Join(s.Problems, "\n")
		for _, want := range []string{
			"variable TOKEN is left out", "write on the page TOKEN: NAME_OF_THE_SECRET", "header Authorization is left out", "header X-Key is left out",
		} {
			if !strings.Contains(said, want) || strings.Contains(said, "hush") {
				t.Errorf("%q: the problems are\n%s", text, said)
			}
		}
	}
}

func TestPlanSkipsWhatWouldRunAnother(t *testing.T) {
	withCwd := local("s", "c")
	withCwd.Cwd = clients.Text("${workspaceFolder}/x")
	for _, c := range []struct {
		entry clients.Entry
		want  string
	}{
		{local("S", "${x.y}"), "the command has a reference that the crib cannot resolve; write out what it stands for: toolcrib add s -e NAME=KEY -- COMMAND"},
		{local("s", "c", "a", "--root=${x.y}"), "argument 2 has a reference"},
		{local("s", "npx", "mcp-remote@1", "https://h", "--header", "A:${A}"), "toolcrib add s URL --header"},
		{withCwd, "cwd has a reference"},
		{remote("s", "https://h/${x.y}"), "the URL has a reference that the crib cannot resolve; write out what it stands for: toolcrib add s URL --header"},
	} {
		plan := clients.MakePlan([]clients.Entry{c.entry}, clients.PlanOptions{})
		if len(plan.Servers) != 0 || len(plan.Skipped) != 1 || !strings.Contains(plan.Skipped[0].Reason, c.want) {
			t.Errorf("%v %v: %+v, want %q", c.entry.Command, c.entry.Args, plan, c.want)
		}
	}
}

func TestPlanKeepsSecretNamesApart(t *testing.T) {
	withEnv := func(name string, kvs ...clients.KV) clients.Entry {
		e := local(name, "c")
		e.Env = kvs
		return e
	}
	a := withEnv("github", clients.KV{Name: "GITHUB_TOKEN", Value: clients.Text("key-fixture-1")}, clients.KV{Name: "TOKEN", Value: clients.Text("key-fixture-2")}, clients.KV{Name: "COPY", Value: clients.Text("key-fixture-1")})
	b := withEnv("other", clients.KV{Name: "X", Value: clients.Variable("GITHUB_TOKEN")})
	plan := clients.MakePlan([]clients.Entry{a, b}, clients.PlanOptions{
		LooksLikeKey: fixtureKey, LookupEnv: lookup(map[string]string{"GITHUB_TOKEN": "another"}),
	})
	// The variable that the second entry means must not be shadowed.
	want := []clients.Secret{{Name: "GITHUB_TOKEN_2", Value: "key-fixture-1"}, {Name: "GITHUB_TOKEN_3", Value: "key-fixture-2"}}
	if !reflect.DeepEqual(plan.Servers[0].Secrets, want) || len(plan.Servers[1].Secrets) != 0 {
		t.Errorf("got %v", plan.Servers)
	}
	if ref, ok := plan.Servers[0].Env[2].Value.Reference(); !ok || ref.Var != "GITHUB_TOKEN_2" {
		t.Errorf("the copy is %v", plan.Servers[0].Env[2])
	}
}

func TestPlanWithoutARuleTakesEveryTextForAKey(t *testing.T) {
	e := local("a", "c", "word")
	e.Env = []clients.KV{{Name: "MODE", Value: clients.Text("fast")}}
	s := clients.MakePlan([]clients.Entry{e}, clients.PlanOptions{}).Servers[0]
	if len(s.Secrets) != 1 || s.Secrets[0].Value != "fast" {
		t.Errorf("got %+v", s.Secrets)
	}
}

func TestSecretsAndTokensDoNotPrint(t *testing.T) {
	for _, v := range []any{clients.Secret{Name: "N", Value: "hush"}, clients.Registration{Name: "n", Token: "hush"}} {
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			if got := fmt.Sprintf(format, v); strings.Contains(got, "hush") {
				t.Errorf("%s prints %s", format, got)
			}
		}
	}
}
