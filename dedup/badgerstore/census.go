package badgerstore

import (
	"encoding/binary"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// census says what a store holds. Every commit writes it with the counters, and a start compares it with
// what it reads. So a table that is gone, a log that is damaged in its middle, or a state that is an earlier one
// is noticed, wherever it was lost: without it, an event that is not found would be new again.
type census struct {
	known   bool   // it is not in stores of format 1, nor while a repair is under way
	entries uint64 // events of every generation, and aliases
	sum     uint64 // of the marks of all of them
}

// mark is what one entry adds to the sum. seal is the checksum of the value that has the newest state of an event, or
// of the value of an alias, and covers the key: it is zero where no value can be read.
func mark(family byte, p place, seal uint32) uint64 {
	x := binary.LittleEndian.Uint64(p.hash[:]) ^ uint64(family)<<56 ^ uint64(seal)
	for _, n := range [...]uint64{binary.LittleEndian.Uint64(p.hash[8:]), p.older, uint64(seal)<<32 | uint64(family)} {
		x = (x ^ n) + 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}

// sealOf returns the checksum at the end of a stored value.
func sealOf(value []byte) uint32 {
	if len(value) < sumSize {
		return 0
	}
	return binary.LittleEndian.Uint32(value[len(value)-sumSize:])
}

// mark is what the row adds to the sum.
func (r *row) mark() uint64 {
	family := byte(familyEvent)
	if r.place.older != 0 {
		family = familyOlder
	}
	return mark(family, r.place, r.seal)
}

func (c *census) add(entries, sum uint64) {
	c.entries += entries
	c.sum += sum
}

// errMissing says that a store does not hold what its last commit counted.
func errMissing(dir string, want, have census) error {
	return fmt.Errorf("store %s lost a part of what it acknowledged: %s. Its files are as they were; "+
		"restore a backup, or accept the loss (AcceptLoss, --accept-loss): lost events are gone, and a repeated delivery of one is new",
		dir, difference(want, have))
}

// difference says how what is there differs from what was counted.
func difference(want, have census) string {
	if want.entries == have.entries {
		return fmt.Sprintf("all %d events and aliases that its last commit counted are there, but not all in their newest state", want.entries)
	}
	return fmt.Sprintf("its last commit counted %d events and aliases, and %d are there", want.entries, have.entries)
}

// missing compares what a start found with what the last commit counted. A value that is damaged cannot be compared: it
// is told by itself, and the number of entries still has to agree.
func (c census) missing(found census, damaged int) bool {
	return c.known && c != found && (damaged == 0 || c.entries != found.entries)
}

// countAlias notes in the census what a batch changes about one alias. It runs before the change is staged.
func (b *batch) countAlias(h hash, after []byte) {
	key := h.key(familyAlias)
	before, err := readValue(b.txn, key)
	if err == nil && before != nil {
		_, err = unseal(key, before)
	}
	if err != nil {
		b.uncounted = true
		return
	}
	if before != nil {
		b.aliasChange.add(^uint64(0), -mark(familyAlias, place{hash: h}, sealOf(before)))
	}
	if after != nil {
		b.aliasChange.add(1, mark(familyAlias, place{hash: h}, sealOf(after)))
	}
}

// census returns what the store holds after the batch.
func (b *batch) census() census {
	if b.uncounted {
		return census{}
	}
	c := b.s.meta.census
	if b.recount != nil {
		c = *b.recount
	}
	if c.known {
		c.add(uint64(b.change.records), b.change.sum) //nolint:gosec // a negative number takes away, modulo 2^64
		c.add(b.aliasChange.entries, b.aliasChange.sum)
	}
	return c
}

// scanAliases calls each for the aliases of a part, with the seal of the value, zero where that is damaged.
func (s *Store) scanAliases(txn *badger.Txn, p part, each func(h hash, seal uint32)) int {
	it := txn.NewIterator(keysOnly(familyAlias))
	defer it.Close()
	damaged := 0
	for it.Seek(p.first(familyAlias)); it.Valid() && p.has(it.Item().Key()); it.Next() {
		key := it.Item().KeyCopy(nil)
		if len(key) != rowKeySize {
			continue
		}
		seal := uint32(0)
		err := it.Item().Value(func(value []byte) error {
			_, err := unseal(key, value)
			seal = sealOf(value)
			return err
		})
		if err != nil {
			s.damage(err)
			seal = 0
			damaged++
		}
		each(hash(key[1:]), seal)
	}
	return damaged
}
