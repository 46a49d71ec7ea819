// Package receiver turns verified deliveries into calls of your handlers: requests in, outcomes out.
//
// Most programs need two functions: [Open] a [Config] with a store, producers and handlers, and mount
// [Receiver.HTTP] (or echov4.Mount).
package receiver

import (
	"context"
	"log/slog"
	"net/http"
)

// Receiver accepts deliveries and runs handlers.
type Receiver struct {
	cfg     Config // with its defaults
	book    *book
	log     *slog.Logger
	workers *dispatcher // nil until startWorkers
}

// Open checks the configuration, reporting every mistake at once, resumes what a crash left behind, and starts
// the workers. The receiver must be closed.
func Open(c Config) (*Receiver, error) { panic("not built yet") }

// HTTP returns the endpoint of the named producer. It panics for an unknown name: that is a wiring mistake.
func (rx *Receiver) HTTP(name string) http.Handler { panic("not built yet") }

// Handler serves all endpoints at /webhooks/NAME and the policy at /policy.
func (rx *Receiver) Handler() http.Handler { panic("not built yet") }

// Policy serves the page that both drafts demand: what this receiver expects and answers.
func (rx *Receiver) Policy() http.Handler { panic("not built yet") }

// Ready returns nil while deliveries are accepted, else why not, for a readiness probe.
func (rx *Receiver) Ready(ctx context.Context) error { panic("not built yet") }

// Shutdown stops accepting (503), waits for answers and running tasks until ctx ends, and stops the workers.
// What is left runs after the next start.
func (rx *Receiver) Shutdown(ctx context.Context) error { panic("not built yet") }

// Close is Shutdown with the default drain time of 30 seconds.
func (rx *Receiver) Close() error { panic("not built yet") }
