package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eyelet-dev/eyelet/dedup"
)

const (
	// MaxNamed is how many events a [JobRequest] may name.
	MaxNamed   = 10_000
	maxJobBody = 1 << 20 // bytes
	jobWorkers = 16      // events that are changed at once, which share commits of the store
)

// JobRequest asks for one change of many events. They are selected before the first is changed, and
// changed the oldest first: one after another if one of them is in a lane, else several at once.
type JobRequest struct {
	// Action is reopen, rerun, retry or forget. It may be empty in a dry run.
	Action string `json:"action,omitempty"`
	ChangeRequest
	// Events name at most [MaxNamed] events.
	Events []string `json:"events,omitempty"`
	// Filter selects the events if none is named. It has the parameters of a list without its
	// default limit, such as "state=dead&type=order.*". One task must have its state, handler and
	// reason together. Quarantined deliveries are reopened or rerun only if it has quarantined or
	// reason: they have never run, and may be attacks.
	Filter string `json:"filter,omitempty"`
	// State is that of the events named: those in another are refused. May be empty.
	State string `json:"state,omitempty"`
	// DryRun lists the events, and changes nothing.
	DryRun bool `json:"dry_run,omitempty"`
}

// JobLine is a line of a job: first how many events it has, then what became of each, as they are
// done, and last its end. Without an end the job was cut off; what was done stays so.
type JobLine struct {
	Selected *JobSelection `json:"selected,omitempty"`
	Event    string        `json:"event,omitempty"`
	Error    string        `json:"error,omitempty"` // why the event was refused
	Stale    bool          `json:"stale,omitempty"` // a newer event was handled: the event will not run
	Line     *Event        `json:"line,omitempty"`  // of an event in a dry run
	Ended    *JobEnd       `json:"ended,omitempty"`
}

// JobSelection is how many events a job has.
type JobSelection struct {
	Total int `json:"total"`
	// Quarantined are deliveries that match and were left out.
	Quarantined int `json:"quarantined"`
}

// JobEnd is the end of a job.
type JobEnd struct {
	Error string `json:"error,omitempty"` // why it ended early
}

// job runs a job while its client follows it.
func (a *api) job(w http.ResponseWriter, r *http.Request) {
	order, err := readRequest[JobRequest](w, r, maxJobBody)
	var filter dedup.Filter
	if err == nil {
		filter, err = order.check()
	}
	if err != nil {
		failRequest(w, err)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(a.stopping, cancel)() //nolint:contextcheck // the request may end first
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Time{}) // to select them may take longer than the server's write timeout
	events, left, err := order.selected(ctx, a.store, filter)
	if err != nil {
		refuse(w, err)
		return
	}
	setHeaders(w, NDJSON)
	lines := json.NewEncoder(w)
	send := func(line JobLine) error {
		_ = control.SetWriteDeadline(time.Now().Add(listPatience))
		err := lines.Encode(line)
		_ = control.Flush() // without flushing, lines are sent later
		return err
	}
	if send(JobLine{Selected: &JobSelection{len(events), left}}) != nil {
		return // the client is gone
	}
	end := JobEnd{}
	if err := a.run(ctx, &order, events, send); err != nil {
		end.Error = err.Error()
	}
	_ = send(JobLine{Ended: &end}) // the client may be gone
}

// run changes the events, or lists them in a dry run.
func (a *api) run(ctx context.Context, order *JobRequest, events []Event, send func(JobLine) error) error {
	c := change{store: a.store, action: order.Action, ChangeRequest: order.ChangeRequest}
	var able []Event
	for _, e := range events {
		line := JobLine{Event: e.Event}
		why := order.refuses(&e)
		if order.DryRun {
			line.Line = &e
			if why == nil {
				line.Stale, why = c.wouldBeStale(ctx, &e)
			}
		}
		if why != nil {
			line.Error = why.Error()
		} else if !order.DryRun {
			able = append(able, e)
			continue
		}
		if err := send(line); err != nil {
			return err
		}
	}
	if order.DryRun {
		return nil
	}
	return c.applyAll(ctx, able, func(line JobLine) error {
		a.log.Info("change by a job", "action", c.action, "event", line.Event, "error", line.Error)
		return send(line)
	})
}

