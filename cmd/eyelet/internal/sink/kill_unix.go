//go:build unix

package sink

import (
	"os/exec"
	"syscall"
)

// killWithChildren gives the program a process group of its own, so that the timeout kills its
// children too. They would keep its outputs open, and work on an event that is tried again.
//
// The group is not that of the terminal: an interrupt from there ends eyelet, which then waits for
// the programs that run.
//
// https://pubs.opengroup.org/onlinepubs/9799919799/functions/setpgid.html
func killWithChildren(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
