package dedup

import "time"

// State is where a task, or an event as a whole, stands.
type State uint8

// The states.
const (
	Pending State = iota + 1 // waits for a worker
	Running                  // a worker has it
	Done                     // finished
	Dead                     // given up; a person can reopen it
)

// String returns pending, running, done or dead.
func (s State) String() string {
	switch s {
	case Pending:
		return "pending"
	case Running:
		return "running"
	case Done:
		return "done"
	case Dead:
		return "dead"
	}
	return "none"
}

// Task is one handler's work on one event.
type Task struct {
	Handler string // the handler's stable name
	Lane    string // tasks of one handler, endpoint and lane run one after another; empty is no lane
	State   State
	// Attempt counts the starts; it is 1 while the first attempt runs.
	Attempt int
	// Postponed counts the starts that ended with a postponement, which are not failures.
	Postponed int
	// Due is when the task may start.
	Due time.Time
	// Started and Ended are the times of the last attempt.
	Started, Ended time.Time
	// Reason is a short code of why the task is dead or waits: "rejected", "exhausted", "undecodable", ...
	Reason string
	// Err is the text of the last error.
	Err string
	// Token is the newest lease of the task; tokens of a store only ever grow.
	Token uint64
	// Until is when that lease ends.
	Until time.Time
}

// NewTask asks for one handler's work.
type NewTask struct {
	Handler string
	Lane    string
}

// ReasonInterrupted is the reason of a task whose last attempt ended with its process or its lease. It may be
// what killed the process, so stores run only one such task at a time: the tasks that merely ran beside it
// keep their attempts.
const ReasonInterrupted = "interrupted"

// Interrupted reports whether the last attempt of the task was interrupted.
func (t Task) Interrupted() bool { return t.Reason == ReasonInterrupted }

// Open reports whether the task still has work to do.
func (t Task) Open() bool { return t.State == Pending || t.State == Running }

// LaneYields is how the name of a lane begins in which a task that waits for its retry lets later ones go
// first. Two tasks of it never run at once either; of those that are due the longest due goes first, and of
// those the one that was accepted first.
const LaneYields = "~"
