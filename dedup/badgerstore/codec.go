package badgerstore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// A stored value is written by hand, not by a general encoder: it is on the path of every delivery.
//
//	event   version | length of the description (4) | length of the body (4) | body flags | body number (8) |
//	        description | body | state | length of the state (4) | checksum (4)
//	state   version | state | checksum (4)
//
// The description is what the claim said and never changes; the state is what happens to the event. The
// checksum is a CRC-32C over value and key, so that a value that strayed to another key is found as well.
// Numbers of fixed width are little-endian, others are varints; strings and lists carry their length.
//
// Version 2 differs from version 1 in what may follow: description and state end with optional fields (see field).
// Values of both versions are read; version 2 is written.
const (
	codecVersion  = 2
	codecOldest   = 1
	fixedHeadSize = 1 + 4 + 4 + 1 + 8
	sumSize       = 4
)

// The ways in which a body is kept.
const (
	bodyInline  = 0 // in the value
	bodyChunks  = 1 // in pieces of its own
	bodyDropped = 2 // no longer
	bodyLost    = 3 // no longer, because it was damaged
	bodyShared  = 4 // by the original of the record
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// DamagedError says that a stored value is not what was written. The key that it belongs to stays known: a
// claim of it fails with this error and never looks like the first one.
type DamagedError struct {
	// Key is the key of the value in the store, in hexadecimal after its family.
	Key string
	// Reason says what is wrong with it.
	Reason string
	// Err is the cause, when there is one.
	Err error
}

// Error says which value is damaged and how.
func (e *DamagedError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("stored value %s is damaged: %s: %v", e.Key, e.Reason, e.Err)
	}
	return fmt.Sprintf("stored value %s is damaged: %s", e.Key, e.Reason)
}

// Unwrap returns the cause.
func (e *DamagedError) Unwrap() error { return e.Err }

func damaged(key []byte, reason string, err error) *DamagedError {
	name := "(empty)"
	if len(key) > 0 {
		name = fmt.Sprintf("%c:%x", key[0], key[1:])
	}
	return &DamagedError{Key: name, Reason: reason, Err: err}
}

// fixed is the part of a stored event that its claim fixes: description and body.
type fixed struct {
	raw  []byte // head, description and body as stored
	sum  uint32 // checksum of raw, computed by the claimer
	kind byte   // how the body is kept
	body uint64 // number of the body, where it is kept in pieces
	size int64  // length of the body, wherever it is
}

// encodeFixed writes description and body. kind bodyInline copies the body, the others leave it out.
func encodeFixed(c *dedup.Claim, kind byte, number uint64) fixed {
	body := c.Payload.Body
	if kind != bodyInline {
		body = nil
	}
	b := make([]byte, fixedHeadSize, fixedHeadSize+384+describeSize(c)+len(body))
	b = appendDescription(b, c)
	b[0] = codecVersion
	binary.LittleEndian.PutUint32(b[1:], uint32(len(b)-fixedHeadSize))
	binary.LittleEndian.PutUint32(b[5:], uint32(len(c.Payload.Body)))
	b[9] = kind
	binary.LittleEndian.PutUint64(b[10:], number)
	b = append(b, body...)
	return fixed{raw: b, sum: crc32.Checksum(b, castagnoli), kind: kind, body: number, size: int64(len(c.Payload.Body))}
}

func describeSize(c *dedup.Claim) int {
	p := &c.Payload
	n := len(c.Key.Principal) + len(c.Key.Endpoint) + len(c.Key.ID) + len(p.VendorID) + len(p.Target) + len(p.KeyField) + len(p.Type)
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
	return appendFields(b, payloadFields(p)...)
}

// payloadFields lists the optional fields of a description.
func payloadFields(p *dedup.Payload) []field {
	return []field{{1, &p.VendorID}}
}

// upgraded returns the fixed part as this version writes it: a description of version 1 is one of version 2 without
// optional fields.
func (f fixed) upgraded() fixed {
	if f.raw[0] == codecVersion {
		return f
	}
	f.raw = slices.Clone(f.raw)
	f.raw[0] = codecVersion
	f.sum = crc32.Checksum(f.raw, castagnoli)
	return f
}

