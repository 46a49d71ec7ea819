// Command eyelet receives webhooks: it verifies the sender of an event, accepts the event once,
// stores it before it acknowledges it, and runs its handlers until there is an outcome.
package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"
)

func main() {
	hangups := newHangups()
	ctx, stop := notifyContext(hangups)
	p := &program{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ(), OnHangup: hangups.set}
	code := p.Run(ctx, os.Args[1:]...)
	stop()
	os.Exit(code)
}

// Run runs the command of the arguments until it ends or ctx does, and returns the exit code.
func (p *program) Run(ctx context.Context, args ...string) int {
	args, err := currentNames(args)
	if err == nil {
		root := p.command() //nolint:contextcheck // commands get theirs when they run
		root.SetArgs(args)
		root.SetIn(p.In)
		root.SetOut(p.Out)
		root.SetErr(p.Err)
		err = root.ExecuteContext(ctx)
	}
	return p.explain(err)
}

// sameHangup is how long a second SIGHUP counts as the first: the shell of a closed terminal
// forwards its own, and the kernel sends another when the shell ends.
const sameHangup = 250 * time.Millisecond

// notifyContext returns a context that the first SIGINT, SIGTERM or SIGHUP cancels. A second
// signal kills the process. A SIGHUP may reload the configuration instead. An ignored one, as under
// nohup, stays ignored.
func notifyContext(hangups *hangups) (context.Context, context.CancelFunc) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		first := <-signals
		for first == syscall.SIGHUP && hangups.reload() {
			first = <-signals
		}
		cancel()
		if first == syscall.SIGHUP {
			signal.Reset(os.Interrupt, syscall.SIGTERM)
			time.Sleep(sameHangup)
		}
		signal.Stop(signals)
	}()
	return ctx, cancel
}

// ignoreSIGPIPE turns writes to a closed standard output or error into errors. It is for commands
// that have something to finish; SIGPIPE ends the others.
func ignoreSIGPIPE() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// hangups decides what a SIGHUP means. It reloads the configuration of a server. A server that a
// terminal has as its standard input, or that has lost its controlling terminal, stops instead:
// its user has closed the window.
type hangups struct {
	input, controlled bool // at the start: standard input is a terminal, and there is a controlling one

	mu     sync.Mutex
	server func() // reloads the configuration; nil if no server runs
}

func newHangups() *hangups {
	return &hangups{input: term.IsTerminal(int(os.Stdin.Fd())), controlled: hasTerminal()}
}

// hasTerminal reports whether the process has a controlling terminal.
func hasTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// set makes reload what a SIGHUP does; nil stops the program.
func (h *hangups) set(reload func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.server = reload
}

// reload begins a reload, and reports whether the SIGHUP means one.
func (h *hangups) reload() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.server == nil || h.input || h.controlled && !hasTerminal() {
		return false
	}
	go h.server()
	return true
}
