package badgerstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAFullFileSystemThatCopiesOnWriteLosesNothing takes the last block of a Btrfs file system from
// a store under load, over and over. Nothing reserves space there, so the log, a value file or
// Badger may be the first without any: the store refuses new events or its process ends, and
// nothing acknowledged is lost.
func TestAFullFileSystemThatCopiesOnWriteLosesNothing(t *testing.T) {
	t.Parallel()
	l := newLoopFS(t, 400<<20, "mkfs.btrfs", "-q", "-f")
	c := &campaign{ends: map[string]int{}, chance: rand.New(rand.NewPCG(1, 2))}
	c.dir, c.ledger = filepath.Join(l.dir, "store"), newLedger()
	filler := filepath.Join(l.dir, "filler")
	for life := range 4 {
		filled := make(chan error, 1)
		go func() {
			time.Sleep(time.Duration(200+life*300) * time.Millisecond)
			filled <- takeSpace(filler)
		}()
		c.child(t, fmt.Sprintf("B%d", life), endWrite)
		if err := <-filled; !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		if c.check(t); t.Failed() {
			t.Fatalf("in life %d", life)
		}
	}
	if c.accepted == 0 || c.failed == 0 {
		t.Errorf("%d events, and %d lives were refused space: the test tested nothing", c.accepted, c.failed)
	}
	t.Logf("%d events, %d duplicates, %d finished, %d lives without space", c.accepted, c.known, c.finished, c.failed)
}

// takeSpace reserves space for a file until there is none for another page.
func takeSpace(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	at := int64(0)
	for size := int64(64 << 20); size >= 4096; {
		if err = unix.Fallocate(int(f.Fd()), 0, at, size); err != nil {
			size /= 4
		} else {
			at += size
		}
	}
	return errors.Join(err, f.Close())
}