// without returns the fixed part with its body left out, as kind says.
func (f fixed) without(kind byte) fixed {
	end := fixedHeadSize + int(binary.LittleEndian.Uint32(f.raw[1:]))
	b := slices.Clone(f.raw[:end])
	b[9] = kind
	return fixed{raw: b, sum: crc32.Checksum(b, castagnoli), kind: kind, size: f.size}
}

// renamed returns the fixed part with the aliases of the record, which has the rest as it was.
func (f fixed) renamed(r *dedup.Record) fixed {
	b := make([]byte, fixedHeadSize, len(f.raw)+384)
	copy(b, f.raw)
	b = appendDescription(b, &dedup.Claim{Key: r.Key, Aliases: r.Aliases, Payload: r.Payload})
	b[0] = codecVersion
	binary.LittleEndian.PutUint32(b[1:], uint32(len(b)-fixedHeadSize))
	b = append(b, f.raw[fixedHeadSize+int(binary.LittleEndian.Uint32(f.raw[1:])):]...)
	f.raw, f.sum = b, crc32.Checksum(b, castagnoli)
	return f
}

// withBody returns the fixed part with a body of its own in place of a shared one: in the value, or in pieces of the
// number.
func (f fixed) withBody(body []byte, number uint64) fixed {
	end := fixedHeadSize + int(binary.LittleEndian.Uint32(f.raw[1:]))
	b := make([]byte, end, end+len(body)+384)
	copy(b, f.raw)
	kind := byte(bodyChunks)
	if number == 0 {
		kind = bodyInline
		b = append(b, body...)
	}
	b[9] = kind
	binary.LittleEndian.PutUint64(b[10:], number)
	return fixed{raw: b, sum: crc32.Checksum(b, castagnoli), kind: kind, body: number, size: f.size}
}

// inline returns the body that the value itself holds.
func (f fixed) inline() []byte {
	return f.raw[fixedHeadSize+int(binary.LittleEndian.Uint32(f.raw[1:])):]
}

// describe reads key, aliases and payload, without the body, into r.
func (f fixed) describe(p place, r *dedup.Record) error {
	end := fixedHeadSize + int(binary.LittleEndian.Uint32(f.raw[1:]))
	d := decoder{s: string(f.raw[fixedHeadSize:end])}
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
	to.Attributes = nil
	if n := d.count(); n > 0 {
		to.Attributes = make(map[string]string, n)
		for range n {
			k := d.str()
			to.Attributes[k] = d.str()
		}
	}
	if f.raw[0] > 1 {
		d.fields(payloadFields(to)...)
	}
	if !d.whole() {
		return d.end(p.key())
	}
	return nil
}

// encodeEvent appends the state to the fixed part and seals both.
func encodeEvent(key []byte, f fixed, r *dedup.Record) []byte {
	f = f.upgraded()
	b := appendState(f.raw, r) // into the room behind it, which nobody else uses
	n := len(b) - len(f.raw)
	b = binary.LittleEndian.AppendUint32(b, uint32(n))
	sum := crc32.Update(f.sum, castagnoli, b[len(f.raw):])
	return binary.LittleEndian.AppendUint32(b, crc32.Update(sum, castagnoli, key))
}

// decodeEvent checks a stored event and takes it apart. r gets the state; the fixed part aliases value.
func decodeEvent(key, value []byte, r *dedup.Record) (fixed, error) {
	content, err := unseal(key, value)
	if err != nil {
		return fixed{}, err
	}
	if len(content) < fixedHeadSize+4 {
		return fixed{}, damaged(key, "too short", nil)
	}
	tail := len(content) - 4
	stateSize := int64(binary.LittleEndian.Uint32(content[tail:]))
	descSize := int64(binary.LittleEndian.Uint32(content[1:]))
	f := fixed{kind: content[9], body: binary.LittleEndian.Uint64(content[10:]), size: int64(binary.LittleEndian.Uint32(content[5:]))}
	inline := int64(0)
	if f.kind == bodyInline {
		inline = f.size
	}
	if fixedHeadSize+descSize+inline+stateSize != int64(tail) {
		return fixed{}, damaged(key, "its parts do not add up", nil)
	}
	cut := tail - int(stateSize)
	f.raw = content[:cut:cut]
	f.sum = crc32.Checksum(f.raw, castagnoli)
	r.Shared = f.kind == bodyShared
	return f, decodeStateInto(key, content[0], content[cut:tail], r)
}

