package once

import (
	"context"

	"github.com/eyelet-dev/eyelet/receiver"
)

// Run runs a handler as a receiver does.
func (m *Marks[Tx]) Run(ctx context.Context, ev receiver.Event[any], next receiver.Next) error {
	return m.run(ctx, ev, next)
}

// TxOf returns the transaction of a handler.
func TxOf(ctx context.Context) any { return ctx.Value(txKey{}) }

// PruneBatch is how many marks one transaction removes.
const PruneBatch = pruneBatch
