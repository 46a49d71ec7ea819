// Package reconcile finds the events that never came: it compares what a vendor says it sent
// ([producer.Source]) with the store, and takes in what is missing through the same claim as a
// delivery.
//
// A vendor that can send an event again is asked to do so: it is signed, and the receiver takes it
// like any delivery. The lists of others have the events themselves ([receiver.Event.Fetched]).
//
// No event is taken in that may have been accepted and forgotten: none older than the producer's
// window less a margin, none from before the store first served the producer, and none from before
// its events were named as they are now. All state is in notes of the store, so a comparison that
// was stopped, or whose process died, continues where it was, in any process that shares the store.
package reconcile

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/duration"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
)

const (
	overlap   = 15 * time.Minute // of two comparisons, because lists lag
	maxMargin = time.Hour        // of the window
	leaseTime = 2 * time.Minute  // for which one process has the comparison, unless it says so again
	maxPause  = time.Minute      // of a request within a comparison
)

// Options configure a [Reconciler].
type Options struct {
	// Receiver takes in the events. Required.
	Receiver *receiver.Receiver
	// Store is that of the receiver. Required.
	Store dedup.Store
	// Producer is one of the receiver's, with a Source. Required.
	Producer producer.Producer
	// Client sends the requests, without redirects. Defaults to one that waits 30 seconds.
	Client *http.Client
	// Logger defaults to slog.Default(), and Clock to time.Now.
	Logger *slog.Logger
	Clock  func() time.Time
	// Observe gets each missing event ([receiver.KindMissed]) and the end of each comparison
	// ([receiver.KindCompared]). May be nil.
	Observe func(context.Context, receiver.Observation)
}

// Reconciler compares the list of one producer with the store.
type Reconciler struct {
	Options
	source *producer.Source
	holder string
	turn   chan struct{} // held by the comparison of this process
}

// New returns a reconciler. It reads neither the store nor the network.
func New(o Options) *Reconciler {
	o.Producer = o.Producer.WithDefaults()
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	client := http.Client{Timeout: 30 * time.Second}
	if o.Client != nil {
		client = *o.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	o.Client = &client
	r := &Reconciler{Options: o, holder: rand.Text(), turn: make(chan struct{}, 1)}
	r.source = &r.Producer.Source
	return r
}

// Request is what to compare. The zero value compares what was not compared yet.
type Request struct {
	// Since is how far to look back. Defaults to the last comparison.
	Since time.Duration
	// DryRun takes nothing in, asks for nothing and changes no state.
	DryRun bool
	// AdoptBefore, if not zero, takes in events from that time on although the store did not serve
	// the producer then, and is kept. An older endpoint may have run them: they run again.
	AdoptBefore time.Time
}

// Progress is how far a comparison is, or how it ended. Times are by Options.Clock.
type Progress struct {
	Producer string    `json:"producer"`
	DryRun   bool      `json:"dry_run,omitempty"`
	Since    time.Time `json:"since"`            // what is older is not compared
	Until    time.Time `json:"until"`            // when it began
	At       time.Time `json:"at,omitzero"`      // of the last item
	Unknown  time.Time `json:"unknown,omitzero"` // whether something from before is missing cannot be known
	Ended    time.Time `json:"ended,omitzero"`
	Listed   int       `json:"listed"`
	OnTheWay int       `json:"on_the_way,omitempty"` // younger than the grace
	Missed   int       `json:"missed"`               // taken in, or asked for the first time
	Asked    int       `json:"asked,omitempty"`      // requests to send again
	GivenUp  int       `json:"given_up,omitempty"`   // asked for 5 times, and nothing arrived
	Unusable int       `json:"unusable,omitempty"`   // items without an identifier, or that are no event
	Error    string    `json:"error,omitempty"`      // why it stopped; it continues there
}

// The errors of a comparison, besides those of the list and of the store.
var (
	// ErrBusy means that another process compares the list.
	ErrBusy = errors.New("another process compares the list")
	// ErrTooFar means that Since is refused.
	ErrTooFar = errors.New("since is too far back")
)

// Compare compares once and returns the result. After each page it calls report, which may be nil.
// After an error, the next comparison continues where this one stopped. Comparisons of a producer
// run one after another: another process that runs one is [ErrBusy].
func (r *Reconciler) Compare(ctx context.Context, q Request, report func(Progress)) (Progress, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return Progress{}, ctx.Err()
	}
	if report == nil {
		report = func(Progress) {}
	}
	w := &walk{Reconciler: r, dry: q.DryRun, report: report}
	if err := w.begin(ctx, q); err != nil {
		return Progress{}, err
	}
	err := w.compare(ctx)
	if err != nil {
		w.p.Error = err.Error()
	}
	w.p.Ended = r.Clock()
	err = cmp.Or(err, w.end(context.WithoutCancel(ctx), err))
	if r.Observe != nil && !q.DryRun {
		r.Observe(ctx, receiver.Observation{Kind: receiver.KindCompared, Endpoint: r.Producer.Name, Err: err})
	}
	return w.p, err
}

