package dedup

import (
	"slices"
	"strings"
	"time"
)

// Attempt is one start of a task.
type Attempt struct {
	// Number counts the attempts of the task from 1, also through reopening. Numbers between two
	// attempts of a history are those that were left out.
	Number int
	// Started and Ended are its times. Ended is zero while it runs.
	Started, Ended time.Time
	// State is that of the task after the attempt: Pending if it was to be run again, Dead if
	// it was abandoned, Done if it completed, and Running while it runs.
	State State
	// Reason is a short code, and Err the text of the error, at most [MaxAttemptErr] bytes.
	Reason, Err string
	// Reopened is when an operator had the task run again after this attempt, by [Store.Reopen] or
	// [Store.Rerun]; zero without that.
	Reopened time.Time
	// Reply is what the target of a handler answered, unless it accepted: at most [MaxReply] bytes
	// of it ([Result]). It may have control characters.
	Reply string
}

// The bounds of [Task.History]: the first attempts of a task, and the last ones.
const (
	HistoryFirst = 1
	HistoryLast  = 15
	// MaxAttemptErr is the length of an error in a history, in bytes. Of a longer one the beginning
	// and the end are kept, because programs end with what made them fail.
	MaxAttemptErr = 512
	// MaxReply is the length of a reply in a history, in bytes.
	MaxReply = 2 << 10
)

// Attempts returns the history of the task and the attempt that runs or completed it.
func (t *Task) Attempts() []Attempt {
	all := slices.Clone(t.History)
	switch last := t.attempt(); {
	case t.State == Running:
		last.Ended, last.Reason, last.Err = time.Time{}, "", ""
		return append(all, last)
	case t.State == Done && !t.Started.IsZero() && !t.noted():
		return append(all, last)
	}
	return all
}

// noted reports that the history has the attempt that completed the task: its target answered.
func (t *Task) noted() bool {
	n := len(t.History)
	return n > 0 && t.History[n-1].State == Done && t.History[n-1].Reopened.IsZero()
}

// attempt returns the last attempt as the task describes it.
func (t *Task) attempt() Attempt {
	number := t.Attempt
	if n := len(t.History); n > 0 {
		number = t.History[n-1].Number + 1
	}
	return Attempt{
		Number: number, Started: t.Started, Ended: t.Ended, State: t.State, Reason: t.Reason, Err: attemptErr(t.Err),
	}
}

// note adds the attempt that just ended to the history. A record shares the history with older
// copies of itself, so it is replaced.
func (t *Task) note(reply string) {
	a := t.attempt()
	a.Reply = strings.ToValidUTF8(reply[:min(len(reply), MaxReply)], "")
	t.History = bounded(slices.Concat(t.History, []Attempt{a}))
}

// bounded leaves out attempts beyond the bounds of a history, which it may change.
func bounded(all []Attempt) []Attempt {
	if more := len(all) - HistoryFirst - HistoryLast; more > 0 {
		return slices.Delete(all, HistoryFirst, HistoryFirst+more)
	}
	return all
}

// again makes the task pending, with its attempts counted from zero, and keeps its history.
func (t *Task) again(now time.Time) {
	kept := bounded(t.Attempts())
	if n := len(kept); n > 0 {
		kept[n-1].Reopened = now
	}
	*t = Task{
		Handler: t.Handler, Lane: t.Lane, Version: t.Version, Unfenced: t.Unfenced, State: Pending, Due: now,
		Token: t.Token, History: kept,
	}
}

// attemptErr shortens the text of an error in its middle.
func attemptErr(text string) string {
	if len(text) <= MaxAttemptErr {
		return text
	}
	const gap, head = " ... ", MaxAttemptErr / 4
	tail := text[len(text)-(MaxAttemptErr-head-len(gap)):]
	return strings.ToValidUTF8(text[:head]+gap+tail, "")
}

// CloneTasks returns a copy that shares no memory with the tasks.
func CloneTasks(tasks []Task) []Task {
	out := slices.Clone(tasks)
	for i := range out {
		out[i].History = slices.Clone(out[i].History)
	}
	return out
}
