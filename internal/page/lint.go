package page

import (
	"path"
	"slices"
	"strings"
)

// runner is a program that fetches what it runs.
type runner struct {
	words  []string // how it is called, such as npm exec
	valued []string // options that take the next argument as their value
	from   []string // of these, the ones whose value is the package
	fixed  func(pkg string) bool
	advice string
}

// dockerValued are the options of docker run that are commonly used and take a
// value.
var dockerValued = []string{"-a", "--add-host", "--cap-add", "--cap-drop", "--cpus", "--device", "--dns", "-e", "--entrypoint", "--env", "--env-file",
	"--gpus", "-h", "--hostname", "-l", "--label", "--log-driver", "-m", "--memory", "--mount", "--name", "--net", "--network", "-p", "--platform",
	"--publish", "--pull", "--restart", "--security-opt", "--shm-size", "--tmpfs", "-u", "--ulimit", "--user", "-v", "--volume", "-w", "--workdir"}

var (
	npxValued  = []string{"-p", "--package", "-w", "--workspace", "--registry", "--cache"}
	npxPackage = []string{"-p", "--package"}
	uvxValued  = []string{"--from", "--with", "--python", "-p", "--index", "--default-index", "--index-url", "--extra-index-url", "--directory", "--env-file", "--cache-dir"}
)

var runners = []runner{
	{[]string{"npx"}, npxValued, npxPackage, npmFixed, "pkg@1.2.3"},
	{[]string{"npm", "exec"}, npxValued, npxPackage, npmFixed, "pkg@1.2.3"},
	{[]string{"pnpx"}, npxValued, npxPackage, npmFixed, "pkg@1.2.3"},
	{[]string{"pnpm", "dlx"}, npxValued, npxPackage, npmFixed, "pkg@1.2.3"},
	{[]string{"yarn", "dlx"}, npxValued, npxPackage, npmFixed, "pkg@1.2.3"},
	{[]string{"bunx"}, npxValued, npxPackage, npmFixed, "pkg@1.2.3"},
	{[]string{"bun", "x"}, npxValued, npxPackage, npmFixed, "pkg@1.2.3"},
	{[]string{"uvx"}, uvxValued, []string{"--from"}, pythonFixed, "pkg==1.2.3"},
	{[]string{"uv", "tool", "run"}, uvxValued, []string{"--from"}, pythonFixed, "pkg==1.2.3"},
	{[]string{"pipx", "run"}, []string{"--spec", "--python"}, []string{"--spec"}, pythonFixed, "--spec pkg==1.2.3"},
	{[]string{"docker", "run"}, dockerValued, nil, imageFixed, "image:1.2.3 or image@sha256:…"},
	{[]string{"podman", "run"}, dockerValued, nil, imageFixed, "image:1.2.3 or image@sha256:…"},
}

// warnUnpinned warns of a command that runs whatever is newest on the day.
func warnUnpinned(d *Decoder, at Place, command []string) {
	if len(command) == 0 {
		return
	}
	program := strings.ToLower(path.Base(strings.ReplaceAll(command[0], `\`, "/")))
	for _, ext := range []string{".exe", ".cmd", ".bat"} {
		program = strings.TrimSuffix(program, ext)
	}
	words := append([]string{program}, command[1:]...)
	for _, r := range runners {
		if len(words) < len(r.words) || !slices.Equal(words[:len(r.words)], r.words) {
			continue
		}
		if pkg := r.fetched(words[len(r.words):]); pkg != "" && !r.fixed(pkg) {
			d.Warnf(at, "%s runs whatever version of %s is newest, so it can change under your feet: name a version, %s", strings.Join(r.words, " "), Clip(pkg), r.advice)
		}
		return
	}
}

// fetched returns the package or image that args make r fetch, or "".
func (r runner) fetched(args []string) string {
	pkg := ""
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			continue
		}
		if !strings.HasPrefix(arg, "-") {
			if pkg == "" {
				pkg = arg
			}
			break
		}
		name, value, inline := strings.Cut(arg, "=")
		if !slices.Contains(r.valued, name) {
			continue
		}
		if !inline {
			i++
			if i < len(args) {
				value = args[i]
			}
		}
		if slices.Contains(r.from, name) && pkg == "" {
			pkg = value
		}
	}
	return pkg
}

// local reports whether pkg is a folder or an address, which have no version.
func local(pkg string) bool {
	return strings.ContainsAny(pkg[:1], "./~") || strings.Contains(pkg, "://") || strings.HasPrefix(pkg, "file:") || strings.Contains(pkg, `\`)
}

func npmFixed(pkg string) bool {
	at := strings.LastIndexByte(pkg, '@')
	return local(pkg) || at > 0 && startsWithDigit(pkg[at+1:])
}

func pythonFixed(pkg string) bool {
	if _, version, ok := strings.Cut(pkg, "=="); ok {
		return startsWithDigit(version)
	}
	_, version, _ := strings.Cut(pkg, "@")
	return local(pkg) || startsWithDigit(version) || strings.Contains(version, "://")
}

func imageFixed(image string) bool {
	if strings.Contains(image, "@sha256:") {
		return true
	}
	_, tag, ok := strings.Cut(path.Base(image), ":")
	return ok && tag != "latest"
}

func startsWithDigit(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }
