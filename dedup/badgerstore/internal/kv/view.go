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

// Items returns the items with a prefix, in order, from the first one on that is not before from;
// nil is before all. Reading on in pages skips nothing twice: where much was deleted, even the way
// to the first key is long.
func (v *View) Items(from []byte, prefix ...byte) iter.Seq[*Item] {
	return func(yield func(*Item) bool) {
		o := badger.DefaultIteratorOptions
		o.PrefetchValues, o.Prefix = false, prefix
		it := v.txn.NewIterator(o)
		defer it.Close()
		item := &Item{index: v.index}
		for it.Seek(from); it.Valid(); it.Next() {
			if item.at = it.Item(); !isOwn(item.Key()) && !yield(item) {
				return
			}
		}
	}
}

// Item is a key of a [View] and its value, until the next one.
type Item struct {
	at    *badger.Item
	index *index
}

// Key returns the key.
func (i *Item) Key() []byte { return i.at.Key() }

// KeyCopy returns a copy of the key.
func (i *Item) KeyCopy() []byte { return bytes.Clone(i.Key()) }

// Value returns a copy of the value.
func (i *Item) Value() ([]byte, error) {
	value, _, err := i.index.parts(i.at, false)
	return value, err
}

// Read returns copies of the value and the content, as [DB.Read].
func (i *Item) Read() (value, content []byte, err error) { return i.index.parts(i.at, true) }
