package record

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/internal/wire"
)

// Outline holds properties of an event that are needed without its content. It is stored with the
// state. Size and Endpoint are those that a start needs.
type Outline struct {
	Size     int64  // length of the body, only if a task is open
	Endpoint string // only if a task is in a lane or the delivery is quarantined
	Name     Name
}

// Name identifies an alias by the start of its hash: the name of the first occurrence of a content.
// The state of its event has it, instead of an entry of the alias. Zero means no name.
type Name uint64

// Name returns the name of an alias with the hash.
func (h Hash) Name() Name { return Name(max(1, binary.BigEndian.Uint64(h[:8]))) }

// NameOf returns the name of an event among its aliases.
func NameOf(k dedup.Key, aliases []dedup.Key) Name {
	for _, a := range aliases {
		if content, ok := strings.CutPrefix(a.Space, dedup.SpaceOccurrence); ok && content == k.ID {
			return HashOf(a).Name()
		}
	}
	return 0
}

// OutlineOf returns the outline of a record with a body of size bytes.
func OutlineOf(r *dedup.Record, size int64) (o Outline) {
	if r.Open() {
		o.Size = size
	}
	inLane := func(t dedup.Task) bool { return t.Lane != "" }
	if r.Quarantined() || slices.ContainsFunc(r.Tasks, inLane) {
		o.Endpoint = r.Payload.Endpoint
	}
	return o
}

// The flags of a state.
const (
	flagHold = 1 << iota
	flagDropBody
	flagFingerprint
	flagResponse
	flagFinished // when the last task ended; without tasks, when it was accepted
	flagExpires  // a window after that
	flagSize
	flagNewest
	flagFraction // the window is not in whole seconds
	flagName
	flagEndpoint
	flagGeneration // it is not the first one
	flagOccurrences
	flagQuarantine
	flagNote
)

// derived returns the times that are not stored: when a finished record finished and expires,
// unless something unusual happened.
func derived(r *dedup.Record) (finished, expires time.Time) {
	finished = r.Accepted
	for i := range r.Tasks {
		if ended := r.Tasks[i].Ended; ended.After(finished) {
			finished = ended
		}
	}
	return finished, finished.Add(r.Window)
}

// EncodeState returns the value of an event, in the memory behind the empty slice if that is
// enough.
func EncodeState(empty, key []byte, r *dedup.Record, o Outline) []byte {
	c := wire.Codec{B: append(empty, eventVersion)}
	codeState(&c, r, &o)
	return Seal(key, c.B)
}

// DecodeState checks and decodes the value of an event. It replaces the whole record.
func DecodeState(key, value []byte, r *dedup.Record) (o Outline, err error) {
	c, err := unseal(key, value)
	*r = dedup.Record{}
	if err == nil {
		codeState(&c, r, &o)
		err = ended(&c, key)
	}
	return o, err
}

// codeState encodes or decodes a state. Encoding changes nothing.
func codeState(c *wire.Codec, r *dedup.Record, o *Outline) {
	finished, expires := derived(r)
	has := c.Flags(
		r.Hold, r.DropBody, r.Fingerprint != (dedup.Fingerprint{}),
		r.Response.Status != 0 || len(r.Response.Header) > 0 || len(r.Response.Body) > 0,
		r.Finished.Equal(finished), r.Expires.Equal(expires), o.Size != 0, r.Newest, r.Window%time.Second != 0,
		o.Name != 0, o.Endpoint != "", r.Generation != 1, r.Occurrences != 0,
		r.QuarantineCount != 0 || r.QuarantineReason != "" || r.Original != "", r.Note != "",
	)
	if c.Decodes {
		r.Hold, r.DropBody, r.Newest = has&flagHold != 0, has&flagDropBody != 0, has&flagNewest != 0
		r.Generation = 1
	}
	if has&flagFingerprint != 0 {
		c.Bytes(r.Fingerprint[:])
	}
	wire.Uint(c, &r.Seq)
	c.Time(&r.Accepted)
	codeWindow(c, has, &r.Window)
	if has&flagResponse != 0 {
		c.Response(&r.Response)
	}
	if n := c.Count(len(r.Tasks), 2); c.Decodes && n > 0 {
		r.Tasks = make([]dedup.Task, n)
	}
	for i := range r.Tasks {
		codeTask(c, &r.Tasks[i], r)
	}
	finished, expires = derived(r)
	codeDerived(c, has&flagFinished != 0, &r.Finished, finished)
	codeDerived(c, has&flagExpires != 0, &r.Expires, expires)
	codeRare(c, has, r, o)
}

