package metrics

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/receiver"
)

// Register registers the metrics of a receiver and of its store, and adds to c.Observe. Call it
// with the store in c.Store, such as in receiver.Config.Opening.
//
// A receiver that opens the store again, or replaces another, counts on. It is an error if r has
// the metrics of a receiver with another open store: give each its own labels, with
// prometheus.WrapRegistererWith.
func Register(r prometheus.Registerer, c *receiver.Config) error {
	if err := registerStore(r, c.Store); err != nil {
		return err
	}
	counts := New()
	err := r.Register(counts)
	if known, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if have, ok := known.ExistingCollector.(*Collector); ok {
			counts, err = have, nil
		}
	}
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	counts.Expect(c.Producers)
	before := c.Observe
	c.Observe = func(ctx context.Context, o receiver.Observation) {
		counts.Observe(ctx, o)
		if before != nil {
			before(ctx, o)
		}
	}
	return nil
}

// registerStore registers the counts of a store. They replace those of a store that is closed.
func registerStore(r prometheus.Registerer, s dedup.Store) error {
	state := Store(s)
	err := r.Register(state)
	if known, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		have, _ := known.ExistingCollector.(storeState)
		switch {
		case have.store == s:
			return nil
		case have.store != nil && errors.Is(have.store.Health(context.Background()), dedup.ErrClosed):
			r.Unregister(have)
			err = r.Register(state)
		default:
			return errors.New("metrics: those of another receiver are registered: give each its own labels " +
				"with prometheus.WrapRegistererWith")
		}
	}
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}
