// Command eyelet receives webhooks: it verifies the sender of an event, accepts the event once,
// stores it before it acknowledges it, and runs its handlers until there is an outcome.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := notifyContext()
	p := &program{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ()}
	code := p.Run(ctx, os.Args[1:]...)
	stop()
	os.Exit(code)
}

// sameHangup is how long a second SIGHUP counts as the first: the shell of a closed terminal
// forwards its own, and the kernel sends another when the shell ends.
const sameHangup = 250 * time.Millisecond

// notifyContext returns a context that the first SIGINT, SIGTERM or SIGHUP cancels. A second
// signal kills the process. An ignored SIGHUP, as under nohup, stays ignored.
func notifyContext() (context.Context, context.CancelFunc) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		first := <-signals
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
