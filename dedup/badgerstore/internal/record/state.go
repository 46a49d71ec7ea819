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

// printSize is how many bytes of a fingerprint are stored.
const printSize = dedup.FingerprintLeast

// The flags of a state.
const (
	flagHold = 1 << iota
	flagDropBody
	flagNewest
	flagFingerprint
	flagResponse
	flagFinished // when the last task ended; without tasks, when it was accepted
	flagExpires  // a window after that
	flagFraction // the window is not in whole seconds
	flagsEnd
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

func stateFlags(r *dedup.Record) (flags uint64) {
	finished, expires := derived(r)
	for i, set := range [...]bool{
		r.Hold, r.DropBody, r.Newest, r.Fingerprint != (dedup.Fingerprint{}),
		r.Response.Status != 0 || len(r.Response.Header) > 0 || len(r.Response.Body) > 0,
		r.Finished.Equal(finished), r.Expires.Equal(expires), r.Window%time.Second != 0,
	} {
		if set {
			flags |= 1 << i
		}
	}
	return flags
}

func windowUnit(flags uint64) time.Duration {
	if flags&flagFraction != 0 {
		return 1
	}
	return time.Second
}

// EncodeState returns the value of an event, in the memory behind the empty slice if that is
// enough.
func EncodeState(empty, key []byte, r *dedup.Record, o Outline) []byte {
	flags := stateFlags(r)
	b := append(empty, eventVersion)
	b = binary.AppendUvarint(b, flags)
	if flags&flagFingerprint != 0 {
		b = append(b, r.Fingerprint[:printSize]...)
	}
	b = binary.AppendUvarint(b, r.Seq)
	b = wire.AppendTime(b, r.Accepted)
	b = binary.AppendVarint(b, int64(r.Window/windowUnit(flags)))
	if flags&flagResponse != 0 {
		b = wire.AppendResponse(b, &r.Response)
	}
	b = binary.AppendUvarint(b, uint64(len(r.Tasks)))
	for i := range r.Tasks {
		b = appendTask(b, &r.Tasks[i], r)
	}
	f := fields{out: b}
	stateFields(&f, flags, r, &o)
	return Seal(key, f.out)
}

// DecodeState checks and decodes the value of an event.
func DecodeState(key, value []byte, r *dedup.Record) (o Outline, err error) {
	content, err := unseal(key, value)
	if err != nil {
		return o, err
	}
	d := wire.Decoder{S: string(content[1:])}
	flags := d.Uvarint()
	d.Bad = d.Bad || flags >= flagsEnd
	r.Hold, r.DropBody, r.Newest = flags&flagHold != 0, flags&flagDropBody != 0, flags&flagNewest != 0
	r.Fingerprint = dedup.Fingerprint{}
	if flags&flagFingerprint != 0 {
		copy(r.Fingerprint[:], d.Take(printSize))
	}
	r.Seq, r.Accepted, r.Window = d.Uvarint(), d.Time(), time.Duration(d.Varint())*windowUnit(flags)
	r.Response = dedup.Response{}
	if flags&flagResponse != 0 {
		r.Response = d.Response()
	}
	r.Tasks = nil
	if n := d.Count(); n > 0 {
		r.Tasks = make([]dedup.Task, 0, min(n, 64))
		for range n {
			r.Tasks = append(r.Tasks, taskOf(&d, r))
		}
	}
	f := fields{in: &d}
	stateFields(&f, flags, r, &o)
	f.end()
	return o, ended(&d, key)
}

// stateFields are the fields that most records do not have.
func stateFields(f *fields, flags uint64, r *dedup.Record, o *Outline) {
	uintField(f, 1, &r.Occurrences)
	generation := r.Generation ^ 1 // mostly 1
	uintField(f, 3, &generation)
	r.Generation = generation ^ 1
	finished, expires := derived(r)
	derivedField(f, 4, flags&flagFinished != 0, &r.Finished, finished)
	derivedField(f, 5, flags&flagExpires != 0, &r.Expires, expires)
	uintField(f, 6, &r.QuarantineCount)
	f.string(7, &r.QuarantineReason)
	f.string(8, &r.Original)
	f.string(9, &r.Note)
	uintField(f, 60, &o.Size)
	f.string(61, &o.Endpoint)
	uintField(f, 62, &o.Name)
}

// derivedField is a time that is only stored if it is not the derived one.
func derivedField(f *fields, number uint64, same bool, t *time.Time, value time.Time) {
	if !same {
		f.time(number, t)
	} else if f.in != nil {
		*t = value
	}
}

// The flags of a task: its state, and what is stored of it.
const (
	taskState = 1<<3 - 1
	taskFirst = 1 << (iota + 2) // the attempt is 1
	taskStarted
	taskEnded
	taskToken
	taskAttempt
	taskDue // it is not when the record was accepted
	taskUntil
	taskLane
	taskPostponed
	taskReason
	taskHistory
	taskFlagsEnd
)

func taskFlags(t *dedup.Task, r *dedup.Record) uint64 {
	flags := uint64(t.State) & taskState
	for i, set := range [...]bool{
		t.Attempt == 1, !t.Started.IsZero(), !t.Ended.IsZero(), t.Token != 0, t.Attempt != 0 && t.Attempt != 1,
		!t.Due.Equal(r.Accepted), !t.Until.IsZero(), t.Lane != "", t.Postponed != 0, t.Reason != "" || t.Err != "",
		len(t.History) > 0,
	} {
		if set {
			flags |= taskFirst << i
		}
	}
	return flags
}

// appendTask encodes a task. Its times are differences: most follow one another soon.
func appendTask(b []byte, t *dedup.Task, r *dedup.Record) []byte {
	flags := taskFlags(t, r)
	b = wire.AppendString(binary.AppendUvarint(b, flags), t.Handler)
	if flags&taskStarted != 0 {
		b = wire.AppendSince(b, r.Accepted, t.Started)
	}
	if flags&taskEnded != 0 {
		b = wire.AppendSince(b, later(r.Accepted, t.Started), t.Ended)
	}
	if flags&taskToken != 0 {
		b = binary.AppendVarint(b, int64(t.Token-r.Seq)) //nolint:gosec // modulo 2^64
	}
	if flags&taskAttempt != 0 {
		b = binary.AppendVarint(b, int64(t.Attempt))
	}
	if flags&taskDue != 0 {
		b = wire.AppendTime(b, t.Due)
	}
	if flags&taskUntil != 0 {
		b = wire.AppendSince(b, later(r.Accepted, t.Started), t.Until)
	}
	if flags&taskLane != 0 {
		b = wire.AppendString(b, t.Lane)
	}
	if flags&taskPostponed != 0 {
		b = binary.AppendVarint(b, int64(t.Postponed))
	}
	if flags&taskReason != 0 {
		b = wire.AppendString(wire.AppendString(b, t.Reason), t.Err)
	}
	if flags&taskHistory != 0 {
		b = wire.AppendHistory(b, t.History, nextAttempt(t, r.Accepted))
	}
	return b
}

func taskOf(d *wire.Decoder, r *dedup.Record) (t dedup.Task) {
	flags := d.Uvarint()
	d.Bad = d.Bad || flags >= taskFlagsEnd
	t.State, t.Handler, t.Due = dedup.State(flags&taskState), d.Text(), r.Accepted //nolint:gosec // masked
	if flags&taskStarted != 0 {
		t.Started = d.Since(r.Accepted)
	}
	if flags&taskEnded != 0 {
		t.Ended = d.Since(later(r.Accepted, t.Started))
	}
	if flags&taskToken != 0 {
		t.Token = r.Seq + uint64(d.Varint()) //nolint:gosec // modulo 2^64
	}
	if flags&taskFirst != 0 {
		t.Attempt = 1
	} else if flags&taskAttempt != 0 {
		t.Attempt = int(d.Varint())
	}
	if flags&taskDue != 0 {
		t.Due = d.Time()
	}
	if flags&taskUntil != 0 {
		t.Until = d.Since(later(r.Accepted, t.Started))
	}
	if flags&taskLane != 0 {
		t.Lane = d.Text()
	}
	if flags&taskPostponed != 0 {
		t.Postponed = int(d.Varint())
	}
	if flags&taskReason != 0 {
		t.Reason, t.Err = d.Text(), d.Text()
	}
	if flags&taskHistory != 0 {
		t.History = d.History(nextAttempt(&t, r.Accepted))
	}
	return t
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
