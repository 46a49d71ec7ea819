package badgerstore

import (
	"fmt"
	"math"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/eyelet-dev/eyelet/dedup"
)

// outage holds why something does not work, nil while it does.
type outage struct {
	atomic.Pointer[dedup.ErrUnavailable]
}

func (o *outage) err() error {
	if err := o.Load(); err != nil {
		return err
	}
	return nil
}

// backlog bounds the events that wait for workers. Once full it stays full until 20 % of it is
// free, so that a receiver at its bound refuses for a while instead of every other delivery.
type backlog struct {
	maxBytes, maxRecords int64

	bytes, records int64 // written by the committer only
	full           outage
}

const backlogRetry = 15 * time.Second

func (g *backlog) set(bytes, records int64) {
	g.bytes, g.records = bytes, records
	reached := func(have, most, percent int64) bool { return most > 0 && have >= most/100*percent+most%100*percent/100 }
	bound := int64(100)
	if g.full.Load() != nil {
		bound = 80
	}
	if reached(g.bytes, g.maxBytes, bound) || reached(g.records, g.maxRecords, bound) {
		g.full.Store(&dedup.ErrUnavailable{Reason: g.reason(), RetryAfter: backlogRetry})
	} else {
		g.full.Store(nil)
	}
}

func (g *backlog) reason() string {
	return fmt.Sprintf("backlog full: %d events with %d bytes wait for their handlers, at most %s; new ones are "+
		"accepted again below 80 %%", g.records, g.bytes, g.bounds())
}

func (g *backlog) bounds() string {
	switch {
	case g.maxBytes <= 0:
		return fmt.Sprintf("%d events", g.maxRecords)
	case g.maxRecords <= 0:
		return fmt.Sprintf("%d bytes", g.maxBytes)
	}
	return fmt.Sprintf("%d events or %d bytes", g.maxRecords, g.maxBytes)
}

// err returns why new events are refused, nil if they are not.
func (g *backlog) err() error { return g.full.err() }

// admit adds an event to those that wait in a batch, or returns why not. The one that reaches the
// bound is admitted.
func (g *backlog) admit(waiting, bytes *int64, size int64) error {
	if err := g.err(); err != nil {
		return err
	}
	if g.maxBytes > 0 && g.bytes+*bytes >= g.maxBytes ||
		g.maxRecords > 0 && g.records+*waiting >= g.maxRecords {
		return &dedup.ErrUnavailable{Reason: g.reason(), RetryAfter: backlogRetry}
	}
	*waiting++
	*bytes += size
	return nil
}

// waits reports whether the event of a claim will wait for a worker.
func waits(c *dedup.Claim) bool { return len(c.Tasks) > 0 && !c.Hold && c.Quarantine == nil }

// backlogEventBytes is the memory that the default bound assumes for a waiting event: twice its
// live heap, to which the garbage collector lets the heap grow, and a reserve.
const backlogEventBytes = 600

// DefaultBacklogRecords returns the default of Options.MaxBacklogRecords: a quarter of the memory
// (GOMEMLIMIT, else the limit of the cgroup, else the physical memory) divided by 600 bytes per
// event, or one million if none of them is known.
func DefaultBacklogRecords() int64 {
	return backlogRecords(debug.SetMemoryLimit(-1), memlimit.FromCgroup, memlimit.FromSystem)
}

func backlogRecords(goLimit int64, others ...func() (uint64, error)) int64 {
	if goLimit < math.MaxInt64 {
		return max(1, goLimit/4/backlogEventBytes)
	}
	for _, limit := range others {
		if n, err := limit(); err == nil && n > 0 && n < math.MaxInt64 {
			return max(1, int64(n/4/backlogEventBytes))
		}
	}
	return 1_000_000
}
