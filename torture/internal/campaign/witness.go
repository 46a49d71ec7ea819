package campaign

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/pgstore"
)

// witness is the store of a receiver. It writes every result that the store accepts to the log, and
// every one that it refuses because the lease is lost.
type witness struct {
	*pgstore.Store
	log *runLog

	mu     sync.Mutex
	leased map[leaseKey]run // the task and attempt of each lease
}

type leaseKey struct {
	event string
	task  int
	token uint64
}

func keyOf(l dedup.Lease) leaseKey { return leaseKey{l.Event, l.Task, l.Token} }

// lease remembers a lease.
func (w *witness) lease(l dedup.Lease, rec *dedup.Record) {
	t := &rec.Tasks[l.Task]
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leased[keyOf(l)] = run{
		handler: t.Handler, event: rec.Event, vendor: rec.Payload.VendorID, attempt: t.Attempt,
	}
}

// note writes the answer of the store to a result. at is when the call began.
func (w *witness) note(l dedup.Lease, kind dedup.Kind, err error, at time.Time) {
	w.mu.Lock()
	r, known := w.leased[keyOf(l)]
	if err == nil || errors.Is(err, dedup.ErrLeaseLost) {
		delete(w.leased, keyOf(l))
	}
	w.mu.Unlock()
	r.at, r.kind, r.detail = at, kindOutcome, resultKinds[kind]
	switch {
	case !known:
		return
	case errors.Is(err, dedup.ErrLeaseLost):
		r.kind = kindRefused
	case err != nil:
		return // nothing is known
	}
	if err := w.log.write(r); err != nil {
		panic(err) // the campaign would find nothing
	}
}

// Claim implements dedup.Store.
func (w *witness) Claim(ctx context.Context, claims ...dedup.Claim) ([]dedup.Decision, error) {
	ds, err := w.Store.Claim(ctx, claims...)
	for i := range ds {
		if ds[i].Lease.Token != 0 {
			w.lease(ds[i].Lease, &ds[i].Record)
		}
	}
	return ds, err
}

// Take implements dedup.Store.
func (w *witness) Take(ctx context.Context, want dedup.Want) ([]dedup.Work, error) {
	works, err := w.Store.Take(ctx, want)
	for i := range works {
		w.lease(works[i].Lease, &works[i].Record)
	}
	return works, err
}

// Finish implements dedup.Store.
func (w *witness) Finish(ctx context.Context, l dedup.Lease, r dedup.Result) error {
	at := time.Now()
	err := w.Store.Finish(ctx, l, r)
	w.note(l, r.Kind, err, at)
	return err
}

// FinishMany implements dedup.Store.
func (w *witness) FinishMany(ctx context.Context, results ...dedup.LeaseResult) []error {
	at := time.Now()
	errs := w.Store.FinishMany(ctx, results...)
	for i, r := range results {
		w.note(r.Lease, r.Result.Kind, errs[i], at)
	}
	return errs
}

// InTx implements dedup.Transactor.
func (w *witness) InTx(
	ctx context.Context, l dedup.Lease, as reflect.Type, fn func(context.Context, any) (dedup.Result, error),
) error {
	kind, returned := dedup.ResultDone, time.Time{}
	err := w.Store.InTx(ctx, l, as, func(ctx context.Context, tx any) (dedup.Result, error) {
		r, err := fn(ctx, tx)
		kind, returned = r.Kind, time.Now()
		return r, err
	})
	if !returned.IsZero() {
		w.note(l, kind, err, returned)
	}
	return err
}
