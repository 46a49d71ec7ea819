package record

import (
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

// ChunkSize is the length of the chunks of a large body, in bytes, and the longest body that is
// stored inline.
const ChunkSize = 512 << 10

// ChunkCount returns the number of chunks of a body.
func ChunkCount(size int64) uint32 { return uint32((size + ChunkSize - 1) / ChunkSize) }

// EncodeChunk returns the value of a chunk.
func EncodeChunk(key, chunk []byte) []byte {
	b := make([]byte, 1, 1+len(chunk)+sumSize)
	b[0] = version
	return Seal(key, append(b, chunk...))
}

// DecodeChunk checks the value of a chunk and returns its content, without copying it.
func DecodeChunk(key, value []byte) ([]byte, error) {
	if err := Verify(key, value); err != nil {
		return nil, err
	}
	return value[1 : len(value)-sumSize], nil
}
