package record

import (
	"cmp"
	"encoding/binary"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// The stores of the formats 1 to 3 have two values of an event: one as it was claimed, with the
// first state, and under a key of its own the current state. Both have version 1 or 2:
//
//	event   version | length of the description (4) | length of the body (4) | body kind |
//	        body number (8) | description | body | state | length of the state (4) | checksum (4)
//	state   version | state | checksum (4)
const (
	// FamilyState is the family of the states in stores of the formats 1 to 3.
	FamilyState = 's'

	oldHead = 1 + 4 + 4 + 1 + 8
)

// Upgrade returns the value and the content of an event from the values of older formats: the event
// and its state, nil if it has none. What is damaged stays damaged. upgraded is false if the event
// is not of an older format.
func Upgrade(p Place, event, state []byte) (value, content []byte, upgraded bool) {
	key, stateKey := p.Key(), p.Hash.Key(FamilyState)
	if event != nil && Verify(key, event) == nil && event[0] >= rowVersion {
		return nil, nil, false
	}
	var r, described dedup.Record
	content = []byte{}
	e, err := decodeOldEvent(key, event, &r)
	if err == nil {
		content = e.Encode(key, r.Seq)
		_ = e.Describe(p, &described) // damage shows when it is read
	}
	o := Outline{Size: e.Size, Endpoint: described.Payload.Endpoint}
	if state != nil {
		var b []byte
		if b, err = unseal(stateKey, state); err == nil {
			err = decodeOldState(stateKey, b[0], b[1:], &r, &o)
		}
	}
	if err != nil {
		return []byte{eventVersion}, content, true
	}
	r.Payload.Endpoint = o.Endpoint
	return EncodeState(nil, key, &r, OutlineOf(&r, o.Size)), content, true
}

func decodeOldEvent(key, value []byte, r *dedup.Record) (Event, error) {
	b, err := unseal(key, value)
	if err != nil {
		return Event{}, err
	}
	if len(b) < oldHead+4 || b[0] >= rowVersion {
		return Event{}, Damaged(key, "too short", nil)
	}
	u32 := func(at int) int64 { return int64(binary.LittleEndian.Uint32(b[at:])) }
	tail := int64(len(b) - 4)
	description, state := u32(1), u32(int(tail))
	e := Event{Kind: BodyKind(b[9]), Body: binary.LittleEndian.Uint64(b[10:]), Size: u32(5)}
	inline := int64(0)
	if e.Kind == BodyInline {
		inline = e.Size
	}
	if oldHead+description+inline+state != tail {
		return Event{}, Damaged(key, "its parts do not add up", nil)
	}
	r.Shared = e.Kind == BodyShared
	body := b[oldHead+description:][:inline]
	e = e.encoded(rowVersion, append(make([]byte, maxHead), b[oldHead:oldHead+description]...), body)
	return e, decodeOldState(key, b[0], b[tail-state:tail], r, nil)
}

// decodeOldState decodes a state into r, and its outline into o, unless that is nil or not stored.
func decodeOldState(key []byte, version byte, b []byte, r *dedup.Record, o *Outline) error {
	d := decoder{s: string(b)}
	flags := d.byte() // in another order than today's
	r.Hold, r.DropBody, r.Newest = flags&1 != 0, flags&2 != 0, flags&16 != 0
	r.Fingerprint = dedup.Fingerprint{}
	if flags&8 != 0 {
		copy(r.Fingerprint[:], d.take(len(r.Fingerprint)))
	}
	r.Seq, r.Generation = d.uvarint(), int(d.uvarint())
	r.Accepted, r.Finished = d.time(), d.time()
	r.Window, r.Expires = time.Duration(d.varint()), d.time()
	r.QuarantineCount = int(d.uvarint())
	r.QuarantineReason, r.Original, r.Note = d.str(), d.str(), d.str()
	r.Response = dedup.Response{}
	if flags&4 != 0 {
		r.Response = d.response()
	}
	r.Tasks = nil
	for range d.count() {
		r.Tasks = append(r.Tasks, d.oldTask())
	}
	r.Occurrences, r.Sharers = 0, nil
	if version > 1 {
		f := fields{in: &d}
		uintField(&f, 1, &r.Occurrences)
		for d := f.list(2, nil); d != nil && d.s != ""; {
			r.Sharers = append(r.Sharers, d.str())
		}
		if o != nil {
			var stored Outline
			uintField(&f, 60, &stored.Size)
			f.string(61, &stored.Endpoint)
			o.Size, o.Endpoint = max(o.Size, stored.Size), cmp.Or(o.Endpoint, stored.Endpoint)
		}
		f.end()
	}
	return d.end(key)
}

func (d *decoder) oldTask() dedup.Task {
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
