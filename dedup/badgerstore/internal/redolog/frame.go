package redolog

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

const (
	magic     = "EYLREDO1"
	headCopy  = 4096 // the copies of a head are in pages of their own
	headSize  = 2 * headCopy
	headBytes = 68
	frameHead = 24
	align     = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// head describes a segment.
type head struct {
	number uint64
	salt   uint64   // random, so that nothing that clients send can look like a frame
	size   int64    // of the file
	before Position // where the log ended when this segment was begun
}

// encode writes both copies of the head.
func (h *head) encode(b []byte, store [16]byte) {
	c := append(append(b[:0], magic...), store[:]...)
	for _, v := range []uint64{h.number, h.salt, uint64(h.size), h.before.Segment, uint64(h.before.Offset)} {
		c = binary.LittleEndian.AppendUint64(c, v)
	}
	c = binary.LittleEndian.AppendUint32(c, crc32.Checksum(c, castagnoli))
	copy(b[headCopy:], c)
}

// decodeHead reads one copy of a head. ours reports whether it describes this segment of this
// store, and not a former use of the file. torn reports that it describes nothing, though it was
// written.
func decodeHead(b []byte, store [16]byte, number uint64) (h head, ours, torn bool) {
	b = b[:headBytes]
	if crc32.Checksum(b[:headBytes-4], castagnoli) != binary.LittleEndian.Uint32(b[headBytes-4:]) {
		return h, false, !bytes.Equal(b, make([]byte, headBytes))
	}
	if string(b[:8]) != magic || !bytes.Equal(b[8:24], store[:]) {
		return h, false, false
	}
	u := func(i int) uint64 { return binary.LittleEndian.Uint64(b[24+8*i:]) }
	h = head{number: u(0), salt: u(1), size: int64(u(2)), before: Position{u(3), int64(u(4))}}
	return h, h.number == number, false
}

// seed is the checksum with which those of a segment's frames begin.
func (h *head) seed(store [16]byte) uint32 {
	b := binary.LittleEndian.AppendUint64(store[:], h.number)
	return crc32.Checksum(binary.LittleEndian.AppendUint64(b, h.salt), castagnoli)
}

// appendFrame appends a frame. Its checksums are missing: they depend on its place.
func appendFrame(b []byte, group uint64, entries []Entry) []byte {
	at := len(b)
	b = append(b, make([]byte, frameHead)...)
	for i := range entries {
		b = appendEntry(b, &entries[i])
	}
	binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-frameHead))
	binary.LittleEndian.PutUint32(b[at+4:], uint32(len(entries)))
	binary.LittleEndian.PutUint64(b[at+8:], group)
	return append(b, make([]byte, -len(b)&(align-1))...)
}

// The flags of an entry, above the length of its key.
const (
	flagContent = (MaxKey + 1) << iota
	flagKeep
	flagsEnd
)

func appendEntry(b []byte, e *Entry) []byte {
	size, key := uint64(0), uint64(len(e.Key))
	if e.Value != nil {
		size = 1 + uint64(len(e.Value))
	}
	if e.Keep {
		key |= flagKeep
	}
	if e.Content == nil {
		b = binary.AppendUvarint(binary.AppendUvarint(b, key), size)
		return append(append(b, e.Key...), e.Value...)
	}
	b = binary.AppendUvarint(binary.AppendUvarint(b, key|flagContent), size)
	b = binary.AppendUvarint(b, uint64(len(e.Content)))
	return append(append(append(b, e.Key...), e.Value...), e.Content...)
}

// sealFrame fills in the checksums of a frame at an offset of the segment with a seed.
func sealFrame(b []byte, seed uint32, offset int64) {
	length := binary.LittleEndian.Uint32(b)
	ofHead := headSum(b, seed, offset)
	ofAll := crc32.Update(ofHead, castagnoli, b[frameHead:frameHead+length])
	binary.LittleEndian.PutUint32(b[16:], ofAll)
	binary.LittleEndian.PutUint32(b[20:], ofHead)
}

// headSum is the checksum of the fields of a frame and its place. It overwrites the checksums in
// the frame.
func headSum(b []byte, seed uint32, offset int64) uint32 {
	binary.LittleEndian.PutUint64(b[16:], uint64(offset))
	return crc32.Update(seed, castagnoli, b[:frameHead])
}

// frameSize returns the size of a frame with its padding from its head.
func frameSize(b []byte) int64 {
	return (frameHead + int64(binary.LittleEndian.Uint32(b)) + align - 1) &^ (align - 1)
}

// isPossible reports whether bytes can be the head of a frame of at most a number of bytes. It
// rejects almost all other bytes, and zeros.
func isPossible(b []byte, room int64) bool {
	first := binary.LittleEndian.Uint64(b)
	if first == 0 {
		return binary.LittleEndian.Uint64(b[16:]) != 0
	}
	length, n := uint32(first), uint32(first>>32)
	return n <= length/2 && frameSize(b) <= room
}

// decodeEntries appends n entries to a list. It returns false if the bytes are anything else.
func decodeEntries(list []Entry, n uint32, b []byte) ([]Entry, bool) {
	for ; n > 0; n-- {
		key, ok := cutUvarint(&b)
		size, ok2 := cutUvarint(&b)
		if !ok || !ok2 || key >= flagsEnd {
			return list, false
		}
		e := Entry{Keep: key&flagKeep != 0}
		content := uint64(0)
		if key&flagContent != 0 {
			if content, ok = cutUvarint(&b); !ok || size == 0 || e.Keep {
				return list, false
			}
		}
		e.Key, ok = cut(&b, key&MaxKey)
		if size > 0 && ok {
			e.Value, ok = cut(&b, size-1)
		}
		if key&flagContent != 0 && ok {
			e.Content, ok = cut(&b, content)
		}
		if !ok {
			return list, false
		}
		list = append(list, e)
	}
	return list, len(b) == 0
}

// cutUvarint removes the number that b begins with.
func cutUvarint(b *[]byte) (v uint64, ok bool) {
	v, n := binary.Uvarint(*b)
	*b = (*b)[max(n, 0):]
	return v, n > 0
}

// cut removes the first n bytes of b.
func cut(b *[]byte, n uint64) (first []byte, ok bool) {
	if n > uint64(len(*b)) {
		return nil, false
	}
	first = (*b)[:n:n]
	*b = (*b)[n:]
	return first, true
}
