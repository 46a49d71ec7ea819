// Command eyelet receives webhooks: it verifies who sent an event, accepts it once, keeps it on disk before
// saying so, and hands it to handlers until it has an outcome.
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

// sameHangup is how long a further SIGHUP is taken for the one that came already: the shell of a terminal that is
// closed passes its own on, and the kernel sends another when the shell ends.
const sameHangup = 250 * time.Millisecond

// notifyContext returns a context that ends with the first signal to stop. The second one ends the process at once. SIGHUP
// is left alone where it is ignored, as by nohup.
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

// ignoreSIGPIPE makes a write to a standard output or error whose reader is gone an error, where it ends a process
// without a word (SIGPIPE). It is for commands that have something to finish; others end as programs in a pipe do.
func ignoreSIGPIPE() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
