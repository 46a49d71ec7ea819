package badgerstore

import (
	"encoding/binary"
	"time"

	"github.com/dgraph-io/badger/v4"
)

var metaKey = []byte{familyMeta}

// meta is what every commit writes: the counters, and the clock.
type meta struct {
	commit uint64        // number of the commit
	seq    uint64        // sequence of the newest event
	token  uint64        // newest token
	boot   uint64        // how often the store was opened
	wall   time.Time     // when the commit was made
	window time.Duration // longest window of any claim
	census census        // what the store holds
	gaps   gaps          // times that do not count for windows

	since   uint64 // the day on which the store began to remember keys beyond their windows
	evicted uint64 // the first day of them that was not forgotten for want of room; 0 for all

	reclaimed time.Time // when space was given back, or the store was made
	removed   int64     // bytes of bodies deleted since then
}

// fields lists what version 2 stores.
func (m *meta) fields() []field {
	return []field{
		{1, &m.commit}, {2, &m.seq}, {3, &m.token}, {4, &m.boot}, {5, &m.wall}, {6, &m.window},
		{7, &m.census.known}, {8, &m.census.entries}, {9, &m.census.sum}, {10, &m.gaps},
		{20, &m.since}, {21, &m.evicted},
		{30, &m.reclaimed}, {31, &m.removed},
	}
}

func encodeMeta(m meta) []byte {
	b := make([]byte, 1, 128)
	b[0] = codecVersion
	return seal(metaKey, appendFields(b, m.fields()...))
}

// readMeta returns the counters; the zero value for a new store.
func readMeta(txn *badger.Txn) (m meta, err error) {
	value, err := readValue(txn, metaKey)
	if value == nil || err != nil {
		return m, err
	}
	return decodeMeta(value)
}

func decodeMeta(value []byte) (m meta, err error) {
	content, err := unseal(metaKey, value)
	if err != nil {
		return m, err
	}
	if content[0] == 1 {
		return decodeMeta1(content)
	}
	d := decoder{s: string(content[1:])}
	d.fields(m.fields()...)
	return m, d.end(metaKey)
}

// decodeMeta1 reads version 1: five numbers of eight bytes and the time.
func decodeMeta1(content []byte) (m meta, err error) {
	if len(content) < 1+5*8 {
		return m, damaged(metaKey, "too short", nil)
	}
	n := func(i int) uint64 { return binary.LittleEndian.Uint64(content[1+8*i:]) }
	m = meta{commit: n(0), seq: n(1), token: n(2), boot: n(3), window: time.Duration(n(4))}
	d := decoder{s: string(content[1+5*8:])}
	m.wall = d.time()
	return m, d.end(metaKey)
}
