package kv

import (
	"cmp"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// filter is a Bloom filter over the keys that may exist. Most keys that a commit asks for are new:
// the filter spares the search for them in every table. It is safe for concurrent use.
type filter struct {
	blocks   [][blockWords]uint64
	capacity int64
	added    atomic.Int64
}

const (
	blockWords = 8 // a block is a cache line
	keyBits    = 12
	probes     = 6
	// filterKeys is the least number of keys that a filter is made for.
	filterKeys = 1 << 19

	// filteredKey is the least length of a key with enough uniform bytes.
	filteredKey = 17
)

// newFilter returns a filter for a number of keys, of which it takes one in a hundred for others.
func newFilter(keys int64) *filter {
	return &filter{blocks: make([][blockWords]uint64, keys*keyBits/(blockWords*64)+1), capacity: keys}
}

// hashes returns the block of a key and the bits in it. Keys hold hashes: their bytes are uniform
// behind the first, which is mixed in.
func (f *filter) hashes(key []byte) (block *[blockWords]uint64, bits uint64) {
	h := binary.LittleEndian.Uint64(key[1:]) ^ uint64(key[0])*0x9e3779b97f4a7c15
	return &f.blocks[h%uint64(len(f.blocks))], binary.LittleEndian.Uint64(key[9:]) ^ uint64(key[0])*0xbf58476d1ce4e5b9
}

// add adds a key. It reports whether the filter is full: more keys make it useless.
func (f *filter) add(key []byte) (full bool) {
	block, bits := f.hashes(key)
	fresh := false
	for range probes {
		mask := uint64(1) << (bits & 63)
		if old := atomic.OrUint64(&block[bits>>6&(blockWords-1)], mask); old&mask == 0 {
			fresh = true
		}
		bits >>= 9
	}
	return fresh && f.added.Add(1) > f.capacity
}

func (f *filter) lacks(key []byte) bool {
	block, bits := f.hashes(key)
	for range probes {
		if atomic.LoadUint64(&block[bits>>6&(blockWords-1)])&(1<<(bits&63)) == 0 {
			return true
		}
		bits >>= 9
	}
	return false
}

// keyFilter is the filter of a database, and the one that replaces it.
type keyFilter struct {
	current atomic.Pointer[filter] // nil until the first one is complete
	next    atomic.Pointer[filter] // is being filled
	full    chan struct{}          // receives when current is full
}

func (k *keyFilter) has(key []byte) bool { return len(key) >= filteredKey }

// lacks reports that a key certainly does not exist.
func (k *keyFilter) lacks(key []byte) bool {
	f := k.current.Load()
	return f != nil && k.has(key) && f.lacks(key)
}

// add adds the keys of a commit to both filters.
func (k *keyFilter) add(entries []Entry) {
	next := k.next.Load() // first: a complete filter becomes current before next is nil
	current := k.current.Load()
	for _, e := range entries {
		if e.Value == nil || !k.has(e.Key) {
			continue
		}
		if next != nil {
			next.add(e.Key)
		}
		if current != nil && current.add(e.Key) {
			notify(k.full)
		}
	}
}

// keepFilter fills a filter with the keys at rest, and a larger one whenever it is full. Commits
// add theirs meanwhile: those before the view are in it, later ones find the filter.
func (d *DB) keepFilter() {
	least, size := cmp.Or(d.o.filterKeys, filterKeys), int64(0)
	for _, t := range d.Badger().Tables() {
		least += int64(t.KeyCount)
	}
	for {
		f := newFilter(max(2*size, least))
		d.filter.next.Store(f)
		err := d.View(func(v *View) error {
			for item := range v.Items(nil) {
				select {
				case <-d.quit:
					return errClosing
				default:
				}
				if d.filter.has(item.Key()) {
					f.add(item.Key())
				}
			}
			return nil
		})
		size = f.added.Load()
		switch {
		case errors.As(err, new(*dedup.ErrUnavailable)): // nothing can be put at rest now
			select {
			case <-d.quit:
				return
			case <-time.After(retryAfter):
			}
		case err != nil:
			return // the database has failed, or is closing
		case size < f.capacity:
			d.filter.current.Store(f)
			d.filter.next.Store(nil)
			select {
			case <-d.quit:
				return
			case <-d.filter.full:
			}
		}
	}
}