func codeWindow(c *wire.Codec, has uint64, window *time.Duration) {
	unit := int64(time.Second)
	if has&flagFraction != 0 {
		unit = 1
	}
	n := int64(*window) / unit
	if wire.Int(c, &n); c.Decodes {
		*window = time.Duration(n * unit)
	}
}

// codeDerived is a time that is only stored if it is not the derived one.
func codeDerived(c *wire.Codec, same bool, t *time.Time, value time.Time) {
	if !same {
		c.Time(t)
	} else if c.Decodes {
		*t = value
	}
}

// codeRare is what most records do not have.
func codeRare(c *wire.Codec, has uint64, r *dedup.Record, o *Outline) {
	if has&flagSize != 0 {
		wire.Uint(c, &o.Size)
	}
	if has&flagName != 0 {
		wire.Uint(c, &o.Name)
	}
	if has&flagEndpoint != 0 {
		c.Text(&o.Endpoint)
	}
	if has&flagGeneration != 0 {
		wire.Uint(c, &r.Generation)
	}
	if has&flagOccurrences != 0 {
		wire.Uint(c, &r.Occurrences)
	}
	if has&flagQuarantine != 0 {
		wire.Uint(c, &r.QuarantineCount)
		c.Text(&r.QuarantineReason)
		c.Text(&r.Original)
	}
	if has&flagNote != 0 {
		c.Text(&r.Note)
	}
}

// The flags of a task: its state, and what is stored of it.
const (
	taskFirst = wire.StateEnd << iota // the attempt is 1
	taskStarted
	taskEnded
	taskToken
	taskAttempt // it is neither 0 nor 1
	taskDue     // it is not when the record was accepted
	taskUntil
	taskLane
	taskPostponed
	taskReason
	taskHistory
	taskVersion
	taskUnfenced
)

// codeTask encodes or decodes a task. Its times are differences: most follow one another soon.
func codeTask(c *wire.Codec, t *dedup.Task, r *dedup.Record) {
	has := c.StateFlags(&t.State,
		t.Attempt == 1, !t.Started.IsZero(), !t.Ended.IsZero(), t.Token != 0, t.Attempt != 0 && t.Attempt != 1,
		!t.Due.Equal(r.Accepted), !t.Until.IsZero(), t.Lane != "", t.Postponed != 0, t.Reason != "" || t.Err != "",
		len(t.History) > 0, t.Version != "", t.Unfenced,
	)
	c.Text(&t.Handler)
	if has&taskStarted != 0 {
		c.Since(r.Accepted, &t.Started)
	}
	if has&taskEnded != 0 {
		c.Since(later(r.Accepted, t.Started), &t.Ended)
	}
	if has&taskToken != 0 {
		since := t.Token - r.Seq
		if wire.Int(c, &since); c.Decodes {
			t.Token = r.Seq + since
		}
	}
	if has&taskAttempt != 0 {
		wire.Int(c, &t.Attempt)
	} else if c.Decodes {
		t.Attempt = int(has & taskFirst / taskFirst) //nolint:gosec // 0 or 1
	}
	codeDerived(c, has&taskDue == 0, &t.Due, r.Accepted)
	if has&taskUntil != 0 {
		c.Since(later(r.Accepted, t.Started), &t.Until)
	}
	if has&taskLane != 0 {
		c.Text(&t.Lane)
	}
	if has&taskPostponed != 0 {
		wire.Int(c, &t.Postponed)
	}
	if has&taskReason != 0 {
		c.Text(&t.Reason)
		c.Text(&t.Err)
	}
	if has&taskVersion != 0 {
		c.Text(&t.Version)
	}
	t.Unfenced = has&taskUnfenced != 0
	if has&taskHistory != 0 {
		c.History(&t.History, nextAttempt(t, r.Accepted))
	}
}

// nextAttempt is what the newest attempt of a history is compared with: mostly the task describes
// that attempt itself.
func nextAttempt(t *dedup.Task, accepted time.Time) dedup.Attempt {
	return dedup.Attempt{
		Number: t.Attempt + 1, Started: later(accepted, t.Started), Reason: t.Reason, Err: t.Err,
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
