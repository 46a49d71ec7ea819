// Package dedup keeps one durable record per event: the idempotency key and the inbox entry are the same
// record, written in one atomic step, so that no crash can lose an event between the two or accept it twice.
//
// Most programs open a store (badgerstore.Open, or [Memory] for trying out) and give it to receiver.Open.
// Those who write a store of their own implement [Store], keep their records with the pure functions of this
// package ([Decide], [Accept], [Record.Start], [Record.Finish]), and run the suite of package deduptest.
//
// # The life of a record
//
//	          Claim                Take                Finish Done
//	(none) ----------> pending ----------> running ------------------> done
//	                      ^                   |  Finish Retry / lease ran out
//	                      +-------------------+
//	                      ^                   |  Finish Dead
//	                      +------ dead <------+
//	                        Reopen
//
// A claim with Hold (the handler answers the request itself) is born running: its lease goes to the claimer.
// Finish with Done stores the answer; Release, or a lease that ran out, frees the claim for the next delivery.
package dedup

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Store keeps records. Every method may be called concurrently.
//
// All times are the store's: it judges leases and windows by its own clock, so callers pass durations.
// A nil error of Claim, Take, Finish, Reopen and Purge means that the effect survives whatever
// [Store.Guarantees] declares. An error says that nothing is known: the effect may or may not have happened,
// the caller answers 503, and the producer's retry finds the truth.
//
// Besides the errors named below, methods return [ErrClosed] after Close and [ErrUnavailable] while the
// store cannot work (disk full, backlog full, poisoned by a failed commit).
type Store interface {
	// Claim asks for each claim whether its key is new, and stores the new ones, all in one durable step.
	// The decisions are in the order of the claims; a claim sees the effect of those before it. Of all
	// concurrent claims of one key exactly one gets New. A verdict other than New writes nothing, except
	// that a full Quarantine counts (see [Claim]). Duplicates are answered only once the record that they repeat
	// is durable. Claims that cannot fit one step are ErrTooLarge, and claims that [Claim.Check] refuses are
	// ErrInvalid, with nothing stored.
	//
	// The newest generation of a key answers for it. When that was purged or forgotten the key is new, even
	// if an older generation is kept as a dead letter or was reopened. A claim with [Remember] asks further: what
	// its key left beyond its window decides with [Recall], after the aliases. A New one is remembered in the same step.
	//
	// The store changes none of a claim's maps and slices, nor does the caller once it has called. A decision may
	// share them with its claim.
	//
	// A cancelled ctx may return early with an error while the claim still happens.
	Claim(ctx context.Context, claims ...Claim) ([]Decision, error)

	// Take gives up to n due tasks, the longest due first, whose payloads together are at most bytes (but always at least one task),
	// to the caller under a lease. It blocks until a task is due or ctx ends (then its error is ctx's).
	// That a task is Running, its Attempt counted, is durable before Take returns. A task is due when it is
	// Pending, its Due has come, and no earlier task of its lane is open ([Record.LaneOf]; two tasks of a lane
	// never run at once; in a lane that begins with [LaneYields] only a running one is waited for). Take also gives out tasks whose lease ran out. Tasks of records with Hold are never
	// given out. Of the tasks that were [Task.Interrupted] one runs at a time, for a while at least, so that one
	// which kills every process that runs it does not use up the attempts of its neighbors.
	// The caller owns what it gets: it may change it. ErrInvalid when n or lease is not positive.
	Take(ctx context.Context, n int, bytes int64, lease time.Duration) ([]Work, error)

	// Extend makes the lease end d from now. ErrLeaseLost when its token is not the newest, or the task runs no
	// longer; ErrInvalid when d is not positive. A lease that ran out can be extended, and finished, until
	// somebody else has the task. An extension need not be durable where the process owns the store
	// exclusively.
	Extend(ctx context.Context, l Lease, d time.Duration) error

	// Finish records how the leased work ended. ErrLeaseLost unless the lease's token is the newest of its
	// task and the task runs (also when the event is gone); the record is then untouched. A store may refuse a
	// result of more than a few megabytes with ErrTooLarge.
	Finish(ctx context.Context, l Lease, r Result) error

	// Get returns the record of an event with its payload, or ErrNotFound. Records that are Disposable may be
	// gone at any time, here and from List. The caller owns what it gets.
	Get(ctx context.Context, event string) (Record, error)

	// List yields the records that match, newest first, without their bodies unless the filter asks for
	// them. It sees a state of the store that existed at some moment after the call.
	List(ctx context.Context, f Filter) iter.Seq2[Record, error]

	// Reopen makes the dead tasks of an event pending again, with their attempts counted from zero. Given
	// tasks are added (those whose handler the record does not have yet), for events that had no handler
	// when they were accepted. The stored answer stays. ErrNotFound for an unknown event; ErrNotDead when
	// there is nothing to reopen; ErrNoPayload when the payload is no longer kept; ErrInvalid for a task without a
	// handler.
	Reopen(ctx context.Context, event string, tasks ...NewTask) (Record, error)

	// Purge forgets the record of an event whose tasks are all done or dead, key and aliases included (unless
	// a newer record has them by now), and what is remembered of the key ([Remember]). ErrNotFound, or ErrOpen while work is left. The next event of the key has a new
	// id, and a Generation that no record has which is still kept.
	Purge(ctx context.Context, event string) error

	// Stats counts what the store holds.
	Stats(ctx context.Context) (Stats, error)

	// Health returns nil while the store accepts claims, else the error that Claim would return.
	Health(ctx context.Context) error

	// Guarantees says what a nil error is worth here.
	Guarantees() Guarantees

	// Close waits for work that is under way, flushes and releases the store. Blocked calls return ErrClosed.
	// Closing again does nothing.
	Close() error
}

