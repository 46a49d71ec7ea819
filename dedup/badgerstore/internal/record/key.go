package record

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/eyelet-dev/eyelet/dedup"
)

// The layout of the keys. Every key except the one of the counters starts with its family,
// followed by the first 20 bytes of the hash of the event's [dedup.Key]. Keys are uniformly
// distributed and not ordered by time: compaction of an LSM tree reclaims the space of uniform
// keys, but not that of time-ordered ones.
//
//	e hash            the newest event of a key: its state, and as content description and body
//	o hash seq        the event of an older generation of the key, in the same way
//	a hash            an alias: hash and seq of its event
//	b hash seq        a large body: that of the event with the sequence
//	r hash            the trace of a key beyond its window; only the first 16 bytes of the hash
//	n space hash      a note; 4 bytes of the hash of its space, 16 of that of its key
//	m                 the counters and the clock of the last commit
//	y, z n            of the index itself
const (
	FamilyEvent = 'e'
	FamilyOlder = 'o'
	FamilyAlias = 'a'
	FamilyBody  = 'b'
	FamilyTrace = 'r'
	FamilyMeta  = 'm'
	FamilyNote  = 'n'
)

// The lengths of the keys of a family, in bytes. Events, aliases and notes share KeySize.
const (
	hashSize     = 20
	traceIDSize  = 16
	KeySize      = 1 + hashSize
	OlderKeySize = KeySize + 8
	BodyKeySize  = KeySize + 8
	TraceKeySize = 1 + traceIDSize
	MaxKeySize   = BodyKeySize
)

// MetaKey is the key of the [Meta].
var MetaKey = []byte{FamilyMeta}

// Hash locates a key in the store: the first bytes of its hash.
type Hash [hashSize]byte

// HashOf returns the hash of a key.
func HashOf(k dedup.Key) Hash {
	full := k.Hash()
	return Hash(full[:hashSize])
}

// Key returns the key of a family that holds one value per hash: event, alias or note.
func (h Hash) Key(family byte) []byte { return h.AppendKey(make([]byte, 0, KeySize), family) }

// AppendKey appends what Key returns.
func (h Hash) AppendKey(b []byte, family byte) []byte { return append(append(b, family), h[:]...) }

// NoteHash returns the hash of the note of a key: those of a space are neighbours.
func NoteHash(k dedup.Key) (h Hash) {
	key := HashOf(k)
	copy(h[copy(h[:], NotePrefix(k.Space)[1:]):], key[:])
	return h
}

// NotePrefix returns what the keys of the notes of a space begin with.
func NotePrefix(space string) []byte {
	sum := sha256.Sum256([]byte(space))
	return append([]byte{FamilyNote}, sum[:hashSize-traceIDSize]...)
}

// BodyKey returns the key of the large body of the event with a sequence.
func (h Hash) BodyKey(seq uint64) []byte {
	return binary.BigEndian.AppendUint64(h.AppendKey(make([]byte, 0, BodyKeySize), FamilyBody), seq)
}

// ParseBodyKey returns the hash and the sequence of the event of a body key of BodyKeySize.
func ParseBodyKey(key []byte) (h Hash, seq uint64) {
	return Hash(key[1:KeySize]), binary.BigEndian.Uint64(key[KeySize:])
}

// TraceID locates a trace: the first bytes of the hash.
type TraceID [traceIDSize]byte

// TraceID returns the ID of the trace of a key.
func (h Hash) TraceID() TraceID { return TraceID(h[:traceIDSize]) }

// Key returns the key of the trace.
func (id TraceID) Key() []byte { return id.AppendKey(make([]byte, 0, TraceKeySize)) }

// AppendKey appends what Key returns.
func (id TraceID) AppendKey(b []byte) []byte { return append(append(b, FamilyTrace), id[:]...) }

// Place locates an event by its hash, and an older generation by its sequence (Older) as well.
type Place struct {
	Hash  Hash
	Older uint64
}

// PlaceOf returns the place that a key of an event or an older event belongs to.
func PlaceOf(key []byte) Place {
	p := Place{Hash: Hash(key[1:KeySize])}
	if key[0] == FamilyOlder {
		p.Older = binary.BigEndian.Uint64(key[KeySize:])
	}
	return p
}

// Family returns the family of the event at the place.
func (p Place) Family() byte {
	if p.Older != 0 {
		return FamilyOlder
	}
	return FamilyEvent
}

// Key returns the key of the event at the place.
func (p Place) Key() []byte { return p.AppendKey(make([]byte, 0, OlderKeySize)) }

// AppendKey appends what Key returns.
func (p Place) AppendKey(b []byte) []byte {
	b = p.Hash.AppendKey(b, p.Family())
	if p.Older != 0 {
		b = binary.BigEndian.AppendUint64(b, p.Older)
	}
	return b
}

// KnownKey reports whether a key has the length that its family requires.
func KnownKey(key []byte) bool {
	switch key[0] {
	case FamilyEvent, FamilyAlias, FamilyNote:
		return len(key) == KeySize
	case FamilyOlder:
		return len(key) == OlderKeySize
	case FamilyBody:
		return len(key) == BodyKeySize
	case FamilyTrace:
		return len(key) == TraceKeySize
	case FamilyMeta:
		return len(key) == 1
	}
	return false
}

// KeyName writes a key as text: its family, and the rest in hexadecimal.
func KeyName(key []byte) string {
	if len(key) == 0 {
		return "(empty)"
	}
	return fmt.Sprintf("%c:%x", key[0], key[1:])
}

// ParseKeyName parses the text of a key.
func ParseKeyName(name string) ([]byte, error) {
	if len(name) < 2 || name[1] != ':' {
		return nil, fmt.Errorf("damaged value %q has no key that can be repaired", name)
	}
	rest, err := hex.DecodeString(name[2:])
	return append([]byte{name[0]}, rest...), err
}

var idText = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

const idSize = 13 + 1 + 32

// EventID returns the opaque id of an event. The sequence makes it unique, the hash finds it.
func EventID(h Hash, seq uint64) string {
	var b [idSize]byte
	return string(appendEventID(b[:0], h, seq))
}

func appendEventID(b []byte, h Hash, seq uint64) []byte {
	b = strconv.AppendUint(b, seq, 36)
	return idText.AppendEncode(append(b, '-'), h[:])
}

// ParseEventID parses an event id. It reports false for text that is not an id of this store.
func ParseEventID(id string) (h Hash, seq uint64, ok bool) {
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
