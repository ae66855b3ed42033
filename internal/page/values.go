package page

import (
	"regexp"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/secret"
)

// readHeaders reads header names and their values.
func readHeaders(d *Decoder, n Node, b *Block) {
	b.Headers = readValues(d, n, "headers", CheckHeaderName, "Authorization: GH_TOKEN")
	CheckTwice(d, b.Headers)
}

// CheckTwice adds a fault for each header that is there twice. list is sorted.
func CheckTwice(d *Decoder, list []NamedTemplate) {
	for i, h := range list {
		if i > 0 && strings.EqualFold(h.Name, list[i-1].Name) {
			d.Errorf(h.At, "header %s is here twice; upper and lower case are the same in header names", Clip(h.Name))
		}
	}
}

func readEnv(d *Decoder, n Node, b *Block) {
	b.Env = readValues(d, n, "env", CheckEnvName, "API_KEY: EXAMPLE_KEY")
}

func readValues(d *Decoder, n Node, what string, checkName func(string) error, example string) []NamedTemplate {
	if n.Kind != Mapping {
		d.Errorf(n.At, "%s is %s; a mapping of names to values was expected, such as { %s }", what, n.Kind, example)
		return nil
	}
	var list []NamedTemplate
	for _, m := range n.Members {
		if err := checkName(m.Key); err != nil {
			d.Errorf(m.At, "%s: %s", what, err)
			continue
		}
		if t, ok := readValue(d, m); ok {
			list = append(list, NamedTemplate{Name: m.Key, Value: t, At: m.At})
		}
	}
	slices.SortFunc(list, func(a, b NamedTemplate) int {
		return strings.Compare(strings.ToLower(a.Name)+"\x00"+a.Name, strings.ToLower(b.Name)+"\x00"+b.Name)
	})
	return list
}

// SortValues sorts by name, so that names that differ only by case are
// neighbours.
func SortValues(list []NamedTemplate) {
	slices.SortStableFunc(list, func(a, b NamedTemplate) int { return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) })
}

// readValue reads the value of a header or variable in the notation of pages.
func readValue(d *Decoder, m Member) (secret.Template, bool) {
	switch m.Value.Kind {
	case Text:
		t, err := secret.ParsePageValue(m.Value.Text)
		if err != nil {
			d.Errorf(m.Value.At, "%s: %s", Clip(m.Key), err)
			return secret.Template{}, false
		}
		warnKey(d, m, t)
		return t, true
	case Mapping:
		return readLiteral(d, m)
	}
	d.Errorf(m.Value.At, "%s is %s: write the NAME of a secret in capitals, or { value: \"…\" } for text that is no secret", Clip(m.Key), m.Value.Kind)
	return secret.Template{}, false
}

// readLiteral reads { value: … }.
func readLiteral(d *Decoder, m Member) (secret.Template, bool) {
	v, ok := m.Value.Get("value")
	if !ok || len(m.Value.Members) != 1 {
		d.Errorf(m.Value.At, "%s: { value: … } with nothing else in it was expected", Clip(m.Key))
		return secret.Template{}, false
	}
	text, ok := d.ReadScalar(v, Clip(m.Key))
	if !ok {
		return secret.Template{}, false
	}
	if strings.Contains(text, "${") {
		d.Warnf(v.At, "%s: nothing is expanded in { value: … }; for a secret, write the text without value:", Clip(m.Key))
	}
	t := secret.Literal(text)
	warnKey(d, m, t)
	return t, true
}

func warnKey(d *Decoder, m Member, t secret.Template) {
	if t.HoldsKey(m.Key) {
		name := secret.SuggestName(m.Key)
		d.Warnf(m.Value.At, "%s looks like a key, readable for everybody who reads this page: move it into a store, "+
			"in the workspace folder with (umask 077; printf %%s '…' > secrets/%s), and write %s here", Clip(m.Key), name, name)
	}
}