// Run compares every interval until ctx ends.
func (r *Reconciler) Run(ctx context.Context) {
	for wait := time.Duration(0); ; {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		p, err := r.Compare(ctx, Request{}, nil)
		log := r.Logger.With("endpoint", r.Producer.Name, "listed", p.Listed, "missed", p.Missed, "given_up", p.GivenUp)
		switch wait = min(r.source.Every, max(0, p.Until.Add(r.source.Every).Sub(r.Clock()))); {
		case ctx.Err() != nil:
			return
		case errors.Is(err, ErrBusy):
			wait = min(r.source.Every, leaseTime)
		case err != nil:
			log.Warn("a comparison with the list of the vendor stopped", "error", err)
			wait = r.source.Every
			if limited, ok := errors.AsType[*limitedError](err); ok {
				wait = limited.wait
			}
		case p.Missed+p.GivenUp > 0:
			log.Warn("events did not arrive, and were found in the list of the vendor")
		}
	}
}

// Last returns the comparison that runs, or else the last one; zero before the first.
func (r *Reconciler) Last(ctx context.Context) (Progress, error) {
	st, err := r.load(ctx)
	if st.Walk != nil {
		return st.Walk.Progress, err
	}
	return st.Last, err
}

// bound is the time of the oldest event that can be taken in at now, and why. An older one may have
// been accepted, and forgotten or named otherwise.
func (r *Reconciler) bound(st *state, now time.Time) (time.Time, string) {
	margin := min(maxMargin, r.Producer.Window/8)
	at, why := now.Add(margin-r.Producer.Window), fmt.Sprintf("identifiers are kept for a window of %s, of which %s "+
		"is a margin, so an older event may have been accepted and forgotten", duration.Format(r.Producer.Window),
		duration.Format(margin))
	if st.First.After(at) {
		at, why = st.First, "this store serves the producer since then, and an older endpoint may have run what was "+
			"sent before; to take that in all the same, adopt it"
	}
	if st.Kept.After(at) {
		at, why = st.Kept, "the producer's events are named, or kept for as long, as they are now only since then"
	}
	return at, why
}

// plan sets what a comparison covers.
func (w *walk) plan(q Request) error {
	now, st := w.Clock(), &w.st
	bound, why := w.bound(st, now)
	if st.Walk != nil && st.Walk.List == w.source.URL && q.Since == 0 && !w.dry {
		w.p, w.next, w.full = st.Walk.Progress, st.Walk.Next, st.Walk.Full
		w.p.Error, w.p.Ended = "", time.Time{}
		return nil
	}
	w.p = Progress{Producer: w.Producer.Name, DryRun: w.dry, Until: now, Since: bound}
	switch {
	case q.Since > 0:
		w.p.Since = now.Add(-q.Since)
		if w.p.Since.Before(bound) {
			return fmt.Errorf("%w: it is before %s, and %s", ErrTooFar, bound.UTC().Format(time.RFC3339), why)
		}
	case !st.Done.IsZero() && !st.Done.Add(-overlap).Before(bound):
		w.p.Since = st.Done.Add(-overlap)
	case !st.Done.IsZero():
		w.p.Unknown = bound
	}
	if keeps := w.source.Keeps; keeps > 0 && w.p.Since.Before(now.Add(-keeps)) {
		w.p.Since = now.Add(-keeps)
		w.p.Unknown = w.p.Since
	}
	var err error
	w.next, err = w.source.First(w.p.Since)
	return err
}

// covers reports whether nothing before a finished comparison is left out.
func (w *walk) covers() bool {
	bound, _ := w.bound(&w.st, w.p.Until)
	last := w.st.Done.Add(-overlap)
	return !w.p.Since.After(last) || !w.p.Since.After(bound) || !w.p.Unknown.IsZero() && !w.p.Since.After(w.p.Unknown)
}

// limitedError means that the vendor wants no request for longer than a comparison waits.
type limitedError struct {
	host string
	wait time.Duration
}

// Error implements error.
func (e *limitedError) Error() string {
	return fmt.Sprintf("%s limits requests: the next one in %s", e.host, cmp.Or(e.wait.Round(time.Second), time.Second))
}
