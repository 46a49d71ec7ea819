package wire

import (
	"encoding/binary"

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

// AppendHistory encodes a history, newest attempt first. Each is the difference from the one after
// it, and the newest from next: attempts mostly fail for one reason.
func AppendHistory(b []byte, all []dedup.Attempt, next dedup.Attempt) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for i := len(all) - 1; i >= 0; i-- {
		a := &all[i]
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
		b = AppendSince(binary.AppendUvarint(b, flags), next.Started, a.Started)
		b = AppendSince(b, a.Started, a.Ended)
		if flags&attemptNumber != 0 {
			b = binary.AppendVarint(b, int64(a.Number))
		}
		if flags&attemptText != 0 {
			b = AppendString(AppendString(b, a.Reason), a.Err)
		}
		if flags&attemptReopened != 0 {
			b = AppendSince(b, a.Ended, a.Reopened)
		}
		if flags&attemptReply != 0 {
			b = AppendString(b, a.Reply)
		}
		next = *a
	}
	return b
}

// History decodes what AppendHistory wrote with the same next.
func (d *Decoder) History(next dedup.Attempt) []dedup.Attempt {
	n := d.Count()
	if n == 0 || n > maxHistory {
		d.Bad = true
		return nil
	}
	all := make([]dedup.Attempt, n)
	for i := n - 1; i >= 0; i-- {
		flags := d.Uvarint()
		d.Bad = d.Bad || flags >= attemptFlagsEnd
		a := dedup.Attempt{
			Number: next.Number - 1, State: dedup.State(flags & attemptState), //nolint:gosec // masked
			Started: d.Since(next.Started), Reason: next.Reason, Err: next.Err,
			Reply: next.Reply,
		}
		a.Ended = d.Since(a.Started)
		if flags&attemptNumber != 0 {
			a.Number = int(d.Varint())
		}
		if flags&attemptText != 0 {
			a.Reason, a.Err = d.Text(), d.Text()
		}
		if flags&attemptReopened != 0 {
			a.Reopened = d.Since(a.Ended)
		}
		if flags&attemptReply != 0 {
			a.Reply = d.Text()
		}
		all[i], next = a, a
	}
	return all
}
