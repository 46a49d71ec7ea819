package kv

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/valuefile"
)

// sparse returns a database with value files of which little is live.
func sparse(t *testing.T, seed uint64) *opened {
	t.Helper()
	o, r := create(t, tiny(t)), rand.New(rand.NewPCG(seed, 1))
	for i := range 600 {
		e := Entry{Key: keyOf('e', i), Value: valueOf(r, r.IntN(600)), Content: valueOf(r, 300+r.IntN(2000))}
		if i%4 == 0 {
			e.Value, e.Content = e.Content, nil
		}
		o.commit(t, e)
	}
	if err := o.Settle(); err != nil {
		t.Fatal(err)
	}
	for i := range 600 {
		if i%10 > 0 {
			o.commit(t, Entry{Key: keyOf('e', i)})
		}
	}
	return o
}

// putAgain commits the values that are unchanged, as the store does.
func (o *opened) putAgain(t *testing.T, values []Stored) {
	t.Helper()
	var entries []Entry
	for i := range values {
		if values[i].Unchanged() {
			entries = append(entries, values[i].Entry)
		}
	}
	if len(entries) > 0 {
		o.commit(t, entries...)
	}
}

// placeOf returns where the first part of a key is that is in a value file.
func (o *opened) placeOf(t *testing.T, key []byte) (place valuefile.Ref) {
	t.Helper()
	err := o.eachRef(t.Context(), key, func(s Stored, refs []valuefile.Ref) error {
		place = refs[0]
		if !bytes.Equal(s.Key, key) {
			t.Errorf("key %x has no value file", key)
		}
		return errEnough
	})
	if !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
	return place
}

func readable(t *testing.T) func([]byte, error) {
	return func(key []byte, err error) { t.Errorf("key %x: %v", key, err) }
}

// crashes opens a copy of the files as a crash at this moment leaves them.
func (o *opened) crashes(t *testing.T, when string) {
	t.Helper()
	var dir string
	o.still(func() { dir = o.crashed(t) })
	again := reopen(t, dir, tiny(t), o.n, o.want)
	again.check(t)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if t.Failed() {
		t.Fatalf("after a crash %s", when)
	}
}

