package badgerstore

import (
	"encoding/base32"
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/eyelet-dev/eyelet/dedup"
)

// The layout of the keys. Every key but that of the counters begins with the family and goes on with the
// first 20 bytes of the hash of the event's [dedup.Key]. Keys are uniform, never ordered by time: an LSM tree
// gives the space of uniform keys back while it compacts, that of time-ordered ones it does not.
//
//	e hash            the event as it was claimed: description, body and first state
//	s hash            the state of the event since then; wins over the one in e
//	o hash seq        the event of an older generation of the key, with its last state
//	a hash            an alias: hash and seq of its event
//	c hash body n     piece n of a large body
//	r hash            what is remembered of a key beyond its window; the first 16 bytes of the hash only
//	m                 the counters and the clock of the last commit
//	z n               filling, of no meaning
const (
	familyEvent  = 'e'
	familyState  = 's'
	familyOlder  = 'o'
	familyAlias  = 'a'
	familyChunk  = 'c'
	familyTrace  = 'r'
	familyMeta   = 'm'
	familyFill   = 'z'
	hashSize     = 20
	rowKeySize   = 1 + hashSize
	olderKeySize = rowKeySize + 8
	chunkKeySize = rowKeySize + 8 + 4
)

// hash is the place of a key in the store.
type hash [hashSize]byte

func hashOf(k dedup.Key) hash {
	full := k.Hash()
	return hash(full[:hashSize])
}

func (h hash) key(family byte) []byte {
	b := make([]byte, 0, rowKeySize)
	return append(append(b, family), h[:]...)
}

func (h hash) olderKey(seq uint64) []byte {
	b := make([]byte, 0, olderKeySize)
	b = append(append(b, familyOlder), h[:]...)
	return binary.BigEndian.AppendUint64(b, seq)
}

func (h hash) chunkKey(body uint64, n uint32) []byte {
	b := make([]byte, 0, chunkKeySize)
	b = append(append(b, familyChunk), h[:]...)
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(b, body), n)
}

// place is where a record lives: that of the newest generation under its hash (older is zero), that of an
// older one under hash and sequence.
type place struct {
	hash  hash
	older uint64
}

func (p place) key() []byte {
	if p.older != 0 {
		return p.hash.olderKey(p.older)
	}
	return p.hash.key(familyEvent)
}

func olderPlace(key []byte) place {
	return place{hash: hash(key[1:rowKeySize]), older: binary.BigEndian.Uint64(key[rowKeySize:])}
}

var idText = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// eventID writes the sequence of an event and the hash of its key as the event's opaque id, so that the id
// alone finds the record and the sequence keeps it from ever being used again.
func eventID(h hash, seq uint64) string {
	var b [idSize]byte
	return string(appendEventID(b[:0], h, seq))
}

const idSize = 13 + 1 + 32

func appendEventID(b []byte, h hash, seq uint64) []byte {
	b = strconv.AppendUint(b, seq, 36)
	return idText.AppendEncode(append(b, '-'), h[:])
}

// parseEventID undoes eventID. It reports false for text that is no id of this store.
func parseEventID(id string) (h hash, seq uint64, ok bool) {
	number, text, found := strings.Cut(id, "-")
	if !found || len(text) != idText.EncodedLen(hashSize) {
		return h, 0, false
	}
	seq, err := strconv.ParseUint(number, 36, 64)
	if err != nil || seq == 0 {
		return h, 0, false
	}
	var in, again [idSize]byte
	if _, err := idText.Decode(h[:], append(in[:0], text...)); err != nil {
		return h, 0, false
	}
	return h, seq, string(appendEventID(again[:0], h, seq)) == id
}