// outline is what a start asks of an event that has work left or is quarantined, besides its state. Stored with the state, it spares the
// start the event itself, whose body it does not need. Version 1 has none.
type outline struct {
	size     int64  // length of the body
	endpoint string // where a task is in a lane, or the delivery is quarantined
}

func outlineOf(r *row) outline {
	o := outline{size: r.fix.size}
	if r.rec.Quarantined() {
		o.endpoint = r.rec.Payload.Endpoint
	}
	for i := range r.rec.Tasks {
		if r.rec.Tasks[i].Lane != "" {
			o.endpoint = r.rec.Payload.Endpoint
		}
	}
	return o
}

// fields lists the optional fields of a stored state that its event does not have.
func (o *outline) fields() []field { return []field{{60, &o.size}, {61, &o.endpoint}} }

// encodeState writes a state of its own.
func encodeState(key []byte, r *dedup.Record, o outline) []byte {
	b := make([]byte, 1, 192)
	b[0] = codecVersion
	return seal(key, appendFields(appendState(b, r), o.fields()...))
}

// decodeState checks and reads a state of its own. outlined is false where it is of version 1.
func decodeState(key, value []byte, r *dedup.Record) (o outline, outlined bool, err error) {
	content, err := unseal(key, value)
	if err != nil {
		return o, false, err
	}
	err = decodeStateInto(key, content[0], content[1:], r, o.fields()...)
	return o, content[0] > 1, err
}

func seal(key, b []byte) []byte {
	sum := crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, key)
	return binary.LittleEndian.AppendUint32(b, sum)
}

// unseal checks the checksum and the version of a value and returns it without the checksum.
func unseal(key, value []byte) ([]byte, error) {
	if len(value) < 1+sumSize {
		return nil, damaged(key, "too short", nil)
	}
	b := value[:len(value)-sumSize]
	sum := crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, key)
	if sum != binary.LittleEndian.Uint32(value[len(b):]) {
		return nil, damaged(key, "its checksum does not match", nil)
	}
	if b[0] < codecOldest || b[0] > codecVersion {
		return nil, damaged(key, fmt.Sprintf("version %d is not known", b[0]), nil)
	}
	return b, nil
}

// The flags of a state.
const (
	flagHold = 1 << iota
	flagDropBody
	flagAnswer
	flagFingerprint
	flagNewest
	flagsAll = flagHold | flagDropBody | flagAnswer | flagFingerprint | flagNewest
)

func appendState(b []byte, r *dedup.Record) []byte {
	var flags byte
	if r.Hold {
		flags |= flagHold
	}
	if r.DropBody {
		flags |= flagDropBody
	}
	if r.Response.Status != 0 || len(r.Response.Header) > 0 || len(r.Response.Body) > 0 {
		flags |= flagAnswer
	}
	if r.Fingerprint != (dedup.Fingerprint{}) {
		flags |= flagFingerprint
	}
	if r.Newest {
		flags |= flagNewest
	}
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
	if flags&flagAnswer != 0 {
		b = binary.AppendVarint(b, int64(r.Response.Status))
		b = appendHeader(b, r.Response.Header)
		b = append(binary.AppendUvarint(b, uint64(len(r.Response.Body))), r.Response.Body...)
	}
	b = binary.AppendUvarint(b, uint64(len(r.Tasks)))
	for i := range r.Tasks {
		b = appendTask(b, &r.Tasks[i])
	}
	return appendFields(b, stateFields(r)...)
}

