package wire

import "github.com/eyelet-dev/eyelet/dedup"

// The flags of an attempt in a history: the state after it, and the parts that are stored.
const (
	attemptNumber   = StateEnd << iota // it is not one less than that of the attempt after it
	attemptText                        // reason and error are not those of the attempt after it
	attemptReopened                    // an operator had the task run again after it
	attemptReply                       // its reply is not that of the attempt after it
)

const maxHistory = 1 << 10 // attempts

// History is a history, newest attempt first. Each is the difference from the one after it, and the
// newest from next: attempts mostly fail for one reason.
func (c *Codec) History(all *[]dedup.Attempt, next dedup.Attempt) {
	n := c.Count(len(*all), 3)
	if c.Decodes {
		if n == 0 || n > maxHistory {
			c.fail()
			return
		}
		*all = make([]dedup.Attempt, n)
	}
	for i := n - 1; i >= 0; i-- {
		a := (*all)[i]
		has := c.StateFlags(&a.State, a.Number != next.Number-1, a.Reason != next.Reason || a.Err != next.Err,
			!a.Reopened.IsZero(), a.Reply != next.Reply)
		c.Since(next.Started, &a.Started)
		c.Since(a.Started, &a.Ended)
		if has&attemptNumber != 0 {
			Int(c, &a.Number)
		} else {
			a.Number = next.Number - 1
		}
		if has&attemptText != 0 {
			c.Text(&a.Reason)
			c.Text(&a.Err)
		} else {
			a.Reason, a.Err = next.Reason, next.Err
		}
		if has&attemptReopened != 0 {
			c.Since(a.Ended, &a.Reopened)
		}
		if has&attemptReply != 0 {
			c.Text(&a.Reply)
		} else {
			a.Reply = next.Reply
		}
		if c.Decodes {
			(*all)[i] = a
		}
		next = a
	}
}
