package kv

import (
	"errors"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// applyEvery is how long the applier gathers writes: a key that is written several times meanwhile,
// such as the state of an event that is accepted and soon finished, is put at rest once.
const applyEvery = 250 * time.Millisecond

// applier puts the writes of the overlay at rest. Readers get transactions from it, between two
// changesets, so that they see whole commits.
type applier struct {
	overlay *overlay
	index   *index
	fail    func(reason string, err error)
	probe   func() error

	gate    sync.Mutex // held while a changeset is written
	changed sync.Cond  // applied, err
	applied uint64     // number of the last commit at rest
	at      redolog.Position
	version uint64         // Badger's, of the last changeset of which something may be at rest
	visible uint64         // of the last whole one
	views   map[uint64]int // open transactions by their version
	err     error          // final
	stalls  error          // why nothing can be put at rest at the moment

	hurry   chan struct{} // receives when a reader waits
	ending  chan struct{}
	stopped chan struct{}
}

func newApplier(o *overlay, x *index, fail func(string, error), probe func() error) *applier {
	newest := x.badger.MaxVersion()
	a := &applier{
		overlay: o, index: x, fail: fail, probe: probe, applied: o.last, at: o.end,
		version: newest, visible: newest, views: map[uint64]int{},
		hurry: make(chan struct{}, 1), ending: make(chan struct{}), stopped: make(chan struct{}),
	}
	a.changed.L = &a.gate
	return a
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
	case <-a.hurry:
	case <-a.ending:
	case <-pause.C:
	}
}

// apply puts the overlay at rest. ok is false once it cannot; stalled means that it cannot now.
func (a *applier) apply() (ok, stalled bool) {
	a.gate.Lock()
	defer a.gate.Unlock()
	if a.err != nil {
		return false, false
	}
	g := a.overlay.freeze()
	if g == nil {
		return true, false
	}
	err := a.probe()
	if err != nil {
		err = &storedir.NotWrittenError{Err: err}
	} else {
		a.version = max(g.last, a.version+1) // backups take a version for at least a number of a commit
		err = a.index.put(a.version, g)
	}
	switch {
	case err == nil:
		a.overlay.drop()
		a.applied, a.at, a.visible, a.stalls = g.last, g.end, a.version, nil
	case errors.As(err, new(*storedir.NotWrittenError)):
		// Writes of the changeset that are in Badger have a version that no view reads yet.
		a.stalls = &dedup.ErrUnavailable{Reason: "the store's file system cannot be written",
			RetryAfter: 30 * time.Second, Err: err}
		if isExhausted(err) {
			a.stalls = errNoDescriptors
		}
		a.overlay.stop(nil, a.stalls)
	default:
		a.err = err
		a.overlay.stop(err, nil)
		a.fail("writes could not be applied", err)
	}
	a.changed.Broadcast()
	return a.err == nil, a.stalls != nil
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
	return a.index.fill(max(1, a.visible), 1, firstKey, fillerKey)
}

// await waits until commit n is at rest.
func (a *applier) await(n uint64) error {
	a.gate.Lock()
	defer a.gate.Unlock()
	for a.applied < n && a.err == nil && a.stalls == nil {
		select {
		case a.hurry <- struct{}{}:
		default:
		}
		a.changed.Wait()
	}
	if a.err == nil && a.applied < n {
		return a.stalls
	}
	return a.err
}

func (a *applier) failed() error {
	a.gate.Lock()
	defer a.gate.Unlock()
	return a.err
}

// newest returns the number and the end of the newest commit at rest.
func (a *applier) newest() (n uint64, end redolog.Position) {
	a.gate.Lock()
	defer a.gate.Unlock()
	return a.applied, a.at
}

// pass notes that no commit follows up to a position of the log, only marks.
func (a *applier) pass(at redolog.Position) {
	a.gate.Lock()
	defer a.gate.Unlock()
	a.at = at
}