// ownHeaders are the headers that the crib sets itself, in lower case.
var ownHeaders = []string{"accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect", "host",
	"keep-alive", "last-event-id", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// CheckHeaderName reports, as an Invalid error, why a server cannot be given
// the header called name (RFC 9110, section 5.1; MCP's own Mcp-* headers).
func CheckHeaderName(name string) error {
	lower := strings.ToLower(name)
	switch {
	case !headerName.MatchString(name):
		return crib.Errorf(crib.Invalid, "%q is not the name of a header", Clip(name))
	case slices.Contains(ownHeaders, lower) || strings.HasPrefix(lower, "mcp-"):
		return crib.Errorf(crib.Invalid, "header %s is set by the crib itself; take it out", Clip(name))
	}
	return nil
}

// loaderVariables make a program load code or run a command that its command
// line does not name. They are in upper case; one that ends in "*" is the
// beginning of many.
var loaderVariables = []string{
	"PATH", "PATHEXT", "COMSPEC", "SHELL", "IFS",
	"LD_*", "DYLD_*", "GCONV_PATH", "GETCONF_DIR", "LOCPATH", "MALLOC_*", "GLIBC_TUNABLES",
	"BASH_ENV", "BASH_FUNC_*", "BASHOPTS", "SHELLOPTS", "ENV", "ZDOTDIR", "PROMPT_COMMAND", "PS4",
	"NODE_OPTIONS", "NODE_PATH", "NODE_REPL_EXTERNAL_MODULE", "BUN_OPTIONS",
	"PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONINSPECT", "PYTHONBREAKPOINT", "PYTHONWARNINGS", "PYTHONEXECUTABLE", "PYTHONPLATLIBDIR",
	"PERL5OPT", "PERL5LIB", "PERLLIB", "PERL5DB", "RUBYOPT", "RUBYLIB", "GEM_PATH", "GEM_HOME", "BUNDLE_GEMFILE",
	"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "JAVA_OPTS", "CLASSPATH",
	"DOTNET_STARTUP_HOOKS", "DOTNET_ADDITIONAL_DEPS", "CORECLR_*", "COR_*", "COMPLUS_*",
	"LUA_PATH*", "LUA_CPATH*", "LUA_INIT*", "PHPRC", "PHP_INI_SCAN_DIR", "R_PROFILE*", "JULIA_LOAD_PATH",
	"GIT_SSH*", "GIT_EXEC_PATH", "GIT_EXTERNAL_DIFF", "GIT_ASKPASS", "GIT_CONFIG*", "GIT_PROXY_COMMAND", "SSH_ASKPASS",
	"EDITOR", "VISUAL", "PAGER", "BROWSER", "LESSOPEN", "LESSCLOSE",
	"OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES",
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// CheckEnvName reports, as an Invalid error, why a command cannot be given the
// variable called name. Variables that make a program load other code are
// refused: whoever may write a value must not be able to choose the program.
func CheckEnvName(name string) error {
	if !envName.MatchString(name) {
		return crib.Errorf(crib.Invalid, "%q is not the name of a variable: use letters, digits and _", Clip(name))
	}
	upper := strings.ToUpper(name) // Windows does not tell upper and lower case apart
	for _, v := range loaderVariables {
		if prefix, many := strings.CutSuffix(v, "*"); upper == v || many && strings.HasPrefix(upper, prefix) {
			return crib.Errorf(crib.Invalid, "variable %s may not be set here, because it can make the program run other code; take it out", name)
		}
	}
	return nil
}

// ownVariables is the beginning of the crib's own settings.
const ownVariables = "TOOLCRIB_"

// checkInherited is CheckEnvName for what the crib hands on of its own
// environment: there the values are the owner's, but the crib's own settings
// stay with it.
func checkInherited(name string) error {
	if !envName.MatchString(name) {
		return crib.Errorf(crib.Invalid, "%q is not the name of a variable: use letters, digits and _", Clip(name))
	}
	if strings.HasPrefix(strings.ToUpper(name), ownVariables) {
		return crib.Errorf(crib.Invalid, "%s is the crib's own and is not handed on", name)
	}
	return nil
}
