package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/internal/wire"
)

const (
	maxHead = 2 + 2*binary.MaxVarintLen64
	// tailRoom is the spare capacity of an encoded event: its end is appended in place.
	tailRoom = binary.MaxVarintLen64 + sumSize
)

// BodyKind is how the body of an event is stored.
type BodyKind byte

// The kinds of bodies.
const (
	BodyInline  BodyKind = 0 // in the value of the event
	BodyApart   BodyKind = 1 // under a key of its own
	BodyDropped BodyKind = 2 // no longer stored
	BodyLost    BodyKind = 3 // no longer stored because it was damaged
)

// Event is the part of a stored event that its claim determines: description and body.
type Event struct {
	Kind BodyKind
	Size int64 // length of the body, wherever it is stored

	raw         []byte // head, description and inline body as stored
	sum         uint32 // checksum of raw, computed by the claimer
	description int    // where it starts
	body        int    // where it ends and an inline body starts
}

// NewEvent encodes description and body of a claim. Only BodyInline copies the body.
func NewEvent(c *dedup.Claim, kind BodyKind) Event {
	body := c.Payload.Body
	if kind != BodyInline {
		body = nil
	}
	b := make([]byte, maxHead, maxHead+descriptionSize(c)+len(body)+tailRoom)
	e := Event{Kind: kind, Size: int64(len(c.Payload.Body))}
	return e.encoded(appendDescription(b, c), body)
}

// encoded returns the event with a description that follows maxHead unused bytes of b, and a body.
func (e Event) encoded(b, body []byte) Event {
	c := wire.Codec{B: append(b[:0], eventVersion)}
	e.codeHead(&c, int64(len(b)-maxHead))
	head := c.B
	e.description, e.body = len(head), len(head)+len(b)-maxHead
	copy(b[maxHead-len(head):], head)
	e.raw = append(b, body...)[maxHead-len(head):]
	e.sum = crc32.Checksum(e.raw, castagnoli)
	return e
}

// codeHead encodes or decodes the head, with the length of the description.
func (e *Event) codeHead(c *wire.Codec, description int64) int64 {
	wire.Uint(c, &e.Kind)
	wire.Uint(c, &e.Size)
	wire.Uint(c, &description)
	return description
}

// Loaded reports whether the event has its description, not only its [Outline].
func (e Event) Loaded() bool { return e.raw != nil }

// EncodedSize returns about the length of the encoded event.
func (e Event) EncodedSize() int { return len(e.raw) }

// Memory returns how many bytes the event occupies in memory.
func (e Event) Memory() int64 { return int64(cap(e.raw)) }

// InlineBody returns the body that the content itself holds, without copying it.
func (e Event) InlineBody() []byte { return e.raw[e.body:] }

// WithoutBody returns the event without its body; kind is BodyDropped or BodyLost.
func (e Event) WithoutBody(kind BodyKind) Event {
	b := make([]byte, maxHead, maxHead+e.body-e.description+tailRoom)
	return Event{Kind: kind, Size: e.Size}.encoded(append(b, e.raw[e.description:e.body]...), nil)
}

// WithAliases returns the event with the aliases of the otherwise unchanged record.
func (e Event) WithAliases(r *dedup.Record) Event {
	b := make([]byte, maxHead, maxHead+len(e.raw)+tailRoom)
	b = appendDescription(b, &dedup.Claim{Key: r.Key, Aliases: r.Aliases, Payload: r.Payload})
	return e.encoded(b, e.InlineBody())
}

// Encode returns the content of the event with a sequence. It shares the event's memory.
func (e Event) Encode(key []byte, seq uint64) []byte {
	b := binary.AppendUvarint(e.raw, seq) // into its spare capacity, which nothing else uses
	return binary.LittleEndian.AppendUint32(b, contentSum(crc32.Update(e.sum, castagnoli, b[len(e.raw):]), key))
}

// contentSum completes the checksum of a content, which differs from that of a value.
func contentSum(sum uint32, key []byte) uint32 {
	return crc32.Update(crc32.Update(sum, castagnoli, key), castagnoli, contentMark)
}

var contentMark = []byte{'c'}

// DecodeEvent checks and decodes the content of an event, and returns its sequence. The event
// aliases content.
func DecodeEvent(key, content []byte) (e Event, seq uint64, err error) {
	if len(content) < 1+sumSize {
		return e, 0, Damaged(key, "its content is missing", nil)
	}
	b := content[:len(content)-sumSize]
	switch {
	case contentSum(crc32.Checksum(b, castagnoli), key) != Checksum(content):
		return e, 0, Damaged(key, "the checksum of its content does not match", nil)
	case b[0] != eventVersion:
		return e, 0, Damaged(key, fmt.Sprintf("version %d of its content is not known", b[0]), nil)
	}
	c := wire.Reader(string(b[1:min(len(b), maxHead)]))
	description, inline := e.codeHead(&c, 0), int64(0)
	if e.Kind == BodyInline {
		inline = e.Size
	}
	e.description = min(len(b), maxHead) - len(c.S)
	rest := int64(len(b) - e.description)
	if c.Bad || e.Size < 0 || description < 0 || description > rest || inline > rest-description {
		return e, 0, Damaged(key, "the parts of its content do not add up", nil)
	}
	e.body = e.description + int(description)
	end := e.body + int(inline) //nolint:gosec // in b
	seq, n := binary.Uvarint(b[end:])
	if n != len(b)-end {
		return e, 0, Damaged(key, "its content does not end with a sequence", nil)
	}
	e.raw, e.sum = b[:end:end], crc32.Checksum(b[:end], castagnoli)
	return e, seq, nil
}

// ResealContent returns a copy of a damaged content that can be decoded: its checksum is valid.
func ResealContent(key, content []byte) []byte {
	if len(content) < sumSize {
		return content
	}
	b := slices.Clone(content[:len(content)-sumSize])
	return binary.LittleEndian.AppendUint32(b, contentSum(crc32.Checksum(b, castagnoli), key))
}

// Describe decodes key, aliases and payload, without the body, into r.
func (e Event) Describe(p Place, r *dedup.Record) error {
	c := wire.Reader(string(e.raw[e.description:e.body]))
	c.Refers, r.Aliases = true, nil
	codeDescription(&c, &r.Key, &r.Aliases, &r.Payload)
	return ended(&c, p.Key())
}

func appendDescription(b []byte, of *dedup.Claim) []byte {
	c, aliases := wire.Codec{B: b, Refers: true}, of.Names()
	codeDescription(&c, &of.Key, &aliases, &of.Payload)
	return c.B
}

func codeDescription(c *wire.Codec, key *dedup.Key, aliases *[]dedup.Key, p *dedup.Payload) {
	c.Key(key)
	c.Keys(aliases)
	for _, s := range [...]*string{&p.Producer, &p.Endpoint, &p.Type, &p.KeyField, &p.Method, &p.Target} {
		c.Text(s)
	}
	c.Header(&p.Header, false)
	c.Attributes(&p.Attributes)
	c.Text(&p.VendorID)
}

func keySize(k dedup.Key) int {
	return len(k.Principal) + len(k.Endpoint) + len(k.Space) + len(k.ID) + 8
}

// descriptionSize estimates the length of the description of a claim without an Occurrence, for the
// capacity of the value.
func descriptionSize(c *dedup.Claim) int {
	p := &c.Payload
	n := keySize(c.Key) + 2*len(p.Producer) + len(p.VendorID) + len(p.Target) + len(p.KeyField) + len(p.Type) + 64
	for _, k := range c.Aliases {
		n += keySize(k)
	}
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
