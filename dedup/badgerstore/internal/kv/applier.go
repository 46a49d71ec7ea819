package kv

import (
	"errors"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// applyEvery is how long the applier gathers writes: a key that is written several times meanwhile,
// such as the state of an event that is accepted and soon finished, is put at rest once.
const applyEvery = 250 * time.Millisecond

// applier puts the writes of the overlay at rest.
type applier struct {
	overlay *overlay
	index   *index
	fail    func(reason string, err error)
	probe   func() error

	gate    sync.Mutex // held while Badger is written to
	version uint64     // Badger's, of the last changeset of which something may be at rest
	ending  chan struct{}
	stopped chan struct{}
}

// retryAfter is the pause of an applier for which the file system has no space.
const retryAfter = 500 * time.Millisecond

// run applies until stop, and then the rest.
func (a *applier) run() {
	defer close(a.stopped)
	pause := time.NewTimer(applyEvery)
	defer pause.Stop()
	for ok, stalled := true, false; ok; ok, stalled = a.apply() {
		var again <-chan time.Time
		fresh := a.overlay.fresh
		if stalled {
			pause.Reset(retryAfter)
			again, fresh = pause.C, nil
		}
		select {
		case <-again:
		case <-fresh:
			a.gather(pause)
		case <-a.ending:
			if _, stalled := a.apply(); !stalled {
				_, _ = a.apply() // what was written behind a changeset that had stalled
			}
			return
		}
	}
}

// gather waits for more writes, unless a reader waits for these.
func (a *applier) gather(pause *time.Timer) {
	if a.overlay.full() {
		return
	}
	pause.Reset(applyEvery)
	select {
	case <-a.overlay.hurry:
	case <-a.ending:
	case <-pause.C:
	}
}

// apply puts the overlay at rest. ok is false once it cannot; stalled means that it cannot now.
func (a *applier) apply() (ok, stalled bool) {
	a.gate.Lock()
	defer a.gate.Unlock()
	g, err := a.overlay.freeze()
	if g == nil {
		return err == nil, false
	}
	if err = a.probe(); err != nil {
		err = &storedir.NotWrittenError{Err: err}
	} else {
		a.version = max(g.last, a.version+1) // backups take a version for at least a number of a commit
		err = a.index.put(a.version, g, a.rest())
	}
	var stalls error
	if errors.As(err, new(*storedir.NotWrittenError)) {
		// Writes of the changeset that are in Badger have a version that no view reads yet.
		stalls = &dedup.ErrUnavailable{Reason: "the store's file system cannot be written",
			RetryAfter: 30 * time.Second, Err: err}
		if isExhausted(err) {
			stalls = errNoDescriptors
		}
		err = nil
	}
	a.overlay.settled(a.version, err, stalls)
	if err != nil {
		a.fail("writes could not be applied", err)
	}
	return err == nil, stalls != nil
}

// restFactor is how many times as long as a transaction took the applier rests after it.
const restFactor = 3

// rest returns a function that waits after a transaction, so that commits have the processor before
// a whole changeset is at rest: at most [applyEvery] in a changeset, and not while a reader or a
// commit waits for it.
func (a *applier) rest() func(took time.Duration) {
	left := applyEvery
	pause := time.NewTimer(left)
	return func(took time.Duration) {
		if took = min(restFactor*took, left); took <= 0 || a.overlay.full() {
			return
		}
		left -= took
		pause.Reset(took)
		select {
		case <-a.overlay.hurry:
			left = 0
		case <-a.ending:
		case <-pause.C:
		}
	}
}

// seal completes the value file that is written to.
func (a *applier) seal() error {
	a.gate.Lock()
	defer a.gate.Unlock()
	return a.index.values.Seal()
}

// span makes the present memory table, and the table that it becomes, overlap all others.
func (a *applier) span() error {
	a.gate.Lock()
	defer a.gate.Unlock()
	if err := a.probe(); err != nil {
		return err
	}
	return a.index.fill(max(1, a.overlay.visible), 1, firstKey, fillerKey)
}
