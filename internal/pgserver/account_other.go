//go:build !linux

package pgserver

import "os/exec"

func command(program string, args ...string) *exec.Cmd {
	return exec.Command(program, args...) //nolint:noctx // it outlives the call that starts it
}

func detached(program string, args ...string) *exec.Cmd { return command(program, args...) }

// GiveAway does nothing: only root has to give directories away.
func GiveAway(string) error { return nil }
