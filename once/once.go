// Package once gives a handler effects that happen exactly once in a PostgreSQL database, whatever
// store keeps the events: [On] runs it in a transaction that also holds a mark of the event.
//
//	onPaid := func(ctx context.Context, tx *sql.Tx, ev receiver.Event[Order]) error {
//		_, err := tx.ExecContext(ctx, "UPDATE invoice SET paid = true WHERE id = $1", ev.ID)
//		return err
//	}
//	marks := once.SQL(db) // marks.Schema() creates their table
//	h := once.On(marks, "shop", "order.paid", onPaid)
//
// The mark is inserted first. If it exists, an earlier attempt was committed: the handler does not
// run, and the task is done. If an attempt that is not over has inserted it, the insert waits for
// the end of that transaction, at most until the handler's time is over, and the task is postponed.
// Five seconds later the server ends the wait (lock_timeout), and the transaction of a paused
// receiver (idle_in_transaction_session_timeout). Both settings hold for the whole transaction.
//
// Where the events are in the same database, receiver.OnTx is better: it needs no table of marks.
// A handler must not change between OnTx and once while it has open tasks, because neither sees the
// other's effects. The same holds for the handler's name ([receiver.Handler.Named]) and the table,
// and for open tasks that are copied to a store of another kind: let them finish first.
package once

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/eyelet-dev/eyelet/receiver"
)

// maxReruns is how often a handler runs again because the database undid its transaction.
const maxReruns = 3

var (
	errNoTx = errors.New("the handler's context has no transaction: " +
		"middleware must pass on a context that is made from its own")
	errRolledBack = errors.New("the handler returned nil after a rollback, so nothing is done: " +
		"remove its Rollback, which is not needed after an error either")
	errCommitted = errors.New("the handler committed its transaction: what it did until then counts and is not " +
		"repeated, and what it did later is not protected; remove its Commit")
)

// On makes a handler like [receiver.On] that runs in a transaction. What fn does through tx happens
// exactly once: an error or a panic undoes it, and the usual retries follow. Other effects of fn
// may happen again.
//
// fn must not end the transaction. After Rollback an error is that error, and nil is an error. A
// Commit cannot be prevented: what fn did before it counts, and the task becomes a dead letter.
//
// If the database undid the transaction in favor of another one (SQLSTATE 40001 and 40P01), fn runs
// again at once, at most three times, as the same attempt. An attempt whose transaction could not
// begin, or whose mark could not be inserted, does not count.
func On[Tx, T any](
	m *Marks[Tx], producer, pattern string, fn func(context.Context, Tx, receiver.Event[T]) error,
) receiver.Handler {
	if fn == nil {
		return receiver.On[T](producer, pattern, nil)
	}
	return receiver.On(producer, pattern, func(ctx context.Context, ev receiver.Event[T]) error {
		tx, ok := ctx.Value(txKey{}).(Tx)
		if !ok {
			return errNoTx
		}
		return fn(ctx, tx, ev)
	}).With(func(next receiver.Next) receiver.Next {
		return func(ctx context.Context, ev receiver.Event[any]) (*receiver.Response, error) {
			return nil, m.run(ctx, ev, next)
		}
	}).Unverified(false)
}

// txKey is the key of the transaction in the context of its handler.
type txKey struct{}

// run runs the handler, again if the database undid its transaction.
func (m *Marks[Tx]) run(ctx context.Context, ev receiver.Event[any], next receiver.Next) error {
	for run := 0; ; run++ {
		err := m.attempt(ctx, clone(ev), next)
		if code := codeOf(err); run == maxReruns || ctx.Err() != nil || code != "40001" && code != "40P01" {
			return err
		}
	}
}

// attempt runs the handler in one transaction.
func (m *Marks[Tx]) attempt(ctx context.Context, ev receiver.Event[any], next receiver.Next) error {
	t, err := begin(ctx, m.db)
	if err != nil {
		return receiver.Postpone(0, err)
	}
	defer t.release() // also after a panic
	first, err := m.insert(ctx, t, &ev)
	if err != nil {
		return receiver.Postpone(0, err)
	}
	if !first {
		return nil
	}
	if _, err = next(context.WithValue(ctx, txKey{}, t.tx), ev); err != nil {
		if t.ended(t.rollback()) {
			return m.endedBy(ctx, &ev, err)
		}
		return err
	}
	switch err = t.commit(); {
	case err == nil:
		m.pruneNow(ctx)
		return nil
	case t.ended(err):
		return m.endedBy(ctx, &ev, errRolledBack)
	}
	// The commit may have happened and only its answer be lost.
	if exists, lookErr := m.exists(ctx, &ev); !exists {
		return errors.Join(err, lookErr)
	}
	return nil
}

// endedBy returns the error of an attempt whose handler ended the transaction: err, unless it
// committed.
func (m *Marks[Tx]) endedBy(ctx context.Context, ev *receiver.Event[any], err error) error {
	exists, lookErr := m.exists(ctx, ev)
	if exists {
		return receiver.Reject(errors.Join(errCommitted, err))
	}
	return errors.Join(err, lookErr)
}

// clone returns a copy for one run of a handler, which may change what it gets.
func clone(ev receiver.Event[any]) receiver.Event[any] {
	ev.Header, ev.SignedFields = ev.Header.Clone(), slices.Clone(ev.SignedFields)
	ev.Extensions, ev.Attributes = maps.Clone(ev.Extensions), maps.Clone(ev.Attributes)
	ev.Body = bytes.Clone(ev.Body)
	return ev
}

// codeOf returns the SQLSTATE of an error, as the drivers of PostgreSQL have it.
func codeOf(err error) string {
	if e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return e.SQLState()
	}
	return ""
}
