package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a part that runs.
type process struct {
	cmd   *exec.Cmd
	addr  string // where it serves
	stats string // where it tells of itself
}

// spawn starts a part of this program and waits until it serves.
func spawn(args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self, args...)}
	out, in := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = in, in
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	ready := make(chan error, 1)
	go func() {
		said := bufio.NewScanner(out)
		var last []string
		for said.Scan() {
			line := said.Text()
			last = append(last, line)
			if a, ok := strings.CutPrefix(line, "stats "); ok {
				p.stats = a
			}
			if a := servingAt.FindStringSubmatch(line); a != nil && p.addr == "" {
				p.addr = a[1]
				ready <- nil
			}
		}
		ready <- errors.New(strings.Join(last, "\n"))
	}()
	go func() {
		p.cmd.Wait() //nolint:errcheck // it is ended by us, or its output says why
		in.Close()   //nolint:errcheck // likewise
	}()
	select {
	case err := <-ready:
		if err != nil {
			return nil, fmt.Errorf("%s did not start: %w", args[0], err)
		}
	case <-time.After(20 * time.Second):
		p.stop()
		return nil, fmt.Errorf("%s did not start in time", args[0])
	}
	return p, nil
}

var servingAt = regexp.MustCompile(`(?:^serving |msg=serving address=)(127\.0\.0\.1:\d+)`)

func (p *process) stop() {
	p.cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it may be gone
}

type usage struct {
	stats
	cpu      time.Duration // user and system, of the process without children
	resident float64       // MiB
}

func (p *process) usage() (u usage, err error) {
	resp, err := http.Get("http://" + p.stats + "/stats")
	if err != nil {
		return u, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&u.stats); err != nil {
		return u, err
	}
	if u.cpu, err = cpuOf(p.cmd.Process.Pid); err != nil {
		return u, err
	}
	u.resident, err = residentOf(p.cmd.Process.Pid)
	return u, err
}

// residentOf is the resident memory of a process in MiB.
func residentOf(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0, errors.New("statm cannot be read")
	}
	pages, err := strconv.ParseFloat(fields[1], 64)
	return pages * float64(os.Getpagesize()) / (1 << 20), err
}

// The targets.
const (
	direct = "direct"
	proxy  = "reverse proxy"
	one    = "crib, /v1/mcp/{server}"
	all    = "crib, /v1/mcp"
)

// bench is everything that runs.
type bench struct {
	folder string
	parts  []*process
	up     *process
	crib   *process
	proxy  *process
	token  string
}

func start() (b *bench, err error) {
	b = new(bench)
	defer func() {
		if err != nil {
			b.stop()
		}
	}()
	if b.folder, err = os.MkdirTemp("", "toolcrib-bench-"); err != nil {
		return b, err
	}
	if b.up, err = b.spawn("upstream"); err != nil {
		return b, err
	}
	if b.proxy, err = b.spawn("proxy", "http://"+b.up.addr); err != nil {
		return b, err
	}
	workspace, data := filepath.Join(b.folder, "workspace"), filepath.Join(b.folder, "data")
	if err := os.MkdirAll(filepath.Join(workspace, "mcp"), 0o700); err != nil {
		return b, err
	}
	for _, era := range []string{"modern", "legacy"} {
		page := fmt.Sprintf("---\nmcp:\n  transport: { http: \"http://%s/%s\" }\n  gate: { echo: allow }\n---\n", b.up.addr, era)
		if err := os.WriteFile(filepath.Join(workspace, "mcp", era+".md"), []byte(page), 0o600); err != nil {
			return b, err
		}
	}
	if b.crib, err = b.spawn("crib", "-workspace", workspace, "-data", data); err != nil {
		return b, err
	}
	token, err := os.ReadFile(filepath.Join(data, "local.token"))
	b.token = strings.TrimSpace(string(token))
	return b, err
}

func (b *bench) spawn(args ...string) (*process, error) {
	p, err := spawn(args...)
	if err == nil {
		b.parts = append(b.parts, p)
	}
	return p, err
}

func (b *bench) stop() {
	for _, p := range b.parts {
		p.stop()
	}
	os.RemoveAll(b.folder) //nolint:errcheck // in the temporary folder
}

func (b *bench) targets(era pairing) []target {
	return []target{
		{direct, "http://" + b.up.addr + "/" + era.client, "", "echo", b.up},
		{proxy, "http://" + b.proxy.addr + "/" + era.client, "", "echo", b.proxy},
		{one, "http://" + b.crib.addr + "/v1/mcp/" + era.server, b.token, "echo", b.crib},
		{all, "http://" + b.crib.addr + "/v1/mcp", b.token, era.server + "__echo", b.crib},
	}
}

// profileCrib writes a profile of the crib under load.
func (b *bench) profileCrib(era pairing, prefix string) error {
	l, err := open(b.targets(era)[2], era.client, gatedConcurrency)
	if err != nil {
		return err
	}
	defer l.close()
	done := make(chan error, 1)
	go func() {
		resp, err := http.Get("http://" + b.crib.stats + "/debug/pprof/profile?seconds=5")
		if err != nil {
			done <- err
			return
		}
		defer resp.Body.Close()
		f, err := os.Create(prefix + "-" + era.String() + ".pb.gz")
		if err == nil {
			_, err = io.Copy(f, resp.Body)
			err = errors.Join(err, f.Close())
		}
		done <- err
	}()
	for {
		select {
		case err := <-done:
			return err
		default:
		}
		if _, err := l.drive(2000); err != nil {
			return err
		}
	}
}
