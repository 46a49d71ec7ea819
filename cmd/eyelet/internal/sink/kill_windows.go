package sink

import (
	"os/exec"
	"strconv"
)

// taskkill is the program of Windows that ends a process, and with /T its children. It is in the
// system directory, which PATH contains.
const taskkill = "taskkill"

// killWithChildren lets the timeout kill the program and its children, which would keep its outputs
// open. Windows has no process groups to kill: taskkill finds the children by their parents, and
// misses those whose parent has ended. If taskkill fails, the program alone is killed.
//
// It was never run: there is no Windows among the machines of the tests.
func killWithChildren(cmd *exec.Cmd) {
	cmd.Cancel = func() error {
		pid := strconv.Itoa(cmd.Process.Pid)
		if err := exec.Command(taskkill, "/T", "/F", "/PID", pid).Run(); err != nil { //nolint:gosec // our own child
			return cmd.Process.Kill()
		}
		return nil
	}
}
