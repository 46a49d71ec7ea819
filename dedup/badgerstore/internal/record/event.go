package record

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/eyelet-dev/eyelet/dedup"
)

const (
	headSize = 1 + 4 + 4 + 1 + 8
	// stateRoom is the spare capacity of an encoded event: its state is appended in place.
	stateRoom = 384
)

// BodyKind is how the body of an event is stored.
type BodyKind byte

// The kinds of bodies.
const (
	BodyInline  BodyKind = 0 // in the value of the event
	BodyChunks  BodyKind = 1 // in chunks under keys of their own
	BodyDropped BodyKind = 2 // no longer stored
	BodyLost    BodyKind = 3 // no longer stored because it was damaged
	BodyShared  BodyKind = 4 // by the original of the record
)

// Event is the part of a stored event that its claim determines: description and body.
type Event struct {
	Kind BodyKind
	Body uint64 // number of the body, if it is in chunks
	Size int64  // length of the body, wherever it is stored

	raw []byte // head, description and inline body as stored
	sum uint32 // checksum of raw, computed by the claimer
}

// NewEvent encodes description and body of a claim. Only BodyInline copies the body.
func NewEvent(c *dedup.Claim, kind BodyKind, number uint64) Event {
	body := c.Payload.Body
	if kind != BodyInline {
		body = nil
	}
	b := make([]byte, headSize, headSize+stateRoom+descriptionSize(c)+len(body))
	b = appendDescription(b, c)
	b[0] = version
	binary.LittleEndian.PutUint32(b[1:], uint32(len(b)-headSize))
	binary.LittleEndian.PutUint32(b[5:], uint32(len(c.Payload.Body)))
	b[9] = byte(kind)
	binary.LittleEndian.PutUint64(b[10:], number)
	return Event{Kind: kind, Body: number, Size: int64(len(c.Payload.Body))}.with(append(b, body...))
}

func (e Event) with(raw []byte) Event {
	e.raw, e.sum = raw, crc32.Checksum(raw, castagnoli)
	return e
}

// Loaded reports whether the event has its description, not only its [Outline].
func (e Event) Loaded() bool { return e.raw != nil }

// EncodedSize returns the length of the encoded event without its state.
func (e Event) EncodedSize() int { return len(e.raw) }

// Memory returns how many bytes the event occupies in memory.
func (e Event) Memory() int64 { return int64(cap(e.raw)) }

// bodyAt returns where the description ends and an inline body starts.
func (e Event) bodyAt() int { return headSize + int(binary.LittleEndian.Uint32(e.raw[1:])) }

// InlineBody returns the body that the value itself holds, without copying it.
func (e Event) InlineBody() []byte { return e.raw[e.bodyAt():] }

// HasBody reports whether the event has a body of its own.
func (e Event) HasBody() bool { return e.Kind == BodyInline || e.Kind == BodyChunks }

// WithoutBody returns the event without its body; kind is BodyDropped, BodyLost or BodyShared.
func (e Event) WithoutBody(kind BodyKind) Event {
	b := slices.Clone(e.raw[:e.bodyAt()])
	b[9] = byte(kind)
	return Event{Kind: kind, Size: e.Size}.with(b)
}

// WithAliases returns the event with the aliases of the otherwise unchanged record.
func (e Event) WithAliases(r *dedup.Record) Event {
	b := make([]byte, headSize, len(e.raw)+stateRoom)
	copy(b, e.raw)
	b = appendDescription(b, &dedup.Claim{Key: r.Key, Aliases: r.Aliases, Payload: r.Payload})
	b[0] = version
	binary.LittleEndian.PutUint32(b[1:], uint32(len(b)-headSize))
	return e.with(append(b, e.InlineBody()...))
}

// WithBody returns the event with a body of its own: inline, or in chunks if number is not zero.
func (e Event) WithBody(body []byte, number uint64) Event {
	kind := BodyInline
	if number != 0 {
		kind, body = BodyChunks, nil
	}
	b := make([]byte, e.bodyAt(), e.bodyAt()+len(body)+stateRoom)
	copy(b, e.raw)
	b[9] = byte(kind)
	binary.LittleEndian.PutUint64(b[10:], number)
	return Event{Kind: kind, Body: number, Size: e.Size}.with(append(b, body...))
}