// wouldBeStale returns what the change would find of an event: that it is stale, or why it would be
// refused.
func (c *change) wouldBeStale(ctx context.Context, e *Event) (bool, error) {
	if !inLane(*e) {
		return false, nil
	}
	rec, err := c.store.Get(ctx, e.Event)
	if err != nil {
		return false, err
	}
	stale, err := c.stale(ctx, &rec)
	if err == nil && len(stale) > 0 && c.action == actionRerun {
		if c.Force {
			return false, nil
		}
		err = errStaleRerun
	}
	return len(stale) > 0, err
}

// check returns the filter of a request, and what is wrong in it.
func (o *JobRequest) check() (f dedup.Filter, err error) {
	c := change{action: o.Action, ChangeRequest: o.ChangeRequest}
	if err := c.check(); err != nil && (o.Action != "" || !o.DryRun) {
		return f, err
	}
	if _, ok := stateOf(o.State); o.State != "" && !ok {
		return f, fmt.Errorf("%q is not a state", o.State)
	}
	switch {
	case len(o.Events) > MaxNamed:
		return f, fmt.Errorf("more than %d events are named", MaxNamed)
	case len(o.Events) > 0 && o.Filter != "":
		return f, errors.New("events are both named and selected by a filter")
	case len(o.Events) == 0 && o.Filter == "":
		return f, errors.New(`no events are selected: "limit=0" is a filter for all`)
	}
	q, err := url.ParseQuery(o.Filter)
	if err != nil {
		return f, fmt.Errorf("the filter is not a query: %w", err)
	}
	if !q.Has("limit") {
		q.Set("limit", "0")
	}
	if q.Has("text") {
		return f, errors.New("a search with text may end early, and selects no events")
	}
	return ParseFilter(q)
}

// selected returns the events of a request, and how many quarantined deliveries were left out.
func (o *JobRequest) selected(ctx context.Context, store dedup.Store, f dedup.Filter) (
	all []Event, left int, err error) {
	if len(o.Events) > 0 {
		all, err = named(ctx, store, o.Events)
		return all, 0, err
	}
	careful := (o.Action == actionReopen || o.Action == actionRerun) && !f.Quarantined && f.Reason == ""
	all, err = oldestFirst(ctx, store, f, func(r *dedup.Record) bool {
		if careful && r.QuarantineReason != "" {
			if inOneTask(&f, r) {
				left++
			}
			return false
		}
		return inOneTask(&f, r)
	})
	return all, left, err
}

// inOneTask reports whether one task has the state, the handler and the reason of a filter
// together: a done task of a handler does not select an event for another's dead task. A
// quarantined delivery without a handler has its reason without a task.
func inOneTask(f *dedup.Filter, r *dedup.Record) bool {
	if len(f.States) == 0 || f.Handler == "" && f.Reason == "" ||
		len(r.Tasks) == 0 && f.Handler == "" && f.Reason == r.QuarantineReason {
		return true
	}
	return slices.ContainsFunc(r.Tasks, func(t dedup.Task) bool {
		return slices.Contains(f.States, t.State) && (f.Handler == "" || f.Handler == t.Handler) &&
			(f.Reason == "" || f.Reason == t.Reason)
	})
}

// oldestFirst returns the events of a filter that are wanted.
func oldestFirst(ctx context.Context, store dedup.Store, f dedup.Filter, wanted func(*dedup.Record) bool) (
	[]Event, error) {
	var found []Event
	for r, err := range store.List(ctx, f) {
		if err != nil {
			return nil, fmt.Errorf("the events were not all read: %w", err)
		}
		if wanted(&r) {
			found = append(found, Summary(r))
		}
	}
	slices.Reverse(found)
	return found, nil
}

