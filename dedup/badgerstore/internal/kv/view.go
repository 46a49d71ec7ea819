package kv

import (
	"bytes"
	"iter"

	"github.com/dgraph-io/badger/v4"
)

// View is the database as one commit has left it.
type View struct {
	index *index
	txn   *badger.Txn
}

// View calls read with everything committed before the call. Meanwhile values stay readable.
func (d *DB) View(read func(*View) error) error {
	if err := d.Settle(); err != nil {
		return err
	}
	o := d.overlay
	o.mu.Lock()
	at, release := o.visible, d.index.values.Hold()
	o.views[at]++
	o.mu.Unlock()
	v := &View{index: d.index, txn: d.Badger().NewTransactionAt(at, false)}
	defer func() {
		v.txn.Discard()
		release()
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.views[at]--; o.views[at] == 0 {
			delete(o.views, at)
		}
	}()
	return read(v)
}

// Watch calls use with a watch, which grows with every key that is changed meanwhile.
func (d *DB) Watch(use func(w *Watch) error) error {
	o, w := d.overlay, &Watch{d.overlay, map[string]struct{}{}}
	o.mu.Lock()
	o.watches[w] = struct{}{}
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.watches, w)
	}()
	return use(w)
}

// oldestView returns the lowest version that is read: compaction keeps what it needs. viewed
// reports whether there is a view.
func (o *overlay) oldestView() (oldest uint64, viewed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	oldest = o.visible
	for version := range o.views {
		oldest = min(oldest, version)
	}
	return oldest, len(o.views) > 0
}

// Get returns a copy of the value of a key, nil if the key does not exist.
func (v *View) Get(key []byte) ([]byte, error) {
	value, _, err := v.index.read(v.txn, key, false)
	return value, err
}

// Read is Get with the content, as [DB.Read].
func (v *View) Read(key []byte) (value, content []byte, err error) {
	return v.index.read(v.txn, key, true)
}

// Keys returns an iterator over the keys with a prefix, in order, at the first one that is not
// before from; nil is before all. Close it. Reading on in pages skips nothing twice: where much was
// deleted, even the way to the first key is long.
func (v *View) Keys(from []byte, prefix ...byte) *Iterator {
	o := badger.DefaultIteratorOptions
	o.PrefetchValues, o.Prefix = false, prefix
	it := &Iterator{it: v.txn.NewIterator(o), index: v.index}
	it.it.Seek(from)
	it.skip()
	return it
}

// Items returns the items with a prefix, in order. An item is valid until the next one.
func (v *View) Items(prefix ...byte) iter.Seq[*Iterator] {
	return func(yield func(*Iterator) bool) {
		it := v.Keys(nil, prefix...)
		defer it.Close()
		for ; it.Valid() && yield(it); it.Next() {
		}
	}
}

// Iterator is at a key of a [View], or behind the last one.
type Iterator struct {
	it    *badger.Iterator
	index *index
}

// Next moves to the next key.
func (i *Iterator) Next() {
	i.it.Next()
	i.skip()
}

func (i *Iterator) skip() {
	for i.it.Valid() && isOwn(i.it.Item().Key()) {
		i.it.Next()
	}
}

// Valid reports whether the iterator is at a key.
func (i *Iterator) Valid() bool { return i.it.Valid() }

// Close ends the iteration.
func (i *Iterator) Close() { i.it.Close() }

// Key returns the key, which is valid until Next.
func (i *Iterator) Key() []byte { return i.it.Item().Key() }

// KeyCopy returns a copy of the key.
func (i *Iterator) KeyCopy() []byte { return bytes.Clone(i.Key()) }

// Value returns a copy of the value.
func (i *Iterator) Value() ([]byte, error) {
	value, _, err := i.index.parts(i.it.Item(), false)
	return value, err
}

// Read returns copies of the value and the content, as [DB.Read].
func (i *Iterator) Read() (value, content []byte, err error) { return i.index.parts(i.it.Item(), true) }
