package inspect

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

const (
	maxJobs     = 32  // that are remembered
	maxRunning  = 2   // at once
	maxRefusals = 100 // lines of a job
)

// errBusy is returned when too many jobs run.
var errBusy = errors.New("two other jobs are running: wait for one of them, or stop it")

// Job is the reopening of dead letters in the background.
type Job struct {
	ID      string    `json:"id"`
	What    string    `json:"what"`
	Started time.Time `json:"started"`
	// Ended is missing while it runs.
	Ended *time.Time `json:"ended,omitempty"`
	// Total is how many events were selected; zero until that is known.
	Total    int `json:"total"`
	Reopened int `json:"reopened"`
	Refused  int `json:"refused"`
	// Stale are how many of the reopened events are older than what was handled, and do not run.
	Stale int `json:"stale,omitempty"`
	// Refusals name at most 100 events that were refused.
	Refusals []Refusal `json:"refusals,omitempty"`
	// Error is why the job ended early.
	Error string `json:"error,omitempty"`
}

// Refusal is an event that a job could not reopen.
type Refusal struct {
	Event string `json:"event"`
	Why   string `json:"why"`
}

// Percent is the progress, from 0 to 100.
func (j Job) Percent() int {
	if j.Total == 0 {
		return 0
	}
	return 100 * (j.Reopened + j.Refused) / j.Total
}

// jobs are those of the process. They continue when the browser that started them leaves.
type jobs struct {
	store dedup.Store
	log   func(Job)
	ctx   context.Context //nolint:containedctx // ends with the inspector
	end   context.CancelFunc
	group sync.WaitGroup

	mu   sync.Mutex
	last int
	all  []*job // newest first
}

type job struct {
	Job
	cancel context.CancelFunc
}

// selection returns the events that a job reopens, the oldest first.
type selection func(context.Context) ([]Event, error)

// start starts a job.
func (j *jobs) start(what string, selected selection) (Job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	running := 0
	for _, one := range j.all {
		if one.Ended == nil {
			running++
		}
	}
	if running >= maxRunning || j.ctx.Err() != nil {
		return Job{}, errBusy
	}
	j.last++
	ctx, cancel := context.WithCancel(j.ctx)
	one := &job{Job: Job{ID: strconv.Itoa(j.last), What: what, Started: time.Now().UTC()}, cancel: cancel}
	j.all = slices.Insert(j.all, 0, one)
	if len(j.all) > maxJobs {
		j.all = slices.DeleteFunc(j.all, func(o *job) bool { return o.Ended != nil && o == j.all[len(j.all)-1] })
	}
	j.group.Go(func() {
		defer cancel()
		err := j.run(ctx, one, selected)
		j.mu.Lock()
		defer j.mu.Unlock()
		now := time.Now().UTC()
		if one.Ended = &now; err != nil {
			one.Error = err.Error()
		}
		j.log(one.Job)
	})
	return one.Job, nil
}

func (j *jobs) run(ctx context.Context, one *job, selected selection) error {
	events, err := selected(ctx)
	if err != nil {
		return err
	}
	j.mu.Lock()
	one.Total = len(events)
	j.mu.Unlock()
	reopening := change{store: j.store, action: actionReopen}
	err = reopening.applyAll(ctx, events, func(line JobLine) error {
		j.mu.Lock()
		defer j.mu.Unlock()
		if line.Stale {
			one.Stale++
		}
		if line.Error == "" {
			one.Reopened++
		} else if one.Refused++; len(one.Refusals) < maxRefusals {
			one.Refusals = append(one.Refusals, Refusal{line.Event, line.Error})
		}
		return nil
	})
	if errors.Is(err, context.Canceled) {
		return errors.New("stopped")
	}
	return err
}

// list returns the jobs, newest first.
func (j *jobs) list() []Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := []Job{}
	for _, one := range j.all {
		out = append(out, one.copied())
	}
	return out
}

func (j *job) copied() Job {
	c := j.Job
	c.Refusals = slices.Clone(c.Refusals)
	return c
}

// find returns one job, false if it is unknown.
func (j *jobs) find(id string) (Job, bool) {
	for _, one := range j.list() {
		if one.ID == id {
			return one, true
		}
	}
	return Job{}, false
}

// stop ends a job before its next event.
func (j *jobs) stop(id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, one := range j.all {
		if one.ID == id {
			one.cancel()
		}
	}
}

// dead selects the dead letters with a dead task of a handler and a reason. It never selects a
// quarantined delivery: it has never run, and may be an attack.
func dead(store dedup.Store, handler, reason string) selection {
	return func(ctx context.Context) ([]Event, error) {
		f := dedup.Filter{States: []dedup.State{dedup.Dead}, Handler: handler}
		return oldestFirst(ctx, store, f, func(r *dedup.Record) bool {
			group, ok := groupOf(r)
			return ok && group == (deadGroup{handler, reason})
		})
	}
}
