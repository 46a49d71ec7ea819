package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

const (
	maxAsks  = 5      // for one event
	maxAsked = 10_000 // events of a producer with a note
)

// walk is one comparison.
type walk struct {
	*Reconciler
	dry    bool
	report func(Progress)
	st     state
	p      Progress
	next   string // the address of the page to read; "" at the end
	saved  time.Time
	page   Progress // before the page

	asked   map[string]*asked // events that were asked for
	arrived map[string]bool   // events of which a sending arrived, as far as this walk has seen
	full    bool              // some could not be asked for
}

// hold changes the state while no other process has the comparison, and takes it.
func (w *walk) hold(ctx context.Context, f func(*state) error) error {
	if w.saved = w.Clock(); w.dry {
		st, err := w.load(ctx)
		return cmp.Or(err, f(&st))
	}
	return w.change(ctx, func(st *state) error {
		left := st.Until.Sub(w.saved) // much of it shows that the clock of the holder was ahead
		if st.Holder != w.holder && left > 0 && left < 2*leaseTime {
			return fmt.Errorf("%w until %s or a little later", ErrBusy, st.Until.UTC().Format(time.TimeOnly))
		}
		st.Holder, st.Until = w.holder, w.saved.Add(leaseTime)
		return f(st)
	})
}

// begin takes the comparison for this process, and plans it.
func (w *walk) begin(ctx context.Context, q Request) error {
	if err := w.found(ctx); err != nil {
		return err
	}
	err := w.hold(ctx, func(st *state) error {
		if !q.AdoptBefore.IsZero() && q.AdoptBefore.Before(st.First) {
			st.First, st.Done, st.Walk = q.AdoptBefore, time.Time{}, nil
		}
		if st.Done.After(w.saved) { // the clock was ahead: what is compared is not known
			st.Done = time.Time{}
		}
		w.st = *st
		return w.plan(q)
	})
	w.page = w.p
	return err
}

// save notes where the walk is: at its page, which was read in part. An event that was found there
// is known by then, and is not counted again. The note of a long address would be too long: that
// walk begins again.
func (w *walk) save(ctx context.Context) error {
	return w.hold(ctx, func(st *state) error {
		if st.Walk = nil; len(w.next) <= maxNext {
			st.Walk = &position{Progress: w.p, List: w.source.URL, Next: w.next, Full: w.full}
			st.Walk.Listed, st.Walk.OnTheWay, st.Walk.Unusable = w.page.Listed, w.page.OnTheWay, w.page.Unusable
		}
		return nil
	})
}

// end notes the result, and leaves the comparison to the next one. A page that the vendor no longer
// has is not asked for again.
func (w *walk) end(ctx context.Context, failed error) error {
	if err := w.save(ctx); err != nil {
		return err
	}
	return w.hold(ctx, func(st *state) error {
		st.Holder, st.Until, st.Last = "", time.Time{}, w.p
		status, refused := errors.AsType[*statusError](failed)
		if failed == nil || refused && status.final() {
			st.Walk = nil
		}
		if w.st.Done = st.Done; failed == nil && !w.full && w.covers() {
			st.Done = w.p.Until.Add(-w.source.Grace)
		}
		return nil
	})
}

// compare reads the rest of the list.
func (w *walk) compare(ctx context.Context) (err error) {
	w.arrived = map[string]bool{}
	seen := map[string]bool{}
	if w.source.Asks() {
		if w.asked, err = w.loadAsked(ctx); err != nil {
			return err
		}
	}
	for w.next != "" {
		if seen[w.next] {
			return errors.New("the pages of the list go round in a circle")
		}
		seen[w.next] = true
		page, header, err := w.request(ctx, "GET", w.next)
		if err != nil {
			return err
		}
		items, next, skipped, err := w.source.Read(w.next, header, page)
		if err != nil {
			return err
		}
		older := false
		w.p.Unusable += skipped
		for _, it := range items {
			if it.Time.Before(w.p.Since) {
				older = !w.source.Since()
				continue
			}
			w.p.Listed, w.p.At = w.p.Listed+1, it.Time
			if err := w.item(ctx, it); err != nil {
				return err
			}
		}
		if w.next = next; older {
			w.next = ""
		}
		w.page = w.p
		if err := w.save(ctx); err != nil {
			return err
		}
		w.report(w.p)
	}
	return w.repeatAsks(ctx)
}

