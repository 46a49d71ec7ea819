package kv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/valuefile"
)

// index is what is at rest: Badger with keys and small parts, and the value files.
//
// What Badger has of a key is the value, or its [valuefile.Ref]. With a content it is the length of
// that, then the same, then the content or its reference.
type index struct {
	badger *badger.DB
	values *valuefile.Set
	room   func() error // returns why Badger cannot open a file at the moment
	// writing is called for each write of Badger, and what it returns at its end.
	writing func() (end func())
	work    Work // of put
}

const (
	// inlineMost is the size in bytes of the largest part in Badger; larger ones are in value
	// files, which compaction does not rewrite.
	inlineMost = 256

	// The marks of an entry of Badger.
	refValue   = 1 << 0
	hasContent = 1 << 1
	refContent = 1 << 2

	memTable   = 8 << 20
	cacheBytes = 64 << 20
)

// put writes a changeset at a version that nothing at rest has: of two writes of a key at the same
// version Badger may return either. A value file is written before the references to it. Keys are
// in the order of a memory table: the place of each there is found near that of the one before.
// After each transaction rest gets the time that it took.
func (x *index) put(version uint64, g *changeset, rest func(took time.Duration)) error {
	x.work.Begin()
	defer x.work.End()
	e := encoder{index: x, txn: x.badger.NewTransactionAt(math.MaxUint64, false)}
	defer e.txn.Discard()
	reached := badger.Entry{Key: reachedKey, Value: binary.AppendUvarint(nil, g.last)}
	memory := make([]badger.Entry, 0, 1+txnKeys)
	for keys := range slices.Chunk(slices.Sorted(maps.Keys(g.writes)), txnKeys) {
		x.work.Begin()
		begin := time.Now()
		entries, err := e.entries(append(memory, reached), keys, g) // see [checkpointer.discards]
		for len(entries) > 0 && err == nil {
			entries, err = x.write(version, entries)
		}
		if err != nil {
			return err
		}
		rest(time.Since(begin))
	}
	return nil
}

// write writes one transaction of entries, and returns the rest.
func (x *index) write(version uint64, entries []badger.Entry) (rest []badger.Entry, err error) {
	txn := x.badger.NewTransactionAt(math.MaxUint64, true)
	defer txn.Discard()
	n := 0
	for ; n < len(entries); n++ {
		if e := &entries[n]; e.Value == nil {
			err = txn.Delete(e.Key)
		} else {
			err = txn.SetEntry(e)
		}
		if n > 0 && errors.Is(err, badger.ErrTxnTooBig) {
			break
		} else if err != nil {
			return entries, err
		}
	}
	if err := x.room(); err != nil {
		return entries, &storedir.NotWrittenError{Err: err}
	}
	defer x.writing()()
	return entries[n:], txn.CommitAt(version, nil)
}

// txnKeys is the most keys of a changeset in a transaction: Badger writes one without a pause, and
// commits need the processor meanwhile.
const txnKeys = 256

// encoder makes entries of Badger.
type encoder struct {
	*index
	txn   *badger.Txn
	arena []byte
}

// entries writes the larger parts of keys and adds what goes to Badger. Badger has copied what was
// returned before.
func (e *encoder) entries(to []badger.Entry, keys []string, g *changeset) ([]badger.Entry, error) {
	e.arena = e.arena[:0]
	for _, k := range keys {
		entry, err := e.entry(k, g.writes[k])
		if err != nil {
			return nil, err
		}
		to = append(to, entry)
	}
	return to, e.values.Write()
}

func (e *encoder) entry(key string, w write) (entry badger.Entry, err error) {
	entry.Key = e.keep(func(b []byte) []byte { return append(b, key...) })
	if w.value == nil {
		return entry, nil
	}
	if entry.Value, err = e.part(entry.Key, w.value, refValue, &entry.UserMeta); err != nil {
		return entry, err
	}
	var content []byte
	switch {
	case w.keep:
		content, err = e.atRest(&entry)
	case w.content != nil:
		entry.UserMeta |= hasContent
		content, err = e.part(entry.Key, w.content, refContent, &entry.UserMeta)
	}
	if entry.UserMeta&hasContent != 0 {
		value := entry.Value
		entry.Value = e.keep(func(b []byte) []byte {
			return append(append(binary.AppendUvarint(b, uint64(len(value))), value...), content...)
		})
	}
	return entry, err
}

// keep returns what add appends.
func (e *encoder) keep(add func([]byte) []byte) []byte {
	from := len(e.arena)
	e.arena = add(e.arena)
	return e.arena[from:len(e.arena):len(e.arena)]
}

