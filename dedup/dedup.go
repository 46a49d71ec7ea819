// Package dedup keeps one durable record per event. The record is both the idempotency key and
// the inbox entry, written in one atomic step, so a crash can neither lose an event nor accept
// it twice.
//
// Most programs open a store (badgerstore.Open, or memstore.New to try things out) and pass it to
// receiver.Open.
//
// To write your own store, implement [Store] and run the suite of package deduptest. A [Step]
// decides claims; [Accept] makes a record; [Record.Start], [Record.Extend], [Record.Finish],
// [Record.Recover], [Record.Reopen], [Record.Rerun] and [Record.RunNow] change it.
//
// # The life of a record
//
//	          Claim                Take                Finish Done
//	(none) ----------> pending ----------> running ------------------> done
//	                      ^                   |  Finish Retry / lease expired
//	                      +-------------------+
//	                      ^                   |  Finish Dead
//	                      +------ dead <------+
//	                        Reopen
//
// An operator can have a done task run again, too: Rerun makes it pending.
//
// A claim with Hold, whose handler answers the request itself, starts as running: the claimer
// has the lease. Finish with Done stores the response. Release or an expired lease frees the
// claim for the next delivery.
package dedup

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"time"
)

// Store keeps records. All methods are safe for concurrent use.
//
// A store belongs to one process, or is shared by several ([Guarantees]). They may differ in their
// settings: each lease and each window has the length that its caller asked for.
//
// Callers pass durations, never times: leases and windows follow the clock of the store. A nil
// error of Claim, Take, Finish, Reopen and Purge means that the effect survives what
// [Store.Guarantees] declares. After an error the effect may or may not have happened. The
// caller answers 503, and the producer's retry finds out.
//
// Besides the errors named below, methods return [ErrClosed] after Close, and [ErrUnavailable]
// while the store cannot work (disk full, backlog full, failed commit).
type Store interface {
	// Claim decides for each claim whether its key is new and stores the new ones. What is New is
	// durable when the call returns; after an error any part of it may be. Decisions are in the
	// order of the claims, and a claim sees the effects of those before it. Of concurrent claims of
	// one key exactly one gets New. Any other verdict writes nothing, except that a full Quarantine
	// is counted (see [Claim]). A duplicate is answered only after the record that it repeats is
	// durable. ErrTooLarge if the claims do not fit one call, ErrInvalid if [Claim.Check] refuses
	// one of them; nothing is stored then.
	//
	// The newest generation of a key decides. If it was purged or forgotten, the key is new,
	// even while an older generation is kept as a dead letter or was reopened. For a claim with
	// [Remember], the trace of the key then decides, after the aliases. A New claim leaves its
	// trace in the same atomic step.
	//
	// The store never changes the maps and slices of a claim, nor may the caller after the call.
	// The decision may share them.
	//
	// A cancelled ctx may return early with an error although the claim happens.
	Claim(ctx context.Context, claims ...Claim) ([]Decision, error)

	// Take leases due tasks, as many as the caller wants. The longest due come first; among tasks
	// of lanes only approximately. It blocks until a task is due or ctx ends, and then returns the
	// error of ctx. That a task is Running, with its Attempt counted, is durable before Take
	// returns. The caller owns the result. A record is as at some moment of the call: of two tasks
	// of one event, the first may show the second as not started. ErrInvalid if [Want.Check]
	// refuses.
	//
	// A task is due if it is Pending, its Due has passed and no earlier task of its lane is
	// open (see [Record.LaneOf]; a lane that starts with [LaneYields] waits for its running
	// task only). Two tasks of a lane never run at once. Tasks of records with Hold are never
	// returned.
	//
	// A task whose lease expired is due again, and [Task.Interrupted]: it may have killed its
	// process. Of the interrupted tasks one runs at a time in each process, until its outcome or
	// the end of its lease, but for at most [SuspectTime]. A task that kills every process so does
	// not use up the attempts of the tasks beside it.
	Take(ctx context.Context, want Want) ([]Work, error)

	// Extend makes the lease end d from now. ErrLeaseLost if its token is not the newest or the
	// task does not run; ErrInvalid if d is not positive. An expired lease can be extended and
	// finished until the task is taken again. An extension need not be durable if the process
	// owns the store exclusively. One that was called before the Finish of its lease may be refused
	// after it, so a caller whose Finish succeeded ignores what Extend returns.
	Extend(ctx context.Context, l Lease, d time.Duration) error

	// Finish stores the result of leased work. ErrLeaseLost if the token of the lease is not the
	// newest of its task, the task does not run, or the event is gone; the record is unchanged
	// then. A task with a version that is done moves its fence, or is stale ([Fence]), in the same
	// durable step. A store may refuse a result of more than a few megabytes with ErrTooLarge.
	Finish(ctx context.Context, l Lease, r Result) error

	// FinishMany finishes each task as Finish does, in one durable step if the store can, in the
	// order of the arguments: of two results for one lease the second gets ErrLeaseLost. It returns
	// one error for each result, in the same order, when all those without an error are durable. A
	// result that is refused affects no other. If ctx ends first, all results may get its error,
	// also those that count.
	FinishMany(ctx context.Context, results ...LeaseResult) []error

	// Get returns the record of an event with its payload, or ErrNotFound. Disposable records
	// may disappear at any time, here and from List. The caller owns the result.
	Get(ctx context.Context, event string) (Record, error)

	// List yields the matching records, newest first, with their bodies only if the filter asks
	// for them. Each record existed as shown at some moment of the walk. No record is yielded
	// twice, and none is left out that matched from the call to the end of the walk. A filter with
	// Text is left to [Filter.Search].
	List(ctx context.Context, f Filter) iter.Seq2[Record, error]

	// Reopen makes the dead tasks of an event pending again and resets their attempts. It adds
	// the given tasks whose handlers the record does not have, for events that had no handler
	// when they were accepted. The stored response stays. ErrNotFound for an unknown event,
	// ErrNotDead if there is nothing to reopen, ErrNoPayload if the payload was dropped,
	// ErrInvalid for a task without a handler.
	Reopen(ctx context.Context, event string, tasks ...NewTask) (Record, error)

	// Rerun is a new run of a stored event: it makes its tasks pending again, or only those of some
	// handlers, whether they are done or dead, and resets their attempts. Their history is
	// kept, and so is the stored response. Effects that an earlier run had can happen again.
	// ErrNotFound for an unknown event, ErrOpen if one of these tasks is open, ErrNoTask without
	// any task or without one of a handler, ErrNoPayload if the payload was dropped, ErrQuarantined
	// for a delivery that only Reopen may run.
	Rerun(ctx context.Context, event string, again Rerun) (Record, error)

	// RunNow makes the waiting tasks of an event due now, whether they wait for a retry or were
	// postponed. It keeps their attempts and the order of lanes, and is as durable as Reopen.
	// ErrNotFound for an unknown event, ErrNotWaiting if no task waits for a later time or the
	// claim is held.
	RunNow(ctx context.Context, event string) (Record, error)

	// Note returns the note of a key, with an empty text if there is none.
	Note(ctx context.Context, k Key) (Note, error)

	// ChangeNote replaces the text of a key by that which change returns for it, "" if there is
	// none, in one durable step. An empty result removes the note. change may run several times
	// and, while it runs, holds up the store. Its error is returned, and nothing changes.
	// ErrInvalid for a text of more than [MaxNote] bytes, or one that is not UTF-8.
	ChangeNote(ctx context.Context, k Key, change func(text string) (string, error)) error

	// Notes yields the notes of a space, in any order. Each was as shown at some moment of the
	// walk.
	Notes(ctx context.Context, space string) iter.Seq2[Note, error]

	// Purge deletes the record of an event, its key, its aliases (unless a newer record has
	// them) and the trace of the key (see [Remember]). ErrNotFound for an unknown event,
	// ErrOpen unless all tasks are done or dead. The next event of the key gets a new id and a
	// Generation above those still kept.
	Purge(ctx context.Context, event string) error

	// Stats returns counts of what the store holds. They may be a second old.
	Stats(ctx context.Context) (Stats, error)

	// Health returns nil while the store accepts claims, else the error that Claim would return.
	// The answer may be a second old, because probes must not be a load.
	Health(ctx context.Context) error

	// Guarantees declares what a nil error means in this store. A shared store may gain or lose
	// replication while it is open, so do not keep the result.
	Guarantees() Guarantees

	// Close waits for calls in progress, flushes and releases the store. Blocked calls return
	// ErrClosed. Further calls of Close do nothing.
	Close() error
}

