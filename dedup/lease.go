package dedup

import (
	"fmt"
	"slices"
	"time"
)

// Lease is the right to finish one task until it ends or a newer lease of the task is given out.
type Lease struct {
	Event string
	Task  int // index into Record.Tasks
	Token uint64
	Until time.Time
}

// Work is a leased task.
type Work struct {
	// Record has its payload. Its response may be missing, and what later claims noted at it, such
	// as that its identifier was reused.
	Record Record
	Lease  Lease
}

// Task returns the leased task.
func (w *Work) Task() *Task { return &w.Record.Tasks[w.Lease.Task] }

// Want says which tasks a [Store.Take] may lease.
type Want struct {
	// Tasks is how many, at least 1.
	Tasks int
	// Bytes bounds the payloads of all tasks but the first.
	Bytes int64
	// Lease is how long the caller holds each task. It must be positive.
	Lease time.Duration
	// Handlers are the names of the handlers that the caller has. Tasks of others are left for a
	// process that has them. Nil, but not an empty slice, is all handlers. The store may keep the
	// slice, so it must not change.
	Handlers []string
	// OrphanAfter is how long a handler must be missing until its tasks are leased to any caller,
	// for example to become dead letters. A handler is missing while no process that named it in a
	// Want has the store open. The store counts from its opening at the earliest, and again after
	// an outage of what processes share, when others could not name theirs either. Zero leases
	// them as soon as their handler is missing.
	OrphanAfter time.Duration
	// Most is how many tasks of some of Handlers may be leased at most. Of one with zero none is,
	// but the handler is not missing: its tasks wait for the caller. The store may keep the map, so
	// it must not change.
	Most map[string]int
}

// Check returns an error that wraps ErrInvalid unless Tasks and Lease are positive, and Most is of
// Handlers and not negative.
func (w *Want) Check() error {
	if w.Tasks <= 0 || w.Lease <= 0 {
		return fmt.Errorf("%w: take of %d tasks for %v", ErrInvalid, w.Tasks, w.Lease)
	}
	for name, most := range w.Most {
		if most < 0 || !slices.Contains(w.Handlers, name) {
			return fmt.Errorf("%w: take of at most %d tasks of handler %q", ErrInvalid, most, name)
		}
	}
	return nil
}

// Kind is how leased work ended.
type Kind uint8

// The kinds of result.
const (
	// ResultDone completes the task. A held claim gets its Response.
	ResultDone Kind = iota + 1
	// ResultRetry makes the task due again, After from now.
	ResultRetry
	// ResultDead ends the task as a dead letter. An operator can reopen it.
	ResultDead
	// ResultRelease frees a held claim: the next claim with Hold of the same payload is New
	// again, and its attempts count on. A worker's task becomes due at once, and the attempt
	// does not count.
	ResultRelease
)

// Result is the result of leased work.
type Result struct {
	Kind Kind
	// After is the delay of ResultRetry.
	After time.Duration
	// Postponed marks a retry that is not a failure.
	Postponed bool
	// Reason is a short code, Err the text of the error.
	Reason, Err string
	// Reply is what the target of the handler answered, unless it accepted. The first [MaxReply]
	// bytes are kept in the history.
	Reply string
	// Unfenced means that a task that is done moves no fence.
	Unfenced bool
	// Response is the response of a held claim.
	Response Response
}

// LeaseResult is the result of the work under a lease.
type LeaseResult struct {
	Lease  Lease
	Result Result
}
