package kv

import (
	"bytes"
	"errors"
	"math"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/valuefile"
)

// index is what is at rest: Badger with keys and small values, and the value files.
type index struct {
	badger *badger.DB
	values *valuefile.Set
	work   Work // of put
}

const (
	// inlineMost is the size in bytes of the largest value in Badger; larger ones are in value
	// files, which compaction does not rewrite.
	inlineMost = 256
	// isRef marks an entry of Badger whose value is a [valuefile.Ref].
	isRef = 1

	memTable   = 16 << 20
	cacheBytes = 64 << 20
)

// put writes a changeset at a version: the number of its last commit. A value file is written
// before the references to it.
func (x *index) put(version uint64, g *changeset) error {
	x.work.Begin()
	defer x.work.End()
	entries, err := x.entries(g)
	if err != nil {
		return err
	}
	txn := x.badger.NewTransactionAt(math.MaxUint64, true)
	defer func() { txn.Discard() }()
	next := func() error {
		x.work.Begin()
		err := txn.CommitAt(version, nil)
		txn = x.badger.NewTransactionAt(math.MaxUint64, true)
		return err
	}
	for i := range entries {
		if i%txnKeys == 0 && i > 0 {
			err = next()
		}
		if err == nil {
			err = set(txn, &entries[i])
		}
		if errors.Is(err, badger.ErrTxnTooBig) {
			if err = next(); err == nil {
				err = set(txn, &entries[i])
			}
		}
		if err != nil {
			return err
		}
	}
	return txn.CommitAt(version, nil)
}

// txnKeys is the most keys of a transaction: Badger writes one without a pause, and commits need
// the processor meanwhile.
const txnKeys = 256

// entries writes the larger values and returns what goes to Badger.
func (x *index) entries(g *changeset) ([]badger.Entry, error) {
	size := 0
	for k := range g.values {
		size += len(k) + valuefile.MaxRef
	}
	entries, arena := make([]badger.Entry, 0, len(g.values)), make([]byte, 0, size)
	for k, v := range g.values {
		from := len(arena)
		arena = append(arena, k...)
		e := badger.Entry{Key: arena[from:len(arena):len(arena)], Value: v}
		if len(v) > inlineMost {
			ref, err := x.values.Append(e.Key, v)
			if err != nil {
				return nil, err
			}
			from = len(arena)
			arena = ref.AppendTo(arena)
			e.Value, e.UserMeta = arena[from:len(arena):len(arena)], isRef
		}
		entries = append(entries, e)
	}
	return entries, x.values.Write()
}

func set(txn *badger.Txn, e *badger.Entry) error {
	if e.Value == nil {
		return txn.Delete(e.Key)
	}
	return txn.SetEntry(e)
}

// get returns the newest value of a key, nil if it does not exist.
func (x *index) get(key []byte) ([]byte, error) {
	txn := x.badger.NewTransactionAt(math.MaxUint64, false)
	defer txn.Discard()
	return x.read(txn, key)
}

func (x *index) read(txn *badger.Txn, key []byte) ([]byte, error) {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return x.value(item)
}

// value returns a copy of the value of an item, never nil.
func (x *index) value(item *badger.Item) (value []byte, err error) {
	err = item.Value(func(b []byte) error {
		if item.UserMeta() != isRef {
			value = append(make([]byte, 0, len(b)), b...)
			return nil
		}
		ref, err := valuefile.ParseRef(b)
		if err != nil {
			return err
		}
		value, err = x.values.Read(item.Key(), ref)
		return err
	})
	return value, err
}

// fillerKey is the key of filler, which has no meaning: it only fills a memory table.
var fillerKey = []byte{'z', 0, 0, 0, 0}

func isFiller(key []byte) bool { return bytes.HasPrefix(key, fillerKey[:1]) }

func fillerSize(memTable int64) int64 { return min(memTable/16, 1<<20-1) }

// fill writes filler to a memory table. It is overwritten, and expires, at once.
func (x *index) fill(version uint64, size int64) error {
	txn := x.badger.NewTransactionAt(math.MaxUint64, true)
	defer txn.Discard()
	e := badger.NewEntry(fillerKey, make([]byte, size))
	e.ExpiresAt = 1
	if err := txn.SetEntry(e); err != nil {
		return err
	}
	return txn.CommitAt(version, nil)
}