// Transactor is an optional interface of stores whose transactions a handler can join. They declare
// it by [Guarantees.Transactional].
type Transactor interface {
	// TxTypes returns the types of transactions that the store offers.
	TxTypes() []reflect.Type

	// InTx runs fn with a new transaction of one of these types, and finishes the task with the
	// result that fn returns as the last statement of the transaction: what fn did through it and
	// the outcome happen both or not at all. They survive together what [Store.Guarantees]
	// declares.
	//
	// An error of fn undoes its effect and is returned. So does [ErrLeaseLost], which means the
	// same as for [Store.Finish], and [ErrStale], which means that a task with a version is older
	// than its fence by now. After any other error effect and outcome may have happened, and
	// Finish finds out: it gets ErrLeaseLost if they did, also while a commit whose answer was
	// lost is still under way. A fn that panics or ends its goroutine is undone too.
	//
	// fn cannot commit: its attempt is an error of the call. If fn rolls back, its effect is
	// undone, and a nil error of fn is an error of the call. If the database undid the transaction
	// in favor of another one (SQLSTATE 40001 and 40P01), fn runs again at once, at most three
	// times. The database undoes a transaction that is idle for longer than ctx allows, or half a
	// minute if ctx has no deadline, a few seconds later.
	InTx(ctx context.Context, l Lease, as reflect.Type, fn func(ctx context.Context, tx any) (Result, error)) error
}

