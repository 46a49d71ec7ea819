package pgserver

import (
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// command returns a command that ends with the thread that starts it. The programs of PostgreSQL
// refuse to run as root, so root runs them as another user.
func command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...) //nolint:noctx // it outlives the call that starts it
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if uid, gid := account(); uid != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	}
	return cmd
}

// detached returns a command that no signal to this process, or to its group, reaches.
func detached(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...) //nolint:noctx // it outlives this process
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// GiveAway makes a directory that of the user who runs the programs.
func GiveAway(dir string) error {
	if uid, gid := account(); uid != 0 {
		return os.Chown(dir, int(uid), int(gid))
	}
	return nil
}

// account returns the user who runs the programs for root, and 0 if this is not root.
func account() (uid, gid uint32) {
	if os.Geteuid() != 0 {
		return 0, 0
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		id, err := strconv.ParseUint(u.Uid, 10, 32)
		group, groupErr := strconv.ParseUint(u.Gid, 10, 32)
		if err == nil && groupErr == nil && id != 0 {
			return uint32(id), uint32(group)
		}
	}
	return 65534, 65534
}
