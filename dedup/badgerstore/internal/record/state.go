package record

import (
	"encoding/binary"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// Outline is what a start needs of an event with open tasks or in quarantine besides its state. It
// is stored with the state: the start does not read the event with its body. Version 1 has none.
type Outline struct {
	Size     int64  // length of the body
	Endpoint string // only if a task is in a lane or the delivery is quarantined
}

// OutlineOf returns the outline of a record with a body of size bytes.
func OutlineOf(r *dedup.Record, size int64) Outline {
	needed := r.Quarantined()
	for i := range r.Tasks {
		needed = needed || r.Tasks[i].Lane != ""
	}
	if !needed {
		return Outline{Size: size}
	}
	return Outline{Size: size, Endpoint: r.Payload.Endpoint}
}

// EncodeState returns the value of a state.
func EncodeState(key []byte, r *dedup.Record, o Outline) []byte {
	return Seal(key, appendState(append(make([]byte, 0, 192), version), r, &o))
}

// DecodeState checks and decodes the value of a state. outlined is false for version 1.
func DecodeState(key, value []byte, r *dedup.Record) (o Outline, outlined bool, err error) {
	content, err := unseal(key, value)
	if err != nil {
		return o, false, err
	}
	err = decodeState(key, content[0], content[1:], r, &o)
	return o, content[0] > 1, err
}

// The flags of a state.
const (
	flagHold = 1 << iota
	flagDropBody
	flagResponse
	flagFingerprint
	flagNewest
	flagsAll = flagHold | flagDropBody | flagResponse | flagFingerprint | flagNewest
)

func stateFlags(r *dedup.Record) (flags byte) {
	if r.Hold {
		flags |= flagHold
	}
	if r.DropBody {
		flags |= flagDropBody
	}
	if r.Response.Status != 0 || len(r.Response.Header) > 0 || len(r.Response.Body) > 0 {
		flags |= flagResponse
	}
	if r.Fingerprint != (dedup.Fingerprint{}) {
		flags |= flagFingerprint
	}
	if r.Newest {
		flags |= flagNewest
	}
	return flags
}

// appendState encodes a state, and its outline unless that is nil: the state in an event has none.
func appendState(b []byte, r *dedup.Record, o *Outline) []byte {
	flags := stateFlags(r)
	b = append(b, flags)
	if flags&flagFingerprint != 0 {
		b = append(b, r.Fingerprint[:]...)
	}
	b = binary.AppendUvarint(b, r.Seq)
	b = binary.AppendUvarint(b, uint64(r.Generation))
	b = appendTime(b, r.Accepted)
	b = appendTime(b, r.Finished)
	b = binary.AppendVarint(b, int64(r.Window))
	b = appendTime(b, r.Expires)
	b = binary.AppendUvarint(b, uint64(r.QuarantineCount))
	b = appendString(appendString(appendString(b, r.QuarantineReason), r.Original), r.Note)
	if flags&flagResponse != 0 {
		b = binary.AppendVarint(b, int64(r.Response.Status))
		b = appendHeader(b, r.Response.Header)
		b = append(binary.AppendUvarint(b, uint64(len(r.Response.Body))), r.Response.Body...)
	}
	b = binary.AppendUvarint(b, uint64(len(r.Tasks)))
	for i := range r.Tasks {
		b = appendTask(b, &r.Tasks[i])
	}
	f := fields{out: b}
	stateFields(&f, r, o)
	return f.out
}

func stateFields(f *fields, r *dedup.Record, o *Outline) {
	uintField(f, 1, &r.Occurrences)
	var sharers []byte
	for _, event := range r.Sharers {
		sharers = appendString(sharers, event)
	}
	for d := f.list(2, sharers); d != nil && d.s != ""; {
		r.Sharers = append(r.Sharers, d.str())
	}
	if o != nil {
		uintField(f, 60, &o.Size)
		f.string(61, &o.Endpoint)
	}
}

func appendTask(b []byte, t *dedup.Task) []byte {
	b = append(b, byte(t.State))
	b = appendString(appendString(b, t.Handler), t.Lane)
	b = binary.AppendVarint(b, int64(t.Attempt))
	b = binary.AppendVarint(b, int64(t.Postponed))
	for _, at := range [...]time.Time{t.Due, t.Started, t.Ended, t.Until} {
		b = appendTime(b, at)
	}
	b = appendString(appendString(b, t.Reason), t.Err)
	return binary.AppendUvarint(b, t.Token)
}

// decodeState decodes a state into r, and its outline into o unless that is nil.
func decodeState(key []byte, version byte, b []byte, r *dedup.Record, o *Outline) error {
	d := decoder{s: string(b)}
	flags := d.byte()
	if flags&^byte(flagsAll) != 0 {
		d.bad = true
	}
	r.Hold, r.DropBody, r.Newest = flags&flagHold != 0, flags&flagDropBody != 0, flags&flagNewest != 0
	r.Fingerprint = dedup.Fingerprint{}
	if flags&flagFingerprint != 0 {
		copy(r.Fingerprint[:], d.take(len(r.Fingerprint)))
	}
	r.Seq, r.Generation = d.uvarint(), int(d.uvarint())
	r.Accepted, r.Finished = d.time(), d.time()
	r.Window, r.Expires = time.Duration(d.varint()), d.time()
	r.QuarantineCount = int(d.uvarint())
	r.QuarantineReason, r.Original, r.Note = d.str(), d.str(), d.str()
	r.Response = dedup.Response{}
	if flags&flagResponse != 0 {
		r.Response.Status = int(d.varint())
		r.Response.Header = d.header()
		if s := d.str(); s != "" {
			r.Response.Body = []byte(s)
		}
	}
	r.Tasks = d.tasks()
	r.Occurrences, r.Sharers = 0, nil
	if version > 1 {
		f := fields{in: &d}
		stateFields(&f, r, o)
		f.end()
	}
	return d.end(key)
}

func (d *decoder) tasks() []dedup.Task {
	n := d.count()
	if n == 0 {
		return nil
	}
	tasks := make([]dedup.Task, 0, min(n, 64))
	for range n {
		tasks = append(tasks, d.task())
	}
	return tasks
}

func (d *decoder) task() dedup.Task {
	t := dedup.Task{State: dedup.State(d.byte())}
	t.Handler, t.Lane = d.str(), d.str()
	t.Attempt, t.Postponed = int(d.varint()), int(d.varint())
	for _, at := range [...]*time.Time{&t.Due, &t.Started, &t.Ended, &t.Until} {
		*at = d.time()
	}
	t.Reason, t.Err = d.str(), d.str()
	t.Token = d.uvarint()
	return t
}