// Expediter is a power that stores may have beside those of [Store]; Memory and badgerstore have it.
type Expediter interface {
	// RunNow makes the waiting tasks of an event due now, without waiting for their backoff or for the end of a
	// postponement. Their attempts stay as they are, and lanes keep their order. ErrNotFound for an unknown
	// event; ErrNotWaiting when no task waits for a later time, and for a held claim, which waits for its producer.
	// A nil error is worth what that of [Store.Reopen] is.
	RunNow(ctx context.Context, event string) (Record, error)
}

// The errors of a store.
var (
	ErrLeaseLost = errors.New("lease lost: somebody else has this work, or it has its outcome already")
	ErrClosed    = errors.New("store is closed")
	// ErrFailed says that a store is useless until it is opened again, in a process of its own at best: nothing
	// that is tried again can succeed. Stores return it as the cause of [ErrUnavailable].
	ErrFailed     = errors.New("store has failed and must be opened again")
	ErrNotFound   = errors.New("no such event")
	ErrNotDead    = errors.New("event has nothing to reopen")
	ErrNoPayload  = errors.New("payload is no longer kept")
	ErrNotWaiting = errors.New("event has no task that waits")
	ErrOpen       = errors.New("event still has work to do")
	ErrTooLarge   = errors.New("claims are too large for one durable step")
	ErrInvalid    = errors.New("not valid")
)

// ErrUnavailable says that a store cannot work at the moment; deliveries are answered 503.
type ErrUnavailable struct {
	// Reason is what an operator needs to know, in a few words ("disk low: 100 MiB free, 512 MiB wanted").
	Reason string
	// RetryAfter is when to try again; zero leaves it to the receiver's default.
	RetryAfter time.Duration
	// Err is the cause, when there is one.
	Err error
}

// Error returns the reason.
func (e *ErrUnavailable) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("store unavailable: %s: %v", e.Reason, e.Err)
	}
	return "store unavailable: " + e.Reason
}

// Unwrap returns the cause.
func (e *ErrUnavailable) Unwrap() error { return e.Err }

// Durability says what an acknowledged write survives.
type Durability int

// The levels of durability.
const (
	// DurableNone survives nothing: the memory store.
	DurableNone Durability = iota
	// DurableProcess survives the death of the process, not of the machine.
	DurableProcess
	// DurableMachine survives a power cut.
	DurableMachine
	// DurableReplicated survives the loss of the machine.
	DurableReplicated
)

// String returns none, process, machine or replicated.
func (d Durability) String() string {
	names := [...]string{"none", "process", "machine", "replicated"}
	if d < 0 || int(d) >= len(names) {
		return fmt.Sprintf("durability %d", int(d))
	}
	return names[d]
}

// Guarantees says what a store promises.
type Guarantees struct {
	// Durability is what a nil error means.
	Durability Durability
	// Shared is true where several processes may use the store at once.
	Shared bool
	// Transactional is true where a handler can join the store's transaction.
	Transactional bool
}

// Stats counts what a store holds. Counts are of tasks where they say so, else of records.
type Stats struct {
	Records  int64     // all records
	Pending  int64     // tasks that wait, the due and the later ones
	Running  int64     // tasks under a lease, and held claims
	Dead     int64     // dead tasks
	Backlog  int64     // bytes of payload of records with open tasks
	Bytes    int64     // bytes on disk, or an estimate
	Free     int64     // bytes free on the disk; -1 where unknown
	Oldest   time.Time // when the oldest event that waits for workers was accepted; zero without any
	Commits  int64     // durable steps since the store was opened
	Accepted int64     // records accepted since the store was opened
	// Quarantined counts the records that are [Record.Quarantined]; kinds without any are missing. The caller owns it.
	Quarantined map[QuarantineGroup]int64
}

// QuarantineGroup is a kind of quarantined deliveries: those of an endpoint, for a reason ([Record.Quarantine]).
type QuarantineGroup struct{ Endpoint, Reason string }
