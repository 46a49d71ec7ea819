package pgserver

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Suspend stops processes until [Resume]: they do nothing, and keep their connections.
// Processes that have ended are left out.
func Suspend(pids ...int) error { return signal(syscall.SIGSTOP, pids) }

// Resume continues suspended processes.
func Resume(pids ...int) error { return signal(syscall.SIGCONT, pids) }

func signal(sig syscall.Signal, pids []int) (err error) {
	for _, pid := range pids {
		if failed := syscall.Kill(pid, sig); failed != syscall.ESRCH {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// PIDs returns the process id of the server and those of its children.
func (s *Server) PIDs() []int {
	pids := []int{s.PID()}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it ended meanwhile
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(after) // the state, the parent, see proc(5)
		if len(fields) > 1 && fields[1] == strconv.Itoa(s.PID()) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// removeMemory removes the shared memory of a server that was killed: it is named in the lock file,
// see postmaster.pid in the documentation of PostgreSQL.
func (s *Server) removeMemory() {
	text, err := os.ReadFile(filepath.Join(s.data, "postmaster.pid"))
	lines := strings.Split(string(text), "\n")
	if err != nil || len(lines) < 7 {
		return // it ended orderly
	}
	_, last, _ := strings.Cut(strings.TrimSpace(lines[6]), " ") // after the key
	if id, err := strconv.Atoi(strings.TrimSpace(last)); err == nil {
		_, _, _ = syscall.Syscall(syscall.SYS_SHMCTL, uintptr(id), 0, 0) // IPC_RMID
	}
}
