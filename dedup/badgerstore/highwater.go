package badgerstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// highWater is a small file beside the database that holds the number of the last commit. Badger ends a
// damaged log at the first broken entry and says nothing; a store whose last commit is older than this file
// says has lost commits that were acknowledged.
//
// The number is written after the commit is durable and is not flushed itself: after a power cut the file may
// be behind, never ahead.
type highWater struct{ f *os.File }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	highWaterName = "highwater"
	highWaterSize = 12
)

// openHighWater opens the file and makes it when it is not there. It is durable before the first commit, so that a
// store with a commit and without the file has lost it.
func openHighWater(dir string) (*highWater, error) {
	path := filepath.Join(dir, highWaterName)
	_, err := os.Stat(path)
	isNew := errors.Is(err, fs.ErrNotExist)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	w := &highWater{f}
	if isNew {
		return w, errors.Join(w.write(0), f.Sync(), syncDir(dir))
	}
	return w, nil
}

// read returns the number. unknown says why there is none: the file is missing or damaged.
func (w *highWater) read() (mark uint64, unknown string, err error) {
	var b [highWaterSize]byte
	if _, err := w.f.ReadAt(b[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return 0, "", err
	}
	if crc32.Checksum(b[:8], castagnoli) != binary.LittleEndian.Uint32(b[8:]) {
		return 0, "damaged", nil
	}
	return binary.LittleEndian.Uint64(b[:]), "", nil
}

// probe writes a byte of no meaning behind the number, to learn whether the file system takes writes at all:
// Badger would learn it by a fault in its memory maps, which ends the process.
func (w *highWater) probe() error {
	_, err := w.f.WriteAt([]byte{'.'}, highWaterSize)
	return err
}

func (w *highWater) write(commit uint64) error {
	var b [highWaterSize]byte
	binary.LittleEndian.PutUint64(b[:], commit)
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b[:8], castagnoli))
	_, err := w.f.WriteAt(b[:], 0)
	return err
}

func (w *highWater) close() error { return errors.Join(w.f.Sync(), w.f.Close()) }

// errLost says that the store is behind the file.
func errLost(dir string, have, want uint64) error {
	return fmt.Errorf("store %s lost its newest commits: the last is %d, but %d was acknowledged; its log is damaged. "+
		"Restore a backup, or accept the loss (AcceptLoss, --accept-loss): events of those commits are gone, and a repeated delivery of one is new",
		dir, have, want)
}

// errUnknownLoss says that nothing tells whether commits are gone.
func errUnknownLoss(dir, unknown string) error {
	return fmt.Errorf("store %s: the file %s is %s, so that nothing tells whether acknowledged commits are lost. "+
		"Put the file back, restore a backup, or accept a possible loss (AcceptLoss, --accept-loss)", dir, highWaterName, unknown)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// peekHighWater reads the file without making one.
func peekHighWater(dir string) (mark uint64, unknown string, err error) {
	f, err := os.Open(filepath.Join(dir, highWaterName))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, "missing", nil
	} else if err != nil {
		return 0, "", err
	}
	defer func() { _ = f.Close() }()
	return (&highWater{f}).read()
}
