package kv

import (
	"bytes"
	"context"
	"errors"
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

// valueFile is a complete value file. live is the size of the entries that keys refer to.
type valueFile struct{ length, live int64 }

func (f *valueFile) wasteful() bool { return 2*f.live < f.length }

// Waste returns how many bytes the complete value files have beyond twice what is live in them.
func (d *DB) Waste(ctx context.Context) (n int64, err error) {
	files, err := d.valueFiles(ctx)
	for _, f := range files {
		n += f.length - 2*f.live
	}
	return n, err
}

// valueFiles reads all keys. The files are listed before: what refers to a complete file was
// committed by then, so the view shows it.
func (d *DB) valueFiles(ctx context.Context) (map[uint64]*valueFile, error) {
	files := map[uint64]*valueFile{}
	for _, f := range d.index.values.Files() {
		files[f.Number] = &valueFile{length: f.Length}
	}
	delete(files, d.index.values.Active())
	if len(files) == 0 {
		return nil, nil
	}
	return files, d.eachRef(ctx, nil, func(s Stored, refs []valuefile.Ref) error {
		for _, ref := range refs {
			if f := files[ref.File]; f != nil {
				f.live += ref.Space()
			}
		}
		return nil
	})
}

// eachRef visits the keys from one on that have parts in value files, and their places.
func (d *DB) eachRef(ctx context.Context, from []byte, visit func(s Stored, refs []valuefile.Ref) error) error {
	return d.View(func(v *View) error {
		item := v.Keys(from)
		defer item.Close()
		for ; item.Valid(); item.Next() {
			if err := ctx.Err(); err != nil {
				return err
			}
			s := Stored{Entry: Entry{Key: item.Key()}, marks: item.it.Item().UserMeta()}
			if s.marks&(refValue|refContent) == 0 {
				continue
			}
			err := item.it.Item().Value(func(raw []byte) error {
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

// Reclaim deletes the complete value files of which less than half is live. put commits the
// values that are live in them again, unless they were changed (see Unchanged). damaged is called
// with values that cannot be read; their files stay.
//
// A file is deleted after a second look has found no key that refers to it, and a checkpoint
// without it is durable. A crash before leaves the file, and every value where it was or is.
func (d *DB) Reclaim(ctx context.Context, put func([]Stored) error, damaged func(key []byte, err error)) error {
	files, err := d.valueFiles(ctx)
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
		if err := d.keepEmpty(ctx, files); err != nil {
			return err
		}
	}
	return d.removeFiles(files)
}

// moveOut puts the values again that are live in some files.
func (d *DB) moveOut(ctx context.Context, files map[uint64]*valueFile, put func([]Stored) error,
	damaged func(key []byte, err error)) error {
	most := min(reclaimBytes, int(d.log.MaxFrame()/4))
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

// keepEmpty removes the files from the map that a key refers to.
func (d *DB) keepEmpty(ctx context.Context, files map[uint64]*valueFile) error {
	return d.eachRef(ctx, nil, func(_ Stored, refs []valuefile.Ref) error {
		for _, ref := range refs {
			delete(files, ref.File)
		}
		return nil
	})
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
// level of the newest, unless that level is full: each checkpoint adds a table to it.
func (d *DB) Compact(ctx context.Context) error {
	for range 2 * d.Badger().Opts().NumLevelZeroTables {
		if err := errors.Join(d.Checkpoint(), ctx.Err()); err != nil {
			return err
		}
		levels := 0
		for _, l := range d.Badger().Levels() {
			if l.NumTables > 0 {
				levels++
			}
		}
		if levels > 1 {
			break
		}
	}
	flattened := make(chan error, 1)
	go func() { flattened <- d.Badger().Flatten(1) }()
	select {
	case err := <-flattened:
		return err
	case <-d.tables.stuck:
		return d.failed()
	}
}
