package dedup

import "time"

// Lease is the right to finish one task, until it ends or somebody else gets a newer one.
type Lease struct {
	Event string
	Task  int // index into Record.Tasks
	Token uint64
	Until time.Time
}

// Work is a task that was given to a worker.
type Work struct {
	Record Record // with its payload
	Lease  Lease
}

// Task returns the task that the lease is for.
func (w *Work) Task() *Task { return &w.Record.Tasks[w.Lease.Task] }

// Kind is how leased work ended.
type Kind uint8

// The kinds of result.
const (
	// ResultDone ends the task for good; with Answer it stores the response of a held claim.
	ResultDone Kind = iota + 1
	// ResultRetry makes the task due again After from now.
	ResultRetry
	// ResultDead gives the task up; a person can reopen it.
	ResultDead
	// ResultRelease frees a held claim: the next claim of the same payload that holds is New again and continues the
	// count of attempts. For a task of a worker it gives the task back, due at once, its attempt uncounted.
	ResultRelease
)

// Result is how leased work ended.
type Result struct {
	Kind Kind
	// After is when to try again, with ResultRetry.
	After time.Duration
	// Postponed marks a retry that is no failure.
	Postponed bool
	// Reason is a short code, Err the text of the error.
	Reason, Err string
	// Response is the response of a held claim.
	Response Response
}