// named returns events by their ids, the oldest first, and then those that are gone, which have no
// state.
func named(ctx context.Context, store dedup.Store, ids []string) ([]Event, error) {
	var found, gone []Event
	for _, id := range ids {
		rec, err := store.Get(ctx, id)
		if errors.Is(err, dedup.ErrNotFound) {
			gone = append(gone, Event{Event: id})
			continue
		} else if err != nil {
			return nil, err
		}
		found = append(found, Summary(rec))
	}
	slices.SortStableFunc(found, func(a, b Event) int { return cmp.Compare(a.Seq, b.Seq) })
	return append(found, gone...), nil
}

// refuses returns why an event cannot be changed, as far as that is known before the store decides.
func (o *JobRequest) refuses(e *Event) error {
	switch {
	case e.State == "":
		return dedup.ErrNotFound
	case o.State != "" && e.State != o.State:
		return fmt.Errorf("it is not %s: it is %s", o.State, e.State)
	case !o.DryRun || o.Action != actionRerun:
		return nil
	}
	chosen := slices.DeleteFunc(slices.Clone(e.Tasks), func(t Task) bool {
		return len(o.Handlers) > 0 && !slices.Contains(o.Handlers, t.Handler)
	})
	switch {
	case len(chosen) == 0:
		return dedup.ErrNoTask
	case slices.ContainsFunc(chosen, func(t Task) bool { return t.State == "pending" || t.State == "running" }):
		return dedup.ErrOpen
	case e.Dropped:
		return dedup.ErrNoPayload
	}
	return nil
}

// applyAll changes the events, and calls done for each, one call at a time, with why it was
// refused, or whether it is stale. It ends at the first other error, also of done.
func (c *change) applyAll(ctx context.Context, events []Event, done func(JobLine) error) error {
	if c.action != actionForget {
		return c.applyEach(ctx, events, done)
	}
	var err error
	if c.copies, err = copiesIn(ctx, c.store); err != nil {
		return err
	}
	var gone []string
	err = c.applyEach(ctx, events, func(line JobLine) error {
		if line.Error == "" {
			gone = append(gone, line.Event)
		}
		return done(line)
	})
	return errors.Join(err, c.purgeLate(context.WithoutCancel(ctx), gone))
}

// purgeLate erases copies that came while their events were being forgotten.
func (c *change) purgeLate(ctx context.Context, gone []string) error {
	if len(gone) == 0 {
		return nil
	}
	late, err := copiesIn(ctx, c.store)
	for _, event := range gone {
		err = errors.Join(err, late.purge(ctx, c.store, event))
	}
	return err
}

func (c *change) applyEach(ctx context.Context, events []Event, done func(JobLine) error) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(jobWorkers)
	if slices.ContainsFunc(events, inLane) {
		group.SetLimit(1) // so that none overtakes an older one of its lane
	}
	var one sync.Mutex
	left := len(events)
	for _, e := range events {
		if inner.Err() != nil {
			break
		}
		group.Go(func() error {
			line := JobLine{Event: e.Event}
			rec, err := c.apply(inner, e.Event)
			if row, refused := refusalOf(err); refused {
				line.Error = row.err.Error()
			} else if err != nil {
				return err
			} else if c.action != actionForget && c.action != actionRerun { // which is refused, or forced
				stale, err := c.stale(inner, &rec)
				if err != nil {
					return err
				}
				line.Stale = len(stale) > 0
			}
			one.Lock()
			defer one.Unlock()
			left--
			return done(line)
		})
	}
	if err := group.Wait(); err != nil || left == 0 {
		return err
	}
	return ctx.Err()
}

func inLane(e Event) bool {
	return slices.ContainsFunc(e.Tasks, func(t Task) bool { return t.Lane != "" })
}
