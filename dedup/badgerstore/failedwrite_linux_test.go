package badgerstore

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/faultdisk"
)

// TestWhatOnlyThePageCacheHasIsNotAcknowledged fails the one write that holds an event. The
// commit fails and the store ends, as it must. A start over the same page cache finds the event
// whole; its answers must still hold after a start that reads the disk.
func TestWhatOnlyThePageCacheHasIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	for name, repeat := range map[string]int{
		"of a large body":  800,
		"of an empty body": 0,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk, dir, s := storeOnFaultdisk(t, quiet())
			marker := []byte("the event whose write fails ")
			c := claimOf(string(marker))
			c.Payload.Body = bytes.Repeat(marker, repeat)
			if err := disk.FailWrite(marker); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Claim(t.Context(), c); err == nil {
				t.Fatal("the write did not fail")
			}
			if stats, err := disk.Stats(); err != nil || stats.Failed != 1 {
				t.Fatalf("%+v, %v", stats, err)
			}
			_ = s.Close()

			s = open(t, dir, quiet()) // over the same page cache
			ds, err := s.Claim(t.Context(), c)
			acknowledged := err == nil
			if acknowledged {
				t.Logf("the retry is %v", ds[0].Verdict)
			}
			shut(t, s)

			if err := errors.Join(disk.Unmount(), disk.Mount()); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, quiet())
			for i := range 20 {
				mustClaim(t, s, smallClaim(i), dedup.Known)
			}
			if acknowledged {
				d := mustClaim(t, s, c, dedup.Known)
				r, err := s.Get(t.Context(), d.Record.Event)
				if err != nil || !bytes.Equal(r.Payload.Body, c.Payload.Body) {
					t.Errorf("%d bytes of %d, %v", len(r.Payload.Body), len(c.Payload.Body), err)
				}
			}
			shut(t, s)
		})
	}
}

// storeOnFaultdisk opens a store with 20 events on a disk of its own.
func storeOnFaultdisk(t *testing.T, o Options) (disk *faultdisk.Disk, dir string, s *Store) {
	t.Helper()
	disk = faultdisk.New(t, 512<<20)
	dir = filepath.Join(disk.Dir, "store")
	s = open(t, dir, o)
	for i := range 20 {
		mustClaim(t, s, smallClaim(i), dedup.New)
	}
	return disk, dir, s
}

// TestACheckpointDoesNotPassAFailedWrite fails the one write of a value file that holds a body,
// when a checkpoint flushes it. The checkpoint fails and the store ends. The log still has the
// body: a start over the same page cache, and one from the disk, find it.
func TestACheckpointDoesNotPassAFailedWrite(t *testing.T) {
	t.Parallel()
	disk, dir, s := storeOnFaultdisk(t, cramped())
	marker := []byte("the body whose value is not written ")
	c := claimOf(string(marker))
	c.Payload.Body = bytes.Repeat(marker, 800)
	event := mustClaim(t, s, c, dedup.New).Record.Event
	if err := s.db.Settle(); err != nil {
		t.Fatal(err)
	}
	if err := disk.FailWrite(marker); err != nil {
		t.Fatal(err)
	}
	if err := s.db.Checkpoint(); err == nil {
		t.Error("the checkpoint passes")
	}
	if stats, err := disk.Stats(); err != nil || stats.Failed != 1 {
		t.Fatalf("%+v, %v", stats, err)
	}
	<-s.Failed()
	_ = s.Close()
	for _, remount := range []bool{false, true} {
		if remount {
			if err := errors.Join(disk.Unmount(), disk.Mount()); err != nil {
				t.Fatal(err)
			}
		}
		s = open(t, dir, cramped())
		for i := range 20 {
			mustClaim(t, s, smallClaim(i), dedup.Known)
		}
		if r, err := s.Get(t.Context(), event); err != nil || !bytes.Equal(r.Payload.Body, c.Payload.Body) {
			t.Errorf("remounted: %v: %d bytes of %d, %v", remount, len(r.Payload.Body), len(c.Payload.Body), err)
		}
		shut(t, s)
	}
}
