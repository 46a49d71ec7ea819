package kv

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestTheNewestSegmentCannotBeMissing takes away the file to which the log continues, while nothing
// at rest shows that it was used: the prepared segments behind it look the same in a new log.
func TestTheNewestSegmentCannotBeMissing(t *testing.T) {
	t.Parallel()
	for _, last := range []uint64{1, 3} {
		options := tiny(t)
		o := create(t, options)
		o.applier.gate.Lock() // nothing comes to rest
		for o.log.End().Segment < last {
			o.commit(t, Entry{Key: keyOf('e', int(o.n)), Value: bytes.Repeat([]byte{1}, 10_000)})
		}
		o.reach(t)
		end := o.log.End().Segment
		o.checkpoint.mu.Lock()
		dir := o.crashed(t)
		o.checkpoint.mu.Unlock()
		o.applier.gate.Unlock()
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, logDir, fmt.Sprintf("%010d.log", end))); err != nil {
			t.Fatal(err)
		}
		before := contents(t, dir)
		if _, err := Open(dir, options); err == nil || !IsDamage(err) || !maps.Equal(contents(t, dir), before) {
			t.Fatalf("without segment %d: %v, or a file was changed", end, err)
		}
		options.AcceptLoss = true
		d, err := Open(dir, options)
		if err != nil || !d.Lost() {
			t.Fatalf("accept-loss without segment %d: %v", end, err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		options.AcceptLoss = false
		d, err = Open(dir, options)
		if err != nil {
			t.Fatalf("after the loss of segment %d was accepted: %v", end, err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// reach waits until the checkpoint has the segment that the log has reached.
func (o *opened) reach(t testing.TB) {
	t.Helper()
	for {
		at, err := ReadCheckpoint(o.dir)
		if err != nil {
			t.Fatal(err)
		}
		if at.Reached == o.log.End().Segment {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// noted returns the checkpoint without the segment that the log has reached, which is noted in the
// background.
func (o *opened) noted(t testing.TB) Checkpoint {
	t.Helper()
	at, err := ReadCheckpoint(o.dir)
	if err != nil {
		t.Fatal(err)
	}
	at.Reached = 0
	return at
}
