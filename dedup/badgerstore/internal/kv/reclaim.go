package kv

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/valuefile"
)

// Stored is an entry as it was read, and as it is stored.
type Stored struct {
	Entry
	marks byte
	raw   []byte
	watch *Watch
}

// Unchanged reports whether an entry is still stored as it was read.
func (s *Stored) Unchanged() bool { return !s.watch.Changed(s.Key) }

// valueFile is a value file. live is the size of the entries that keys refer to.
type valueFile struct{ length, live int64 }

func (f *valueFile) wasteful() bool { return 2*f.live < f.length }

// Waste returns how many bytes the value files, and the tables, have beyond twice what is live in
// them.
func (d *DB) Waste(ctx context.Context) (int64, error) {
	files, keys, err := d.valueFiles(ctx)
	values, tables, entries := int64(0), int64(0), int64(0)
	for _, f := range files {
		values += f.length - 2*f.live
	}
	for _, t := range d.Badger().Tables() {
		tables, entries = tables+int64(t.OnDiskSize), entries+int64(t.KeyCount)
	}
	if entries > 0 {
		tables -= 2 * keys * tables / entries
	}
	return max(values, 0) + max(tables, 0), err
}

// valueFiles reads all keys, and returns their number. The files are listed before: what refers to
// a complete file was committed by then, so the view shows it.
func (d *DB) valueFiles(ctx context.Context) (files map[uint64]*valueFile, keys int64, err error) {
	files = map[uint64]*valueFile{}
	for _, f := range d.index.values.Files() {
		files[f.Number] = &valueFile{length: f.Length}
	}
	err = d.eachRef(ctx, nil, func(_ Stored, refs []valuefile.Ref) error {
		keys++
		for _, ref := range refs {
			if f := files[ref.File]; f != nil {
				f.live += ref.Space()
			}
		}
		return nil
	})
	return files, keys, err
}