// TestACrashAtEachStepOfReclaimingLosesNothing follows the steps of Reclaim.
func TestACrashAtEachStepOfReclaimingLosesNothing(t *testing.T) {
	t.Parallel()
	ctx, o := context.Background(), sparse(t, 21)
	files, _, err := o.valueFiles(ctx)
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	delete(files, o.index.values.Active())
	before := o.index.values.Bytes()
	err = o.moveOut(ctx, files, func(values []Stored) error {
		o.crashes(t, "before values are put again")
		o.putAgain(t, values)
		o.crashes(t, "after values were put again")
		return nil
	}, readable(t))
	if err != nil {
		t.Fatal(err)
	}
	now, _, err := o.valueFiles(ctx)
	for n := range files {
		if err := errors.Join(err, o.index.values.Retire(n)); err != nil || now[n].live > 0 {
			t.Fatalf("file %d has %d live bytes, %v", n, now[n].live, err)
		}
	}
	o.crashes(t, "after the files were retired")
	if err := o.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	o.crashes(t, "after a checkpoint without the files")
	for n := range files {
		if err := o.index.values.Remove(n); err != nil {
			t.Fatal(err)
		}
		o.crashes(t, "after a file was deleted")
	}
	if after := o.index.values.Bytes(); after > before/4 {
		t.Errorf("%d bytes are left of %d", after, before)
	}
	o.check(t)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestReclaimingKeepsWhatItDidNotMove changes and deletes values between their reading and the
// commit that would put them again, and leaves one where it was: its file stays.
func TestReclaimingKeepsWhatItDidNotMove(t *testing.T) {
	t.Parallel()
	ctx, o := context.Background(), sparse(t, 22)
	var left Stored
	var place valuefile.Ref
	err := o.Reclaim(ctx, func(values []Stored) error {
		if left.Key != nil {
			o.putAgain(t, values)
			return nil
		}
		left, place = values[0], o.placeOf(t, values[0].Key)
		values = values[1:]
		small := func(s Stored) bool { return len(s.Content) > 0 && s.marks&refValue == 0 }
		both := 3 + slices.IndexFunc(values[3:], small)
		values[3], values[both] = values[both], values[3]
		o.commit(t, Entry{Key: values[0].Key, Value: []byte("changed")}, Entry{Key: values[1].Key},
			Entry{Key: values[3].Key, Value: []byte("with its content"), Keep: true})
		if err := o.Settle(); err != nil {
			return err
		}
		o.commit(t, Entry{Key: values[2].Key, Value: []byte("changed, and in the overlay")})
		for i := range values {
			if values[i].Unchanged() != (i > 3) {
				t.Errorf("value %d: unchanged is %t", i, i <= 3)
			}
		}
		o.putAgain(t, values)
		return nil
	}, readable(t))
	if err != nil || left.Key == nil {
		t.Fatal(err)
	}
	o.check(t)
	if at := o.placeOf(t, left.Key); at != place {
		t.Errorf("the value that was left has moved from %v to %v", place, at)
	}
	if left.Unchanged() {
		t.Error("a value counts as unchanged although nothing is watched any more")
	}
	// What is left is in three files at most, and the active file is complete now.
	if waste, err := o.Waste(ctx); err != nil || waste > 4*tiny(t).ValueFile {
		t.Errorf("%d bytes are wasted, %v", waste, err)
	}
	o.crashes(t, "at the end")
	// A failed put ends it, and the end of the process.
	errPut := errors.New("not put")
	for i := range 200 { // three files, whichever of them is active now
		o.commit(t, Entry{Key: keyOf('f', i), Value: make([]byte, 1000)})
	}
	if err := o.Settle(); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if i%20 > 0 {
			o.commit(t, Entry{Key: keyOf('f', i)})
		}
	}
	if err := o.Reclaim(ctx, func([]Stored) error { return errPut }, readable(t)); !errors.Is(err, errPut) {
		t.Error(err)
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if err := o.Reclaim(canceled, func([]Stored) error { return nil }, readable(t)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	o.check(t)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAViewKeepsTheValuesThatAreReclaimed reclaims value files while a view is read.
func TestAViewKeepsTheValuesThatAreReclaimed(t *testing.T) {
	t.Parallel()
	ctx, o := context.Background(), sparse(t, 25)
	n, before := 0, o.index.values.Files()
	err := o.View(func(v *View) error {
		for item := range v.Items(nil) {
			if n++; n == 1 {
				err := o.Reclaim(ctx, func(values []Stored) error { o.putAgain(t, values); return nil }, readable(t))
				if err != nil {
					return err
				}
			}
			value, content, err := item.Read()
			want := o.want[string(item.Key())]
			if err != nil || !same(value, want.Value) || !same(content, want.Content) {
				t.Errorf("key %x: %d and %d bytes, %v", item.Key(), len(value), len(content), err)
			}
		}
		return nil
	})
	if err != nil || n != len(o.want) || o.index.values.Files()[0] == before[0] {
		t.Errorf("%d keys, %v, %v", n, o.index.values.Files(), err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestNumbersOfValueFilesAreNotUsedAgain deletes all value files before a start.
func TestNumbersOfValueFilesAreNotUsedAgain(t *testing.T) {
	t.Parallel()
	o := sparse(t, 26)
	for i := range 600 {
		o.commit(t, Entry{Key: keyOf('e', i)})
	}
	err := o.Settle()
	if err := errors.Join(err, o.index.values.Seal()); err != nil {
		t.Fatal(err)
	}
	most := o.index.values.Active()
	err = o.Reclaim(t.Context(), func([]Stored) error { return nil }, readable(t))
	if err := errors.Join(err, o.Close()); err != nil {
		t.Fatal(err)
	}
	again := reopen(t, o.dir, tiny(t), o.n, o.want)
	if files, next := again.index.values.Files(), again.index.values.Active(); len(files) > 0 || next < most {
		t.Errorf("files %v are left, and the next one is %d, before the start %d", files, next, most)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCompactingDropsDeletedKeys compacts tables that are all in the newest level.
func TestCompactingDropsDeletedKeys(t *testing.T) {
	t.Parallel()
	o := create(t, tiny(t))
	for i := range 2000 {
		o.commit(t, Entry{Key: keyOf('e', i), Value: make([]byte, 100)})
	}
	if _, err := o.Compact(t.Context(), true); err != nil { // nothing is dropped before tables are below
		t.Fatal(err)
	}
	var deletes []Entry
	for i := range 2000 {
		deletes = append(deletes, Entry{Key: keyOf('e', i)})
	}
	for part := range slices.Chunk(deletes, 500) {
		o.commit(t, part...)
	}
	if _, err := o.Compact(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	keys := uint32(0)
	for _, table := range o.Badger().Tables() {
		keys += table.KeyCount
	}
	if keys > 100 {
		t.Errorf("the tables have %d keys", keys)
	}
	o.check(t)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}
