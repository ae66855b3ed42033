package peers

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Nothing is sent anywhere by itself. The demo runs, from start to end, in a
// network of its own whose only way out is an interface that counts: not one
// packet may take it, not even one that asks for a name.
func TestNothingLeavesTheMachine(t *testing.T) {
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		missing(t, "Linux with root, for a network of its own,")
	}
	p := newPerson(t)
	p.env = append(p.env, "PATH="+only(t, "sh", "bash", "ip", "unshare")) // no npx: fetching a server is npx's to do
	out, err := p.run(filepath.Join(strings.TrimPrefix(p.env[len(p.env)-1], "PATH="), "unshare"), "--net", "sh", "-c", `set -e
ip link set lo up
ip link add out0 type veth peer name away0
for i in out0 away0; do echo 1 > /proc/sys/net/ipv6/conf/$i/disable_ipv6 2>/dev/null || true; ip link set $i up; done
ip addr add 192.0.2.2/24 dev out0
ip route add default via 192.0.2.1 dev out0
ip neigh add 192.0.2.1 lladdr 02:00:00:00:00:01 dev out0
sent() { while read -r name _ _ _ _ _ _ _ _ _ packets _; do if [ "$name" = out0: ]; then echo "$packets"; fi; done </proc/net/dev; }
before=$(sent)
"$0" demo --once
after=$(sent)
echo "left: $((after - before))"
# The count counts: a packet that is sent shows.
bash -c 'echo x > /dev/udp/192.0.2.1/9'
echo "control: $(($(sent) - after))"`, p.bin)
	if err != nil {
		if strings.Contains(out, "Operation not permitted") {
			missing(t, "leave to make a network of its own")
		}
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(out, "left: 0\n") || strings.Contains(out, "control: 0\n") {
		t.Errorf("something was sent, or the count does not count:\n%s", out)
	}
}

// only makes a folder with links to some commands, to be the whole PATH.
func only(t *testing.T, commands ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range commands {
		path, err := exec.LookPath(name)
		if err != nil {
			if path, err = exec.LookPath("/usr/sbin/" + name); err != nil {
				missing(t, name)
			}
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
