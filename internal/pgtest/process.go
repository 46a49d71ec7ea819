package pgtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// process is a running server.
type process struct {
	cmd   *exec.Cmd
	log   string
	ended chan struct{}
}

// launch starts a server that ends with this process. Its output goes to a file in dir.
func launch(dir, program string, args ...string) (*process, error) {
	log, err := os.Create(filepath.Join(dir, filepath.Base(program)+".log"))
	if err != nil {
		return nil, err
	}
	p := &process{cmd: command(program, args...), log: log.Name(), ended: make(chan struct{})}
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

// stop ends the server: at once if it does not end orderly.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-p.ended:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// output returns what the server wrote.
func (p *process) output() []byte {
	out, _ := os.ReadFile(p.log)
	return out
}
