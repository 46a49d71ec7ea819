package record

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/internal/wire"
)

// Alias is the value of an alias: the event that it belongs to.
type Alias struct {
	Hash Hash
	Seq  uint64
}

// Encode returns the value of the alias, in the memory behind the empty slice if that is enough.
func (a Alias) Encode(empty, key []byte) []byte {
	c := wire.Codec{B: append(empty, aliasVersion)}
	a.code(&c)
	return Seal(key, c.B)
}

// DecodeAlias checks and decodes the value of an alias.
func DecodeAlias(key, value []byte) (a Alias, err error) {
	c, err := unseal(key, value)
	if err == nil {
		a.code(&c)
		err = ended(&c, key)
	}
	return a, err
}

func (a *Alias) code(c *wire.Codec) {
	c.Bytes(a.Hash[:])
	wire.Uint(c, &a.Seq)
}

// EncodeTrace returns the value of a trace, in the memory behind the empty slice if that is enough.
func EncodeTrace(empty, key []byte, t dedup.Trace) []byte {
	c := wire.Codec{B: append(empty, version)}
	codeTrace(&c, &t)
	return Seal(key, c.B)
}

// DecodeTrace checks and decodes the value of a trace.
func DecodeTrace(key, value []byte) (t dedup.Trace, err error) {
	c, err := unseal(key, value)
	if err == nil {
		codeTrace(&c, &t)
		err = ended(&c, key)
	}
	return t, err
}

func codeTrace(c *wire.Codec, t *dedup.Trace) {
	wire.Uint(c, &t.Day)
	wire.Uint(c, &t.Count)
}

// EncodeNote returns the value of a note, in the memory behind the empty slice if that is enough.
func EncodeNote(empty, key []byte, n dedup.Note) []byte {
	c := wire.Codec{B: append(empty, version)}
	codeNote(&c, &n)
	return Seal(key, c.B)
}

// DecodeNote checks and decodes the value of a note.
func DecodeNote(key, value []byte) (n dedup.Note, err error) {
	c, err := unseal(key, value)
	if err == nil {
		codeNote(&c, &n)
		err = ended(&c, key)
	}
	return n, err
}

func codeNote(c *wire.Codec, n *dedup.Note) {
	c.Key(&n.Key)
	c.Time(&n.At)
	c.Text(&n.Text)
}

// InlineMost is the length of the longest body that is stored with its event, in bytes. Larger ones
// are stored under a key of their own, so that reading an event does not read its body.
const InlineMost = 512 << 10

// Body is a large body, encoded but for its key.
type Body struct {
	b   []byte
	sum uint32
}

// NewBody encodes a body.
func NewBody(body []byte) Body {
	b := append(append(make([]byte, 0, 1+len(body)+sumSize), version), body...)
	return Body{b, crc32.Checksum(b, castagnoli)}
}

// Len returns the length of the value, 0 for the zero Body.
func (b Body) Len() int { return len(b.b) }

// Encode returns the value of the body. It shares the memory of the body.
func (b Body) Encode(key []byte) []byte {
	return binary.LittleEndian.AppendUint32(b.b, crc32.Update(b.sum, castagnoli, key))
}

// DecodeBody checks the value of a body and returns it, without copying it.
func DecodeBody(key, value []byte) ([]byte, error) {
	if err := Verify(key, value); err != nil {
		return nil, err
	}
	return value[1 : len(value)-sumSize], nil
}
