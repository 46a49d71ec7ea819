package record

import (
	"encoding/binary"

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
	b := append(append(empty, aliasVersion), a.Hash[:]...)
	return Seal(key, binary.AppendUvarint(b, a.Seq))
}

// DecodeAlias checks and decodes the value of an alias.
func DecodeAlias(key, value []byte) (a Alias, err error) {
	content, err := unseal(key, value)
	if err != nil {
		return a, err
	}
	d := wire.Decoder{S: string(content[1:])}
	a.Hash = hashIn(&d)
	a.Seq = d.Uvarint()
	return a, ended(&d, key)
}

// EncodeTrace returns the value of a trace, in the memory behind the empty slice if that is enough.
func EncodeTrace(empty, key []byte, t dedup.Trace) []byte {
	b := binary.LittleEndian.AppendUint16(append(empty, version), uint16(t.Day))
	return Seal(key, append(b, t.Count))
}

// DecodeTrace checks and decodes the value of a trace.
func DecodeTrace(key, value []byte) (t dedup.Trace, err error) {
	content, err := unsealSize(key, value, 2+1)
	if err != nil {
		return t, err
	}
	return dedup.Trace{Day: dedup.Day(binary.LittleEndian.Uint16(content)), Count: content[2]}, nil
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
	content, err := unseal(key, value)
	if err != nil {
		return nil, err
	}
	return content[1:], nil
}