// eachRef visits the keys from one on, with the places of their parts in value files.
func (d *DB) eachRef(ctx context.Context, from []byte, visit func(s Stored, refs []valuefile.Ref) error) error {
	return d.View(func(v *View) error {
		for item := range v.Items(from) {
			if err := ctx.Err(); err != nil {
				return err
			}
			s := Stored{Entry: Entry{Key: item.Key()}, marks: item.at.UserMeta()}
			err := item.at.Value(func(raw []byte) error {
				s.raw = raw
				refs, err := s.refs()
				if err == nil {
					err = visit(s, refs)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// refs returns the places of the parts in value files.
func (s *Stored) refs() (refs []valuefile.Ref, err error) {
	if s.marks&(refValue|refContent) == 0 {
		return nil, nil
	}
	value, content, err := split(s.marks, s.raw)
	add := func(mark byte, part []byte) {
		if s.marks&mark != 0 && err == nil {
			var ref valuefile.Ref
			ref, err = valuefile.ParseRef(part)
			refs = append(refs, ref)
		}
	}
	add(refValue, value)
	add(refContent, content)
	return refs, err
}

// The bounds of reclaiming: the values that are put again at once, in bytes, how many of those are
// read before, and the keys that are read for them.
const (
	reclaimBytes = 256 << 10
	reclaimAhead = 4
	reclaimKeys  = 100_000
)

// Reclaim deletes the value files of which less than half is live. put commits the values that are
// live in them again, unless they were changed (see Unchanged). damaged is called with values that
// cannot be read; their files stay.
//
// A file is deleted after a second look has found no key that refers to it, and a checkpoint
// without it is durable. A crash before leaves the file, and every value where it was or is.
func (d *DB) Reclaim(ctx context.Context, put func([]Stored) error, damaged func(key []byte, err error)) error {
	files, _, err := d.valueFiles(ctx)
	if f := files[d.index.values.Active()]; err == nil && f != nil && f.wasteful() {
		if err := d.applier.seal(); err != nil {
			return err
		}
		files, _, err = d.valueFiles(ctx)
	}
	delete(files, d.index.values.Active())
	move := false
	for n, f := range files {
		if !f.wasteful() {
			delete(files, n)
		}
		move = move || f.wasteful() && f.live > 0
	}
	if err != nil || len(files) == 0 {
		return err
	}
	if move {
		if err := d.moveOut(ctx, files, put, damaged); err != nil {
			return err
		}
		now, _, err := d.valueFiles(ctx)
		if err != nil {
			return err
		}
		maps.DeleteFunc(files, func(n uint64, _ *valueFile) bool { return now[n].live > 0 })
	}
	return d.removeFiles(files)
}

// moveOut puts the values again that are live in some files.
func (d *DB) moveOut(ctx context.Context, files map[uint64]*valueFile, put func([]Stored) error,
	damaged func(key []byte, err error)) error {
	most := min(reclaimBytes, int(d.log.Room()/4))
	var next []byte
	move := func(watch *Watch) error {
		values, then, err := d.readOut(ctx, next, files, reclaimAhead*most, damaged)
		for len(values) > 0 && err == nil {
			n := 0
			for size := 0; n < len(values) && size < most; n++ {
				values[n].watch = watch
				size += len(values[n].Value) + len(values[n].Content)
			}
			err, values = put(values[:n]), values[n:]
		}
		next = then
		return err
	}
	for more := true; more; more = next != nil {
		if err := d.Watch(move); err != nil {
			return err
		}
	}
	return nil
}

// errEnough ends a reading.
var errEnough = errors.New("enough was read")

// readOut reads about most bytes of the values that are live in some files, from a key on. next is
// the key of the next ones, nil if there are none.
func (d *DB) readOut(ctx context.Context, from []byte, files map[uint64]*valueFile, most int,
	damaged func(key []byte, err error)) (values []Stored, next []byte, err error) {
	size, keys := 0, 0
	err = d.eachRef(ctx, from, func(s Stored, refs []valuefile.Ref) (err error) {
		if keys++; size >= most || keys > reclaimKeys {
			next = bytes.Clone(s.Key)
			return errEnough
		}
		if !slices.ContainsFunc(refs, func(r valuefile.Ref) bool { return files[r.File] != nil }) {
			return nil
		}
		s.Key = bytes.Clone(s.Key)
		if s.Value, s.Content, err = d.index.decode(s.Key, s.marks, s.raw, true); err != nil {
			damaged(s.Key, err)
			return nil
		}
		s.raw = nil
		values, size = append(values, s), size+len(s.Value)+len(s.Content)
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return values, next, err
}

func (d *DB) removeFiles(files map[uint64]*valueFile) error {
	for n := range files {
		if err := d.index.values.Retire(n); err != nil {
			return err
		}
	}
	if err := d.Checkpoint(); err != nil {
		return err
	}
	for n := range files {
		if err := d.index.values.Remove(n); err != nil {
			return err
		}
	}
	return nil
}

// Compact drops what was deleted from the tables. Badger compacts nothing if all tables are in the
// level of the newest, unless that level is full: each checkpoint adds a table to it, and allows
// to drop deletions once there are tables below. A compaction leaves the tables that nothing above
// overlaps: with whole the added table spans all keys. kept reports that a view may have kept
// something.
func (d *DB) Compact(ctx context.Context, whole bool) (kept bool, err error) {
	below := false
	for n := 2 * d.Badger().Opts().NumLevelZeroTables; n > 0 && !below; n-- {
		below = d.checkpoint.discards()
		_, kept = d.overlay.oldestView()
		if whole {
			err = d.applier.span()
		}
		if err = cmp.Or(err, ctx.Err()); err == nil {
			err = d.Checkpoint()
		}
		if err != nil {
			return kept, err
		}
	}
	flattened := make(chan error, 1)
	go func() { flattened <- d.Badger().Flatten(1) }()
	select {
	case err := <-flattened:
		return kept, err
	case <-d.tables.stuck:
		return kept, d.failed()
	}
}