// stateFields lists the optional fields of a state.
func stateFields(r *dedup.Record) []field {
	return []field{{1, &r.Occurrences}, {2, &r.Sharers}}
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

func decodeStateInto(key []byte, version byte, b []byte, r *dedup.Record, more ...field) error {
	d := decoder{s: string(b)}
	flags := d.byte()
	if flags&^byte(flagsAll) != 0 {
		d.bad = true
	}
	r.Hold, r.DropBody = flags&flagHold != 0, flags&flagDropBody != 0
	r.Newest = flags&flagNewest != 0
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
	if flags&flagAnswer != 0 {
		r.Response.Status = int(d.varint())
		r.Response.Header = d.header()
		if s := d.str(); s != "" {
			r.Response.Body = []byte(s)
		}
	}
	r.Tasks = nil
	if n := d.count(); n > 0 {
		r.Tasks = make([]dedup.Task, 0, min(n, 64))
		for range n {
			r.Tasks = append(r.Tasks, d.task())
		}
	}
	if version > 1 {
		d.fields(append(stateFields(r), more...)...)
	}
	return d.end(key)
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendKey(b []byte, k dedup.Key) []byte {
	b = appendString(appendString(b, k.Principal), k.Endpoint)
	return appendString(appendString(b, k.Space), k.ID)
}

// endOfTime is the last time that is stored, in the year 2262: a window or a lease without an end ends then, and not
// in a past that the nanoseconds would overflow into.
var endOfTime = time.Unix(0, math.MaxInt64)

// appendTime writes nanoseconds since 1970, or 0 for the zero time; 1970 itself does not occur.
func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, 0)
	}
	if t.After(endOfTime) {
		t = endOfTime
	}
	return binary.AppendVarint(b, t.UnixNano())
}

func appendHeader(b []byte, h http.Header) []byte {
	b = binary.AppendUvarint(b, uint64(len(h)))
	for k, vs := range h {
		b = binary.AppendUvarint(appendString(b, k), uint64(len(vs)))
		for _, v := range vs {
			b = appendString(b, v)
		}
	}
	return b
}

// decoder reads what the append functions wrote. After the first mistake it returns zero values; end tells.
type decoder struct {
	s   string
	bad bool
}

// whole reports whether everything was read, without a mistake.
func (d *decoder) whole() bool { return !d.bad && d.s == "" }

func (d *decoder) end(key []byte) error {
	if !d.whole() {
		return damaged(key, "its content does not decode", nil)
	}
	return nil
}

func (d *decoder) take(n int) string {
	if n < 0 || n > len(d.s) {
		d.bad, d.s = true, ""
		return ""
	}
	out := d.s[:n]
	d.s = d.s[n:]
	return out
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != "" {
		return b[0]
	}
	return 0
}

func (d *decoder) uvarint() uint64 {
	var v uint64
	for shift := 0; shift < 64; shift += 7 {
		b := d.byte()
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
	d.bad, d.s = true, ""
	return 0
}

func (d *decoder) varint() int64 {
	u := d.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// count reads the length of a list, each element of which takes at least one byte.
func (d *decoder) count() int {
	n := d.uvarint()
	if n > uint64(len(d.s)) {
		d.bad, d.s = true, ""
		return 0
	}
	return int(n)
}

func (d *decoder) str() string { return d.take(d.count()) }

func (d *decoder) key() dedup.Key {
	return dedup.Key{Principal: d.str(), Endpoint: d.str(), Space: d.str(), ID: d.str()}
}

func (d *decoder) time() time.Time {
	if n := d.varint(); n != 0 {
		return time.Unix(0, n).UTC()
	}
	return time.Time{}
}

func (d *decoder) header() http.Header {
	n := d.count()
	if n == 0 {
		return nil
	}
	h := make(http.Header, min(n, 64))
	room := make([]string, 0, min(n, 64)) // for all values; mostly there is one of each
	for range n {
		k := d.str()
		from := len(room)
		for range d.count() {
			room = append(room, d.str())
		}
		if h[k] = nil; len(room) > from {
			h[k] = room[from:len(room):len(room)]
		}
	}
	return h
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