func (w *walk) item(ctx context.Context, it producer.Listed) error {
	now := w.Clock()
	if now.Sub(w.saved) > leaseTime/4 {
		if err := w.save(ctx); err != nil {
			return err
		}
	}
	young := it.Time.After(now.Add(-w.source.Grace))
	bound, _ := w.bound(&w.st, now)
	switch {
	case w.source.Asks() && it.Arrived:
		return w.settle(ctx, it)
	case young:
		w.p.OnTheWay++
		return nil
	case it.Time.Before(bound) || it.Repeated: // it depends on the first sending
		return nil
	case !w.source.Asks():
		return w.takeIn(ctx, it)
	}
	a := w.asked[it.ID]
	switch {
	case w.arrived[it.ID] || a != nil && (a.Settled || a.Count > 0): // which repeatAsks decides
		return nil
	case a == nil && len(w.asked) >= maxAsked:
		w.full = true
		return nil
	case a == nil:
		a = &asked{Sending: it.Sending, Time: it.Time}
		w.asked[it.ID] = a
		w.p.Missed++
		w.missed(ctx, it, receiver.MissedAsked, "")
	}
	return w.ask(ctx, it.ID, a)
}

// takeIn takes in an event of the list, if it is not known.
func (w *walk) takeIn(ctx context.Context, it producer.Listed) error {
	for {
		fresh, event, err := w.Receiver.TakeIn(ctx, w.Producer.Name, it, w.dry)
		wait := receiver.Wait(err)
		switch {
		case wait > 0 && wait <= maxPause:
			if err := w.pause(ctx, wait); err != nil {
				return err
			}
			continue
		case errors.As(err, new(*verify.Error)):
			w.p.Unusable++
			w.Logger.Warn("an event of the list of the vendor cannot be taken in", "endpoint", w.Producer.Name,
				"id", it.ID, "type", it.Type, "error", err)
		case err != nil:
			return fmt.Errorf("taking in an event: %w", err)
		case fresh:
			w.p.Missed++
			w.missed(ctx, it, receiver.MissedFetched, event)
		}
		return nil
	}
}

func (w *walk) missed(ctx context.Context, it producer.Listed, how verify.Code, event string) {
	if w.Observe == nil || w.dry {
		return
	}
	w.Observe(ctx, receiver.Observation{Kind: receiver.KindMissed, Endpoint: w.Producer.Name, Type: it.Type, ID: it.ID,
		Event: event, Code: how})
}

// settle notes that a sending of an event arrived. If it was asked for, the first one may be on a
// page that another process reads.
func (w *walk) settle(ctx context.Context, it producer.Listed) error {
	w.arrived[it.ID] = true
	a := w.asked[it.ID]
	if a == nil && it.Repeated && len(w.asked) < maxAsked {
		a = &asked{Sending: it.Sending, Time: it.Time}
		w.asked[it.ID] = a
	}
	if a == nil || a.Settled || w.dry {
		return nil
	}
	a.Settled = true
	return w.setAsked(ctx, it.ID, a)
}

// ask asks the vendor to send an event again. The request is noted before it is sent: one that may
// have been sent counts.
func (w *walk) ask(ctx context.Context, event string, a *asked) error {
	if w.dry {
		return nil
	}
	a.Count, a.At = a.Count+1, w.Clock()
	if err := w.setAsked(ctx, event, a); err != nil {
		return err
	}
	_, _, err := w.request(ctx, "POST", w.source.Address(a.Sending))
	status, _ := errors.AsType[*statusError](err)
	if status != nil && status.final() {
		w.Logger.Warn("the vendor does not send an event again", "endpoint", w.Producer.Name, "id", event, "error", err)
		err = nil
	}
	if err != nil && (errors.As(err, new(*limitedError)) || status != nil && status.status < 500) { // it was not sent
		a.Count--
		return errors.Join(err, w.setAsked(context.WithoutCancel(ctx), event, a))
	} else if err != nil {
		return err
	}
	w.p.Asked++
	return nil
}

// repeatAsks asks again for the events that were asked for a grace before the walk began, and did
// not arrive: it has seen the list since then. It ends with those that were asked for too often,
// and forgets those that the bound has passed.
func (w *walk) repeatAsks(ctx context.Context) error {
	if w.dry {
		return nil
	}
	for event, a := range w.asked {
		now := w.Clock()
		bound, _ := w.bound(&w.st, now)
		var err error
		switch {
		case a.Time.Before(bound):
			err = w.setAsked(ctx, event, nil)
		case a.Settled || w.arrived[event] || a.At.After(w.p.Until.Add(-w.source.Grace)) || a.At.Before(w.p.Since):
		case a.Count < maxAsks:
			err = w.ask(ctx, event, a)
		default:
			a.Settled = true
			if err = w.setAsked(ctx, event, a); err == nil {
				w.p.GivenUp++
				w.missed(ctx, producer.Listed{ID: event}, receiver.MissedGivenUp, "")
			}
		}
		if err != nil {
			return err
		}
		if w.Clock().Sub(w.saved) > leaseTime/4 {
			if err := w.save(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
