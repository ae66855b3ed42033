package child

import (
	"os"
	"os/exec"
)

func escape(*exec.Cmd) {}

func killSelf() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		p.Kill()
	}
}
