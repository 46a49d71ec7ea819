//go:build linux

package faultdisk

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// program builds the program that serves disks, which is in a module of its own, and returns its
// path. The file is deleted: it exists as long as this process has it open, in built.
var program = sync.OnceValues(func() (string, error) {
	source, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for !isModule(filepath.Join(source, "faultdisk")) { // from a package below badgerstore
		if source == filepath.Dir(source) {
			return "", errors.New("the module of faultdisk is not here")
		}
		source = filepath.Dir(source)
	}
	dir, err := os.MkdirTemp("", "eyelet-faultdisk-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "faultdisk")
	if _, err := run("go", "build", "-C", filepath.Join(source, "faultdisk"), "-o", path, "."); err != nil {
		return "", err
	}
	if built, err = os.Open(path); err != nil {
		return "", err
	}
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), built.Fd()), nil
})

var built *os.File

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// server is the process that serves a disk or a file system.
type server struct {
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// startServer starts the program of the disk with its arguments.
func startServer(args ...string) (*server, error) {
	path, err := program()
	if err != nil {
		return nil, err
	}
	process := exec.CommandContext(context.Background(), path, args...)
	process.Stderr = os.Stderr
	in, err1 := process.StdinPipe()
	out, err2 := process.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	s := &server{process, in, bufio.NewReader(out)}
	if line, err := s.out.ReadString('\n'); line != "ready\n" {
		s.close()
		return nil, fmt.Errorf("the server does not start: %q %w", line, err)
	}
	return s, nil
}

// ask sends a command with its arguments and returns the reply.
func (s *server) ask(command ...any) (string, error) {
	if _, err := fmt.Fprintln(s.in, command...); err != nil {
		return "", err
	}
	line, err := s.out.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\n")
	if problem, ok := strings.CutPrefix(line, "error "); ok {
		return "", fmt.Errorf("faultdisk: %v: %s", command, problem)
	}
	return line, nil
}

// send sends a command that has no reply.
func (s *server) send(command ...any) error {
	_, err := s.ask(command...)
	return err
}

// close ends the process. It ignores errors, because the test is over.
func (s *server) close() {
	_ = s.in.Close()
	_ = s.process.Wait()
}
