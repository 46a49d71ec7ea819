package record

import (
	"encoding/binary"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// The flags of an attempt in a history: the state after it, and the parts that are stored.
const (
	attemptState    = 1<<3 - 1
	attemptNumber   = 1 << (iota + 2) // it is not one less than that of the attempt after it
	attemptText                       // reason and error are not those of the attempt after it
	attemptReopened                   // an operator had the task run again after it
	attemptReply                      // its reply is not that of the attempt after it
	attemptFlagsEnd

	maxHistory = 1 << 10 // attempts
)

// appendHistory encodes the history of a task, newest attempt first. Each is the difference from
// the one after it, and the newest from the task itself: attempts mostly fail for one reason.
func appendHistory(b []byte, t *dedup.Task, accepted time.Time) []byte {
	b = binary.AppendUvarint(b, uint64(len(t.History)))
	next := nextAttempt(t, accepted)
	for i := len(t.History) - 1; i >= 0; i-- {
		a := &t.History[i]
		flags := uint64(a.State) & attemptState
		if a.Number != next.Number-1 {
			flags |= attemptNumber
		}
		if a.Reason != next.Reason || a.Err != next.Err {
			flags |= attemptText
		}
		if !a.Reopened.IsZero() {
			flags |= attemptReopened
		}
		if a.Reply != next.Reply {
			flags |= attemptReply
		}
		b = appendSince(binary.AppendUvarint(b, flags), next.Started, a.Started)
		b = appendSince(b, a.Started, a.Ended)
		if flags&attemptNumber != 0 {
			b = binary.AppendVarint(b, int64(a.Number))
		}
		if flags&attemptText != 0 {
			b = appendString(appendString(b, a.Reason), a.Err)
		}
		if flags&attemptReopened != 0 {
			b = appendSince(b, a.Ended, a.Reopened)
		}
		if flags&attemptReply != 0 {
			b = appendString(b, a.Reply)
		}
		next = *a
	}
	return b
}

// history decodes the history of a task whose other fields are decoded.
func (d *decoder) history(t *dedup.Task, accepted time.Time) {
	n := d.count()
	if n == 0 || n > maxHistory {
		d.bad = true
		return
	}
	t.History = make([]dedup.Attempt, n)
	next := nextAttempt(t, accepted)
	for i := n - 1; i >= 0; i-- {
		flags := d.uvarint()
		d.bad = d.bad || flags >= attemptFlagsEnd
		a := dedup.Attempt{
			Number: next.Number - 1, State: dedup.State(flags & attemptState), //nolint:gosec // masked
			Started: d.since(next.Started), Reason: next.Reason, Err: next.Err,
			Reply: next.Reply,
		}
		a.Ended = d.since(a.Started)
		if flags&attemptNumber != 0 {
			a.Number = int(d.varint())
		}
		if flags&attemptText != 0 {
			a.Reason, a.Err = d.str(), d.str()
		}
		if flags&attemptReopened != 0 {
			a.Reopened = d.since(a.Ended)
		}
		if flags&attemptReply != 0 {
			a.Reply = d.str()
		}
		t.History[i], next = a, a
	}
}

// nextAttempt is what the newest attempt of a history is compared with: mostly the task describes
// that attempt itself.
func nextAttempt(t *dedup.Task, accepted time.Time) dedup.Attempt {
	return dedup.Attempt{
		Number: t.Attempt + 1, Started: later(accepted, t.Started), Reason: t.Reason, Err: t.Err,
	}
}
