package badgerstore

import (
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// mark is what the row adds to the sum.
func (r *row) mark() uint64 {
	return record.Mark(r.place.Family(), r.place, r.checksum)
}

// errMissing says that a store does not hold what its last commit counted.
func errMissing(dir string, want, have record.Census) error {
	return fmt.Errorf("store %s lost a part of what it acknowledged: %s. Its files are as they were; "+
		"restore a backup, or accept the loss (AcceptLoss, --accept-loss): lost events are gone, and a repeated delivery of one is new",
		dir, difference(want, have))
}

// difference says how what is there differs from what was counted.
func difference(want, have record.Census) string {
	if want.Entries == have.Entries {
		return fmt.Sprintf("all %d events and aliases that its last commit counted are there, but not all in their newest state", want.Entries)
	}
	return fmt.Sprintf("its last commit counted %d events and aliases, and %d are there", want.Entries, have.Entries)
}

// missing compares what a start found with what the last commit counted. A value that is damaged cannot be compared: it
// is told by itself, and the number of entries still has to agree.
func missing(counted, found record.Census, damaged int) bool {
	return counted.Known && counted != found && (damaged == 0 || counted.Entries != found.Entries)
}

// countAlias notes in the census what a batch changes about one alias. It runs before the change is staged.
func (b *batch) countAlias(h record.Hash, after []byte) {
	key := h.Key(record.FamilyAlias)
	before, err := readValue(b.txn, key)
	if err == nil && before != nil {
		err = record.Verify(key, before)
	}
	if err != nil {
		b.uncounted = true
		return
	}
	if before != nil {
		b.aliasChange.Add(^uint64(0), -record.Mark(record.FamilyAlias, record.Place{Hash: h}, record.Checksum(before)))
	}
	if after != nil {
		b.aliasChange.Add(1, record.Mark(record.FamilyAlias, record.Place{Hash: h}, record.Checksum(after)))
	}
}

// census returns what the store holds after the batch.
func (b *batch) census() record.Census {
	if b.uncounted {
		return record.Census{}
	}
	c := b.s.meta.Census
	if b.recount != nil {
		c = *b.recount
	}
	if c.Known {
		c.Add(uint64(b.change.records), b.change.sum) //nolint:gosec // a negative number takes away, modulo 2^64
		c.Add(b.aliasChange.Entries, b.aliasChange.Sum)
	}
	return c
}

// scanAliases calls each for the aliases of a part, with the seal of the value, zero where that is damaged.
func (s *Store) scanAliases(txn *badger.Txn, p part, each func(h record.Hash, seal uint32)) int {
	it := txn.NewIterator(keysOnly(record.FamilyAlias))
	defer it.Close()
	damaged := 0
	for it.Seek(p.first(record.FamilyAlias)); it.Valid() && p.has(it.Item().Key()); it.Next() {
		key := it.Item().KeyCopy(nil)
		if len(key) != record.KeySize {
			continue
		}
		seal := uint32(0)
		err := it.Item().Value(func(value []byte) error {
			err := record.Verify(key, value)
			seal = record.Checksum(value)
			return err
		})
		if err != nil {
			s.damage(err)
			seal = 0
			damaged++
		}
		each(record.Hash(key[1:]), seal)
	}
	return damaged
}