// upgraded returns the event in version 2: version 1 is the same without optional fields.
func (e Event) upgraded() Event {
	if e.raw[0] == version {
		return e
	}
	b := slices.Clone(e.raw)
	b[0] = version
	return e.with(b)
}

// Encode returns the value of an event with the state of the record. It shares the event's memory.
func (e Event) Encode(key []byte, r *dedup.Record) []byte {
	e = e.upgraded()
	b := appendState(e.raw, r, nil) // into its spare capacity, which nothing else uses
	n := len(b) - len(e.raw)
	b = binary.LittleEndian.AppendUint32(b, uint32(n))
	sum := crc32.Update(e.sum, castagnoli, b[len(e.raw):])
	return binary.LittleEndian.AppendUint32(b, crc32.Update(sum, castagnoli, key))
}

// DecodeEvent checks and decodes the value of an event, its state into r. The event aliases value.
func DecodeEvent(key, value []byte, r *dedup.Record) (Event, error) {
	content, err := unseal(key, value)
	if err != nil {
		return Event{}, err
	}
	if len(content) < headSize+4 {
		return Event{}, Damaged(key, "too short", nil)
	}
	tail := len(content) - 4
	stateSize := int64(binary.LittleEndian.Uint32(content[tail:]))
	descriptionSize := int64(binary.LittleEndian.Uint32(content[1:]))
	number, size := binary.LittleEndian.Uint64(content[10:]), binary.LittleEndian.Uint32(content[5:])
	e := Event{Kind: BodyKind(content[9]), Body: number, Size: int64(size)}
	inline := int64(0)
	if e.Kind == BodyInline {
		inline = e.Size
	}
	if headSize+descriptionSize+inline+stateSize != int64(tail) {
		return Event{}, Damaged(key, "its parts do not add up", nil)
	}
	end := tail - int(stateSize)
	r.Shared = e.Kind == BodyShared
	return e.with(content[:end:end]), decodeState(key, content[0], content[end:tail], r, nil)
}

// Describe decodes key, aliases and payload, without the body, into r.
func (e Event) Describe(p Place, r *dedup.Record) error {
	d := decoder{s: string(e.raw[headSize:e.bodyAt()])}
	r.Key = d.key()
	r.Aliases = nil
	for range d.count() {
		r.Aliases = append(r.Aliases, d.key())
	}
	to := &r.Payload
	for _, s := range [...]*string{&to.Producer, &to.Endpoint, &to.Type, &to.KeyField, &to.Method, &to.Target} {
		*s = d.str()
	}
	to.Header = d.header()
	to.Attributes, to.VendorID = nil, ""
	if n := d.count(); n > 0 {
		to.Attributes = make(map[string]string, n)
		for range n {
			k := d.str()
			to.Attributes[k] = d.str()
		}
	}
	if e.raw[0] > 1 {
		f := fields{in: &d}
		f.string(1, &to.VendorID)
		f.end()
	}
	if !d.whole() {
		return d.end(p.Key())
	}
	return nil
}

func appendDescription(b []byte, c *dedup.Claim) []byte {
	b = appendKey(b, c.Key)
	aliases := c.Names()
	b = binary.AppendUvarint(b, uint64(len(aliases)))
	for _, a := range aliases {
		b = appendKey(b, a)
	}
	p := &c.Payload
	for _, s := range [...]string{p.Producer, p.Endpoint, p.Type, p.KeyField, p.Method, p.Target} {
		b = appendString(b, s)
	}
	b = appendHeader(b, p.Header)
	b = binary.AppendUvarint(b, uint64(len(p.Attributes)))
	for k, v := range p.Attributes {
		b = appendString(appendString(b, k), v)
	}
	f := fields{out: b}
	f.string(1, &p.VendorID)
	return f.out
}

// descriptionSize estimates the length of the description, for the capacity of the value.
func descriptionSize(c *dedup.Claim) int {
	p := &c.Payload
	n := len(c.Key.Principal) + len(c.Key.Endpoint) + len(c.Key.ID) +
		len(p.VendorID) + len(p.Target) + len(p.KeyField) + len(p.Type)
	for k, vs := range p.Header {
		n += len(k) + 4
		for _, v := range vs {
			n += len(v) + 2
		}
	}
	for k, v := range p.Attributes {
		n += len(k) + len(v) + 4
	}
	return n
}