// part returns a part as it is stored: itself, or a reference, which is marked.
func (e *encoder) part(key, b []byte, mark byte, marks *byte) ([]byte, error) {
	if len(b) <= inlineMost {
		return b, nil
	}
	ref, err := e.values.Append(key, b)
	*marks |= mark
	return e.keep(ref.AppendTo), err
}

// atRest returns the content that a key has, as it is stored, and marks it. During a replay it may
// be that of a later commit, whose bytes are gone: the replay ends with what that commit wrote.
func (e *encoder) atRest(entry *badger.Entry) (content []byte, err error) {
	item, err := e.txn.Get(entry.Key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	entry.UserMeta |= item.UserMeta() &^ refValue
	err = item.Value(func(b []byte) error {
		_, content, err = split(item.UserMeta(), b)
		content = e.keep(func(to []byte) []byte { return append(to, content...) })
		return err
	})
	return content, err
}

// split returns the parts of what Badger has of a key, as they are stored.
func split(marks byte, b []byte) (value, content []byte, err error) {
	if marks&hasContent == 0 {
		return b, nil, nil
	}
	n, k := binary.Uvarint(b)
	if k <= 0 || n > uint64(len(b)-k) {
		return nil, nil, errors.New("the parts of the value do not add up")
	}
	at := k + int(n) //nolint:gosec // in b
	return b[k:at], b[at:], nil
}

// get returns the newest value of a key, nil if it does not exist, and its content.
func (x *index) get(key []byte, whole bool) (value, content []byte, err error) {
	txn := x.badger.NewTransactionAt(math.MaxUint64, false)
	defer txn.Discard()
	return x.read(txn, key, whole)
}

func (x *index) read(txn *badger.Txn, key []byte, whole bool) (value, content []byte, err error) {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return x.parts(item, whole)
}

// parts returns copies of the value of an item, never nil, and with whole of its content. If only
// that cannot be read, it returns the value, and the bytes of a damaged content, with the error.
func (x *index) parts(item *badger.Item, whole bool) (value, content []byte, err error) {
	err = item.Value(func(raw []byte) error {
		value, content, err = x.decode(item.Key(), item.UserMeta(), raw, whole)
		return err
	})
	return value, content, err
}

func (x *index) decode(key []byte, marks byte, raw []byte, whole bool) (value, content []byte, err error) {
	value, content, err = split(marks, raw)
	if err == nil {
		value, err = x.load(key, value, marks&refValue != 0)
	}
	switch {
	case err != nil:
		return nil, nil, err
	case !whole || marks&hasContent == 0:
		return value, nil, nil
	}
	content, err = x.load(key, content, marks&refContent != 0)
	return value, content, err
}

// load returns a copy of a part from what is stored, never nil without an error.
func (x *index) load(key, stored []byte, isRef bool) ([]byte, error) {
	if !isRef {
		return append(make([]byte, 0, len(stored)), stored...), nil
	}
	ref, err := valuefile.ParseRef(stored)
	if err != nil {
		return nil, err
	}
	return x.values.Read(key, ref)
}

// The keys of the index itself, which no view shows. Filler, the last key, and the first key have
// no meaning: they only fill a memory table. The other one holds the number of the last commit of
// which something is at rest.
var (
	firstKey   = []byte{0}
	fillerKey  = []byte{'z', 0, 0, 0, 0}
	reachedKey = []byte{'y'}
)

func isOwn(key []byte) bool {
	return bytes.HasPrefix(key, firstKey) || bytes.HasPrefix(key, fillerKey[:1]) || bytes.HasPrefix(key, reachedKey)
}

// reached returns the number of the last commit of which something is at rest: the
// highest version if no changeset is.
func (x *index) reached() (commit uint64, err error) {
	value, _, err := x.get(reachedKey, false)
	if err != nil || value == nil {
		return x.badger.MaxVersion(), err
	}
	commit, n := binary.Uvarint(value)
	if n != len(value) {
		return 0, fmt.Errorf("%w: the number of the last commit at rest", errDamaged)
	}
	return commit, nil
}

func fillerSize(memTable int64) int64 { return min(memTable/16, 1<<20-1) }

// fill writes filler of some size at each key to one memory table. It is overwritten, and expires,
// at once.
func (x *index) fill(version uint64, size int64, keys ...[]byte) error {
	entries := make([]badger.Entry, len(keys))
	for i, key := range keys {
		entries[i] = badger.Entry{Key: key, Value: make([]byte, size), ExpiresAt: 1}
	}
	_, err := x.write(version, entries)
	return err
}
