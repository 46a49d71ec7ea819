// Package eyelet receives webhooks with one import: [Open] a receiver with producers and
// handlers, and [Run] it.
//
//	rx, err := eyelet.Open("data", eyelet.GitHub(secret), eyelet.On("github", "push", onPush))
//	if err == nil {
//		err = eyelet.Run(ctx, "127.0.0.1:8080", rx)
//	}
//
// Each event is verified, stored on disk before it is acknowledged, and handled until it has an
// outcome. The endpoints are /webhooks/NAME, the policy is at /policy.
//
// The package only combines others. Larger programs use them directly: package receiver for
// handlers and their errors, producer and producer/preset for senders, dedup/badgerstore for the
// store. A [Part] changes any field of receiver.Config, and a [Receiver] mounts in a program that
// has an HTTP server of its own.
package eyelet

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/metrics"
)

// peersFile is the file beside the store with the networks that recently sent new events.
const peersFile = "peers.json"

// Event is an event as handlers get it.
type Event[T any] = receiver.Event[T]

// Response is what the function of [Answer] returns.
type Response = receiver.Response

// Part is a part of a receiver's configuration, such as a producer or a handler. A function of
// your own sets any other field:
//
//	eyelet.Part(func(c *receiver.Config) { c.Attempts = 5 })
type Part func(*receiver.Config)

// On handles events in the background: an event is stored and acknowledged, and fn then runs until
// it succeeds, rejects the event or has no attempts left. The pattern is a type, "prefix*" or "*".
// See receiver.On.
func On[T any](producer, pattern string, fn func(context.Context, Event[T]) error) Part {
	return Handle(receiver.On(producer, pattern, fn))
}

// Answer handles events while the producer waits: the result of fn is the response, which is
// stored and repeated to duplicates. See receiver.Answer.
func Answer[T any](producer, pattern string, fn func(context.Context, Event[T]) (Response, error)) Part {
	return Handle(receiver.Answer(producer, pattern, fn))
}

// Handle adds a handler with options of its own, such as a lane.
func Handle(h receiver.Handler) Part {
	return func(c *receiver.Config) { c.Handlers = append(c.Handlers, h) }
}

// From adds a producer. Package producer/preset describes vendors, and producer.Signed makes a
// producer of your own.
func From(p producer.Producer) Part {
	return func(c *receiver.Config) { c.Producers = append(c.Producers, p) }
}

// GitHub adds the producer "github". Any of the secrets may match.
func GitHub(secrets ...string) Part { return From(preset.GitHub(secrets...)) }

// GitLab adds the producer "gitlab", whose webhooks send a secret token.
func GitLab(tokens ...string) Part { return From(preset.With("gitlab", tokens...)) }

// Shopify adds the producer "shopify".
func Shopify(secrets ...string) Part { return From(preset.With("shopify", secrets...)) }

// Slack adds the producer "slack", with its signing secrets.
func Slack(secrets ...string) Part { return From(preset.Slack(secrets...)) }

// StandardWebhooks adds the producer "standard-webhooks", for the many senders that follow
// Standard Webhooks (https://www.standardwebhooks.com). Secrets are written "whsec_...".
func StandardWebhooks(secrets ...string) Part {
	return From(preset.With("standard-webhooks", secrets...))
}

// Stripe adds the producer "stripe", with the endpoint's secrets ("whsec_...").
func Stripe(secrets ...string) Part { return From(preset.Stripe(secrets...)) }

// Metrics registers the metrics of the receiver and of its store for Prometheus, when the receiver
// is opened ([metrics.Register]). A function in receiver.Config.Observe gets everything as before.
// Metrics panics if r is nil.
func Metrics(r prometheus.Registerer) Part {
	if r == nil {
		panic("eyelet: Metrics(nil): pass prometheus.DefaultRegisterer, or a registry")
	}
	return func(c *receiver.Config) {
		before := c.Opening
		c.Opening = func(c *receiver.Config) error {
			if before != nil {
				if err := before(c); err != nil {
					return err
				}
			}
			return metrics.Register(r, c)
		}
	}
}

// URL sets the public base, as producers call it ("https://hooks.example"). Producers whose
// signatures cover the URL require it.
func URL(base string) Part { return func(c *receiver.Config) { c.URL = base } }

// Config returns the configuration of the parts, for a receiver of your own and for tests
// (receivertest.New).
func Config(parts ...Part) receiver.Config {
	var c receiver.Config
	for _, part := range parts {
		part(&c)
	}
	return c
}

// Receiver is a receiver with its store. Its Handler serves all endpoints in a program that has
// an HTTP server of its own; [Run] serves them alone.
type Receiver struct {
	*receiver.Receiver
	// Store holds the events, for metrics and for package inspect. Shutdown and Close close it.
	Store dedup.Store

	config receiver.Config
	failed <-chan struct{} // closed when the store has failed
}

// Open opens the store in the folder dir, which is created if necessary, and a receiver with the
// parts. It resumes what an earlier process did not finish. Its error reports every mistake of the
// parts at once. The receiver must be closed: by [Run], Shutdown or Close.
//
// Only one process at a time can use the folder.
func Open(dir string, parts ...Part) (*Receiver, error) {
	c := Config(parts...)
	if c.Store != nil {
		return nil, errors.New("eyelet: a part sets Config.Store, and Open opens its own: use receiver.Open")
	}
	store, err := badgerstore.Open(dir, badgerstore.Options{Logger: c.Logger})
	if err != nil {
		return nil, err
	}
	c.Store, c.PeersFile = store, cmp.Or(c.PeersFile, filepath.Join(dir, peersFile))
	rx, err := receiver.Open(c)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &Receiver{Receiver: rx, Store: store, config: c, failed: store.Failed()}, nil
}

// Shutdown refuses new deliveries (503), waits until ctx ends for responses and running handlers,
// and closes the store. Unfinished work continues after the next start.
func (rx *Receiver) Shutdown(ctx context.Context) error {
	return errors.Join(rx.Receiver.Shutdown(ctx), rx.closeStore())
}

// Close is Shutdown with 30 seconds for running work.
func (rx *Receiver) Close() error { return errors.Join(rx.Receiver.Close(), rx.closeStore()) }

// closeStore may be called more than once.
func (rx *Receiver) closeStore() error {
	if err := rx.Store.Close(); !errors.Is(err, dedup.ErrClosed) {
		return err
	}
	return nil
}
