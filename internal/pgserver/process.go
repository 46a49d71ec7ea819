package pgserver

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Process is a running server.
type Process struct {
	cmd   *exec.Cmd
	log   string
	ended chan struct{}
}

// Launch starts a server that ends with this process. Its output goes to a file in dir.
func Launch(dir, program string, args ...string) (*Process, error) {
	log, err := os.Create(filepath.Join(dir, filepath.Base(program)+".log"))
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: command(program, args...), log: log.Name(), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	started := make(chan error)
	go func() {
		// The server ends with the thread that started it: see PR_SET_PDEATHSIG in prctl(2).
		runtime.LockOSThread()
		defer close(p.ended)
		err := p.cmd.Start()
		_ = log.Close()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Stop ends the server: at once if it does not end orderly.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.kill()
	}
}

// kill ends the server like a crash.
func (p *Process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// output returns what the server wrote.
func (p *Process) output() []byte {
	out, _ := os.ReadFile(p.log)
	return out
}
