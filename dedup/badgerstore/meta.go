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
}

func encodeMeta(m meta) []byte {
	b := make([]byte, 1, 64)
	b[0] = codecVersion
	for _, n := range [...]uint64{m.commit, m.seq, m.token, m.boot, uint64(m.window)} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return seal(metaKey, appendTime(b, m.wall))
}

// readMeta returns the counters; the zero value for a new store.
func readMeta(txn *badger.Txn) (m meta, err error) {
	value, err := readValue(txn, metaKey)
	if value == nil || err != nil {
		return m, err
	}
	content, err := unseal(metaKey, value)
	if err != nil {
		return m, err
	}
	if len(content) < 1+5*8 {
		return m, damaged(metaKey, "too short", nil)
	}
	n := func(i int) uint64 { return binary.LittleEndian.Uint64(content[1+8*i:]) }
	m = meta{commit: n(0), seq: n(1), token: n(2), boot: n(3), window: time.Duration(n(4))}
	d := decoder{s: string(content[1+5*8:])}
	m.wall = d.time()
	return m, d.end(metaKey)
}
