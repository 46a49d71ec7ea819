// Command eyelet receives webhooks: it verifies who sent an event, accepts it once, keeps it on disk before
// saying so, and hands it to handlers until it has an outcome.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the process at once
	p := &program{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ()}
	code := p.Run(ctx, os.Args[1:]...)
	stop()
	os.Exit(code)
}