// The errors of a store.
var (
	ErrLeaseLost = errors.New("lease lost: the task was taken over or is finished")
	ErrClosed    = errors.New("store is closed")
	// ErrFailed is the cause of an [ErrUnavailable] that no retry can clear. The store must be
	// opened again, best by a new process.
	ErrFailed      = errors.New("store has failed and must be opened again")
	ErrNotFound    = errors.New("no such event")
	ErrNotDead     = errors.New("event has nothing to reopen")
	ErrNoTask      = errors.New("event has no task of the handler to run again")
	ErrQuarantined = errors.New("delivery is quarantined, and only reopening runs it")
	ErrNoPayload   = errors.New("payload is no longer kept")
	ErrStale       = errors.New("stale: a newer event of the lane was handled")
	ErrNotWaiting  = errors.New("event has no waiting task")
	ErrOpen        = errors.New("event has open tasks")
	ErrTooLarge    = errors.New("claims are too large for one durable step")
	ErrInvalid     = errors.New("invalid")
)

// ErrUnavailable reports that a store cannot work at the moment. Deliveries are answered 503.
type ErrUnavailable struct {
	// Reason is a short text for the operator ("disk low: 100 MiB free, 512 MiB wanted").
	Reason string
	// RetryAfter is when to retry: a store that is about to work again, such as one whose server
	// fails over, says so. It is the lower bound of the Retry-After that producers get. Zero means
	// the default of the receiver.
	RetryAfter time.Duration
	// Err is the cause, if there is one.
	Err error
}

// Error returns the reason and the cause.
func (e *ErrUnavailable) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("store unavailable: %s: %v", e.Reason, e.Err)
	}
	return "store unavailable: " + e.Reason
}

// Unwrap returns the cause.
func (e *ErrUnavailable) Unwrap() error { return e.Err }

// Durability is what an acknowledged write survives.
type Durability int

// The levels of durability.
const (
	// DurableNone survives nothing. It is the level of package memstore.
	DurableNone Durability = iota
	// DurableProcess survives the death of the process, but not of the machine.
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

// Guarantees declares what a store promises.
type Guarantees struct {
	// Durability is the meaning of a nil error.
	Durability Durability
	// Shared is true if several processes may use the store at once.
	Shared bool
	// Transactional is true if a handler can join the store's transaction: the store is a
	// [Transactor].
	Transactional bool
}

// Stats counts what a store holds. All processes that share a store report the same counts, so take
// their maximum, not their sum. Commits and Accepted are those of the process.
type Stats struct {
	Records  int64     // records, or an estimate
	Pending  int64     // waiting tasks, due or not
	Running  int64     // tasks under a lease, and held claims
	Dead     int64     // dead tasks
	Backlog  int64     // payload bytes of records with open tasks
	Bytes    int64     // bytes on disk, or an estimate
	Events   int64     // the part of Bytes that events fill, the rest is reserved; 0 if that is unknown
	Free     int64     // free bytes of the disk; -1 if unknown
	Oldest   time.Time // when the oldest event with an open task for workers was accepted; zero without any
	Commits  int64     // durable steps of this process since it opened the store
	Accepted int64     // records accepted by this process since it opened the store
	// Flush is how long the last durable step of this process took; zero if that is unknown.
	Flush time.Duration
	// Quarantined counts the records that are [Record.Quarantined]. Groups without any are
	// missing. The caller owns the map.
	Quarantined map[QuarantineGroup]int64
}

// QuarantineGroup groups quarantined deliveries by endpoint and reason ([Record.QuarantineReason]).
type QuarantineGroup struct{ Endpoint, Reason string }
