package kv

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
)

// TestAGetBesideCommitsReturnsADurableValue reads keys that every commit changes, while they are
// flushed, put at rest, moved and their files removed. Each value is of a commit that was flushed,
// and not before one that was answered.
func TestAGetBesideCommitsReturnsADurableValue(t *testing.T) {
	t.Parallel()
	var flushed, answered atomic.Uint64
	o := tiny(t)
	o.Flush = func(l *redolog.Log) error {
		err := l.Flush()
		flushed.Add(1) // each commit is flushed once
		return err
	}
	d := create(t, o)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	var read atomic.Int64
	for i := range 2 {
		readers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				least := answered.Load()
				value, err := d.Get(keyOf('e', (i+n)%8))
				most := flushed.Load()
				switch {
				case errors.Is(err, fs.ErrClosed): // it was moved
				case err != nil:
					t.Error(err)
				case value == nil && least > 0:
					t.Errorf("no value after commit %d", least)
				case value != nil:
					read.Add(1)
					if n := binary.LittleEndian.Uint64(value); n < least || n > most {
						t.Errorf("the value of commit %d; %d was answered, %d flushed", n, least, most)
					}
				}
			}
		})
	}
	commit := func(n uint64) {
		var entries []Entry
		for i := range 8 {
			value := binary.LittleEndian.AppendUint64(nil, n)
			entries = append(entries, Entry{Key: keyOf('e', i), Value: append(value, make([]byte, 400*(i%2))...)})
		}
		d.commit(t, entries...)
		answered.Store(n)
	}
	for d.n < 400 || read.Load() < 1000 && d.n < 100_000 {
		commit(d.n + 1)
		if d.n%50 == 0 {
			put := func([]Stored) error { commit(d.n + 1); return nil }
			if err := d.Reclaim(t.Context(), put, readable(t)); err != nil {
				t.Error(err)
			}
		}
	}
	close(stop)
	readers.Wait()
	if read.Load() < 1000 {
		t.Errorf("only %d values were read", read.Load())
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}
