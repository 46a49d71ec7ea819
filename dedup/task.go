package dedup

import (
	"time"

	"github.com/eyelet-dev/eyelet/dedup/internal/taskqueue"
)

// State is the state of a task, or of an event as a whole.
type State uint8

// The states.
const (
	Pending State = iota + 1 // waits for a worker
	Running                  // leased to a worker
	Done                     // completed
	Dead                     // failed for good; an operator can reopen it
)

// String returns pending, running, done or dead.
func (s State) String() string {
	names := [...]string{"none", "pending", "running", "done", "dead"}
	if int(s) >= len(names) {
		return names[0]
	}
	return names[s]
}

// Task is the work of one handler on one event.
type Task struct {
	Handler string // stable name of the handler
	Lane    string // tasks of one handler, endpoint and lane run one after another; empty for none
	State   State
	// Attempt counts the starts. It is 1 while the first attempt runs.
	Attempt int
	// Postponed counts the attempts that were postponed, which are not failures.
	Postponed int
	// Due is when the task may start.
	Due time.Time
	// Started and Ended are the times of the last attempt.
	Started, Ended time.Time
	// Reason is a short code for why the task is dead or waits: "rejected", "exhausted",
	// "undecodable", ...
	Reason string
	// Err is the text of the last error.
	Err string
	// Token identifies the newest lease of the task. It is larger than every earlier one of the
	// task, and no other lease of the store ever has it.
	Token uint64
	// Until is when that lease ends.
	Until time.Time
	// History has the attempts that ended without completing the task, oldest first: the first one
	// and the last 15. Reopening keeps it. Attempts that do not count ([ResultRelease]) are not in
	// it. See [Task.Attempts].
	History []Attempt
	// Version orders the events of the lane ([Handler.Newest] of package receiver): once one is
	// done, an older one is stale. Empty for none.
	Version string
	// Unfenced means that the task runs although it may be stale, and moves no fence.
	Unfenced bool
}

// NewTask is a task to be added to a record.
type NewTask struct {
	Handler  string
	Lane     string
	Version  string // as in [Task]
	Unfenced bool   // as in [Task]
}

// task returns the task, to run at now.
func (n *NewTask) task(now time.Time) Task {
	return Task{
		Handler: n.Handler, Lane: n.Lane, Version: n.Version, Unfenced: n.Unfenced, State: Pending, Due: now,
	}
}

// ReasonInterrupted is the reason of a task whose last attempt ended with its process or its
// lease. The task may have killed the process, so of such tasks one runs at a time in each process.
// Tasks that merely ran beside it then keep their attempts.
const ReasonInterrupted = "interrupted"

// SuspectTime is how long an interrupted task that runs again keeps the others waiting.
const SuspectTime = taskqueue.SuspectTime

// Interrupted reports whether the last attempt of the task was interrupted.
func (t Task) Interrupted() bool { return t.Reason == ReasonInterrupted }

// Open reports whether the task is pending or running.
func (t Task) Open() bool { return t.State == Pending || t.State == Running }

// LaneYields is the first character of lanes in which a task that waits for a retry lets later ones
// pass. Its due tasks run one at a time, the longest due first, then in the order of acceptance.
const LaneYields = "~"
